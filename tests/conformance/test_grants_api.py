"""Claims and holdings as Python objects: how they end, renew themselves and report a loss."""

# ruff: noqa: PT012  (it is the end of a block that raises)

from __future__ import annotations

import threading
from contextlib import suppress
from threading import Event as Signal
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

from tiebreak import Board, Claim, Fenced, Holding, Lost, handles

from .engines import Place

SOON = 60.0


def break_hold(board: Board, resource: str = "lock:deploy") -> None:
    board.call("holds.break", {"resource": resource, "reason": "stuck"})


def noticed(grant: Claim | Holding) -> Signal:
    """A signal that is given when the loss of a grant is noticed."""
    signal = Signal()
    grant.on_loss = signal.set
    return signal


# ── Claims ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_claim_completes_at_the_end_of_its_block(alice: Board) -> None:
    with alice.claim("work") as claim:
        assert (claim.task.state, claim.epoch) == ("claimed", 1)
    assert alice.tasks.get(ref="work").state == "completed"


def test_an_exception_fails_the_task_with_its_text_and_goes_on(alice: Board) -> None:
    with pytest.raises(ValueError, match="no such luck"), alice.claim("work"):
        raise ValueError("no such luck")
    task = alice.tasks.get(ref="work")
    assert (task.state, task.reason, task.attempts) == ("pending", "ValueError: no such luck", 1)


@pytest.mark.parametrize(
    "text",
    ["", "two\nlines", "\x1b[31mred", "x" * 5000, "wide\u3000space", "no\u00a0break", "lone \ud800", "\u202etrick"],
    ids=ascii,
)
def test_no_text_of_an_exception_prevents_the_failure(alice: Board, text: str) -> None:
    with pytest.raises(ValueError) as raised, alice.claim("work"):  # noqa: PT011
        raise ValueError(text)
    assert raised.value.args == (text,)
    reason = alice.tasks.get(ref="work").reason
    assert reason is not None
    assert reason.startswith("ValueError")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_gives_the_task_back_without_using_up_the_attempt(
    alice: Board, interruption: type[BaseException]
) -> None:
    with pytest.raises(interruption), alice.claim("work"):
        raise interruption
    task = alice.tasks.get(ref="work")
    assert (task.state, task.attempts, task.epoch) == ("pending", 0, 1)


@pytest.mark.parametrize(("end", "state"), [("complete", "completed"), ("fail", "pending"), ("release", "pending")])
def test_a_claim_that_was_ended_inside_is_not_ended_again(alice: Board, end: str, state: str) -> None:
    with alice.claim("work") as claim:
        getattr(claim, end)()
        after = alice.events.last()
    assert claim.task.state == alice.tasks.get(ref="work").state == state
    assert alice.events.last() == after


def test_a_result_that_was_given_inside_is_kept(alice: Board) -> None:
    with alice.claim("work") as claim:
        claim.complete({"tests": 12})
    assert alice.tasks.get(ref="work").result == {"tests": 12}


def test_a_completion_can_be_announced_in_the_same_step(alice: Board) -> None:
    with alice.claim("work") as claim:
        done = claim.complete(ack=True, ack_name="it works", ack_priority="high", ack_payload=[1])
    ack = alice.tasks.list(kind="ack")[0]
    assert (ack.name, ack.priority, ack.payload, ack.about) == ("it works", "high", [1], done.id)


def test_a_failure_inside_can_be_the_last(alice: Board) -> None:
    with alice.claim("work") as claim:
        claim.fail("hopeless", retry=False)
    assert alice.tasks.get(ref="work").state == "failed"


def test_a_claim_that_is_not_a_block_stays_until_it_is_ended(alice: Board) -> None:
    claim = alice.claim("work")
    assert alice.tasks.get(ref="work").state == "claimed"
    claim.complete()
    assert alice.tasks.get(ref="work").state == "completed"


@pytest.mark.parametrize("end", ["complete", "fail", "release"])
def test_a_claim_is_not_ended_twice(alice: Board, end: str) -> None:
    claim = alice.claim("work")
    claim.complete()
    with pytest.raises(Fenced):
        getattr(claim, end)()
    assert alice.tasks.get(ref="work").state == "completed"


def test_every_task_that_next_wins_has_its_own_claim(alice: Board) -> None:
    for i in range(3):
        alice.tasks.post(name=f"work {i}")
    claims = alice.next(count=2)
    assert [(claim.task.name, claim.epoch) for claim in claims] == [("work 0", 1), ("work 1", 1)]


def test_a_refused_claim_says_who_has_it(alice: Board, bob: Board) -> None:
    with alice.claim("work"), pytest.raises(Lost) as refusal:
        bob.claim("work")
    assert refusal.value.holder == "alice"


