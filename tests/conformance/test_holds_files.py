"""File holds: one name for each file, globs that conflict with paths, and files that changed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiebreak import Board, Lost

from .engines import Place

# ── One name for each file ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spelling", ["file:b", "file:a/../b", "file:./b", "file:b//.", "file:x/./../b"])
def test_one_file_is_not_taken_twice_under_two_names(alice: Board, bob: Board, spelling: str) -> None:
    alice.holds.take(resources=["file:b"])
    with pytest.raises(Lost):
        bob.holds.take(resources=[spelling])


def test_two_spellings_in_one_call_are_one_grant(alice: Board) -> None:
    alice.holds.take(resources=["file:a/../b", "file:b"])
    assert [(hold.resource, hold.epoch) for hold in alice.holds.list()] == [("file:b", 1)]


def test_a_hold_is_given_back_under_any_of_its_names(alice: Board) -> None:
    alice.holds.take(resources=["file:b"])
    alice.holds.release(resources=["file:a/../b"])
    assert alice.holds.list() == []


def test_composed_and_decomposed_names_are_one_file(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:caf\u00e9.py"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["file:cafe\u0301.py"])


# ── Globs ────────────────────────────────────────────────────────────────────────────────────────────

OVERLAPS = [
    ("src/**", "src/x/y.py"),
    ("src/", "src/x/y.py"),
    ("**", "README.md"),
    ("src/*.py", "src/a.py"),
    ("src/[ab].py", "src/a.py"),
    ("src/?.py", "src/a.py"),
    ("src/**", "src/lib/**"),
    ("src/**/test_*.py", "src/**/*_b.py"),
    ("src/*.py", "**/a.*"),
]
APART = [
    ("src/**", "srcs/a.py"),
    ("src/*.py", "src/x/a.py"),
    ("src/**", "docs/**"),
    ("*.py", "*.md"),
    ("src/[ab].py", "src/c.py"),
    ("a/*/c", "a/b/d"),
]


@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
@pytest.mark.parametrize(("first", "second"), OVERLAPS)
def test_names_that_can_mean_one_file_conflict(
    alice: Board, bob: Board, first: str, second: str, swapped: bool
) -> None:
    mine, theirs = (second, first) if swapped else (first, second)
    alice.holds.take(resources=[f"file:{mine}"])
    with pytest.raises(Lost):
        bob.holds.take(resources=[f"file:{theirs}"])


@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
@pytest.mark.parametrize(("first", "second"), APART)
def test_names_that_cannot_mean_one_file_do_not_conflict(
    alice: Board, bob: Board, first: str, second: str, swapped: bool
) -> None:
    mine, theirs = (second, first) if swapped else (first, second)
    alice.holds.take(resources=[f"file:{mine}"])
    assert bob.holds.take(resources=[f"file:{theirs}"])[0].epoch == 1


def test_the_same_glob_has_one_holder(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/**"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["file:src/**"])


def test_a_refusal_names_the_conflicting_glob(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/**"], note="renaming everything")
    with pytest.raises(Lost, match=r"src/\*\*") as refusal:
        bob.holds.take(resources=["file:src/a.py"])
    assert (refusal.value.holder, refusal.value.data["resource"]) == ("alice", "file:src/**")
    assert refusal.value.data["note"] == "renaming everything"


@pytest.mark.parametrize("order", [["file:src/**", "file:src/a.py"], ["file:src/a.py", "file:src/**"]], ids=str)
def test_an_agents_holds_do_not_conflict_with_each_other(alice: Board, order: list[str]) -> None:
    for resource in order:
        alice.holds.take(resources=[resource])
    assert len(alice.holds.list()) == 2


def test_holds_of_an_earlier_incarnation_conflict(place: Place) -> None:
    place.open("alice~one").holds.take(resources=["file:src/**"])
    with pytest.raises(Lost, match="another alice"):
        place.open("alice~two").holds.take(resources=["file:src/a.py"])


def test_an_expired_glob_blocks_nobody(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/**"], lease=60)
    place.advance(60)
    assert bob.holds.take(resources=["file:src/a.py"])[0].holder == "bob"


def test_an_expired_path_does_not_block_a_glob(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/a.py"], lease=60)
    place.advance(60)
    assert bob.holds.take(resources=["file:src/**"])[0].holder == "bob"


def test_a_released_glob_blocks_nobody(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/**"])
    alice.holds.release(resources=["file:src/**"])
    assert bob.holds.take(resources=["file:src/a.py"])[0].holder == "bob"


def test_a_glob_concerns_files_alone(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:**"])
    assert len(bob.holds.take(resources=["lock:a", "seat:a", "pool:a"], slots=1)) == 3


def test_a_refused_glob_leaves_no_half_of_what_was_asked(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/a.py"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["file:docs/a.md", "file:src/**"])
    assert bob.holds.list(agent="bob") == []


def test_a_glob_counts_its_own_epochs(alice: Board) -> None:
    alice.holds.take(resources=["file:src/a.py"])
    alice.holds.take(resources=["file:src/**"])
    alice.holds.release(resources=["file:src/**"])
    assert alice.holds.take(resources=["file:src/**"])[0].epoch == 2


# ── Files that changed meanwhile ─────────────────────────────────────────────────────────────────────


def test_without_a_hash_at_taking_no_change_is_reported(alice: Board) -> None:
    alice.holds.take(resources=["file:a"])
    assert alice.holds.release(resources=["file:a"], hashes=["now"])[0].changed is None


def test_without_a_hash_at_release_no_change_is_reported(alice: Board) -> None:
    alice.holds.take(resources=["file:a"], hashes=["then"])
    assert alice.holds.release(resources=["file:a"])[0].changed is None


@pytest.mark.parametrize(("now", "changed"), [("then", False), ("other", True)])
def test_a_release_tells_whether_the_hash_is_still_the_same(alice: Board, now: str, changed: bool) -> None:
    alice.holds.take(resources=["file:a"], hashes=["then"])
    assert alice.holds.release(resources=["file:a"], hashes=[now])[0].changed is changed


def test_a_renewal_with_a_hash_vouches_for_it(alice: Board) -> None:
    alice.holds.take(resources=["file:a"], hashes=["then"])
    alice.holds.renew(resources=["file:a"], hashes=["mine"])
    assert alice.holds.release(resources=["file:a"], hashes=["mine"])[0].changed is False


def test_a_renewal_without_a_hash_keeps_the_known_one(alice: Board) -> None:
    alice.holds.take(resources=["file:a"], hashes=["then"])
    assert alice.holds.renew(resources=["file:a"])[0].hash == "then"


def test_the_next_holder_is_not_judged_by_the_hash_of_the_last(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:a"], hashes=["then"])
    alice.holds.release(resources=["file:a"])
    assert bob.holds.take(resources=["file:a"])[0].hash is None


def test_the_log_puts_the_holders_change_on_nobody(alice: Board) -> None:
    alice.holds.take(resources=["file:a"], hashes=["then"])
    alice.holds.release(resources=["file:a"], hashes=["now"])
    assert alice.events.read(event="hold.released")[0].note is None


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with a file and a folder in it, and this process standing in it."""
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "folder").mkdir()
    (root / "a.py").write_text("one")
    monkeypatch.chdir(root)
    return root


