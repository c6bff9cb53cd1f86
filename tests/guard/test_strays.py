"""Strays: files with another agent's uncommitted lines are refused if there is evidence of a copy, and only then."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Lost
from tiebreak.guard.commits.commit_files import CommitFiles
from tiebreak.guard.files.left_contents import watched_now
from tiebreak.guard.files.moved_contents import blobs
from tiebreak.guard.files.watched_files import WatchedFile
from tiebreak.model import Hold

from ..cli.command import Tb
from .actors import Claude, git
from .test_destroyed_files import messages

Start = Callable[..., Claude]
LINE = "ann wrote this line and nobody has committed it\n"
MANY = "".join(f"ann wrote line {number} of her long file, uncommitted\n" for number in range(40))
LICENCE = "".join(f"# Copyright 2026 Example Corp, line {number} of the licence header\n" for number in range(6))
DOCSTRING = '"""Helpers for the tests."""\n'
TSCONFIG = '{\n  "extends": "../../tsconfig.base.json",\n  "compilerOptions": {\n    "outDir": "dist"\n  }\n}\n'


def package(name: str, version: str) -> str:
    """The package.json of a package with six dependencies."""
    wanted = {f"@scope/library-number-{number}": version for number in range(6)}
    scripts = {"build": "tsc -b", "test": "vitest run", "lint": "eslint ."}
    return json.dumps({"name": name, "private": True, "scripts": scripts, "dependencies": wanted}, indent=2) + "\n"


@pytest.fixture
def ann(claude: Start) -> Claude:
    """She holds src/b.py, and has edited it."""
    made = claude("ann")
    made.edit("src/b.py", "", LINE)
    return made


@pytest.fixture
def ben(claude: Start) -> Claude:
    """Somebody else in the same checkout."""
    return claude("ben")


@pytest.fixture
def committing(tb: Tb, ann: Claude, ben: Claude) -> Callable[[str], str]:
    """A command of ben's that commits, with the guard in git; what HEAD has afterwards."""
    assert tb("guard", "install").code == 0
    before = git("rev-parse", "HEAD", cwd=ben.cwd)

    def run(command: str) -> str:
        def use() -> dict[str, str]:
            words = {**tb.environment, "TIEBREAK_AGENT": ben.agent, "CLAUDECODE": "1"}
            subprocess.run(command, shell=True, cwd=ben.cwd, env=words, check=False, capture_output=True)
            return {"stdout": ""}

        ben.tool("Bash", {"command": command}, use)
        return git("log", "-p", f"{before.strip()}..HEAD", cwd=ben.cwd)

    return run


# ── The same lines, and nobody copied them ───────────────────────────────────────────────────────────

ALIKE = {
    "docstring": lambda name: {f"{name}/__init__.py": DOCSTRING},
    "package": lambda name: {f"{name}/tsconfig.json": TSCONFIG, f"{name}/package.json": package(name, "^1.0.0")},
    "licence": lambda name: {f"{name}/x.py": LICENCE + f"from .{name} import {name}\n"},
    "long": lambda name: {f"{name}/long.py": MANY},
}


@pytest.mark.parametrize("first", ["ann", "ben"])
@pytest.mark.parametrize("files", ALIKE.values(), ids=ALIKE.keys())
def test_two_agents_that_write_the_same_with_their_tools_both_commit(
    claude: Start, files: Callable[[str], dict[str, str]], first: str
) -> None:
    agents = {"ann": claude("ann"), "ben": claude("ben")}
    for name, agent in agents.items():
        for path, contents in files(name).items():
            agent.write(path, contents)
    agents.pop(first).commit(first)
    for name, agent in agents.items():
        agent.commit(name)


@pytest.mark.parametrize("worktree", [False, True])
def test_two_agents_make_the_same_change_in_packages_of_their_own(
    claude: Start, repo: Path, tmp_path: Path, worktree: bool
) -> None:
    for name in ("ann", "ben"):
        (repo / name).mkdir()
        (repo / name / "package.json").write_text(package(name, "^1.0.0"))
    git("add", "--all", cwd=repo)
    git("commit", "-qm", "packages", cwd=repo)
    place = repo
    if worktree:
        place = tmp_path / "tree"
        git("worktree", "add", "-q", "-b", "other", str(place), cwd=repo)
    ann, ben = claude("ann"), claude("ben", cwd=place)
    for name, agent in (("ann", ann), ("ben", ben)):
        agent.read(f"{name}/package.json")
        agent.write(f"{name}/package.json", package(name, "^2.0.0"))
    ann.commit("ann")
    ben.commit("ben")


def test_a_licence_that_a_command_writes_is_no_copy(claude: Start, ben: Claude) -> None:
    ann = claude("ann")
    ann.write("x/__init__.py", LICENCE + "from .a import A\n")
    written = shlex.quote(LICENCE + "from .b import B\n")
    assert "uncommitted lines" not in ben.bash(f"mkdir y; printf %s {written} > y/__init__.py")
    ben.commit("y")
    ann.commit("x")


