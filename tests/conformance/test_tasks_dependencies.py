"""A task waits for all tasks that it comes after, and does not run when one of them failed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiebreak import Board
from tiebreak.errors import NotFound, Refused
from tiebreak.model import Task

from .engines import Place
from .tasks_support import claimed, complete, fail, happened, in_state, state, unchanged


def cancel(board: Board, task: Task) -> Task:
    """Call off."""
    return board.tasks.cancel(ref=task.id)


End = Callable[[Board, Task], Task]
BAD_ENDS = pytest.mark.parametrize("end", [fail, cancel], ids=lambda e: e.__name__)

# ── Waiting ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_waits_for_what_it_comes_after(alice: Board) -> None:
    first = alice.tasks.post(name="first")

    second = alice.tasks.post(name="second", after=[first.id])

    assert (second.state, second.blockers) == ("blocked", 1)


def test_a_task_is_ready_when_all_that_it_comes_after_is_completed(alice: Board) -> None:
    before = [alice.tasks.post(name=name) for name in ("a", "b", "c")]
    last = alice.tasks.post(name="last", after=[task.id for task in before])

    seen = []
    for task in before:
        complete(alice, task)
        now = alice.tasks.get(ref=last.id)
        seen.append((now.state, now.blockers))

    assert seen == [("blocked", 2), ("blocked", 1), ("pending", 0)]


def test_a_task_that_became_ready_is_offered(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id])
    complete(alice, first)

    assert [task.id for task in alice.tasks.next()] == [second.id]


def test_the_log_tells_that_a_task_became_ready(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id])
    complete(alice, first)

    assert happened(alice, second) == ["posted", "ready"]


def test_a_task_after_a_completed_one_is_ready_at_once(alice: Board) -> None:
    first = in_state(alice, "completed")

    assert alice.tasks.post(name="second", after=[first.id]).state == "pending"


def test_a_task_named_twice_is_waited_for_once(alice: Board) -> None:
    first = alice.tasks.post(name="first", key="first")
    second = alice.tasks.post(name="second", after=[first.id, "first", f"#{first.number}"])
    complete(alice, first)

    assert state(alice, second) == "pending"


def test_one_completion_releases_all_that_waited_only_for_it(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    rest = [alice.tasks.post(name=f"{i}", after=[first.id]) for i in range(5)]
    complete(alice, first)

    assert {state(alice, task) for task in rest} == {"pending"}


def test_a_failed_attempt_releases_nothing(alice: Board) -> None:
    first = claimed(alice)
    second = alice.tasks.post(name="second", after=[first.id])
    alice.tasks.fail(ref=first.id)

    assert state(alice, second) == "blocked"


def test_a_delay_still_counts_after_the_wait(place: Place, alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id], delay=60)
    complete(alice, first)

    with pytest.raises(Refused):
        alice.tasks.claim(ref=second.id)
    place.advance(60)
    assert alice.tasks.claim(ref=second.id).epoch == 1


def test_a_delay_that_ended_during_the_wait_is_over(place: Place, alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id], delay=60)
    place.advance(60)
    complete(alice, first)

    assert [task.id for task in alice.tasks.next()] == [second.id]


def test_a_task_may_wait_for_one_of_another_project(place: Place, alice: Board) -> None:
    there = place.open("alice", "other")
    first = there.tasks.post(name="theirs")
    second = alice.tasks.post(name="ours", after=[first.id])
    complete(there, first)

    assert state(alice, second) == "pending"


def test_nothing_is_posted_after_an_unknown_task(alice: Board) -> None:
    with unchanged(alice), pytest.raises(NotFound):
        alice.tasks.post(name="second", after=["unknown"])


# ── When what it comes after does not complete ───────────────────────────────────────────────────────


@BAD_ENDS
def test_a_task_is_cancelled_with_what_it_comes_after(alice: Board, end: End) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id])
    ended = end(alice, first)

    off = alice.tasks.get(ref=second.id)
    assert (off.state, off.blockers) == ("cancelled", 0)
    assert f"#{first.number}" in (off.reason or "")
    assert ended.state in (off.reason or "")


@BAD_ENDS
def test_a_whole_chain_is_cancelled(alice: Board, end: End) -> None:
    first = alice.tasks.post(name="0")
    chain = [first]
    for i in range(1, 30):
        chain.append(alice.tasks.post(name=f"{i}", after=[chain[-1].id]))
    end(alice, first)

    assert {state(alice, task) for task in chain[1:]} == {"cancelled"}


def test_each_link_of_a_chain_says_which_link_before_it_broke(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id])
    third = alice.tasks.post(name="third", after=[second.id])
    fail(alice, first)

    assert f"#{second.number}" in (alice.tasks.get(ref=third.id).reason or "")


def test_a_task_reached_on_two_ways_is_cancelled_once(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    left, right = (alice.tasks.post(name=name, after=[first.id]) for name in ("left", "right"))
    last = alice.tasks.post(name="last", after=[left.id, right.id])
    fail(alice, first)

    assert happened(alice, last) == ["posted", "cancelled"]


def test_one_failure_is_enough_to_cancel(alice: Board) -> None:
    good, bad = alice.tasks.post(name="good"), alice.tasks.post(name="bad")
    last = alice.tasks.post(name="last", after=[good.id, bad.id])
    fail(alice, bad)
    complete(alice, good)

    assert state(alice, last) == "cancelled"


def test_a_task_that_is_worked_on_is_not_cancelled_with_a_reopened_predecessor(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id], run_anyway=True)
    fail(alice, first)
    alice.tasks.claim(ref=second.id)
    alice.tasks.retry(ref=first.id)
    fail(alice, first)

    assert state(alice, second) == "claimed"


def test_a_failure_that_used_the_attempts_up_cancels_too(alice: Board) -> None:
    first = claimed(alice, max_attempts=1)
    second = alice.tasks.post(name="second", after=[first.id])
    alice.tasks.fail(ref=first.id)

    assert state(alice, second) == "cancelled"


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_posting_after_a_failed_or_cancelled_task_is_refused(alice: Board, end: str) -> None:
    first = in_state(alice, end)

    with unchanged(alice), pytest.raises(Refused, match=end):
        alice.tasks.post(name="second", after=[first.id])


# ── Run anyway ───────────────────────────────────────────────────────────────────────────────────────


@BAD_ENDS
def test_what_runs_anyway_is_not_cancelled(alice: Board, end: End) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="clean up", after=[first.id], run_anyway=True)
    end(alice, first)

    assert state(alice, second) == "pending"


def test_what_runs_anyway_waits_for_the_others(alice: Board) -> None:
    bad, good = alice.tasks.post(name="bad"), alice.tasks.post(name="good")
    last = alice.tasks.post(name="clean up", after=[bad.id, good.id], run_anyway=True)
    fail(alice, bad)

    assert state(alice, last) == "blocked"


def test_a_run_anyway_task_ends_the_chain_of_cancellations(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id], run_anyway=True)
    third = alice.tasks.post(name="third", after=[second.id])
    fail(alice, first)

    assert (state(alice, second), state(alice, third)) == ("pending", "blocked")


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_what_runs_anyway_may_be_posted_after_a_failure(alice: Board, end: str) -> None:
    first = in_state(alice, end)

    assert alice.tasks.post(name="clean up", after=[first.id], run_anyway=True).state == "pending"


def test_a_predecessor_that_ends_twice_is_counted_once(alice: Board) -> None:
    flaky, slow = alice.tasks.post(name="flaky"), alice.tasks.post(name="slow")
    last = alice.tasks.post(name="clean up", after=[flaky.id, slow.id], run_anyway=True)
    fail(alice, flaky)
    alice.tasks.retry(ref=flaky.id)
    complete(alice, flaky)

    assert state(alice, last) == "blocked"


def test_a_predecessor_that_had_failed_before_does_not_count_later(alice: Board) -> None:
    failed, slow = in_state(alice, "failed"), alice.tasks.post(name="slow")
    last = alice.tasks.post(name="clean up", after=[failed.id, slow.id], run_anyway=True)
    alice.tasks.retry(ref=failed.id)
    complete(alice, failed)

    assert state(alice, last) == "blocked"


def test_a_late_written_lapse_does_not_release_a_task_that_still_waits(place: Place, alice: Board) -> None:
    lapsed, slow = claimed(alice, max_attempts=1, lease=10), alice.tasks.post(name="slow")
    place.advance(10)
    last = alice.tasks.post(name="clean up", after=[lapsed.id, slow.id], run_anyway=True)
    alice.tasks.sweep()

    assert state(alice, last) == "blocked"


# ── Reopening in a chain ─────────────────────────────────────────────────────────────────────────────


def test_a_reopened_task_still_waits_for_what_it_comes_after(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id])
    alice.tasks.cancel(ref=second.id)

    again = alice.tasks.retry(ref=second.id)

    assert (again.state, again.blockers) == ("blocked", 1)


def test_a_chain_that_was_reopened_from_its_start_runs_in_order(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id])
    fail(alice, first)
    for task in (first, second):
        alice.tasks.retry(ref=task.id)

    assert [task.id for task in alice.tasks.next(count=10)] == [first.id]


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_task_after_a_failed_one_cannot_be_reopened(alice: Board, end: str) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id])
    if end == "failed":
        fail(alice, first)
    else:
        alice.tasks.cancel(ref=first.id)

    with unchanged(alice), pytest.raises(Refused, match=f"cannot come after #{first.number} .*{end}"):
        alice.tasks.retry(ref=second.id)


def test_what_runs_anyway_is_reopened_after_a_task_that_failed(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id], run_anyway=True)
    fail(alice, first)
    alice.tasks.cancel(ref=second.id)

    assert alice.tasks.retry(ref=second.id).state == "pending"


def test_reopening_several_omits_tasks_after_a_failed_one(alice: Board) -> None:
    lost, kept = alice.tasks.post(name="lost", tags=["no"]), alice.tasks.post(name="kept")
    after_lost = alice.tasks.post(name="after lost", after=[lost.id])
    after_kept = alice.tasks.post(name="after kept", after=[kept.id])
    alice.tasks.cancel(ref=lost.id)
    alice.tasks.cancel(ref=kept.id)

    reopened = alice.tasks.retry_many(states=["cancelled"], name_contains="kept")

    assert [task.number for task in reopened] == [kept.number, after_kept.number]
    assert alice.tasks.retry_many(states=["cancelled"], name_contains="after lost") == []
    assert alice.tasks.get(ref=after_lost.id).state == "cancelled"


def test_reopening_does_not_reopen_what_was_cancelled_with_it(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id])
    fail(alice, first)
    alice.tasks.retry(ref=first.id)

    assert state(alice, second) == "cancelled"
