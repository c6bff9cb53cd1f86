"""What messages promise: the command that a message names works, for who reads it, wherever it is pasted."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ..cli.command import TB, Tb, complaint
from .actors import Claude, git

Start = Callable[..., Claude]


@pytest.fixture
def ann(claude: Start) -> Claude:
    """She holds a.py and src/b.py, and has edited both."""
    made = claude("ann")
    made.edit("a.py", "one", "ONE")
    made.edit("src/b.py", "b", "B")
    return made


@pytest.fixture
def ben(claude: Start) -> Claude:
    """Somebody else in the same checkout."""
    return claude("ben")


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


def test_one_file_that_is_refused_does_not_keep_the_others_from_being_recovered(
    tb: Tb, repo: Path, ann: Claude, ben: Claude
) -> None:
    ben.bash("rm src/b.py")
    done = tb("--as", ann.agent, "recover", "a.py", "src/b.py")
    assert (done.code, done.err.splitlines()[0]) == (1, "tb: a.py is as it was left")
    assert (repo / "src/b.py").read_text() == "B\n"


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
