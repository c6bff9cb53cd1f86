"""Holds that change hands: handed over by their holder, or broken by an operator."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board, Fenced, Hold, Invalid, Lost, NotFound, Refused

from .engines import Place

LOCK = "lock:deploy"


def break_hold(board: Board, resource: str = LOCK, reason: str = "stuck", **more: Any) -> Hold:
    hold: Hold = board.call("holds.break", {"resource": resource, "reason": reason, **more})
    return hold


# ── Handing over ─────────────────────────────────────────────────────────────────────────────────────


def test_a_handover_is_a_new_grant(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=[LOCK], lease=60)
    place.advance(10)
    hold = alice.holds.transfer(resource=LOCK, to=bob.agent, lease=600)
    assert (hold.holder, hold.epoch) == ("bob", 2)
    assert (hold.until or 0) - (hold.taken_at or 0) == pytest.approx(600)


def test_the_giver_is_fenced_at_once(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=[LOCK])
    alice.holds.transfer(resource=LOCK, to=bob.agent)
    with pytest.raises(Fenced):
        alice.holds.release(resources=[LOCK])


def test_the_receiver_can_work_with_what_it_was_given(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=[LOCK])
    hold = alice.holds.transfer(resource=LOCK, to=bob.agent)
    assert bob.holds.renew(resources=[LOCK], epochs=[hold.epoch])[0].epoch == 2


def test_a_hold_handed_to_a_bare_name_can_be_used_by_that_agent(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=[LOCK])
    bob.agents.announce()
    alice.holds.transfer(resource=LOCK, to="bob")
    assert bob.holds.renew(resources=[LOCK])[0].holder == "bob"


def test_nobody_else_gets_in_between_during_a_handover(alice: Board, bob: Board, place: Place) -> None:
    alice.holds.take(resources=[LOCK])
    alice.holds.transfer(resource=LOCK, to=bob.agent)
    with pytest.raises(Lost) as refusal:
        place.open("carol").holds.take(resources=[LOCK])
    assert (refusal.value.holder, refusal.value.epoch) == ("bob", 2)


def test_a_handed_over_hold_that_expires_is_lost_by_its_receiver(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=[LOCK])
    alice.holds.transfer(resource=LOCK, to=bob.agent, lease=60)
    place.advance(61)
    assert alice.holds.take(resources=[LOCK])[0].epoch == 3
    assert [(e.agent, e.epoch) for e in alice.events.read(event="hold.expired")] == [("bob", 2)]


def test_the_log_says_who_handed_over_to_whom(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=[LOCK])
    alice.holds.transfer(resource=LOCK, to=bob.agent)
    event = alice.events.read(event="hold.transferred")[0]
    assert (event.agent, event.epoch, event.note) == ("bob", 2, "handed over by alice")


def test_a_handover_does_not_put_two_agents_on_one_file(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/**", "file:src/a.py"])
    with pytest.raises(Refused):
        alice.holds.transfer(resource="file:src/a.py", to=bob.agent)


def test_a_handover_that_is_refused_is_not_told_as_the_receivers_failure(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/**", "file:src/a.py"])
    with pytest.raises(Refused):
        alice.holds.transfer(resource="file:src/a.py", to=bob.agent)
    alice.messages.send(body="a write that carries refusals")
    assert bob.events.read(agent="bob") == []


def test_a_late_giver_is_fenced_whatever_else_is_in_the_way(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/a.py"], lease=60)
    place.advance(61)
    bob.holds.take(resources=["file:src/**"])
    with pytest.raises(Fenced):
        alice.holds.transfer(resource="file:src/a.py", to="carol~test", epoch=1)


def test_a_hold_is_not_handed_to_somebody_who_is_not_here(alice: Board) -> None:
    alice.holds.take(resources=[LOCK])
    with pytest.raises(NotFound):
        alice.holds.transfer(resource=LOCK, to="nobody")
    assert alice.holds.list()[0].holder == "alice"


def test_a_bare_name_means_the_incarnation_that_was_seen_last(place: Place, alice: Board) -> None:
    place.open("bob~old").agents.announce()
    place.advance(60)
    new = place.open("bob~new")
    new.agents.announce()
    alice.holds.take(resources=[LOCK])
    alice.holds.transfer(resource=LOCK, to="bob")
    assert new.holds.renew(resources=[LOCK])[0].epoch == 2


@pytest.mark.parametrize(
    "wrong",
    [{"to": ""}, {"to": "no body"}, {"lease": 0}, {"epoch": -1}, {"slot": -1}, {"resource": "x"}],
    ids=str,
)
def test_a_handover_with_wrong_parameters_is_refused(alice: Board, wrong: dict[str, Any]) -> None:
    alice.holds.take(resources=[LOCK])
    with pytest.raises(Invalid):
        alice.call("holds.transfer", {"resource": LOCK, "to": "bob~test", **wrong})
    assert alice.holds.list()[0].holder == "alice"


# ── Breaking ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_broken_hold_is_free_and_its_epoch_is_kept(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=[LOCK])
    broken = break_hold(place.open("operator"))
    assert (broken.holder, broken.until, broken.epoch) == (None, None, 1)
    assert bob.holds.take(resources=[LOCK])[0].epoch == 2


def test_the_holder_of_a_broken_hold_is_fenced(place: Place, alice: Board) -> None:
    alice.holds.take(resources=[LOCK])
    break_hold(place.open("operator"))
    with pytest.raises(Fenced):
        alice.holds.renew(resources=[LOCK], epochs=[1])


def test_everybody_can_read_who_broke_whose_hold_and_why(place: Place, alice: Board) -> None:
    alice.holds.take(resources=[LOCK])
    break_hold(place.open("operator"), reason="laptop was stolen")
    event = alice.events.read(event="hold.broken")[0]
    assert (event.agent, event.epoch) == ("operator", 1)
    assert event.note is not None
    assert "alice" in event.note
    assert "laptop was stolen" in event.note


def test_a_broken_hold_does_not_expire_as_well(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=[LOCK], lease=60)
    break_hold(bob)
    place.advance(61)
    bob.holds.take(resources=[LOCK])
    assert bob.events.read(event="hold.expired") == []


@pytest.mark.parametrize("after", [0, 61], ids=["never held", "expired"])
def test_breaking_what_nobody_holds_is_refused(place: Place, alice: Board, bob: Board, after: float) -> None:
    if after:
        alice.holds.take(resources=[LOCK], lease=60)
        place.advance(after)
    before = bob.events.last()
    with pytest.raises(NotFound):
        break_hold(bob)
    assert bob.events.last() == before


@pytest.mark.parametrize("reason", [None, "", "  ", "two\nlines", "x" * 4001])
def test_nothing_is_broken_without_a_reason(alice: Board, bob: Board, reason: Any) -> None:
    alice.holds.take(resources=[LOCK])
    with pytest.raises(Invalid):
        break_hold(bob, reason=reason)
    assert alice.holds.list()[0].holder == "alice"


def test_breaking_one_hold_leaves_the_others_of_its_holder(place: Place, alice: Board) -> None:
    alice.holds.take(resources=[LOCK, "lock:other"])
    break_hold(place.open("operator"))
    assert [hold.resource for hold in alice.holds.list()] == ["lock:other"]


def test_breaking_in_one_project_does_not_reach_another(place: Place, alice: Board) -> None:
    alice.holds.take(resources=[LOCK])
    with pytest.raises(NotFound):
        break_hold(place.open("operator", project="other"))
    assert alice.holds.list()[0].holder == "alice"
