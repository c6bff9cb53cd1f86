"""A holder extends, completes, fails or releases its claim, and each leaves the task in the right state."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board
from tiebreak.errors import NotFound, Refused
from tiebreak.limits import MAX_NAME, MAX_TITLE

from .engines import Place
from .tasks_support import changes, claimed, happened, in_state, unchanged

# ── Extending ────────────────────────────────────────────────────────────────────────────────────────


def test_a_claim_is_extended_from_now_and_not_from_its_end(place: Place, alice: Board) -> None:
    task = claimed(alice, lease=60)
    place.advance(50)

    extended = alice.tasks.extend(ref=task.id, epoch=task.epoch, lease=60)

    assert (extended.until or 0) - (task.until or 0) == pytest.approx(50, abs=1e-3)


def test_an_extension_is_no_new_grant(alice: Board) -> None:
    task = claimed(alice)

    extended = alice.tasks.extend(ref=task.id)

    assert (extended.state, extended.holder, extended.epoch, extended.attempts) == ("claimed", "alice", 1, 1)
    assert extended.claimed_at == task.claimed_at


def test_an_extended_claim_outlives_its_first_lease(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(alice, lease=10)
    alice.tasks.extend(ref=task.id, lease=60)
    place.advance(59.999)

    with pytest.raises(Refused):
        bob.tasks.claim(ref=task.id)


def test_an_extension_lasts_five_minutes_if_nothing_is_said(alice: Board) -> None:
    task = claimed(alice)

    extended = alice.tasks.extend(ref=task.id)

    assert (extended.until or 0) - extended.updated_at == pytest.approx(300, abs=1e-5)


def test_a_claim_can_be_shortened(alice: Board) -> None:
    task = claimed(alice, lease=60)

    assert (alice.tasks.extend(ref=task.id, lease=10).until or 0) < (task.until or 0)


def test_the_log_tells_until_when_a_claim_was_extended(alice: Board) -> None:
    extended = alice.tasks.extend(ref=claimed(alice).id, lease=100)

    event = changes(alice)[-1]
    assert (event.event, event.agent, event.epoch, event.until) == (
        "task.extended",
        "alice",
        1,
        extended.until,
    )


# ── Completing ───────────────────────────────────────────────────────────────────────────────────────


def test_a_completed_task_says_who_did_it(alice: Board) -> None:
    done = in_state(alice, "completed")

    assert (done.state, done.holder, done.epoch, done.until) == ("completed", "alice", 1, None)
    assert done.finished_at == done.updated_at


@pytest.mark.parametrize("result", [None, False, 0, "", [], {"files": ["ä.py"], "ok": True}], ids=repr)
def test_a_result_comes_back_as_it_was(alice: Board, bob: Board, result: Any) -> None:
    task = claimed(alice)
    alice.tasks.complete(ref=task.id, result=result)

    found = bob.tasks.get(ref=task.id).result
    assert found == result
    assert type(found) is type(result)


def test_a_completion_does_not_touch_the_payload(alice: Board) -> None:
    task = alice.tasks.post(name="work", payload={"in": 1})
    alice.tasks.claim(ref=task.id)

    assert alice.tasks.complete(ref=task.id, result={"out": 2}).payload == {"in": 1}


def test_a_success_forgets_the_reason_of_an_earlier_failure(place: Place, alice: Board) -> None:
    task = claimed(alice)
    alice.tasks.fail(ref=task.id, reason="flaky")
    place.advance(1)
    alice.tasks.claim(ref=task.id)

    assert alice.tasks.complete(ref=task.id).reason is None


def test_a_completion_announces_nothing_unless_asked(alice: Board) -> None:
    task = in_state(alice, "completed")

    assert alice.tasks.list(about=task.id) == []


def test_an_ack_is_an_announcement_about_the_task(alice: Board) -> None:
    task = claimed(alice, name="tidy up")
    alice.tasks.complete(ref=task.id, ack=True)

    (ack,) = alice.tasks.list(about=task.id)
    assert (ack.kind, ack.state, ack.about, ack.created_by) == ("ack", "completed", task.id, "alice")
    assert "tidy up" in ack.name


def test_an_ack_says_what_it_was_told_to_say(alice: Board) -> None:
    task = claimed(alice)
    alice.tasks.complete(
        ref=task.id, ack=True, ack_name="shipped", ack_priority="urgent", ack_payload={"version": None}
    )

    (ack,) = alice.tasks.list(about=task.id)
    assert (ack.name, ack.priority, ack.payload) == ("shipped", "urgent", {"version": None})


def test_an_ack_is_written_with_the_completion_and_not_later(alice: Board) -> None:
    task = claimed(alice)
    newest = alice.events.last()
    alice.tasks.complete(ref=task.id, ack=True)

    done, ack = changes(alice, after=newest)
    assert [done.event, ack.event] == ["task.completed", "task.posted"]
    assert (ack.number, ack.at) == (done.number + 1, done.at)


def test_an_ack_goes_to_the_project_of_its_task(place: Place, alice: Board) -> None:
    task = claimed(alice)
    place.open("alice", "other").tasks.complete(ref=task.id, ack=True)

    assert [ack.project for ack in alice.tasks.list(about=task.id, project=None)] == ["demo"]


def test_a_long_name_does_not_make_an_ack_impossible(alice: Board) -> None:
    task = claimed(alice, name="n" * MAX_NAME)
    alice.tasks.complete(ref=task.id, ack=True)

    (ack,) = alice.tasks.list(about=task.id)
    assert len(ack.name) == MAX_TITLE


# ── Failing ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_failed_attempt_becomes_ready_again(alice: Board) -> None:
    task = claimed(alice)

    again = alice.tasks.fail(ref=task.id, reason="flaky")

    assert (again.state, again.holder, again.until, again.reason) == ("pending", None, None, "flaky")
    assert (again.epoch, again.attempts, again.finished_at) == (1, 1, None)


def test_the_wait_after_a_failure_doubles(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="flaky", max_attempts=6, backoff=10)
    for longest in (10, 20, 40, 80, 160):
        alice.tasks.claim(ref=task.id)
        failed = alice.tasks.fail(ref=task.id)
        wait = (failed.ready_at or 0) - failed.updated_at
        assert longest / 2 - 0.001 <= wait <= longest + 0.001
        place.advance(longest + 0.001)


def test_the_wait_after_a_failure_is_a_second_if_nothing_is_said(alice: Board) -> None:
    failed = alice.tasks.fail(ref=claimed(alice).id)

    assert 0.4999 <= (failed.ready_at or 0) - failed.updated_at <= 1.0001


def test_a_failed_attempt_cannot_be_claimed_during_its_wait(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="flaky", backoff=10)
    alice.tasks.claim(ref=task.id)
    alice.tasks.fail(ref=task.id)
    place.advance(4.999)

    with unchanged(alice), pytest.raises(Refused):
        alice.tasks.claim(ref=task.id)


def test_without_backoff_a_failed_attempt_is_ready_at_once(alice: Board) -> None:
    task = alice.tasks.post(name="flaky", backoff=0)
    alice.tasks.claim(ref=task.id)
    alice.tasks.fail(ref=task.id)

    assert alice.tasks.claim(ref=task.id).epoch == 2


def test_many_failures_do_not_make_the_wait_endless(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="flaky", max_attempts=100, backoff=60)
    for _ in range(60):
        alice.tasks.claim(ref=task.id)
        failed = alice.tasks.fail(ref=task.id)
        place.advance((failed.ready_at or 0) - failed.updated_at + 0.001)

    assert (failed.ready_at or 0) - failed.updated_at <= 86400


def test_a_long_backoff_is_not_cut_short(alice: Board) -> None:
    task = alice.tasks.post(name="nightly", backoff=7200)
    alice.tasks.claim(ref=task.id)
    failed = alice.tasks.fail(ref=task.id)

    assert 3600 - 0.001 <= (failed.ready_at or 0) - failed.updated_at <= 7200 + 0.001


@pytest.mark.parametrize("attempts", [1, 3])
def test_when_its_attempts_are_used_up_a_task_has_failed(place: Place, alice: Board, attempts: int) -> None:
    task = alice.tasks.post(name="hopeless", max_attempts=attempts)
    states = []
    for _ in range(attempts):
        alice.tasks.claim(ref=task.id)
        states.append(alice.tasks.fail(ref=task.id, reason="broken").state)
        place.advance(100)

    assert states == ["pending"] * (attempts - 1) + ["failed"]


def test_a_task_told_not_to_retry_has_failed_at_once(alice: Board) -> None:
    task = claimed(alice)

    failed = alice.tasks.fail(ref=task.id, reason="impossible", retry=False)

    assert (failed.state, failed.reason, failed.attempts, failed.until) == ("failed", "impossible", 1, None)
    assert failed.finished_at == failed.updated_at


@pytest.mark.parametrize(("retry", "event"), [(True, "task.retrying"), (False, "task.failed")])
def test_the_log_tells_who_failed_and_why(alice: Board, retry: bool, event: str) -> None:
    alice.tasks.fail(ref=claimed(alice).id, reason="broken", retry=retry)

    last = changes(alice)[-1]
    assert (last.event, last.agent, last.epoch, last.note) == (event, "alice", 1, "broken")


# ── Giving back ──────────────────────────────────────────────────────────────────────────────────────


def test_giving_back_does_not_use_the_attempt_up(alice: Board) -> None:
    task = alice.tasks.post(name="work", max_attempts=1)
    alice.tasks.claim(ref=task.id)

    back = alice.tasks.release(ref=task.id)

    assert (back.state, back.holder, back.until, back.attempts, back.epoch) == ("pending", None, None, 0, 1)


def test_what_was_given_back_can_be_claimed_at_once(alice: Board, bob: Board) -> None:
    task = claimed(alice)
    alice.tasks.release(ref=task.id)

    assert bob.tasks.claim(ref=task.id).holder == "bob"


def test_giving_back_does_not_restore_attempts_that_failed(place: Place, alice: Board) -> None:
    task = claimed(alice)
    alice.tasks.fail(ref=task.id)
    place.advance(1)
    alice.tasks.claim(ref=task.id)

    assert alice.tasks.release(ref=task.id).attempts == 1


def test_the_log_tells_who_gave_it_back_and_why(alice: Board) -> None:
    alice.tasks.release(ref=claimed(alice).id, reason="shutting down")

    last = changes(alice)[-1]
    assert (last.event, last.agent, last.epoch, last.note) == ("task.released", "alice", 1, "shutting down")


# ── What does not exist ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("operation", ["get", "after", "extend", "complete", "fail", "release", "cancel", "retry"])
@pytest.mark.parametrize("ref", ["#999", "00000000-0000-7000-8000-000000000000", "unknown", "abcdef"])
def test_an_unknown_task_is_not_found(alice: Board, operation: str, ref: str) -> None:
    with unchanged(alice), pytest.raises(NotFound) as refusal:
        alice.call(f"tasks.{operation}", {"ref": ref})
    assert ref in refusal.value.message


def test_each_change_is_one_event(place: Place, alice: Board) -> None:
    task = claimed(alice)
    alice.tasks.extend(ref=task.id)
    alice.tasks.release(ref=task.id)
    alice.tasks.claim(ref=task.id)
    alice.tasks.fail(ref=task.id)
    alice.tasks.cancel(ref=task.id)
    alice.tasks.retry(ref=task.id)
    alice.tasks.claim(ref=task.id)
    alice.tasks.complete(ref=task.id)

    told = [
        "posted",
        "claimed",
        "extended",
        "released",
        "claimed",
        "retrying",
        "cancelled",
        "reopened",
        "claimed",
    ]
    assert happened(alice, task) == [*told, "completed"]