def test_an_unknown_task_is_only_made_when_wanted(alice: Board) -> None:
    with pytest.raises(Exception, match="no task"):
        alice.claim("work", create=False)


def test_a_claim_acts_in_the_project_of_its_task(place: Place, alice: Board) -> None:
    task = place.open("bob", project="other").tasks.post(name="work")
    with alice.claim(task.id):
        pass
    assert alice.tasks.get(ref=task.id).state == "completed"


# ── Losing a claim ───────────────────────────────────────────────────────────────────────────────────


def test_a_cancelled_task_is_not_completed_and_the_loser_is_told(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced), alice.claim("work"):
        bob.tasks.cancel(ref="work")
    assert alice.tasks.get(ref="work").state == "cancelled"


def test_a_task_that_passed_on_is_not_completed_by_its_old_holder(place: Place, alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced), alice.claim("work", lease=60):
        place.advance(61)
        bob.tasks.claim(ref="work")
    task = alice.tasks.get(ref="work")
    assert (task.state, task.holder, task.epoch) == ("claimed", "bob", 2)


def test_a_task_that_came_back_to_the_same_agent_is_still_another_grant(place: Place, alice: Board) -> None:
    with pytest.raises(Fenced), alice.claim("work", lease=60):
        place.advance(61)
        alice.tasks.claim(ref="work")
    assert alice.tasks.get(ref="work").state == "claimed"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_loss_does_not_hide_what_went_wrong_inside(alice: Board, bob: Board, error: type[BaseException]) -> None:
    with pytest.raises(error), alice.claim("work"):
        bob.tasks.cancel(ref="work")
        raise error
    assert alice.tasks.get(ref="work").state == "cancelled"


def test_a_loss_is_noticed_while_the_work_goes_on(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced), alice.claim("work", lease=0.3) as claim:
        lost = noticed(claim)
        bob.tasks.cancel(ref="work")
        assert lost.wait(SOON)
        with pytest.raises(Fenced):
            claim.check()
    assert alice.tasks.get(ref="work").state == "cancelled"


def test_a_noticed_loss_does_not_hide_what_went_wrong_inside(alice: Board, bob: Board) -> None:
    with pytest.raises(ValueError, match="inside"), alice.claim("work", lease=0.3) as claim:
        lost = noticed(claim)
        bob.tasks.cancel(ref="work")
        assert lost.wait(SOON)
        raise ValueError("inside")


# ── Holdings ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_holding_is_given_back_however_its_block_ends(alice: Board, error: type[BaseException] | None) -> None:
    with suppress(ValueError, KeyboardInterrupt), alice.hold("lock:a", "lock:b"):
        assert len(alice.holds.list()) == 2
        if error:
            raise error
    assert alice.holds.list() == []


def test_a_holding_that_is_not_a_block_stays(alice: Board) -> None:
    holding = alice.hold("lock:deploy")
    assert (holding.epoch, holding.slot) == (1, 0)
    assert len(alice.holds.list()) == 1


def test_a_holding_knows_its_slot_and_gives_that_one_back(alice: Board) -> None:
    first, second = alice.hold("pool:ports", slots=2), alice.hold("pool:ports")
    assert (first.slot, second.slot) == (0, 1)
    second.release()
    assert [hold.slot for hold in alice.holds.list()] == [0]


def test_a_holding_says_which_grants_it_released(alice: Board) -> None:
    with alice.hold("lock:deploy") as holding:
        pass
    assert [(done.resource, done.epoch) for done in holding.released] == [("lock:deploy", 1)]


def test_a_holding_that_was_given_back_inside_is_not_given_back_again(alice: Board, bob: Board) -> None:
    with alice.hold("lock:deploy") as holding:
        holding.release()
        bob.hold("lock:deploy")
    assert [hold.holder for hold in bob.holds.list()] == ["bob"]


def test_a_holding_is_not_given_back_twice(alice: Board, bob: Board) -> None:
    holding = alice.hold("lock:deploy")
    holding.release()
    bob.hold("lock:deploy")
    with pytest.raises(Fenced):
        holding.release()
    assert [hold.holder for hold in bob.holds.list()] == ["bob"]


def test_a_holding_passes_on_what_it_was_asked_for(alice: Board) -> None:
    alice.hold("lock:deploy", lease="5m", note="rollout")
    hold = alice.holds.list()[0]
    assert hold.note == "rollout"
    assert (hold.until or 0) - (hold.taken_at or 0) == pytest.approx(300)


def test_a_holding_can_be_taken_again(alice: Board) -> None:
    alice.hold("lock:deploy")
    assert alice.hold("lock:deploy", again=True).epoch == 1


