"""Boards of a version that named projects after paths: they keep their projects, and nothing is merged in silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tiebreak
from tests.races.crew import race
from tests.upgrade.test_upgrade import Run
from tiebreak import Board, Lost, Refused

from .old import ENGINES, NOW, OldBoard

LIVE, DEAD = "shop-1a2b3c", "shop-4d5e6f"
"""What two clones were called: in one of them a lock is held, by its second grant; in the other it was given back."""
SHOP, FORK = "example.org/acme/shop", "example.org/ada/shop"
ROOT = "commit/0123456789abcdef01234567"


@pytest.fixture(params=[pytest.param(each, id=f"{each}-3") for each in ENGINES])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldBoard]:
    """A board of version 3, with projects of two clones."""
    with ENGINES[request.param](tmp_path, 3) as opened:
        yield opened


def clone(old: OldBoard, agent: str, *names: str) -> Board:
    """The board as an agent of this version sees it in a clone with these names."""
    board = tiebreak.open(old.address, agent=f"{agent}~1", clock=lambda: NOW)
    return Board(board.engine, agent=board.agent, project=" ".join(names))


def test_a_clone_keeps_the_project_that_it_had(old: OldBoard) -> None:
    with clone(old, "bob", SHOP, ROOT, LIVE) as bob, pytest.raises(Lost) as lost:
        bob.holds.take(resources=["lock:deploy"])
    assert lost.value.epoch == 2
    with clone(old, "alice", SHOP, ROOT, LIVE) as alice:
        assert [hold.epoch for hold in alice.holds.renew(resources=["lock:deploy"], epochs=[2])] == [2]
        assert alice.project == LIVE
        [event] = alice.events.read(event="project.named", project=LIVE)
        assert event.note == f"{SHOP} means {LIVE} on this board"


def test_a_new_clone_of_the_same_repository_finds_the_project_that_another_one_had(old: OldBoard) -> None:
    with clone(old, "alice", SHOP, ROOT, LIVE) as alice, clone(old, "carol", SHOP, ROOT, "shop-999999") as carol:
        alice.tasks.post(name="work")
        with pytest.raises(Lost):
            carol.holds.take(resources=["lock:deploy"])


def test_a_clone_without_anything_live_is_merged_and_its_epochs_count(old: OldBoard) -> None:
    with clone(old, "bob", SHOP, ROOT, DEAD) as bob, clone(old, "alice", SHOP, ROOT, LIVE) as alice:
        assert [hold.epoch for hold in bob.holds.take(resources=["lock:deploy"])] == [2]
        bob.holds.release(resources=["lock:deploy"])
        alice.tasks.post(name="work")
        assert bob.project == alice.project == LIVE, "there the lock is held"
        with pytest.raises(Lost):
            bob.holds.take(resources=["lock:deploy"])
        alice.holds.release(resources=["lock:deploy"], epochs=[2])
        assert [hold.epoch for hold in bob.holds.take(resources=["lock:deploy"])] == [3]


def test_a_merge_waits_while_a_lock_is_held_with_a_lower_epoch(old: OldBoard) -> None:
    with clone(old, "bob", SHOP, ROOT, DEAD) as bob, clone(old, "alice", SHOP, ROOT, LIVE) as alice:
        for epoch in (2, 3):
            assert [hold.epoch for hold in bob.holds.take(resources=["lock:deploy"])] == [epoch]
            bob.holds.release(resources=["lock:deploy"])
        with pytest.raises(Refused, match="lock:deploy is held"):
            alice.tasks.post(name="work")
        with clone(old, "alice", LIVE) as by_hand:
            by_hand.holds.release(resources=["lock:deploy"])
        alice.tasks.post(name="work")
        assert [hold.epoch for hold in alice.holds.take(resources=["lock:deploy"])] == [4]


def test_two_clones_with_something_live_are_refused_and_not_merged(old: OldBoard) -> None:
    with clone(old, "bob", SHOP, ROOT, DEAD) as bob, clone(old, "alice", SHOP, ROOT, LIVE) as alice:
        bob.tasks.post(name="work of bob")
        before = alice.projects.list()
        for ask in (lambda: alice.holds.take(resources=["lock:test"]), alice.tasks.list, lambda: alice.project):
            with pytest.raises(Refused) as refused:
                ask()
            assert refused.value.reason == "project-names-conflict"
            assert refused.value.data["projects"] == [DEAD, LIVE]
        assert alice.projects.list() == before
        assert any(level == "bad" and LIVE in text and DEAD in text for level, _, text in Board.doctor(alice))
        with clone(old, "alice", LIVE) as by_hand:
            by_hand.holds.release(resources=["lock:deploy"])
        assert [task.name for task in alice.tasks.list()] == ["work of bob"], "nothing stands in the way any more"
        assert [hold.epoch for hold in alice.holds.take(resources=["lock:deploy"])] == [3]
        with pytest.raises(Lost):
            bob.holds.take(resources=["lock:deploy"])


def test_two_repositories_that_were_at_one_path_are_two_projects(old: OldBoard) -> None:
    with clone(old, "alice", SHOP, ROOT, LIVE) as alice, clone(old, "bob", FORK, "commit/9", LIVE) as bob:
        alice.tasks.post(name="work")
        assert bob.holds.take(resources=["lock:deploy"])[0].project == FORK
        assert alice.project == LIVE


def test_asking_for_the_project_settles_it_for_other_clones(old: OldBoard) -> None:
    with clone(old, "alice", SHOP, ROOT, LIVE) as alice, clone(old, "carol", SHOP, ROOT, "shop-999999") as carol:
        assert alice.project == LIVE
        with pytest.raises(Lost):
            carol.holds.take(resources=["lock:deploy"])


def test_a_call_is_not_run_twice_because_its_project_was_asked_for_meanwhile(old: OldBoard) -> None:
    with clone(old, "alice", SHOP, ROOT, LIVE) as alice:
        first = alice.call("tasks.post", {"name": "once"}, once="a-key-of-its-own")
        assert alice.project == LIVE
        assert alice.call("tasks.post", {"name": "once"}, once="a-key-of-its-own").number == first.number


def test_an_alias_for_an_old_name_counts(old: OldBoard) -> None:
    with clone(old, "alice", LIVE) as by_hand, clone(old, "bob", SHOP, ROOT, DEAD) as bob:
        by_hand.projects.alias(name=DEAD)
        with pytest.raises(Lost):
            bob.holds.take(resources=["lock:deploy"])
        assert bob.project == LIVE


def test_a_stranger_takes_no_old_name(old: OldBoard) -> None:
    from tiebreak.operations import find
    from tiebreak.operations.strangers import for_strangers

    with clone(old, "alice", SHOP, ROOT, LIVE) as alice:
        names = f"evil.example/x {ROOT} {LIVE}"
        alice.engine.run(for_strangers(find("tasks.post")), {"name": "x", "project": names, "agent": "eve~1"})
        assert alice.project == LIVE, "which its own clone has taken over now"


def test_the_doctor_names_projects_that_no_clone_has_taken_over(old: OldBoard) -> None:
    with clone(old, "bob", "demo") as bob:
        texts = [text for _, what, text in bob.doctor() if what == "projects"]
    assert any(text.startswith(f"{LIVE} was named by an older version") for text in texts)
    assert not any(text.startswith(DEAD) for text in texts), "nothing is open there"


def taker(address: str, agent: str, names: str) -> Run:
    """Post a task and try to get the lock, in a clone with these names; who keeps the rows, and whether it was won."""
    board = tiebreak.open(address, agent=f"{agent}~1", clock=lambda: NOW)
    mine = Board(board.engine, agent=board.agent, project=names)
    yield
    try:
        [hold] = mine.holds.take(resources=["lock:test"])
    except Lost:
        return mine.project, 0
    return hold.project, hold.epoch


@pytest.mark.parametrize(("first", "second"), [(LIVE, LIVE), ("shop-777777", "shop-888888")])
def test_clones_that_come_at_the_same_moment_agree(old: OldBoard, first: str, second: str) -> None:
    old.open().close()
    clones = [(old.address, f"agent-{i}", f"{SHOP} {ROOT} {(first, second)[i % 2]}") for i in range(8)]
    answers = race(taker, clones)
    kept = {project for project, _ in answers}
    assert len(kept) == 1
    assert sorted(epoch for _, epoch in answers) == [0] * 7 + [1], "one has won"
