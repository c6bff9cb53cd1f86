"""What messages promise: the command that a message names works, for who reads it, wherever it is pasted."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiebreak import Refused
from tiebreak.fingerprints import LARGEST
from tiebreak.guard.files import recovery
from tiebreak.guard.files.disk_state import look

from ..cli.command import TB, Tb, complaint
from .actors import Claude, git

Start = Callable[..., Claude]


@pytest.fixture
def ben(claude: Start) -> Claude:
    """Somebody else in the same checkout."""
    return claude("ben")


def messages(agent: Claude) -> list[str]:
    """All that an agent has been sent."""
    return [each.body for each in agent.board.messages.inbox()]


def prompted(agent: Claude) -> str:
    """What an agent is told at its next prompt."""
    return str(agent.say("UserPromptSubmit", prompt="go on")["hookSpecificOutput"]["additionalContext"])


def command(told: str, verb: str = "recover") -> list[str]:
    """The words of the first `tb recover …`, or another command, in what an agent is told."""
    return shlex.split(re.findall(f"`tb ({verb} [^`]*)`", told)[0])


# ── A whole checkout is lost ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lost(claude: Start, repo: Path, tmp_path: Path) -> tuple[Claude, Path]:
    """A command of ben removed the worktree in which ann has edited two files."""
    tree = tmp_path / "tree"
    git("worktree", "add", "--quiet", "-b", "side", str(tree), cwd=repo)
    ann, ben = claude("ann", cwd=tree), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ann.edit("src/b.py", "b", "B")
    ben.bash(f"git worktree remove --force {tree}")
    ann.cwd = repo
    return ann, tree


def test_the_files_of_a_lost_worktree_are_listed_by_the_command_in_the_message(
    tb: Tb, repo: Path, tmp_path: Path, lost: tuple[Claude, Path]
) -> None:
    ann, tree = lost
    words = command(messages(ann)[0])
    for folder in (repo, tmp_path):
        listed = tb("--as", ann.agent, *words, "--json", cwd=folder).json
        assert [(row["path"], row["state"]) for row in listed] == [
            (f"{tree}/a.py", "was removed"),
            (f"{tree}/src/b.py", "was removed"),
        ]
    assert tb("--as", ann.agent, "recover", listed[1]["path"]).code == 0
    assert (tree / "src/b.py").read_text() == "B\n"


def test_outside_of_a_repository_all_that_is_kept_is_listed(tb: Tb, tmp_path: Path, lost: tuple[Claude, Path]) -> None:
    rows = [line.split()[0] for line in tb("recover", cwd=tmp_path).out.splitlines()]
    assert rows == ["tree/a.py", "tree/src/b.py"]
    assert tb("recover").out == "no copies are kept here; `tb recover /` lists all\n"
    assert [line.split()[0] for line in tb("recover", "/").out.splitlines()] == [
        f"{lost[1]}/a.py",
        f"{lost[1]}/src/b.py",
    ]


def test_a_file_is_recovered_from_within_the_folder_that_is_gone(tb: Tb, lost: tuple[Claude, Path]) -> None:
    ann, tree = lost
    tree.mkdir()
    script = f"cd {tree} && rmdir {tree} && {TB} --as {ann.agent} recover src/b.py"
    done = subprocess.run(["sh", "-c", script], env=tb.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tree / "src/b.py").read_text() == "B\n"


# ── Something is in the way ──────────────────────────────────────────────────────────────────────────

IN_THE_WAY = {
    "a link above": "mv src old && ln -s old src",
    "another repository above": "git init -q src",
    "a file in place of the folder": "rm -rf src && echo x > src",
    "a folder": "rm src/b.py && mkdir src/b.py",
    "a large file": f"truncate -s {LARGEST + 1} src/b.py",
}


@pytest.mark.parametrize("change", IN_THE_WAY.values(), ids=IN_THE_WAY.keys())
def test_what_cannot_be_put_back_is_not_promised_to_be(
    tb: Tb, tmp_path: Path, ann: Claude, ben: Claude, change: str
) -> None:
    assert "tb recover" not in ben.bash(change)
    [told] = [each for each in messages(ann) if "cannot be committed before" in each]
    words = command(told)
    assert words[-2:] == ["--into", "PATH"]
    assert tb("--as", ann.agent, *words[:-1], "back.py", cwd=tmp_path).code == 0
    assert (tmp_path / "back.py").read_text() == "B\n"


@pytest.mark.parametrize("change", IN_THE_WAY.values(), ids=IN_THE_WAY.keys())
def test_when_what_is_in_the_way_is_moved_as_the_refusal_says_the_file_comes_back(
    tb: Tb, repo: Path, tmp_path: Path, ann: Claude, ben: Claude, change: str
) -> None:
    ben.bash(change)
    refused = complaint(tb("--as", ann.agent, "recover", "src/b.py"), 1)
    moved = re.findall("move (.*?) elsewhere", refused)[0]
    os.rename(moved, tmp_path / "moved")
    tb("--as", ann.agent, "recover", "src/b.py")
    assert (repo / "src/b.py").read_text() == "B\n"


def test_what_cannot_be_read_is_not_said_to_be_too_large(
    repo: Path, ann: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "a.py").write_text("secret\n")
    monkeypatch.setattr(os, "access", lambda *_: False)
    file = recovery.kept_file("a.py", str(repo))
    with pytest.raises(Refused, match=r"a\.py cannot be read, so no copy of it can be kept") as refused:
        recovery.recover(ann.board, file, 0)
    assert f"`chmod u+rwX {repo}/a.py`" in refused.value.hint
    assert (repo / "a.py").read_text() == "secret\n"


def test_a_file_in_a_folder_that_nobody_may_enter_does_not_count_as_removed(
    repo: Path, ann: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.lstat

    def closed(path: Any, **more: Any) -> os.stat_result:
        if str(path).startswith(f"{repo}/src/"):
            raise PermissionError(13, "Permission denied")
        return really(path, **more)

    monkeypatch.setattr(os, "lstat", closed)
    state = look(str(repo), "src/b.py")
    assert state.words(str(repo)) == "is out of reach, because its folder src was made inaccessible"
    with pytest.raises(Refused, match="was made inaccessible") as refused:
        recovery.recover(ann.board, recovery.kept_file("src/b.py", str(repo)), 0)
    assert f"`chmod u+rwX {repo}/src` and try again" in refused.value.hint


# ── Who may ──────────────────────────────────────────────────────────────────────────────────────────


def test_who_may_not_give_a_file_back_is_not_told_that_it_can(tb: Tb, claude: Start, ann: Claude, ben: Claude) -> None:
    cleo = claude("cleo")
    bens, cleos = ben.bash("echo ben > a.py"), cleo.bash("echo cleo > a.py")
    assert "tb recover" not in cleos
    assert tb("--as", cleo.agent, "recover", "a.py").code == 1
    assert tb("--as", ben.agent, *command(bens)).code == 0


def test_the_command_for_several_files_brings_back_all_and_every_holder_is_named(
    tb: Tb, repo: Path, claude: Start, ann: Claude, ben: Claude
) -> None:
    cleo = claude("cleo")
    cleo.edit("docs/c.md", "c", "C")
    told = ben.bash("rm a.py src/b.py docs/c.md")
    assert f"ask with `tb send {ann.name} …` or `tb send {cleo.name} …`" in told
    assert tb("--as", ben.agent, *command(told)).code == 0
    assert [(repo / name).read_text() for name in ("a.py", "src/b.py", "docs/c.md")] == ["ONE\ntwo\n", "B\n", "C\n"]


def test_one_file_that_is_refused_does_not_keep_the_others_from_being_recovered(
    tb: Tb, repo: Path, ann: Claude, ben: Claude
) -> None:
    ben.bash("rm src/b.py")
    done = tb("--as", ann.agent, "recover", "a.py", "src/b.py")
    assert (done.code, done.err.splitlines()[0]) == (1, "tb: a.py is as it was left")
    assert (repo / "src/b.py").read_text() == "B\n"


def test_the_holder_can_accept_that_a_file_is_gone(tb: Tb, repo: Path, ann: Claude, ben: Claude) -> None:
    ben.bash("rm src/b.py")
    assert tb("--as", ann.agent, *command(messages(ann)[0], "renew")).code == 0
    assert ann.commit("src/b.py")["paths"] == ["src/b.py"]


# ── The prompt ───────────────────────────────────────────────────────────────────────────────────────


def test_many_long_names_leave_room_for_what_to_do(tb: Tb, repo: Path, claude: Start) -> None:
    ann, ben = claude("ann"), claude("ben")
    for number in range(12):
        ann.write(f"{'a folder with a long name/' * 3}{number}.py", "hers\n")
    ben.bash("rm -rf a*")
    told = prompted(ann)
    assert "more. They cannot be committed before you have them back." in told
    assert len(tb("--as", ann.agent, *command(told), "--json").json) == 12


def test_a_path_with_a_double_quote_can_be_pasted_from_the_prompt(tb: Tb, repo: Path, claude: Start) -> None:
    ann, ben, name = claude("ann"), claude("ben"), 'it\'s "it" $x.py'
    ann.write(name, "hers\n")
    ben.bash("rm it*")
    pasted = re.findall("`(tb recover [^`]*)`", prompted(ann))[0]
    script = pasted.replace("tb ", f"{TB} --as {ann.agent} ", 1)
    done = subprocess.run(
        ["sh", "-c", script], env=tb.environment, cwd=repo, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (repo / name).read_text() == "hers\n"


# ── Arguments ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", [("--into", "z"), ("--copy", "1")])
def test_options_that_a_list_would_ignore_are_refused(tb: Tb, ann: Claude, words: tuple[str, ...]) -> None:
    assert "--list only lists" in complaint(tb("recover", "a.py", "--list", *words), 2)


def test_copies_in_a_folder_are_not_written_into_one_file(tb: Tb, repo: Path, ann: Claude) -> None:
    assert "no copy of it is kept" in complaint(tb("recover", "src", "--into", "z"), 1)
    assert not (repo / "z").exists()


def test_without_the_board_the_command_that_needs_none_is_named(
    tb: Tb, repo: Path, tmp_path: Path, ann: Claude, ben: Claude
) -> None:
    ben.bash("rm a.py")
    away = str(tmp_path / "away")
    (tmp_path / "away").write_text("no board\n")
    said = complaint(tb("--board", away, "--as", ann.agent, "recover", "a.py"), 3)
    words = [each.replace("PATH", "back.py") for each in command(said)]
    assert tb("--board", away, *words).code == 0
    assert (repo / "back.py").read_text() == "ONE\ntwo\n"