def test_a_command_that_changes_what_its_agent_wrote_with_a_tool_makes_no_copy(claude: Start, ben: Claude) -> None:
    ann = claude("ann")
    ann.write("one.py", MANY)
    ben.write("two.py", MANY + "\n")
    assert "uncommitted lines" not in ben.bash("sed -i '$d' two.py")
    assert (ben.cwd / "two.py").read_text() == MANY
    ben.commit("two.py")
    ann.commit("one.py")


def test_a_tool_that_writes_while_a_command_runs_makes_no_copy(claude: Start, ben: Claude) -> None:
    ann = claude("ann")
    ann.write("one.py", MANY)
    run = {"tool_name": "Bash", "tool_input": {"command": "…"}, "tool_use_id": "server"}
    ben.say("PreToolUse", **run)
    ben.write("two.py", MANY)
    ben.commit("two.py")
    ben.write("three.py", MANY)
    assert "uncommitted lines" not in json.dumps(ben.say("PostToolUse", **run, tool_response={}))
    ben.commit("three.py")


def test_two_commands_that_make_the_same_file_keep_no_agent_from_committing_for_ever(
    claude: Start, ben: Claude
) -> None:
    ann = claude("ann")
    made = f"printf %s {shlex.quote(MANY)} >"
    ann.bash(f"{made} one.py")
    ben.bash(f"{made} two.py")
    with pytest.raises(Lost):
        ben.commit("two.py")
    ann.commit("one.py")
    ben.commit("two.py")


def test_who_was_first_commits_also_when_its_file_is_made_again_beside_a_missing_one(
    claude: Start, ben: Claude
) -> None:
    ann, cat = claude("ann"), claude("cat")
    ann.write("one.py", MANY)
    ben.write("two.py", MANY)
    cat.bash("rm two.py")
    ann.commit("one.py")


def test_the_holder_commits_although_a_copy_of_its_file_is_held_by_another(ann: Claude, ben: Claude) -> None:
    ben.bash("cp src/b.py copy.py")
    ben.edit("copy.py", "", "ben goes on here\n")
    ann.bash("git mv src/b.py src/c.py")
    ann.commit("src/b.py", "src/c.py")


# ── Copies by a command ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["copy.py", "new\nline.py", "return.py\r"], ids=["plain", "newline", "return"])
@pytest.mark.parametrize("command", ["cp", "mv", "ln", "git mv"])
def test_a_file_that_a_command_took_is_not_committed(ann: Claude, ben: Claude, command: str, name: str) -> None:
    assert f"(from src/b.py, held by {ann.name})" in ben.bash(f"{command} src/b.py {shlex.quote(name)}")
    assert "got uncommitted lines of src/b.py" in messages(ann)
    with pytest.raises(Lost, match="has lines that"):
        ben.commit(name)


COMMITS = {"tb": "tb commit copy* -m x", "git": "git add copy* && git commit -qm x"}


@pytest.mark.parametrize("name", ["copy.py", "copy\n.py", "copy\r"], ids=["plain", "newline", "return"])
@pytest.mark.parametrize("take", ["cp", "mv"])
@pytest.mark.parametrize("commit", COMMITS.values(), ids=COMMITS.keys())
def test_a_copy_is_not_committed_by_the_command_that_makes_it(
    committing: Callable[[str], str], commit: str, take: str, name: str
) -> None:
    assert "ann wrote" not in committing(f"{take} src/b.py {shlex.quote(name)}; {commit}")
    assert "ann wrote" not in committing(commit)


def test_a_copy_that_its_maker_edits_stays_a_copy(ann: Claude, ben: Claude) -> None:
    ben.bash("cp src/b.py copy.py")
    ben.edit("copy.py", "", "ben goes on here\n")
    ben.bash("echo and here >> copy.py")
    with pytest.raises(Lost):
        ben.commit("copy.py")


def test_a_command_of_the_holder_that_touches_a_copy_does_not_make_it_the_others(ann: Claude, ben: Claude) -> None:
    ben.bash("cp src/b.py copy.py")
    ann.bash("touch copy.py")
    ann.end()
    ann.start()
    ann.edit("src/b.py", "", "more\n")
    with pytest.raises(Lost):
        ben.commit("copy.py")


def test_a_copy_stays_a_copy_when_the_holder_moves_its_file(ann: Claude, ben: Claude) -> None:
    ben.bash("cp src/b.py copy.py")
    ann.bash("mv src/b.py src/c.py")
    with pytest.raises(Lost):
        ben.commit("copy.py")


def test_a_copy_of_which_none_of_the_lines_is_left_is_free(ann: Claude, ben: Claude) -> None:
    ben.bash("cp src/b.py copy.py")
    ben.read("copy.py")
    ben.write("copy.py", "ben wrote something else in its place\n")
    ben.commit("copy.py")


def test_a_copy_with_further_lines_is_not_committed(claude: Start, ben: Claude) -> None:
    claude("ann").write("one.py", MANY)
    ben.write("two.py", "ben began this file himself\n")
    assert "uncommitted lines" in ben.bash("cat one.py >> two.py")
    with pytest.raises(Lost):
        ben.commit("two.py")