def test_blocks_within_blocks_end_one_by_one(alice: Board) -> None:
    with alice.hold("lock:deploy"):
        with alice.claim("work"), alice.hold("seat:review"):
            assert len(alice.holds.list()) == 2
        assert [hold.resource for hold in alice.holds.list()] == ["lock:deploy"]
        assert alice.tasks.get(ref="work").state == "completed"
    assert alice.holds.list() == []


def test_an_inner_failure_ends_the_outer_blocks_too(alice: Board) -> None:
    with pytest.raises(ValueError, match="inside"), alice.hold("lock:deploy"), alice.claim("work"):
        raise ValueError("inside")
    assert (alice.holds.list(), alice.tasks.get(ref="work").attempts) == ([], 1)


# ── Losing a holding ─────────────────────────────────────────────────────────────────────────────────


def test_a_broken_hold_is_told_at_the_end_of_the_block(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced), alice.hold("lock:deploy"):
        break_hold(bob)


def test_the_next_holder_keeps_what_the_old_one_gives_back_too_late(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced), alice.hold("lock:deploy"):
        break_hold(bob)
        bob.hold("lock:deploy")
    assert [hold.holder for hold in bob.holds.list()] == ["bob"]


def test_a_broken_hold_is_noticed_while_the_work_goes_on(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced), alice.hold("lock:deploy", lease=0.3) as holding:
        lost = noticed(holding)
        break_hold(bob)
        assert lost.wait(SOON)
        with pytest.raises(Fenced):
            holding.check()


def test_losing_one_of_several_holds_loses_the_holding(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced), alice.hold("lock:a", "lock:b", lease=0.3) as holding:
        lost = noticed(holding)
        break_hold(bob, "lock:b")
        assert lost.wait(SOON)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_broken_hold_does_not_hide_what_went_wrong_inside(
    alice: Board, bob: Board, error: type[BaseException]
) -> None:
    with pytest.raises(error), alice.hold("lock:deploy"):
        break_hold(bob)
        raise error


# ── Losing a grant long before its next renewal ──────────────────────────────────────────────────────


def hand_over(board: Board) -> None:
    board.holds.transfer(resource="lock:deploy", to="bob~test")


def test_the_one_who_asked_hears_of_a_broken_hold_at_once(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced, match="bob broke your hold: stuck"), alice.hold("lock:deploy", lease="1h") as holding:
        lost = noticed(holding)
        break_hold(bob)
        assert lost.wait(SOON)


def test_a_hold_that_was_broken_before_somebody_asked_is_heard_of_too(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced), alice.hold("lock:deploy", lease="1h") as holding:
        break_hold(bob)
        assert noticed(holding).wait(SOON)


def test_a_callback_that_is_set_before_the_block_hears_of_it_too(alice: Board, bob: Board) -> None:
    holding = alice.hold("lock:deploy", lease="1h")
    lost = noticed(holding)
    with pytest.raises(Fenced), holding:
        break_hold(bob)
        assert lost.wait(SOON)


def test_a_hold_that_the_same_agent_handed_over_elsewhere_is_lost_at_once(alice: Board, place: Place) -> None:
    with pytest.raises(Fenced, match="held by bob"), alice.hold("lock:deploy", lease="1h") as holding:
        lost = noticed(holding)
        hand_over(place.open("alice"))
        assert lost.wait(SOON)


def test_losing_one_of_several_holds_is_heard_of_at_once(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced, match="lock:b: bob broke"), alice.hold("lock:a", "lock:b", lease="1h") as holding:
        lost = noticed(holding)
        break_hold(bob, "lock:b")
        assert lost.wait(SOON)


def test_a_neighbour_that_lost_its_slot_is_not_taken_for_a_loss(alice: Board, bob: Board) -> None:
    bob.hold("pool:ports", slots=2)
    with pytest.raises(Fenced, match="bob broke your hold: stuck"), alice.hold("pool:ports", lease="1h") as holding:
        lost = noticed(holding)
        bob.call("holds.break", {"resource": "pool:ports", "slot": 0, "reason": "not yours"})
        bob.call("holds.break", {"resource": "pool:ports", "slot": 1, "reason": "stuck"})
        assert lost.wait(SOON)


def test_a_cancelled_claim_is_heard_of_at_once(alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced, match="cancelled"), alice.claim("work", lease="1h") as claim:
        lost = noticed(claim)
        bob.tasks.cancel(ref="work")
        assert lost.wait(SOON)


def test_a_claim_that_lapsed_and_passed_on_is_lost_at_once(place: Place, alice: Board, bob: Board) -> None:
    with pytest.raises(Fenced, match="held by bob"), alice.claim("work", lease="1h") as claim:
        lost = noticed(claim)
        place.advance(3601)
        bob.tasks.claim(ref="work")
        assert lost.wait(SOON)


