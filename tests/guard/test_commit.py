"""`tb commit`: exactly the named paths, on the branch as it is, and nobody's index is touched."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Invalid, Lost, Refused

from ..cli.command import Tb
from .actors import Claude, git

Start = Callable[..., Claude]


def files(repo: Path, commit: str = "HEAD") -> list[str]:
    return git("show", "--format=", "--name-only", commit, cwd=repo).split()


def test_what_others_have_staged_stays_staged_and_out_of_the_commit(claude: Start, repo: Path) -> None:
    (repo / "src/b.py").write_text("staged by ben\n")
    git("add", "src/b.py", cwd=repo)
    (repo / "docs/c.md").write_text("changed by ben\n")
    staged = git("diff", "--cached", cwd=repo)
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    ann.commit("a.py", message="Mine")
    assert files(repo) == ["a.py"]
    assert git("diff", "--cached", cwd=repo) == staged
    assert git("status", "--porcelain", cwd=repo).splitlines() == [" M docs/c.md", "M  src/b.py"]


def test_an_index_made_before_does_not_revert_what_was_committed_since(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.edit("src/b.py", "b", "B")
    ann.commit("a.py")
    ben.commit("src/b.py")
    assert git("show", "HEAD:a.py", cwd=repo) == "ONE\ntwo\n"
    assert git("status", "--porcelain", cwd=repo) == ""


def test_new_deleted_and_renamed_files_and_folders(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    (repo / "a.py").unlink()
    (repo / "src/new.py").write_text("new\n")
    (repo / "other.txt").write_text("not mine\n")
    ann.commit("a.py", "src")
    assert sorted(files(repo)) == ["a.py", "src/new.py"]
    assert git("status", "--porcelain", cwd=repo).splitlines() == ["?? other.txt"]


def test_names_that_look_like_patterns_are_names(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    (repo / "[id].py").write_text("x\n")
    (repo / "i.py").write_text("x\n")
    (repo / ":(glob)x").write_text("x\n")
    ann.commit("[id].py", ":(glob)x")
    assert sorted(files(repo)) == [":(glob)x", "[id].py"]


def test_what_somebody_else_holds_is_refused_and_nothing_moves(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    before = git("rev-parse", "HEAD", cwd=repo)
    with pytest.raises(Lost, match=r"a\.py by"):
        ben.commit("a.py")
    assert git("rev-parse", "HEAD", cwd=repo) == before


def test_a_commit_that_comes_between_is_built_upon(claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiebreak.guard.commits import commit as module

    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    update, done = module._update_ref, list[int]()

    def interrupted(root: str, ref: str, new: str, old: str, reason: str) -> None:
        if not done:
            done.append(1)
            git("commit", "--quiet", "--allow-empty", "-m", "in between", cwd=repo)
        update(root, ref, new, old, reason)

    monkeypatch.setattr(module, "_update_ref", interrupted)
    ann.commit("a.py", message="mine")
    assert git("log", "--format=%s", cwd=repo).split("\n")[:3] == ["mine", "in between", "begin"]


def test_many_who_commit_at_once_all_get_in(claude: Start, repo: Path) -> None:
    names = [f"src/{i}.py" for i in range(6)]
    agents = [claude(f"agent-{i}") for i in range(6)]
    errors: list[BaseException] = []

    def work(agent: Claude, name: str) -> None:
        try:
            agent.write(name, f"by {agent.session}\n")
            agent.commit(name, message=f"add {name}")
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=work, args=each) for each in zip(agents, names, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert errors == []
    made = git("log", "--format=%H", "main~6..main", cwd=repo).split()
    assert sorted(files(repo, commit)[0] for commit in made) == names
    assert git("status", "--porcelain", cwd=repo) == ""


@pytest.mark.parametrize("format_", ["sha1", "sha256"])
def test_the_first_commit_of_a_repository(claude: Start, tmp_path: Path, format_: str) -> None:
    root = tmp_path / "fresh"
    git("init", "--quiet", f"--object-format={format_}", str(root), cwd=tmp_path)
    for key in ("user.name", "user.email"):
        git("config", key, "dana", cwd=root)
    (root / "a.py").write_text("x\n")
    (root / "b.py").write_text("x\n")
    claude("ann", root).commit("a.py")
    assert git("log", "--format=%s", cwd=root) == "work\n"
    assert git("status", "--porcelain", cwd=root) == "?? b.py\n"


def test_hooks_of_the_repository_run_and_can_refuse(claude: Start, repo: Path) -> None:
    hook = repo / ".git/hooks/commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ngrep -q ISSUE "$1" || { echo "no issue number" >&2; exit 1; }\n')
    hook.chmod(0o755)
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    with pytest.raises(Refused, match="no issue number"):
        ann.commit("a.py")
    ann.commit("a.py", message="ISSUE-1")


def test_nothing_is_left_behind_and_an_empty_commit_is_none(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    with pytest.raises(Refused, match="nothing to commit"):
        ann.commit("a.py")
    left = {path.name for path in (repo / ".git").glob("tiebreak-*")}
    assert left == {"tiebreak-commit.lock", "tiebreak-project"}


@pytest.mark.parametrize("path", [".", "..", "/etc/hosts", "../other"])
def test_paths_must_lie_in_the_repository_and_not_be_all_of_it(claude: Start, path: str) -> None:
    with pytest.raises(Invalid):
        claude("ann").commit(path)


def test_a_path_that_does_not_exist_is_named(claude: Start) -> None:
    with pytest.raises(Refused, match="no-such"):
        claude("ann").commit("no-such.py")


def test_the_command_in_a_shell_from_a_folder_below(claude: Start, repo: Path, tb: Tb) -> None:
    ann = claude("ann")
    ann.edit("src/b.py", "b", "B")
    answer = tb("commit", "b.py", "-m", "From below", cwd=repo / "src", env={"CLAUDE_SESSION_ID": "ann"})
    assert answer.code == 0, answer
    assert "From below (1 file)" in answer.out
    assert f"Tiebreak-Agent: {ann.name}" in git("log", "-1", "--format=%B", cwd=repo)
    assert tb("commit", "b.py", cwd=repo / "src").code == 2
    outside = subprocess.run(
        [*tb_words(), "commit", "x", "-m", "x"], cwd="/", env=tb.environment, check=False, capture_output=True
    )
    assert outside.returncode == 2


def tb_words() -> list[str]:
    from ..cli.command import TB

    return [TB]


def test_what_a_hook_adds_besides_stays_out(claude: Start, repo: Path) -> None:
    hook = repo / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho mended >> a.py\ngit add --all\n")
    hook.chmod(0o755)
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    (repo / "src/b.py").write_text("somebody else's\n")
    (repo / "new.py").write_text("somebody else's\n")
    ann.commit("a.py")
    assert files(repo) == ["a.py"]
    assert git("show", "HEAD:a.py", cwd=repo) == "ONE\ntwo\nmended\n"
    assert git("status", "--porcelain", cwd=repo).splitlines() == [" M src/b.py", "?? new.py"]


def test_more_paths_than_git_is_given_at_once_are_committed_and_no_others(claude: Start, repo: Path) -> None:
    names = [f"docs/{number}.md" for number in range(1100)]
    for name in names:
        (repo / name).write_text("x\n")
    (repo / "a.py").write_text("somebody else's\n")
    (repo / "src/new.py").write_text("somebody else's\n")
    assert sorted(claude("ann").commit(*names)["paths"]) == sorted(names)
    (repo / "a.py").write_text("somebody else's again\n")
    for name in names:
        (repo / name).unlink()
    assert sorted(claude("ann").commit(*names)["paths"]) == sorted(names)
    assert git("status", "--porcelain", cwd=repo).splitlines() == [" M a.py", "?? src/new.py"]


def test_a_link_that_leads_out_is_committed_as_a_link(claude: Start, repo: Path) -> None:
    (repo / "hosts").symlink_to("/etc/hosts")
    (repo / "way-out").symlink_to("/etc")
    ann = claude("ann")
    ann.commit("hosts")
    assert git("ls-tree", "HEAD", "hosts", cwd=repo).startswith("120000 ")
    with pytest.raises(Invalid, match="outside the repository"):
        ann.commit("way-out/hosts")
