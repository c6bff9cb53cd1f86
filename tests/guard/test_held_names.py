"""Names of held files that lead astray: other spellings, other projects, what is in their place, another holder."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak.guard.files.watched_files import all_watched, quarantined

from ..cli.command import Tb
from .actors import Claude, Denied
from .test_overlapping_commands import begin, finish

Start = Callable[..., Claude]


def messages(agent: Claude) -> str:
    """All that an agent has been sent."""
    return "\n".join(each.body for each in agent.board.messages.inbox())


# ── Spellings ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["café.py", "dépôt/café.py"])
def test_a_file_whose_accents_the_disk_spells_otherwise_than_the_board_is_watched_and_kept(
    claude: Start, tb: Tb, repo: Path, name: str
) -> None:
    path = repo / unicodedata.normalize("NFD", name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("one\n")
    ben = claude("ben")
    assert tb("hold", str(path), "--as", "ann~1").code == 0
    path.write_text("her work\n")
    assert "held by ann" in ben.bash(f"rm '{path}'")
    assert "was removed" in tb("inbox", "--as", "ann~1").out
    ben.bash("true")
    assert [each.path for each in all_watched()] == [str(path)]
    assert tb("recover", str(path), "--as", "ann~1").code == 0
    assert path.read_text() == "her work\n"


# ── What is in their place ───────────────────────────────────────────────────────────────────────────


OBSTACLES = {
    "a link above": "rm -rf src; mkdir ../out; ln -s ../out src",
    "a file above": "rm -rf src; echo in the way > src",
    "a folder": "rm src/b.py; mkdir src/b.py; touch src/b.py/new",
}


@pytest.mark.parametrize("command", OBSTACLES.values(), ids=OBSTACLES)
def test_who_puts_an_obstacle_in_the_place_of_a_held_file_does_not_hold_it(claude: Start, command: str) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("src/b.py", "b", "B")
    assert "you hold" not in ben.bash(command)
    ann.bash("rm -r src || rm -r src/b.py")
    assert messages(ben) == ""


# ── Who else holds them ──────────────────────────────────────────────────────────────────────────────


def test_a_main_agent_that_changes_a_file_of_its_sub_agent_is_told_who_holds_it(claude: Start) -> None:
    main, sub = claude("ann"), claude("ann", part="sub")
    sub.edit("a.py", "one", "ONE")
    told = main.bash("echo main > a.py; echo mine > new.py")
    assert f"a.py, which {sub.name} of the same session holds, changed while that command ran" in told
    assert "new.py changed; you hold them now" in told
    assert told.count("a.py") == 1


def test_a_file_that_was_missing_and_is_back_can_be_removed_again(claude: Start, repo: Path) -> None:
    main, sub = claude("ann"), claude("ann", part="sub")
    sub.edit("a.py", "one", "ONE")
    main.bash("rm a.py")
    with pytest.raises(Denied, match="the file is gone"):
        sub.write("a.py", "anew\n")
    sub.write("a.py", "anew\n")
    assert f"a.py, which {sub.name} of the same session holds, was removed" in main.bash("rm a.py")


def test_a_file_under_a_glob_that_was_missing_and_is_back_can_be_removed_again(
    claude: Start, tb: Tb, repo: Path
) -> None:
    assert tb("hold", "src/**", "--as", "ann~1").code == 0
    ben = claude("ben")
    (repo / "src/b.py").unlink()
    ben.bash("touch a.py")
    (repo / "src/b.py").write_text("b\n")
    assert "src/b.py (was removed, held by ann)" in ben.bash("rm src/b.py")


def test_a_file_of_nobody_that_was_missing_and_is_back_is_held_by_who_removes_it(claude: Start, repo: Path) -> None:
    ben = claude("ben")
    (repo / "src/b.py").unlink()
    ben.bash("touch a.py")
    (repo / "src/b.py").write_text("b\n")
    assert "src/b.py changed; you hold them now" in ben.bash("rm src/b.py")


def test_an_agent_in_another_project_takes_neither_the_record_nor_the_copies(
    claude: Start, tb: Tb, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    monkeypatch.setenv("TIEBREAK_PROJECT", "other")
    ben = claude("ben")
    ben.bash("mv a.py z.py")
    ben.write("a.py", "ben\n")
    ben.write("a.py", "ben again\n")
    monkeypatch.delenv("TIEBREAK_PROJECT")
    assert f"is held by {ben.name} in project other, too" in messages(ann)
    assert messages(ann).count("in project other") == 1
    assert quarantined(str(repo / "a.py")) is not None
    assert tb("recover", "a.py", "--as", ann.agent).code == 0
    assert (repo / "a.py").read_text() == "ONE\ntwo\n"
    monkeypatch.setenv("TIEBREAK_PROJECT", "other")
    assert [f"is held by {ann.name} in project" in ben.bash("true") for _ in range(2)] == [True, False]


def test_a_file_that_was_removed_while_the_records_were_lost_is_told_to_its_holder(
    claude: Start, tmp_path: Path, repo: Path
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    shutil.rmtree(tmp_path / "state")
    (repo / "a.py").unlink()
    finish(ben)
    ben.bash("true")
    assert "a.py, which you hold, was removed, by nobody that tiebreak knows" in ann.bash("true") + ann.bash("true")
