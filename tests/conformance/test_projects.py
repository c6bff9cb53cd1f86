"""Names of projects: everybody who works on one repository writes to the same rows, whatever happens to its names."""

from __future__ import annotations

import apsw
import pytest

from tiebreak import Board, Fenced, Invalid, Lost, Refused
from tiebreak.engine import schema
from tiebreak.engine.sqlite.opening import run_steps
from tiebreak.operations.project_names import TABLES

from .engines import Place

SHOP = "example.org/acme/shop"
ROOT = "commit/0123456789abcdef01234567"
FORK = "example.org/ada/shop"


def clone(place: Place, agent: str, *names: str) -> Board:
    """The board as an agent sees it in a clone that may be known by these names."""
    board = place.open(agent)
    return Board(board.engine, agent=board.agent, project=" ".join(names))


def test_no_table_with_rows_of_projects_is_left_behind() -> None:
    """A new table with a column `project` has to move with its project."""
    connection = apsw.Connection(":memory:")
    run_steps(connection, 0)
    found = {
        table
        for table in schema.TABLES
        if "project" in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    }
    assert found - {"projects"} == set(TABLES)


def test_one_of_two_clones_wins(place: Place) -> None:
    alice, bob = clone(place, "alice", SHOP, ROOT, "shop-111111"), clone(place, "bob", SHOP, ROOT, "shop-222222")
    alice.holds.take(resources=["lock:deploy"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["lock:deploy"])
    assert alice.project == bob.project == SHOP


def test_a_clone_without_a_remote_finds_the_project_by_its_first_commit(place: Place) -> None:
    alice, bob = clone(place, "alice", SHOP, ROOT), clone(place, "bob", ROOT)
    alice.holds.take(resources=["lock:deploy"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["lock:deploy"])
    assert bob.project == SHOP


def test_a_remote_that_is_added_later_takes_the_project_over(place: Place) -> None:
    alice, bob = clone(place, "alice", ROOT, "shop-111111"), clone(place, "bob", SHOP, ROOT)
    alice.holds.take(resources=["lock:deploy"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["lock:deploy"])
    assert bob.project == ROOT, "its rows stay where they are"


def test_a_fork_is_a_project_of_its_own(place: Place) -> None:
    first = clone(place, "alice", ROOT)
    first.holds.take(resources=["lock:deploy"])
    second, fork = clone(place, "bob", SHOP, ROOT), clone(place, "carol", FORK, ROOT)
    with pytest.raises(Lost):
        second.holds.take(resources=["lock:deploy"])
    second.holds.take(resources=["lock:test"])
    assert fork.holds.take(resources=["lock:deploy"])[0].project == FORK, "the first remote has taken the commit"


def test_looking_settles_nothing(place: Place) -> None:
    board = clone(place, "alice", SHOP, ROOT)
    assert board.tasks.list() == []
    assert board.projects.resolve() == SHOP
    assert [each.project for each in board.projects.list() if each.project == SHOP] == []


def test_a_name_that_was_passed_on_is_settled(place: Place) -> None:
    """It goes into the environment of sessions and workers, which know no other name then."""
    alice, bob = clone(place, "alice", ROOT, "shop-111111"), clone(place, "bob", SHOP, ROOT)
    assert alice.project == ROOT
    bob.holds.take(resources=["lock:deploy"])
    with pytest.raises(Lost):
        clone(place, "carol", alice.project).holds.take(resources=["lock:deploy"])


def test_a_clone_that_was_known_by_its_path_keeps_its_rows_when_it_has_a_remote(place: Place) -> None:
    path = "local/shop-0123456789abcdef"
    if _is_shared(place):
        return  # where a path is no name
    clone(place, "alice", path).holds.take(resources=["lock:deploy"])
    later = clone(place, "bob", SHOP, ROOT, path)
    with pytest.raises(Lost):
        later.holds.take(resources=["lock:deploy"])


def test_a_project_that_was_named_by_hand_keeps_its_rows_when_clones_come(place: Place) -> None:
    by_hand = clone(place, "alice", SHOP)
    by_hand.holds.take(resources=["lock:deploy"])
    later = clone(place, "bob", SHOP, ROOT)
    with pytest.raises(Lost):
        later.holds.take(resources=["lock:deploy"])


# ── Renaming ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_holder_keeps_everything_when_its_project_is_renamed(place: Place) -> None:
    alice, bob = clone(place, "alice", SHOP, ROOT), clone(place, "bob", SHOP, ROOT)
    alice.tasks.post(name="work", key="work")
    claim = alice.tasks.claim(ref="work")
    alice.holds.take(resources=["lock:deploy"])
    alice.messages.send(body="hello")
    known = bob.projects.rename(name="shop")
    assert known.project == "shop"
    assert set(known.names) == {"shop", SHOP, ROOT}
    with pytest.raises(Lost):
        bob.holds.take(resources=["lock:deploy"])
    assert [each.epoch for each in alice.holds.renew(resources=["lock:deploy"], epochs=[1])] == [1]
    assert alice.tasks.complete(ref=claim.id, epoch=claim.epoch).project == "shop"
    assert [each.body for each in bob.messages.inbox()] == ["hello"]
    assert clone(place, "carol", SHOP, ROOT).project == clone(place, "dave", SHOP).project == "shop"
    assert {event.project for event in bob.events.read(limit=100)} == {"shop"}


def test_epochs_go_on_after_a_renaming(place: Place) -> None:
    board = clone(place, "alice", SHOP, ROOT)
    for _ in range(3):
        board.holds.take(resources=["lock:deploy"])
        board.holds.release(resources=["lock:deploy"])
    board.projects.rename(name="shop")
    assert [each.epoch for each in board.holds.take(resources=["lock:deploy"])] == [4]


def test_a_project_can_be_renamed_back(place: Place) -> None:
    board = clone(place, "alice", SHOP, ROOT)
    board.tasks.post(name="work")
    board.projects.rename(name="shop")
    assert board.projects.rename(name=SHOP).project == SHOP
    assert [task.name for task in clone(place, "bob", "shop").tasks.list()] == ["work"]


def test_a_name_that_is_in_use_is_refused(place: Place) -> None:
    board, other = clone(place, "alice", SHOP, ROOT), clone(place, "bob", "other")
    board.tasks.post(name="work")
    other.tasks.post(name="other work")
    for ask in (board.projects.rename, board.projects.alias):
        with pytest.raises(Refused, match="other"):
            ask(name="other")
    assert [task.name for task in other.tasks.list()] == ["other work"]


def test_names_that_repositories_are_found_by_are_not_given_by_hand(place: Place) -> None:
    board = clone(place, "alice", SHOP, ROOT)
    for name in ("local/x", "commit/x"):
        with pytest.raises(Invalid, match="begin names found in a repository"):
            board.projects.rename(name=name)


def test_a_repeated_write_gets_its_answer_after_a_renaming(place: Place) -> None:
    board = clone(place, "alice", SHOP, ROOT)
    first = board.call("tasks.post", {"name": "once"}, once="a-key-of-its-own")
    board.projects.rename(name="shop")
    again = clone(place, "alice", SHOP, ROOT).call("tasks.post", {"name": "once"}, once="a-key-of-its-own")
    assert again.number == first.number


def test_the_same_call_from_another_clone_gets_the_same_answer(place: Place) -> None:
    first, second = clone(place, "alice", SHOP, ROOT, "shop-111111"), clone(place, "alice", SHOP, ROOT, "shop-222222")
    answers = [board.call("tasks.post", {"name": "once"}, once="a-key-of-its-own") for board in (first, second, first)]
    assert len({answer.number for answer in answers}) == 1


def test_a_fork_does_not_take_over_a_project_that_was_renamed(place: Place) -> None:
    board = clone(place, "alice", SHOP, ROOT)
    board.holds.take(resources=["lock:deploy"])
    for name in ("shop", SHOP):
        board.projects.rename(name=name)
        assert clone(place, "bob", FORK, ROOT).projects.resolve() == FORK


# ── Merging ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_alias_merges_a_project_without_anything_live_and_no_epoch_goes_back(place: Place) -> None:
    fork, shop = clone(place, "alice", FORK, ROOT), clone(place, "bob", SHOP, ROOT)
    for turns, board in ((3, fork), (1, shop)):
        for _ in range(turns):
            board.holds.take(resources=["lock:deploy"])
            board.holds.release(resources=["lock:deploy"])
            board.tasks.post(name="work", key="work")
            task = board.tasks.claim(ref="work")
            board.tasks.release(ref="work", epoch=task.epoch)
        task = board.tasks.claim(ref="work")
        board.tasks.fail(ref="work", epoch=task.epoch, retry=False)
    fork.tasks.post(name="history", key="history")
    fork.tasks.cancel(ref="history")
    fork.messages.send(body="from the fork")
    shop.projects.alias(name=FORK)
    assert [each.epoch for each in fork.holds.take(resources=["lock:deploy"])] == [4]
    with pytest.raises(Lost):
        shop.holds.take(resources=["lock:deploy"])
    shop.tasks.retry(ref="work")
    assert shop.tasks.claim(ref="work").epoch == 5
    assert {task.name for task in shop.tasks.list(states=["cancelled"])} == {"history"}
    assert [each.body for each in shop.messages.inbox()] == ["from the fork"]
    assert clone(place, "carol", FORK, ROOT).project == SHOP


def test_an_alias_does_not_merge_a_project_with_something_live(place: Place) -> None:
    fork, shop = clone(place, "alice", FORK, ROOT), clone(place, "bob", SHOP, ROOT)
    shop.tasks.post(name="work")
    fork.holds.take(resources=["lock:deploy"])
    with pytest.raises(Refused, match="1 holds") as refused:
        shop.projects.alias(name=FORK)
    assert refused.value.reason == "project-names-conflict"
    assert fork.projects.show().project == FORK
    place.advance(3600 * 24)
    assert FORK in shop.projects.alias(name=FORK).names, "a hold that has lapsed is in nobody's way"
    with pytest.raises(Fenced):
        fork.holds.renew(resources=["lock:deploy"], epochs=[1])


def test_a_held_resource_with_a_lower_epoch_is_not_merged_over(place: Place) -> None:
    fork, shop = clone(place, "alice", FORK, ROOT), clone(place, "bob", SHOP, ROOT)
    for _ in range(2):
        fork.holds.take(resources=["lock:deploy"])
        fork.holds.release(resources=["lock:deploy"])
    shop.holds.take(resources=["lock:deploy"])
    with pytest.raises(Refused, match="lock:deploy is held"):
        shop.projects.alias(name=FORK)
    shop.holds.release(resources=["lock:deploy"])
    shop.projects.alias(name=FORK)
    assert [each.epoch for each in shop.holds.take(resources=["lock:deploy"])] == [3]


def test_a_name_that_a_person_gave_goes_along_when_its_project_is_merged(place: Place) -> None:
    by_hand = clone(place, "alice", "shop")
    by_hand.tasks.post(name="work", key="work")
    by_hand.tasks.cancel(ref="work")
    by_hand.projects.alias(name=ROOT)
    board = clone(place, "bob", SHOP, ROOT)
    board.holds.take(resources=["lock:deploy"])
    with pytest.raises(Lost):
        by_hand.holds.take(resources=["lock:deploy"])


# ── Paths ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_path_is_no_name_on_a_board_that_other_machines_use(place: Place) -> None:
    board = clone(place, "alice", "local/shop-0123456789abcdef", "shop-111111")
    if not _is_shared(place):
        board.holds.take(resources=["lock:deploy"])
        return
    for ask in (lambda: board.holds.take(resources=["lock:deploy"]), board.tasks.list, lambda: board.project):
        with pytest.raises(Refused, match="known by its path alone") as refused:
            ask()
        assert refused.value.reason == "project-known-by-path"
    assert board.projects.rename(name="shop").project == "shop", "but it can be given a name"
    board.holds.take(resources=["lock:deploy"])


def _is_shared(place: Place) -> bool:
    return "postgres" in type(place).__name__.lower() or "pool" in type(place).__name__.lower()