def test_a_large_part_of_a_long_file_is_not_committed(claude: Start, ben: Claude) -> None:
    long = "".join(f"ann wrote line {number} of a file that is longer\n" for number in range(100))
    claude("ann").write("one.py", long)
    assert "uncommitted lines" in ben.bash("head -70 one.py > two.py")
    with pytest.raises(Lost):
        ben.commit("two.py")


def test_an_agent_without_hooks_that_has_the_same_file_waits_for_who_was_first(
    claude: Start, tb: Tb, repo: Path
) -> None:
    ann = claude("ann")
    ann.write("one.py", MANY)
    (repo / "two.py").write_text(MANY)
    assert "has lines that" in tb("--as", "ben~1", "commit", "two.py", "-m", "x").err
    ann.commit("one.py")
    assert tb("--as", "ben~1", "commit", "two.py", "-m", "x").code == 0


def test_the_same_file_is_not_committed_by_an_agent_without_hooks(ann: Claude, tb: Tb, repo: Path) -> None:
    (repo / "copy.py").hardlink_to(repo / "src/b.py")
    assert "has lines that" in tb("--as", "ben~1", "commit", "copy.py", "-m", "x").err
    assert ann.name in tb("--as", "ben~1", "commit", "copy.py", "-m", "x").err


def test_a_part_of_a_short_file_that_was_removed_is_not_committed(claude: Start, ben: Claude) -> None:
    claude("ann").write("one.py", "a first line of ann's\na second line of ann's\n")
    assert "uncommitted lines" in ben.bash("tail -1 one.py > two.py; rm one.py")
    with pytest.raises(Lost):
        ben.commit("two.py")


def test_what_was_in_a_long_file_before_a_command_is_no_copy(claude: Start, ben: Claude) -> None:
    long = "".join(f"a line with number {number} that two agents write\n" for number in range(8000))
    claude("ann").write("one.py", long)
    ben.write("two.py", long)
    assert "uncommitted lines" not in ben.bash("echo more >> two.py")
    ben.commit("two.py")


# ── Large files ──────────────────────────────────────────────────────────────────────────────────────

BIG = "".join(f"line {number} of ann's large file\n" for number in range(60000))


@pytest.mark.parametrize("command", ["mv big.txt lib.txt", "cp big.txt lib.txt", "mv big.txt lib.txt; echo >> lib.txt"])
def test_a_large_file_that_a_command_took_is_not_committed(claude: Start, ben: Claude, command: str) -> None:
    ann = claude("ann")
    ann.write("big.txt", BIG)
    assert f"lib.txt (from big.txt, held by {ann.name})" in ben.bash(command)
    with pytest.raises(Lost):
        ben.commit("lib.txt")


def test_a_large_file_that_is_committed_somewhere_may_be_copied(claude: Start, ben: Claude, repo: Path) -> None:
    (repo / "old.txt").write_text(BIG)
    git("add", "old.txt", cwd=repo)
    git("commit", "-qm", "old", cwd=repo)
    claude("ann").bash("cp old.txt one.txt")
    assert "uncommitted lines" not in ben.bash("cp old.txt two.txt")
    ben.commit("two.txt")


# ── Names ────────────────────────────────────────────────────────────────────────────────────────────


def test_contents_are_read_under_all_names_that_git_has(repo: Path) -> None:
    names = ["plain", "new\nline", "return\r", "\n", "tab\there", "\u00e9"]
    for name in names:
        (repo / name).write_text(f"contents of {name}")
    git("add", "--all", cwd=repo)
    wanted = {name: f":{name}" for name in [*names, "none\n", "none"]}
    assert blobs(str(repo), wanted) == {name: (repo / name).read_bytes() for name in names}


# ── Costs ────────────────────────────────────────────────────────────────────────────────────────────


def test_many_files_are_read_in_a_time_that_grows_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    names, contents = [str(number) for number in range(8000)], b"x" * 8000

    def answer(_: str, option: str, **__: object) -> bytes:
        return (b"blob 8000\n" if "objecttype" in option else b"8000\n" + contents + b"\n") * len(names)

    monkeypatch.setattr("tiebreak.guard.commits.git.git", answer)
    began = time.process_time()
    assert set(blobs("", {name: name for name in names}).values()) == {contents}
    assert time.process_time() - began < 5


def test_a_commit_reads_no_contents_if_nobody_else_has_left_anything(
    ann: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("tiebreak.guard.commits.commit_files.blobs", fail)
    ann.commit("src/b.py")


def test_a_commit_reads_all_records_once(ann: Claude, ben: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiebreak.guard.commits import commit_rules

    reads = []

    def read(holds: list[Hold]) -> list[WatchedFile]:
        reads.append(1)
        return watched_now(holds)

    monkeypatch.setattr(commit_rules, "watched_now", read)
    (ben.cwd / "mine.py").write_text("mine\n")
    files = CommitFiles(str(ben.cwd), ["mine.py"], revision="HEAD:")
    rules = commit_rules.CommitRules(ben.board, str(ben.cwd))
    rules.check(files)
    rules.check(files)
    assert len(reads) == 1
