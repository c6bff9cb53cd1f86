"""What a holder does to its file while it is in quarantine, or while a command of another agent runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiebreak import Refused
from tiebreak.guard.files.watched_files import quarantined, watched

from .actors import git, put
from .test_overlapping_commands import Start, begin, finish, kept, messages


def test_what_a_holder_brought_back_beside_a_command_that_destroys_it_again_is_told(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    put(repo / "a.py", "junk\n")
    begin(ben)
    ann.read("a.py")
    ann.write("a.py", "ONE\ntwo\n")
    put(repo / "a.py", "junk\n")  # as before the command
    assert f"a.py (held by {ann.name})" in finish(ben)
    assert f"a.py changed while a shell command of {ben.name} ran" in messages(ann)[0]
    assert b"ONE\ntwo\n" in kept(repo / "a.py")


def test_a_file_that_was_made_and_removed_beside_a_command_is_told(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ann.bash("rm a.py")
    begin(ben)
    ann.write("a.py", "made anew\n")
    (repo / "a.py").unlink()
    assert f"a.py (was removed, held by {ann.name})" in finish(ben)
    assert f"a.py was removed while a shell command of {ben.name} ran" in messages(ann)[0]
    assert b"made anew\n" in kept(repo / "a.py")


def test_the_work_of_a_holders_command_that_still_runs_is_not_taken_back_unseen(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ann)
    (repo / "a.py").write_text("by the command of ann\n")
    ben.bash("printf 'ONE\\ntwo\\n' > a.py")  # as ann left it before
    assert f"a.py changed while a shell command of {ben.name} ran" in messages(ann)[0]
    assert kept(repo / "a.py")[0] == b"by the command of ann\n"
    assert quarantined(str(repo / "a.py")) is not None


def test_what_a_holders_command_made_of_a_file_in_quarantine_is_not_taken_back_unseen(
    claude: Start, repo: Path
) -> None:
    ann, ben, cat = claude("ann"), claude("ben"), claude("cat")
    ann.edit("a.py", "one", "ONE")
    ben.bash("echo junk >> a.py")
    ann.bash("sed -i 1d a.py")
    cat.bash("printf 'ONE\\ntwo\\n' > a.py")  # as ann left it before
    assert f"a.py changed while a shell command of {cat.name} ran" in messages(ann)[1]
    assert b"two\njunk\n" in kept(repo / "a.py")
    with pytest.raises(Refused, match=f"changed while a command of {ben.name} ran"):
        ann.commit("a.py")


def test_a_folder_in_the_place_of_a_file_is_told_once_whatever_happens_in_it(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    ann.bash("rm a.py; mkdir a.py")
    assert f"a.py (was replaced by a folder, held by {ann.name})" in finish(ben)
    assert "held by" not in ben.bash("touch a.py/inside")
    assert messages(ann) == []


def test_a_held_file_that_is_in_another_checkout_alone_is_not_taken_for_removed_here(
    claude: Start, repo: Path, tmp_path: Path
) -> None:
    ann = claude("ann")
    ann.write("new.py", "only here\n")
    git("worktree", "add", "--quiet", str(tmp_path / "other"), cwd=repo)
    ann.cwd = tmp_path / "other"
    ann.bash("echo more > own.py")
    assert watched(str(tmp_path / "other" / "own.py")) is not None
    assert watched(str(tmp_path / "other" / "new.py")) is None
