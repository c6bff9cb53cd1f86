"""A claim whose lease ran out can be won by anybody at once; it is over when its lapse is written."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board
from tiebreak.errors import Fenced, Lost, Refused
from tiebreak.model import Task

from .engines import Place
from .tasks_support import changes, claimed, happened, unchanged

LEASE = 10.0


# ── What is seen ─────────────────────────────────────────────────────────────────────────────────────


def test_a_lapsed_claim_is_seen_as_pending_without_a_holder(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE)

    seen = bob.tasks.get(ref=task.id)
    assert (seen.state, seen.holder, seen.until, seen.lapsed) == ("pending", None, None, True)
    assert (seen.epoch, seen.attempts) == (1, 1)


def test_a_claim_is_seen_as_held_until_its_last_moment(place: Place, alice: Board) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE - 0.001)

    assert alice.tasks.get(ref=task.id) == task


def test_a_lapsed_claim_is_listed_as_pending(place: Place, alice: Board) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE)

    assert [found.id for found in alice.tasks.list(states=["pending"])] == [task.id]
    assert alice.tasks.list(states=["claimed"]) == []


def test_a_lapsed_claim_is_not_listed_under_its_old_holder(place: Place, alice: Board) -> None:
    claimed(alice, lease=LEASE)
    place.advance(LEASE)

    assert alice.tasks.list(agent="alice") == []


def test_a_lapsed_last_attempt_is_not_seen_as_final_before_that_is_written(place: Place, alice: Board) -> None:
    task = claimed(alice, max_attempts=1, lease=LEASE)
    place.advance(LEASE)

    seen = alice.tasks.get(ref=task.id)
    assert (seen.state, seen.holder, seen.until, seen.lapsed) == ("claimed", "alice", task.until, True)
    assert [found.id for found in alice.tasks.list(states=["claimed"])] == [task.id]
    assert alice.tasks.list(states=["failed"]) == []
    assert [found.id for found in alice.tasks.list(agent="alice")] == [task.id]


def test_a_completion_of_a_lapsed_last_attempt_is_never_preceded_by_a_failure(place: Place, alice: Board) -> None:
    task = claimed(alice, max_attempts=1, lease=LEASE)
    place.advance(LEASE)
    seen = [alice.tasks.get(ref=task.id).state]
    seen.append(alice.tasks.complete(ref=task.id, epoch=task.epoch).state)
    seen.append(alice.tasks.get(ref=task.id).state)

    assert seen == ["claimed", "completed", "completed"]
    assert happened(alice, task) == ["posted", "claimed", "completed"]


@pytest.mark.parametrize("write", ["extend", "complete", "fail", "release"])
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_late_holder_may_still_write_until_another_wins(
    place: Place, alice: Board, write: str, attempts: int
) -> None:
    task = claimed(alice, max_attempts=attempts, lease=LEASE)
    place.advance(LEASE)

    written = alice.call(f"tasks.{write}", {"ref": task.id, "epoch": task.epoch})
    assert (written.epoch, written.lapsed) == (1, False)
    assert "expired" not in happened(alice, task)


def test_a_check_is_refused_after_the_lease_ran_out(place: Place, alice: Board) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE)

    with pytest.raises(Fenced, match="your lease ran out"):
        alice.tasks.check(ref=task.id, epoch=task.epoch)
    alice.tasks.extend(ref=task.id, epoch=task.epoch)
    assert alice.tasks.check(ref=task.id, epoch=task.epoch).holder == "alice"


def test_reading_a_lapsed_claim_changes_nothing(place: Place, alice: Board) -> None:
    claimed(alice, lease=LEASE)
    place.advance(LEASE)

    with unchanged(alice):
        alice.tasks.list()


# ── What can be won ──────────────────────────────────────────────────────────────────────────────────


def test_a_lapsed_claim_can_be_won_by_another(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE)

    won = bob.tasks.claim(ref=task.id)
    assert (won.holder, won.epoch, won.attempts) == ("bob", 2, 2)


def test_a_claim_cannot_be_won_in_its_last_moment(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE - 0.001)

    with unchanged(alice), pytest.raises(Lost):
        bob.tasks.claim(ref=task.id)


def test_a_lapsed_claim_can_be_won_back_by_its_holder(place: Place, alice: Board) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE)

    assert alice.tasks.claim(ref=task.id).epoch == 2


def test_a_lapsed_claim_comes_back_without_a_backoff(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="work", backoff=1000)
    alice.tasks.claim(ref=task.id, lease=LEASE)
    place.advance(LEASE)

    assert [won.id for won in alice.tasks.next()] == [task.id]


def test_a_lapsed_last_attempt_cannot_be_won(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(alice, max_attempts=1, lease=LEASE)
    place.advance(LEASE)

    with pytest.raises(Refused, match="failed") as refusal:
        bob.tasks.claim(ref=task.id)
    assert not isinstance(refusal.value, Lost)
    assert alice.tasks.get(ref=task.id).state == "failed", "what was told is written"
    assert happened(alice, task) == ["posted", "claimed", "expired"]


def test_lapses_use_attempts_up(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="work", max_attempts=3)
    for _ in range(3):
        alice.tasks.claim(ref=task.id, lease=LEASE)
        place.advance(LEASE)
    alice.tasks.sweep()

    assert alice.tasks.get(ref=task.id).state == "failed"


# ── What is written down ─────────────────────────────────────────────────────────────────────────────


def settle(board: Board, way: str, task: Task) -> None:
    """Do something that finds the lapse of a task."""
    params: dict[str, dict[str, Any]] = {"claim": {"ref": task.id}, "claim_many": {"refs": [task.id]}}
    board.call(f"tasks.{way}", params.get(way, {}))


@pytest.mark.parametrize("way", ["claim", "claim_many", "next", "sweep"])
def test_the_log_tells_whose_lease_ran_out(place: Place, alice: Board, bob: Board, way: str) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE)

    settle(bob, way, task)

    (expired,) = bob.events.read(event="task.expired")
    assert (expired.subject, expired.agent, expired.epoch) == (task.id, "alice", 1)


@pytest.mark.parametrize("way", ["claim", "claim_many", "next", "sweep"])
def test_whoever_waits_for_a_free_task_sees_it_lapse(place: Place, alice: Board, bob: Board, way: str) -> None:
    task = claimed(alice, lease=LEASE)
    newest = alice.events.last()
    place.advance(LEASE)

    settle(bob, way, task)

    freed = bob.events.read(after=newest, subject=task.id, state="pending")
    assert [event.event for event in freed] == ["task.expired"]


def test_a_lapse_is_in_the_log_also_when_somebody_reopens_the_task(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(alice, max_attempts=1, lease=LEASE)
    place.advance(LEASE)

    bob.tasks.retry(ref=task.id)

    assert happened(alice, task) == ["posted", "claimed", "expired", "reopened"]


def test_the_lapse_comes_before_the_next_claim(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE)
    bob.tasks.claim(ref=task.id)

    assert happened(alice, task) == ["posted", "claimed", "expired", "claimed"]


def test_a_lapse_is_written_down_once(place: Place, alice: Board) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE)
    swept = [alice.tasks.sweep() for _ in range(2)]

    assert swept == [1, 0]
    assert happened(alice, task) == ["posted", "claimed", "expired"]


def test_sweeping_does_not_touch_a_live_claim(place: Place, alice: Board) -> None:
    claimed(alice, lease=LEASE)
    place.advance(LEASE - 0.001)

    with unchanged(alice):
        assert alice.tasks.sweep() == 0


def test_sweeping_one_project_leaves_the_others_alone(place: Place, alice: Board) -> None:
    claimed(place.open("bob", "other"), lease=LEASE)
    place.advance(LEASE)

    with unchanged(alice):
        assert alice.tasks.sweep() == 0
    assert alice.tasks.sweep(project="other") == 1


def test_sweeping_changes_nothing_that_could_be_seen_before(place: Place, alice: Board) -> None:
    task = claimed(alice, max_attempts=2, lease=LEASE)
    place.advance(LEASE)
    before = alice.tasks.get(ref=task.id)
    alice.tasks.sweep()

    after = alice.tasks.get(ref=task.id)
    assert (after.state, after.holder, after.until) == (before.state, before.holder, before.until)
    assert (after.epoch, after.attempts) == (before.epoch, before.attempts)


def test_a_lapsed_last_attempt_says_why_it_failed(place: Place, alice: Board) -> None:
    task = claimed(alice, max_attempts=1, lease=LEASE)
    place.advance(LEASE)
    alice.tasks.sweep()

    failed = alice.tasks.get(ref=task.id)
    assert (failed.state, failed.finished_at) == ("failed", failed.updated_at)
    assert "lease" in (failed.reason or "")


# ── What comes after ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["next", "sweep"])
def test_what_comes_after_a_lapsed_last_attempt_is_cancelled_with_it(place: Place, alice: Board, way: str) -> None:
    first = claimed(alice, max_attempts=1, lease=LEASE)
    second = alice.tasks.post(name="second", after=[first.id])
    third = alice.tasks.post(name="third", after=[second.id])
    place.advance(LEASE)

    alice.call(f"tasks.{way}")

    assert [alice.tasks.get(ref=task.id).state for task in (first, second, third)] == [
        "failed",
        "cancelled",
        "cancelled",
    ]


def test_what_comes_after_a_lapsed_claim_goes_on_waiting(place: Place, alice: Board) -> None:
    first = claimed(alice, lease=LEASE)
    second = alice.tasks.post(name="second", after=[first.id])
    place.advance(LEASE)
    alice.tasks.sweep()

    assert alice.tasks.get(ref=second.id).state == "blocked"


def test_what_runs_anyway_is_ready_without_a_sweep(place: Place, alice: Board, bob: Board) -> None:
    first = claimed(alice, max_attempts=1, lease=LEASE)
    second = alice.tasks.post(name="clean up", after=[first.id], run_anyway=True)
    place.advance(LEASE)

    assert bob.tasks.claim(ref=second.id).holder == "bob"


def test_what_runs_anyway_is_ready_without_a_sweep_of_another_project(place: Place, alice: Board) -> None:
    first = claimed(place.open("bob", "other"), max_attempts=1, lease=LEASE)
    second = alice.tasks.post(name="clean up", after=[first.id], run_anyway=True)
    place.advance(LEASE)

    assert alice.tasks.claim(ref=second.id).holder == "alice"


def test_claiming_a_task_after_a_lapsed_last_attempt_says_why_it_is_cancelled(
    place: Place, alice: Board, bob: Board
) -> None:
    first = claimed(alice, max_attempts=1, lease=LEASE)
    second = alice.tasks.post(name="second", after=[first.id])
    place.advance(LEASE)

    with pytest.raises(Refused, match="cancelled"):
        bob.tasks.claim(ref=second.id)
    assert [alice.tasks.get(ref=task.id).state for task in (first, second)] == ["failed", "cancelled"]


def test_the_log_tells_of_the_lapse_before_its_consequences(place: Place, alice: Board) -> None:
    first = claimed(alice, max_attempts=1, lease=LEASE)
    alice.tasks.post(name="second", after=[first.id])
    newest = alice.events.last()
    place.advance(LEASE)
    alice.tasks.sweep()

    told = changes(alice, after=newest)
    assert [(event.event, event.state) for event in told] == [
        ("task.expired", "failed"),
        ("task.cancelled", "cancelled"),
    ]