def test_a_file_that_nobody_touched_is_unchanged(alice: Board, repository: Path) -> None:
    assert alice.hold("a.py").release()[0].changed is False


def test_a_file_that_was_written_under_a_hold_is_reported(alice: Board, repository: Path) -> None:
    holding = alice.hold("a.py")
    (repository / "a.py").write_text("two")
    assert holding.release()[0].changed is True


def test_a_change_before_vouching_is_not_reported(alice: Board, repository: Path) -> None:
    holding = alice.hold("a.py")
    (repository / "a.py").write_text("two")
    holding.vouch()
    assert holding.release()[0].changed is False


def test_a_change_after_vouching_is_reported(alice: Board, repository: Path) -> None:
    holding = alice.hold("a.py")
    holding.vouch()
    (repository / "a.py").write_text("two")
    assert holding.release()[0].changed is True


def test_a_deleted_file_has_changed(alice: Board, repository: Path) -> None:
    holding = alice.hold("a.py")
    (repository / "a.py").unlink()
    assert holding.release()[0].changed is True


@pytest.mark.parametrize("created", [False, True])
def test_a_file_that_is_not_there_yet_can_be_held(alice: Board, repository: Path, created: bool) -> None:
    holding = alice.hold("new.py")
    if created:
        (repository / "new.py").write_text("surprise")
    assert holding.release()[0].changed is created


@pytest.mark.parametrize("resource", ["*.py", "folder", "lock:deploy"])
def test_no_change_is_reported_for_globs_and_folders(alice: Board, repository: Path, resource: str) -> None:
    holding = alice.hold(resource)
    (repository / "folder" / "b.py").write_text("new")
    assert holding.release()[0].changed is None


def test_a_process_that_moved_elsewhere_does_not_report_false_changes(
    alice: Board, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding = alice.hold("a.py")
    monkeypatch.chdir(tmp_path)
    assert holding.release()[0].changed is not True


def test_one_file_has_one_name_from_every_folder(
    alice: Board, bob: Board, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.hold("a.py")
    monkeypatch.chdir(repository / "folder")
    with pytest.raises(Lost):
        bob.hold("../a.py")


def test_a_symlink_is_the_file_that_it_points_to(alice: Board, bob: Board, repository: Path) -> None:
    (repository / "link.py").symlink_to("a.py")
    alice.hold("a.py")
    with pytest.raises(Lost):
        bob.hold("link.py")


def test_a_folder_means_everything_below_it(alice: Board, bob: Board, repository: Path) -> None:
    alice.hold("folder")
    with pytest.raises(Lost):
        bob.hold("folder/new.py")


def test_two_names_of_one_file_in_one_call_are_one_hold(alice: Board, repository: Path) -> None:
    assert len(alice.hold("a.py", "./a.py", "file:a.py").holds) == 1
