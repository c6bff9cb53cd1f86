"""Cancelling and retrying: anybody may decide about a task, but a finished task stays finished."""

from __future__ import annotations

import pytest

from tiebreak import Board
from tiebreak.errors import Refused
from tiebreak.names import FINAL, STATES

from .engines import Place
from .tasks_support import changes, claimed, in_state, unchanged

# ── Calling off ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", ["blocked", "pending", "claimed"])
def test_anybody_can_cancel_an_unfinished_task(alice: Board, bob: Board, state: str) -> None:
    task = in_state(alice, state)

    off = bob.tasks.cancel(ref=task.id, reason="not needed")

    assert (off.state, off.reason, off.holder, off.until) == ("cancelled", "not needed", None, None)
    assert (off.blockers, off.epoch, off.finished_at) == (0, task.epoch, off.updated_at)


@pytest.mark.parametrize("state", FINAL)
def test_a_late_cancel_does_not_undo_a_finished_task(alice: Board, bob: Board, state: str) -> None:
    task = in_state(alice, state)

    with unchanged(alice), pytest.raises(Refused, match=state):
        bob.tasks.cancel(ref=task.id)


def test_a_lapsed_claim_can_be_cancelled(place: Place, alice: Board) -> None:
    task = claimed(alice, lease=10)
    place.advance(10)

    assert alice.tasks.cancel(ref=task.id).state == "cancelled"


def test_a_lapsed_last_attempt_can_be_cancelled_until_its_failure_is_written(place: Place, alice: Board) -> None:
    task = claimed(alice, max_attempts=1, lease=10)
    place.advance(10)

    assert alice.tasks.cancel(ref=task.id).state == "cancelled"


def test_a_written_last_lapse_cannot_be_cancelled(place: Place, alice: Board) -> None:
    task = claimed(alice, max_attempts=1, lease=10)
    place.advance(10)
    alice.tasks.sweep()

    with unchanged(alice), pytest.raises(Refused, match="failed"):
        alice.tasks.cancel(ref=task.id)


def test_a_cancelled_delay_never_becomes_ready(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="later", delay=10)
    alice.tasks.cancel(ref=task.id)
    place.advance(10)

    assert alice.tasks.next() == []


def test_the_log_tells_who_cancelled_it_and_why(alice: Board, bob: Board) -> None:
    bob.tasks.cancel(ref=claimed(alice).id, reason="not needed")

    last = changes(alice)[-1]
    assert (last.event, last.agent, last.state, last.note) == (
        "task.cancelled",
        "bob",
        "cancelled",
        "not needed",
    )


# ── Reopening ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_reopened_task_starts_afresh_but_keeps_its_epoch(alice: Board, bob: Board, state: str) -> None:
    task = in_state(alice, state)

    again = bob.tasks.retry(ref=task.id)

    assert (again.state, again.attempts, again.epoch, again.holder) == ("pending", 0, 1, None)
    assert (again.finished_at, again.ready_at) == (None, None)


@pytest.mark.parametrize("state", [state for state in STATES if state not in ("failed", "cancelled")])
def test_only_failed_or_cancelled_tasks_can_be_reopened(alice: Board, state: str) -> None:
    task = in_state(alice, state)

    with unchanged(alice), pytest.raises(Refused, match=state):
        alice.tasks.retry(ref=task.id)


def test_a_lapsed_last_attempt_can_be_reopened(place: Place, alice: Board) -> None:
    task = claimed(alice, max_attempts=1, lease=10)
    place.advance(10)

    again = alice.tasks.retry(ref=task.id)
    assert (again.state, again.attempts, again.epoch) == ("pending", 0, 1)


def test_a_claim_that_lapsed_with_attempts_left_needs_no_reopening(place: Place, alice: Board) -> None:
    task = claimed(alice, lease=10)
    place.advance(10)

    with unchanged(alice), pytest.raises(Refused, match="pending"):
        alice.tasks.retry(ref=task.id)


def test_a_reopened_task_gets_all_its_attempts_again(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="flaky", max_attempts=2)
    alice.tasks.claim(ref=task.id)
    alice.tasks.fail(ref=task.id, retry=False)
    alice.tasks.retry(ref=task.id)
    alice.tasks.claim(ref=task.id)

    assert alice.tasks.fail(ref=task.id).state == "pending"


def test_the_log_tells_who_reopened_it_and_why(alice: Board, bob: Board) -> None:
    task = in_state(alice, "failed")
    bob.tasks.retry(ref=task.id, reason="fixed")

    last = changes(alice)[-1]
    assert (last.event, last.agent, last.state, last.note) == ("task.reopened", "bob", "pending", "fixed")
