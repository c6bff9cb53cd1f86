"""The fence of holds: a write by a grant that is not the current one changes nothing and is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiebreak import Board, Fenced, Invalid, Lost

from .engines import Place

LOCK = "lock:deploy"

Cause = Callable[[Place], tuple[Board, int]]
"""Makes a writer that is too late: its board, and the epoch that it believes in."""


def renew(board: Board, epoch: int) -> Any:
    return board.holds.renew(resources=[LOCK], epochs=[epoch])


def release(board: Board, epoch: int) -> Any:
    return board.holds.release(resources=[LOCK], epochs=[epoch])


def transfer(board: Board, epoch: int) -> Any:
    return board.holds.transfer(resource=LOCK, to="dave~test", epoch=epoch)


def stale_epoch(place: Place) -> tuple[Board, int]:
    alice = place.open("alice")
    alice.holds.take(resources=[LOCK])
    alice.holds.release(resources=[LOCK])
    alice.holds.take(resources=[LOCK])
    return alice, 1


def other_agent(place: Place) -> tuple[Board, int]:
    place.open("alice").holds.take(resources=[LOCK])
    return place.open("bob"), 1


def other_agent_without_an_epoch(place: Place) -> tuple[Board, int]:
    place.open("alice").holds.take(resources=[LOCK])
    return place.open("bob"), 0


def other_incarnation(place: Place) -> tuple[Board, int]:
    place.open("alice~one").holds.take(resources=[LOCK])
    return place.open("alice~two"), 1


def expired_and_taken(place: Place) -> tuple[Board, int]:
    alice = place.open("alice")
    alice.holds.take(resources=[LOCK], lease=60)
    place.advance(60)
    place.open("bob").holds.take(resources=[LOCK])
    return alice, 1


def expired_taken_and_released(place: Place) -> tuple[Board, int]:
    alice, epoch = expired_and_taken(place)
    place.open("bob").holds.release(resources=[LOCK])
    return alice, epoch


def broken(place: Place) -> tuple[Board, int]:
    alice = place.open("alice")
    alice.holds.take(resources=[LOCK])
    place.open("operator").call("holds.break", {"resource": LOCK, "reason": "stuck"})
    return alice, 1


def transferred(place: Place) -> tuple[Board, int]:
    alice = place.open("alice")
    alice.holds.take(resources=[LOCK])
    alice.holds.transfer(resource=LOCK, to="bob~test")
    return alice, 1


def released(place: Place) -> tuple[Board, int]:
    alice = place.open("alice")
    alice.holds.take(resources=[LOCK])
    alice.holds.release(resources=[LOCK])
    return alice, 1


def never_held(place: Place) -> tuple[Board, int]:
    return place.open("alice"), 0


CAUSES = [
    stale_epoch,
    other_agent,
    other_agent_without_an_epoch,
    other_incarnation,
    expired_and_taken,
    expired_taken_and_released,
    broken,
    transferred,
    released,
    never_held,
]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
@pytest.mark.parametrize("write", [renew, release, transfer], ids=lambda write: write.__name__)
def test_a_write_that_comes_too_late_changes_nothing(
    place: Place, write: Callable[[Board, int], Any], cause: Cause
) -> None:
    board, epoch = cause(place)
    before = (board.holds.list(), board.events.last())
    with pytest.raises(Fenced):
        write(board, epoch)
    assert (board.holds.list(), board.events.last()) == before


@pytest.mark.parametrize("write", [renew, release, transfer], ids=lambda write: write.__name__)
def test_the_current_grant_passes_the_fence(place: Place, write: Callable[[Board, int], Any]) -> None:
    board, _ = stale_epoch(place)
    assert write(board, 2)


def test_a_late_writer_learns_who_has_it_now(place: Place) -> None:
    alice, epoch = expired_and_taken(place)
    with pytest.raises(Fenced) as refusal:
        renew(alice, epoch)
    assert (refusal.value.data["holder"], refusal.value.data["epoch"]) == ("bob", 2)


@pytest.mark.parametrize("write", [renew, release, transfer], ids=lambda write: write.__name__)
def test_a_late_holder_may_still_write_until_another_wins(place: Place, write: Callable[[Board, int], Any]) -> None:
    alice = place.open("alice")
    alice.holds.take(resources=[LOCK], lease=60)
    place.advance(61)
    assert write(alice, 1)
    assert alice.events.read(event="hold.expired") == []


@pytest.mark.parametrize(("mine", "theirs"), [("file:src/**", "file:src/x.py"), ("file:src/x.py", "file:src/**")])
def test_a_lapsed_hold_in_the_way_of_a_glob_is_over_for_good(place: Place, mine: str, theirs: str) -> None:
    alice, bob = place.open("alice"), place.open("bob")
    alice.holds.take(resources=[mine], lease=60)
    place.advance(61)
    bob.holds.take(resources=[theirs])
    with pytest.raises(Fenced):
        alice.holds.renew(resources=[mine], epochs=[1])
    told = [(event.event, event.name, event.agent) for event in bob.events.read(event="hold")]
    assert told[1:3] == [("hold.expired", mine, "alice"), ("hold.taken", theirs, "bob")]


def test_a_glob_that_was_renewed_late_keeps_others_out(place: Place) -> None:
    alice, bob = place.open("alice"), place.open("bob")
    alice.holds.take(resources=["file:src/**"], lease=60)
    place.advance(61)
    alice.holds.renew(resources=["file:src/**"], epochs=[1], lease=60)
    with pytest.raises(Lost):
        bob.holds.take(resources=["file:src/x.py"])


def test_a_lapsed_slot_is_over_for_good_once_its_room_was_given_away(place: Place) -> None:
    alice, bob, carol = (place.open(name) for name in ("alice", "bob", "carol"))
    carol.holds.take(resources=["pool:x"], slots=2)
    alice.holds.take(resources=["pool:x"], lease=60)
    with pytest.raises(Lost):
        bob.holds.take(resources=["pool:x"])
    carol.holds.release(resources=["pool:x"])
    place.advance(61)
    taken = bob.holds.take(resources=["pool:x"], slots=1)
    with pytest.raises(Fenced):
        alice.holds.renew(resources=["pool:x"], epochs=[1], slots=[1])
    assert [(hold.slot, hold.holder) for hold in bob.holds.list()] == [(taken[0].slot, "bob")]


def test_a_refusal_never_suggests_a_destructive_command(place: Place) -> None:
    alice, epoch = expired_and_taken(place)
    with pytest.raises(Fenced) as refusal:
        release(alice, epoch)
    assert "break" not in refusal.value.hint


@pytest.mark.parametrize("operation", ["holds.renew", "holds.release"])
def test_one_stale_hold_of_several_stops_them_all(place: Place, alice: Board, operation: str) -> None:
    alice.holds.take(resources=["lock:a", "lock:b"], lease=60)
    before = alice.holds.list()
    with pytest.raises(Fenced):
        alice.call(operation, {"resources": ["lock:a", "lock:b"], "epochs": [1, 2]})
    assert alice.holds.list() == before


@pytest.mark.parametrize("operation", ["holds.renew", "holds.release"])
def test_too_few_epochs_do_not_open_the_fence(alice: Board, operation: str) -> None:
    alice.holds.take(resources=["lock:a", "lock:b"])
    with pytest.raises(Invalid):
        alice.call(operation, {"resources": ["lock:a", "lock:b"], "epochs": [1]})


def test_renewing_counts_the_lease_from_now(place: Place, alice: Board) -> None:
    taken = alice.holds.take(resources=[LOCK], lease=60)[0]
    place.advance(50)
    renewed = alice.holds.renew(resources=[LOCK], lease=60)[0]
    assert renewed.until == pytest.approx((taken.until or 0) + 50)
    assert (renewed.epoch, renewed.taken_at) == (1, taken.taken_at)


def test_renewing_several_answers_in_the_order_of_the_question(alice: Board) -> None:
    alice.holds.take(resources=["lock:a", "lock:b"])
    renewed = alice.holds.renew(resources=["lock:b", "lock:a"], epochs=[1, 1])
    assert [hold.resource for hold in renewed] == ["lock:b", "lock:a"]


def test_a_renewed_hold_outlives_its_first_lease(place: Place, alice: Board) -> None:
    alice.holds.take(resources=[LOCK], lease=60)
    place.advance(50)
    alice.holds.renew(resources=[LOCK], lease=60)
    place.advance(50)
    assert [hold.holder for hold in alice.holds.list()] == ["alice"]


def test_releasing_answers_with_the_epoch_that_ended(place: Place) -> None:
    board, _ = stale_epoch(place)
    given_back = board.holds.release(resources=[LOCK])[0]
    assert (given_back.resource, given_back.slot, given_back.epoch) == (LOCK, 0, 2)


def test_what_was_released_is_free_at_once(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=[LOCK])
    alice.holds.release(resources=[LOCK])
    assert bob.holds.take(resources=[LOCK])[0].epoch == 2


@pytest.mark.parametrize(
    ("operation", "wrong"),
    [
        ("holds.renew", {"lease": 0}),
        ("holds.renew", {"lease": "soon"}),
        ("holds.renew", {"epochs": [-1]}),
        ("holds.renew", {"epochs": 1}),
        ("holds.renew", {"slots": ["0"]}),
        ("holds.renew", {"hashes": ["not a label"]}),
        ("holds.renew", {"resources": ["deploy"]}),
        ("holds.release", {"epochs": [True]}),
        ("holds.release", {"slots": [-1]}),
        ("holds.release", {"hashes": [7]}),
        ("holds.release", {"resources": LOCK}),
        ("holds.release", {"reason": "no such parameter"}),
    ],
    ids=str,
)
def test_a_wrong_parameter_changes_nothing(alice: Board, operation: str, wrong: dict[str, Any]) -> None:
    alice.holds.take(resources=[LOCK])
    before = alice.holds.list()
    with pytest.raises(Invalid):
        alice.call(operation, {"resources": [LOCK], **wrong})
    assert alice.holds.list() == before
