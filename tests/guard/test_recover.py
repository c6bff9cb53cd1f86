"""`tb recover`: what it brings back, what it refuses, and that it destroys nothing itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ..cli.command import Tb
from .actors import Claude

Start = Callable[..., Claude]


@pytest.fixture
def destroyed(claude: Start) -> tuple[Claude, Claude]:
    """Ann edited src/b.py twice, and a command of ben destroyed it."""
    ann, ben = claude("ann"), claude("ben")
    ann.edit("src/b.py", "", "first\n")
    ann.edit("src/b.py", "", "second\n")
    ben.bash("echo junk > src/b.py")
    return ann, ben


def test_it_brings_back_what_the_holder_left_and_keeps_what_was_there(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]
) -> None:
    ann, _ = destroyed
    said = tb("--as", ann.agent, "recover", "src/b.py")
    assert (said.code, said.err) == (0, "")
    assert f"recovered src/b.py, as {ann.name} left it" in said.out
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    assert "ago, before a copy replaced it" in tb("--as", ann.agent, "recover", "--list", "src/b.py").out
    assert tb("--as", ann.agent, "recover", "src/b.py", "--copy", "2").code == 0
    assert (repo / "src/b.py").read_text() == "junk\n"


def test_it_lists_what_is_kept_with_what_happened_to_it(tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]) -> None:
    (repo / "src/b.py").unlink()
    listed = tb("recover", "--json").json
    assert [(row["file"], row["left_by"], row["state"]) for row in listed] == [
        ("src/b.py", destroyed[0].name, "was removed")
    ]
    every = tb("recover", "--list", "src/b.py", "--json").json
    assert [row["copy"] for row in every] == [1, 2, 3]
    assert tb("recover", "src/b.py", "--copy", "2", "--into", "-").out == "b\nfirst\n"
    assert not (repo / "src/b.py").exists()


def test_who_destroyed_a_file_may_give_it_back_and_do_nothing_else(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude], claude: Start
) -> None:
    ann, ben = destroyed
    other = claude("cleo")
    refused = tb("--as", other.agent, "recover", "src/b.py")
    assert refused.code == 1
    assert f"src/b.py is held by {ann.name}" in refused.err
    assert tb("--as", ben.agent, "recover", "src/b.py", "--copy", "2").code == 1
    assert (repo / "src/b.py").read_text() == "junk\n"
    assert tb("--as", ben.agent, "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    ann.commit("src/b.py")


def test_anybody_may_take_a_copy_elsewhere_but_not_over_a_file(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude], claude: Start
) -> None:
    other = claude("cleo").agent
    assert tb("--as", other, "recover", "src/b.py", "--into", "copy.txt").code == 0
    assert (repo / "copy.txt").read_text() == "b\nfirst\nsecond\n"
    refused = tb("--as", other, "recover", "src/b.py", "--into", "a.py")
    assert (refused.code, refused.err.splitlines()[0]) == (1, "tb: a.py exists already")
    assert (repo / "a.py").read_text() == "one\ntwo\n"


def test_the_kind_of_the_file_comes_back_too(tb: Tb, repo: Path, claude: Start) -> None:
    (repo / "run.sh").write_text("#!/bin/sh\n")
    (repo / "run.sh").chmod(0o755)
    (repo / "link").symlink_to("a.py")
    ann, ben = claude("ann"), claude("ben")
    for name in ("run.sh", "link"):
        assert tb("--as", ann.agent, "hold", name).code == 0
    ben.bash("rm run.sh link a.py")
    for name in ("run.sh", "a.py"):
        assert tb("--as", ann.agent, "recover", name).code == 0
    assert stat.S_IMODE(os.stat(repo / "run.sh").st_mode) == 0o755
    assert not (repo / "a.py").is_symlink()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("rm -rf src && ln -s docs src", "its folder src was replaced by a symbolic link"),
        ("rm -rf src && echo x > src", "its folder cannot be made"),
        ("rm -rf src && git init -q src", "its folder src is another repository now"),
        ("rm -rf src/b.py && mkdir src/b.py", "was replaced by a folder"),
    ],
)
def test_what_cannot_be_replaced_is_left_alone(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude], change: str, reason: str
) -> None:
    ann, ben = destroyed
    ben.bash(change)
    refused = tb("--as", ann.agent, "recover", "src/b.py")
    assert refused.code == 1
    assert reason in refused.err
    assert "--into" in refused.err
    assert tb("--as", ann.agent, "recover", "src/b.py", "--into", "back.py").code == 0
    assert (repo / "back.py").read_text() == "b\nfirst\nsecond\n"


def test_without_a_copy_it_says_so(tb: Tb, repo: Path) -> None:
    for words in (["a.py"], ["nowhere/x"], ["../outside"]):
        refused = tb("recover", *words)
        assert refused.code == 1
        assert "no copy of it is kept" in refused.err
    assert tb("recover").out == "no copies are kept\n"
    assert tb("recover", "a.py", "src/b.py", "--into", "x").code == 2
    assert tb("recover", "a.py", "--copy", "x").code == 2


def test_nothing_to_do_is_said(tb: Tb, claude: Start) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    refused = tb("--as", ann.agent, "recover", "a.py")
    assert (refused.code, refused.err.splitlines()[0]) == (1, "tb: a.py is as it was left")
    assert tb("--as", ann.agent, "recover", "a.py", "--copy", "7").code == 2


def test_copies_are_for_their_user_alone_and_end(
    tb: Tb, tmp_path: Path, destroyed: tuple[Claude, Claude], monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = tmp_path / "state/tiebreak/guard/copies"
    files = [each for each in copies.rglob("*") if each.is_file()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert stat.S_IMODE(copies.stat().st_mode) == 0o700
    ann = destroyed[0]
    ann.read("src/b.py")
    for _ in range(30):
        ann.bash("date +%N >> src/b.py")
    from tiebreak.guard.files import safety_copies

    assert len(list(safety_copies.copies(str(ann.cwd / "src/b.py")))) == safety_copies.KEPT
    monkeypatch.setattr(safety_copies, "DAYS", 0)
    safety_copies.tidy()
    assert len([each for each in copies.rglob("*") if each.is_file()]) == 1  # what its holder left
    ann.end()
    safety_copies.tidy()
    assert not list(copies.rglob("*"))


def test_the_oldest_copy_can_be_brought_back_and_the_holders_own_is_never_dropped(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]
) -> None:
    from tiebreak.guard.files import safety_copies

    ann, _ = destroyed
    for number in range(safety_copies.KEPT):  # as somebody else's commands see it
        (repo / "src/b.py").write_text(f"junk {number}\n")
        safety_copies.keep(str(repo / "src/b.py"), "")
    oldest = len(list(safety_copies.copies(str(repo / "src/b.py"))))
    assert oldest == safety_copies.KEPT + 1
    assert tb("--as", ann.agent, "recover", "src/b.py", "--copy", str(oldest)).code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    assert tb("--as", ann.agent, "recover", "src/b.py").code == 1
    safety_copies.tidy()
    assert tb("--as", ann.agent, "recover", "src/b.py", "--into", "-").code == 1


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    repo: Path, destroyed: tuple[Claude, Claude], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiebreak import Refused
    from tiebreak.guard.files import recovery

    (repo / "src/b.py").unlink()
    file = recovery.kept_file("src/b.py", str(repo))
    (repo / "src/b.py").write_text("somebody is faster\n")
    with pytest.raises(Refused, match="changed just now"):
        recovery.recover(destroyed[0].board, file, 0)
    assert (repo / "src/b.py").read_text() == "somebody is faster\n"


def test_the_permissions_of_the_file_stay(tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]) -> None:
    (repo / "src/b.py").chmod(0o600)
    assert tb("--as", destroyed[0].agent, "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    assert stat.S_IMODE(os.stat(repo / "src/b.py").st_mode) == 0o600


def test_without_a_place_for_copies_files_can_be_held_and_dropped_all_the_same(
    tb: Tb, repo: Path, tmp_path: Path
) -> None:
    tb.ok("tasks")  # makes the state folder
    (tmp_path / "state/tiebreak").mkdir(parents=True, exist_ok=True)
    (tmp_path / "state/tiebreak/guard").write_text("in its place\n")
    held = tb("hold", "a.py")
    assert held.code == 0
    assert "no copy of these files is kept: the guard's state in" in held.err
    assert tb("drop", "a.py").code == 0
    assert tb("recover").err.startswith("tb: the guard's state in")