def test_what_happens_to_others_costs_the_holder_no_renewal(alice: Board, bob: Board) -> None:
    with alice.hold("lock:deploy", lease="1h") as holding:
        lost = noticed(holding)
        for number in range(3):
            with bob.hold(f"lock:{number}"):
                pass
            with pytest.raises(Lost):
                bob.hold("lock:deploy")
        assert not lost.is_set()
    assert [event.event for event in alice.events.read(subject="lock:deploy", event="hold.renewed")] == []


def watches() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "watch for a loss"}


def test_only_a_grant_that_somebody_asked_about_is_watched(alice: Board) -> None:
    before = watches()  # those of other tests may end later
    with alice.hold("lock:deploy") as holding:
        assert watches() <= before
        noticed(holding)
        assert len(watches() - before) == 1


# ── Renewing ─────────────────────────────────────────────────────────────────────────────────────────


class Hasty(Signal):
    """One on which nobody waits for long."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(0.05 if timeout is None else min(timeout, 0.05))


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grants are renewed many times a second, so that a test can have leases that outlive any stall."""
    monkeypatch.setattr(handles, "threading", SimpleNamespace(**{**vars(threading), "Event": Hasty}))


def outlive(place: Place, board: Board, event: str, lease: float) -> None:
    """Let several leases of board time pass, a part of one before each renewal."""
    for _ in range(6):
        place.advance(lease / 3)
        board.wait(after=board.events.last(), event=event, timeout=SOON)


@pytest.mark.usefixtures("eager")
def test_a_holding_renews_itself_while_its_block_lasts(place: Place, alice: Board, bob: Board) -> None:
    with alice.hold("lock:deploy", lease=60) as holding:
        outlive(place, bob, "hold.renewed", 60)
        holding.check()
        assert [(hold.holder, hold.epoch) for hold in bob.holds.list()] == [("alice", 1)]


@pytest.mark.usefixtures("eager")
def test_a_claim_renews_itself_while_its_block_lasts(place: Place, alice: Board, bob: Board) -> None:
    with alice.claim("work", lease=60) as claim:
        outlive(place, bob, "task.extended", 60)
        claim.check()
    task = bob.tasks.get(ref="work")
    assert (task.state, task.epoch) == ("completed", 1)


@pytest.mark.usefixtures("eager")
def test_nothing_is_renewed_after_the_end_of_the_block(alice: Board) -> None:
    with alice.hold("lock:deploy", lease=60) as holding:
        lost = noticed(holding)
    assert not lost.wait(0.4)  # a renewal now could only find that it came too late


@pytest.mark.usefixtures("eager")
def test_giving_back_early_is_not_taken_for_a_loss(alice: Board) -> None:
    with alice.hold("lock:deploy", lease=60) as holding:
        lost = noticed(holding)
        holding.release()
        assert not lost.wait(0.4)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("end", ["complete", "fail", "release"])
def test_ending_a_claim_early_is_not_taken_for_a_loss(alice: Board, end: str) -> None:
    with alice.claim("work", lease=60) as claim:
        lost = noticed(claim)
        getattr(claim, end)()
        assert not lost.wait(0.4)


def test_a_grant_can_be_renewed_by_hand(place: Place, alice: Board) -> None:
    claim, holding = alice.claim("work", lease=60), alice.hold("lock:deploy", lease=60)
    place.advance(50)
    claim.renew()
    holding.renew()
    place.advance(50)
    assert alice.tasks.get(ref="work").state == "claimed"
    assert len(alice.holds.list()) == 1


def test_a_grant_that_was_lost_cannot_be_renewed_by_hand(place: Place, alice: Board, bob: Board) -> None:
    grants: list[Any] = [alice.claim("work", lease=60), alice.hold("lock:deploy", lease=60)]
    place.advance(61)
    bob.tasks.claim(ref="work")
    bob.holds.take(resources=["lock:deploy"])
    for grant in grants:
        with pytest.raises(Fenced):
            grant.renew()


def test_a_live_grant_passes_its_check(alice: Board) -> None:
    alice.claim("work").check()
    alice.hold("lock:deploy").check()


def test_a_lease_that_nobody_renewed_does_not_pass_its_check(alice: Board) -> None:
    holding = alice.hold("lock:deploy", lease=0.02)
    end = monotonic() + SOON
    while holding.left() > 0 and monotonic() < end:
        sleep(0.005)
    with pytest.raises(Fenced):
        holding.check()


def test_a_slow_answer_does_not_make_a_lease_look_longer(alice: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    holding = alice.hold("lock:deploy", lease=60)
    run = alice.engine.run

    def slow(*args: Any) -> Any:
        answer = run(*args)
        sleep(0.1)
        return answer

    monkeypatch.setattr(alice.engine, "run", slow)
    holding.renew()
    assert holding.left() <= 60 - 0.1
