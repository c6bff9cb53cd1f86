"""Pools: N slots, N holders, each slot with an epoch of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board, Fenced, Hold, Invalid, Lost, NotFound

from .engines import Place

POOL = "pool:ports"


def take(board: Board, slots: int | None = None, **more: Any) -> Hold:
    return board.holds.take(resources=[POOL], slots=slots, **more)[0]


def slots_of(board: Board) -> dict[int, str | None]:
    return {hold.slot: hold.holder for hold in board.holds.list(matching=POOL)}


def test_every_winner_has_a_slot_of_its_own(place: Place) -> None:
    won = [take(place.open(name), 3).slot for name in ("alice", "bob", "carol")]
    assert won == [0, 1, 2]


def test_one_more_than_there_are_slots_is_refused(place: Place, alice: Board, bob: Board) -> None:
    take(alice, 2)
    take(bob)
    with pytest.raises(Lost, match="all 2 slots"):
        take(place.open("carol"))


def test_a_refused_agent_learns_whose_slot_is_free_first(place: Place, alice: Board, bob: Board) -> None:
    take(alice, 2, lease=600)
    first = take(bob, lease=60)
    with pytest.raises(Lost) as refusal:
        take(place.open("carol"))
    lost = refusal.value
    assert (lost.holder, lost.until, lost.data["resource"]) == ("bob", first.until, POOL)


def test_the_lowest_free_slot_is_used_again(place: Place, alice: Board, bob: Board) -> None:
    take(alice, 3)
    take(bob)
    take(place.open("carol"))
    alice.holds.release(resources=[POOL])
    bob.holds.release(resources=[POOL])
    assert take(place.open("dave")).slot == 0


def test_every_slot_counts_its_own_epochs(alice: Board, bob: Board) -> None:
    take(alice, 2)
    alice.holds.release(resources=[POOL])
    assert (take(alice).epoch, take(bob).epoch) == (2, 1)


def test_one_agent_may_have_two_slots(alice: Board) -> None:
    assert [take(alice, 2).slot, take(alice).slot] == [0, 1]


@pytest.mark.parametrize("operation", ["holds.renew", "holds.release"])
def test_a_release_does_not_guess_between_two_own_slots(alice: Board, operation: str) -> None:
    take(alice, 2)
    take(alice)
    with pytest.raises(Invalid, match="more than one slot"):
        alice.call(operation, {"resources": [POOL]})


def test_a_handover_does_not_guess_the_slot_either(alice: Board) -> None:
    take(alice, 2)
    take(alice)
    with pytest.raises(Invalid, match="more than one slot"):
        alice.holds.transfer(resource=POOL, to="bob~test")


def test_a_named_slot_is_the_one_that_is_released(alice: Board) -> None:
    take(alice, 2)
    take(alice)
    assert alice.holds.release(resources=[POOL], slots=[1])[0].slot == 1
    assert slots_of(alice) == {0: "alice"}


def test_a_named_slot_is_the_one_that_is_renewed(place: Place, alice: Board) -> None:
    take(alice, 2, lease=60)
    take(alice, lease=60)
    alice.holds.renew(resources=[POOL], slots=[1], epochs=[1], lease=600)
    place.advance(61)
    assert slots_of(alice) == {1: "alice"}


def test_the_only_own_slot_need_not_be_named(alice: Board, bob: Board) -> None:
    take(alice, 2)
    take(bob)
    assert bob.holds.renew(resources=[POOL])[0].slot == 1
    assert bob.holds.release(resources=[POOL])[0].slot == 1


def test_two_own_slots_can_be_kept_in_one_step(alice: Board) -> None:
    take(alice, 2)
    take(alice)
    renewed = alice.holds.renew(resources=[POOL, POOL], slots=[0, 1], epochs=[1, 1])
    assert [hold.slot for hold in renewed] == [0, 1]


@pytest.mark.parametrize("operation", ["holds.renew", "holds.release"])
def test_the_slot_of_another_agent_is_fenced(alice: Board, bob: Board, operation: str) -> None:
    take(alice, 2)
    take(bob)
    with pytest.raises(Fenced):
        bob.call(operation, {"resources": [POOL], "slots": [0]})
    assert slots_of(alice) == {0: "alice", 1: "bob"}


def test_the_epoch_of_one_slot_does_not_open_another(alice: Board) -> None:
    take(alice, 2)
    alice.holds.release(resources=[POOL])
    take(alice)
    take(alice)
    with pytest.raises(Fenced):
        alice.holds.renew(resources=[POOL], slots=[1], epochs=[2])


def test_an_expired_slot_is_free_and_the_log_says_which(place: Place, alice: Board, bob: Board) -> None:
    take(alice, 2)
    take(alice, lease=60)
    place.advance(61)
    assert (hold := take(bob)).slot == 1
    assert hold.epoch == 2
    expired = bob.events.read(event="hold.expired")
    assert [(e.agent, e.epoch, e.data) for e in expired] == [("alice", 1, {"slot": 1})]


def test_a_slot_can_be_handed_over(alice: Board, bob: Board) -> None:
    take(alice, 2)
    take(alice)
    hold = alice.holds.transfer(resource=POOL, to=bob.agent, slot=1, epoch=1)
    assert (hold.slot, hold.holder, hold.epoch) == (1, "bob", 2)


def test_a_named_slot_is_the_one_that_is_broken(place: Place, alice: Board, bob: Board) -> None:
    take(alice, 2)
    take(bob)
    place.open("operator").call("holds.break", {"resource": POOL, "reason": "stuck", "slot": 1})
    assert slots_of(alice) == {0: "alice"}


# ── The size of a pool ───────────────────────────────────────────────────────────────────────────────


def test_a_pool_that_nobody_made_cannot_be_taken(alice: Board) -> None:
    with pytest.raises(NotFound):
        take(alice)


def test_a_grown_pool_has_more_slots(alice: Board, bob: Board) -> None:
    take(alice, 1)
    assert take(bob, 2).slot == 1


def test_a_shrunk_pool_gives_its_upper_slots_to_nobody(alice: Board, bob: Board) -> None:
    take(alice, 3)
    alice.holds.release(resources=[POOL])
    take(alice, 1)
    with pytest.raises(Lost, match="all 1 slots"):
        take(bob)


def test_a_held_slot_beyond_the_new_size_is_kept(alice: Board, bob: Board) -> None:
    take(alice, 3)
    take(alice)
    take(bob)
    alice.holds.release(resources=[POOL, POOL], slots=[0, 1])
    take(alice, 2)
    assert bob.holds.renew(resources=[POOL])[0].slot == 2


def test_a_shrunk_pool_never_has_more_holders_than_slots(alice: Board, bob: Board) -> None:
    take(alice, 2)
    take(bob)
    alice.holds.release(resources=[POOL])
    with pytest.raises(Lost):
        take(alice, 1)
    assert slots_of(alice) == {1: "bob"}


def test_a_slot_keeps_its_epoch_while_the_pool_is_small(alice: Board) -> None:
    take(alice, 2)
    take(alice)
    alice.holds.release(resources=[POOL, POOL], slots=[0, 1])
    take(alice, 1)
    assert take(alice, 2).epoch == 2


def test_a_refused_take_does_not_resize_the_pool(place: Place, alice: Board, bob: Board) -> None:
    take(alice, 2)
    take(bob)
    with pytest.raises(Lost):
        take(place.open("carol"), 1)
    alice.holds.release(resources=[POOL])
    assert take(place.open("carol")).slot == 0


def test_a_pool_belongs_to_its_project(place: Place, alice: Board) -> None:
    take(alice, 1)
    with pytest.raises(NotFound):
        take(place.open("bob", project="other"))


def test_a_slot_is_not_kept_when_something_else_is_refused(alice: Board, bob: Board) -> None:
    take(alice, 2)
    alice.holds.take(resources=["seat:last"])
    with pytest.raises(Lost):
        bob.holds.take(resources=[POOL, "seat:last"])
    assert slots_of(bob) == {0: "alice"}


@pytest.mark.parametrize("slots", [0, -1, 10_001, True, "2", 1.5])
def test_a_pool_of_senseless_size_is_refused(alice: Board, slots: Any) -> None:
    with pytest.raises(Invalid):
        take(alice, slots)


def test_taking_again_renews_the_slot_that_one_has(alice: Board, bob: Board) -> None:
    first = take(alice, 2, lease=60)
    again = take(alice, again=True, lease=600, note="still")
    assert (again.slot, again.epoch, again.note) == (first.slot, first.epoch, "still")
    assert (again.until or 0) > (first.until or 0)
    assert slots_of(alice) == {0: "alice"}
    assert take(bob, again=True).slot == 1
    assert [event.event for event in alice.events.read(subject=POOL)] == ["hold.taken", "hold.renewed", "hold.taken"]


def test_taking_again_in_a_full_pool_is_no_refusal_for_its_holder(alice: Board, bob: Board) -> None:
    take(alice, 1)
    assert take(alice, again=True).epoch == 1
    with pytest.raises(Lost):
        take(bob, again=True)


def test_taking_again_renews_all_slots_that_one_has(alice: Board) -> None:
    take(alice, 3, lease=60)
    second = take(alice, lease=60)
    assert take(alice, again=True, lease=600).slot == 0
    assert [(hold.slot, (hold.until or 0) > (second.until or 0) + 300) for hold in alice.holds.list()] == [
        (0, True),
        (1, True),
    ]


def test_taking_again_after_the_lease_ran_out_is_a_new_grant(place: Place, alice: Board) -> None:
    take(alice, 1, lease=60)
    place.advance(61)
    assert take(alice, again=True).epoch == 2
