"""A report counts if its attempt is the current one; a late report is stored in an event and never applied."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board
from tiebreak.errors import Fenced, Invalid

from .engines import Place
from .jobs_support import orphans, outcome, report, running, states, submit, win
from .tasks_support import changes, happened, unchanged

# ── Heartbeats ───────────────────────────────────────────────────────────────────────────────────────


def test_one_heartbeat_keeps_all_jobs_of_a_worker(place: Place, alice: Board, bob: Board) -> None:
    alice.jobs.submit_many(jobs=[{"command": "true"} for _ in range(120)])
    jobs = win(alice) + win(alice)
    place.advance(50)

    assert alice.jobs.heartbeat(grants=[(job.number, job.epoch) for job in jobs], lease=60) == []

    place.advance(50)
    assert win(bob) == []


def test_a_heartbeat_leaves_no_event(alice: Board) -> None:
    job = running(alice)
    before = alice.events.last()

    alice.jobs.heartbeat(grants=[(job.number, job.epoch)])

    assert alice.events.last() == before


def test_a_heartbeat_tells_what_is_not_held_any_more_and_why(place: Place, alice: Board, bob: Board) -> None:
    names = ("kept", "cancelled", "lost", "completed", "pending")
    for name in names:
        submit(alice, name)
    jobs = {job.name: job for job in win(alice)}
    alice.tasks.cancel(ref=jobs["cancelled"].id)
    report(alice, outcome(jobs["completed"]))
    alice.tasks.release(ref=jobs["lost"].id)
    bob.tasks.claim(ref=jobs["lost"].id)
    alice.tasks.release(ref=jobs["pending"].id)

    missing = alice.jobs.heartbeat(grants=[(job.number, job.epoch) for job in jobs.values()])

    reasons = {each["number"]: each["reason"] for each in missing}
    assert reasons == {jobs[name].number: name for name in names if name != "kept"}


def test_a_heartbeat_after_the_lapse_was_written_revives_nothing(place: Place, alice: Board) -> None:
    job = running(alice)
    place.advance(61)
    alice.tasks.sweep()

    [missing] = alice.jobs.heartbeat(grants=[(job.number, job.epoch)])

    assert missing == {"number": job.number, "epoch": job.epoch, "reason": "pending"}


def test_a_heartbeat_that_comes_late_but_before_anybody_else_keeps_the_job(place: Place, alice: Board) -> None:
    job = running(alice)
    place.advance(61)

    assert alice.jobs.heartbeat(grants=[(job.number, job.epoch)]) == []
    seen = alice.tasks.get(ref=job.id)
    assert (seen.state, seen.epoch, seen.lapsed) == ("claimed", job.epoch, False)


def test_a_heartbeat_with_an_old_epoch_prolongs_nothing(place: Place, alice: Board) -> None:
    first = running(alice)
    place.advance(61)
    win(alice)
    place.advance(50)

    assert alice.jobs.heartbeat(grants=[(first.number, first.epoch)])[0]["reason"] == "lost"

    place.advance(11)
    assert len(win(alice)) == 1, "the second attempt ran out in its own time"


def test_a_heartbeat_of_another_incarnation_prolongs_nothing(place: Place, alice: Board) -> None:
    job = running(alice)

    assert place.open("alice~other").jobs.heartbeat(grants=[(job.number, job.epoch)])[0]["reason"] == "lost"


def test_a_job_that_is_unknown_is_gone(alice: Board) -> None:
    assert alice.jobs.heartbeat(grants=[(999, 1)]) == [{"number": 999, "epoch": 1, "reason": "gone"}]


@pytest.mark.parametrize("grant", [[1], [1, 0], [0, 1], ["1", 1], [True, 1], 7, [1, 2, 3]])
def test_what_is_no_grant_is_refused(alice: Board, grant: Any) -> None:
    with pytest.raises(Invalid, match="grants"):
        alice.jobs.heartbeat(grants=[grant])


# ── Outcomes ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_completed_job_has_its_result(alice: Board) -> None:
    job = running(alice)

    [answer] = report(alice, outcome(job, result={"exit": 0}))

    done = alice.tasks.get(ref=job.id)
    assert answer == {"number": job.number, "epoch": 1, "accepted": True, "state": "completed", "reason": None}
    assert (done.state, done.result, done.holder, done.finished_at is None) == (
        "completed",
        {"exit": 0},
        "alice",
        False,
    )
    assert happened(alice, done) == ["posted", "claimed", "completed"]


def test_a_failed_attempt_is_tried_again_and_keeps_its_reason(place: Place, alice: Board) -> None:
    job = running(alice, backoff=10)

    [answer] = report(alice, outcome(job, ok=False, reason="exit code 3", result={"exit": 3}))

    task = alice.tasks.get(ref=job.id)
    assert (answer["accepted"], answer["state"]) == (True, "pending")
    assert (task.reason, task.result, task.attempts) == ("exit code 3", {"exit": 3}, 1)
    assert win(alice) == []
    place.advance(10)
    assert len(win(alice)) == 1


def test_the_last_attempt_that_fails_is_the_end(alice: Board) -> None:
    job = running(alice, max_attempts=1)

    assert report(alice, outcome(job, ok=False, reason="no"))[0]["state"] == "failed"


def test_a_failure_that_is_not_to_be_tried_again_is_the_end(alice: Board) -> None:
    job = running(alice)

    assert report(alice, outcome(job, ok=False, retry=False))[0]["state"] == "failed"


def test_a_drained_job_goes_back_without_using_an_attempt(alice: Board) -> None:
    job = running(alice)

    [answer] = report(alice, outcome(job, ok=False, drained=True))

    assert (answer["accepted"], answer["state"]) == (True, "pending")
    [again] = win(alice)
    assert (again.attempts, again.epoch) == (1, 2)


def test_a_hundred_and_thirty_are_reported_at_once(alice: Board) -> None:
    alice.jobs.submit_many(jobs=[{"command": "true"} for _ in range(130)])
    jobs = win(alice) + win(alice)

    answers = report(alice, *(outcome(job, result=i) for i, job in enumerate(jobs)))

    assert [answer["number"] for answer in answers] == [job.number for job in jobs]
    assert all(answer["accepted"] for answer in answers)
    assert [alice.tasks.get(ref=job.id).result for job in jobs] == list(range(130))
    ended = [e for e in changes(alice) if e.event == "task.completed"]
    assert [(e.subject, e.epoch) for e in ended] == [(job.id, 1) for job in jobs]


def test_one_report_may_mix_all_kinds_of_outcomes(alice: Board) -> None:
    for name in "abcd":
        submit(alice, name, backoff=0)
    a, b, c, d = win(alice)
    alice.tasks.cancel(ref=d.id)

    answers = report(
        alice, outcome(a), outcome(b, ok=False), outcome(c, ok=False, drained=True), outcome(d), outcome(a)
    )

    assert [answer["accepted"] for answer in answers] == [True, True, True, False, False]
    assert states(alice, a, b, c, d) == ["completed", "pending", "pending", "cancelled"]


def test_tasks_after_a_reported_job_are_released(alice: Board) -> None:
    first, second = submit(alice, "1"), submit(alice, "2")
    last = submit(alice, "3", after=[first.id, second.id])
    a, b = win(alice)

    report(alice, outcome(a))
    assert states(alice, last) == ["blocked"]
    report(alice, outcome(b))

    assert states(alice, last) == ["pending"]


def test_tasks_after_a_failed_job_are_cancelled_with_that_reason(alice: Board) -> None:
    first = submit(alice, "1", max_attempts=1)
    second, anyway = submit(alice, "2", after=[first.id]), submit(alice, "3", after=[first.id], run_anyway=True)

    report(alice, outcome(win(alice)[0], ok=False))

    assert states(alice, second, anyway) == ["cancelled", "pending"]
    assert f"#{first.number}" in (alice.tasks.get(ref=second.id).reason or "")


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"number": 1, "epoch": 1},
        {"number": 1, "epoch": 0, "ok": True},
        {"number": 1, "epoch": 1, "ok": 1},
        {"number": 1, "epoch": 1, "ok": True, "state": "completed"},
        {"number": 1, "epoch": 1, "ok": True, "reason": "a\nb"},
        "done",
    ],
)
def test_what_is_no_outcome_is_refused(alice: Board, said: Any) -> None:
    with unchanged(alice), pytest.raises(Invalid, match="outcomes"):
        alice.jobs.report(outcomes=[said])


# ── The fence ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("said", [{"ok": True}, {"ok": False}, {"ok": False, "drained": True}])
def test_a_late_report_is_refused_and_stored_in_an_event(
    place: Place, alice: Board, bob: Board, said: dict[str, bool]
) -> None:
    late = running(alice)
    place.advance(61)
    [current] = win(bob)

    [answer] = report(alice, outcome(late, result="too late", **said))

    assert not answer["accepted"]
    assert alice.tasks.get(ref=late.id).holder == "bob"
    [orphan] = orphans(alice)
    assert (orphan.subject, orphan.epoch, orphan.agent) == (late.id, late.epoch, "alice")
    assert orphan.data["result"] == "too late"
    assert report(bob, outcome(current, result="in time"))[0]["accepted"]
    assert alice.tasks.get(ref=late.id).result == "in time"


def test_a_report_that_comes_late_but_before_anybody_else_is_accepted(place: Place, alice: Board) -> None:
    job = running(alice)
    place.advance(61)

    assert report(alice, outcome(job))[0]["accepted"]
    assert states(alice, job) == ["completed"]
    assert orphans(alice) == []


def test_a_report_after_the_lapse_was_written_is_refused_though_nobody_else_came(place: Place, alice: Board) -> None:
    job = running(alice)
    place.advance(61)
    alice.tasks.sweep()

    assert not report(alice, outcome(job))[0]["accepted"]
    assert states(alice, job) == ["pending"]
    assert len(orphans(alice)) == 1


def test_an_own_earlier_attempt_does_not_finish_the_later_one(place: Place, alice: Board) -> None:
    first = running(alice)
    place.advance(61)
    win(alice)

    assert not report(alice, outcome(first))[0]["accepted"]
    assert states(alice, first) == ["claimed"]


def test_another_incarnation_does_not_report(place: Place, alice: Board) -> None:
    job = running(alice)

    assert not report(place.open("alice~other"), outcome(job))[0]["accepted"]
    assert states(alice, job) == ["claimed"]


def test_a_cancelled_job_stays_cancelled(alice: Board) -> None:
    job = running(alice)
    alice.tasks.cancel(ref=job.id)

    [answer] = report(alice, outcome(job))

    assert (answer["accepted"], answer["state"]) == (False, "cancelled")
    assert "cancelled" in answer["reason"]


def test_a_second_report_changes_nothing(alice: Board) -> None:
    job = running(alice)
    report(alice, outcome(job, result=1))

    assert not report(alice, outcome(job, result=2))[0]["accepted"]
    assert alice.tasks.get(ref=job.id).result == 1


def test_a_report_about_an_unknown_job_is_stored_in_an_event(alice: Board) -> None:
    [answer] = report(alice, {"number": 999, "epoch": 1, "ok": True, "result": "lost"})

    assert (answer["accepted"], answer["state"]) == (False, None)
    assert orphans(alice)[0].data["result"] == "lost"


def test_the_history_has_a_late_report(place: Place, alice: Board) -> None:
    job = running(alice)
    place.advance(61)
    alice.tasks.sweep()
    report(alice, outcome(job))

    told = [sentence.text for sentence in alice.events.why(ref=job.id)]

    assert any("was not applied" in text for text in told)


# ── Checking ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_holder_of_a_job_may_continue(alice: Board) -> None:
    job = running(alice)

    assert alice.tasks.check(ref=job.id, epoch=job.epoch).state == "claimed"


@pytest.mark.parametrize("how", ["lapsed", "passed on", "old epoch", "cancelled", "other incarnation", "completed"])
def test_an_agent_that_does_not_hold_the_job_is_refused(place: Place, alice: Board, bob: Board, how: str) -> None:
    job, asks, epoch = running(alice), alice, 1
    if how in ("lapsed", "passed on", "old epoch"):
        place.advance(61)
    if how == "passed on":
        win(bob)
    elif how == "old epoch":
        win(alice)
    elif how == "cancelled":
        alice.tasks.cancel(ref=job.id)
    elif how == "other incarnation":
        asks = place.open("alice~other")
    elif how == "completed":
        report(alice, outcome(job))

    with unchanged(alice), pytest.raises(Fenced):
        asks.tasks.check(ref=job.id, epoch=epoch)


# ── Backoff ──────────────────────────────────────────────────────────────────────────────────────────


def waits(board: Board, place: Place, attempts: int, backoff: float) -> list[float]:
    """How long a job that always fails has to wait after each attempt."""
    submit(board, max_attempts=attempts, backoff=backoff)
    out = []
    for _ in range(attempts - 1):
        [job] = win(board)
        report(board, outcome(job, ok=False))
        ready_at = board.tasks.get(ref=job.id).ready_at
        out.append(0.0 if ready_at is None else ready_at - board.upkeep.now())
        place.advance(3601)
    return out


def test_each_wait_is_between_half_and_all_of_twice_the_one_before(place: Place, alice: Board) -> None:
    for i, wait in enumerate(waits(alice, place, 8, 10.0)):
        whole = 10.0 * 2**i
        assert whole / 2 - 0.01 <= wait <= whole + 0.01


def test_no_backoff_is_no_wait(place: Place, alice: Board) -> None:
    assert waits(alice, place, 4, 0.0) == [0.0, 0.0, 0.0]


def test_tasks_that_failed_together_are_retried_at_different_times(alice: Board) -> None:
    alice.jobs.submit_many(jobs=[{"command": "true", "backoff": 3600} for _ in range(20)])
    jobs = win(alice)
    report(alice, *(outcome(job, ok=False) for job in jobs))

    assert len({alice.tasks.get(ref=job.id).ready_at for job in jobs}) > 1
