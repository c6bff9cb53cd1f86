"""The fence of tasks: only a write by the current holder, under the current epoch, takes effect.

A lease that ran out ends nothing by itself. The holder is refused from the moment at which the lapse is written, or at
which another agent has won the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tiebreak import Board
from tiebreak.errors import Fenced
from tiebreak.model import Task

from .engines import Place
from .tasks_support import claimed, happened, in_state, unchanged

LEASE = 60.0


class Writer(NamedTuple):
    """Somebody who is about to write to a task under an epoch."""

    board: Board
    task: Task
    epoch: int


Situation = Callable[[Place], Writer]


def _older_epoch(place: Place) -> Writer:
    alice = place.open("alice")
    old = claimed(alice)
    alice.tasks.release(ref=old.id)
    return Writer(alice, alice.tasks.claim(ref=old.id), old.epoch)


def _epoch_to_come(place: Place) -> Writer:
    alice = place.open("alice")
    task = claimed(alice)
    return Writer(alice, task, task.epoch + 1)


def _other_agent(place: Place) -> Writer:
    task = claimed(place.open("alice"))
    return Writer(place.open("bob"), task, task.epoch)


def _other_agent_without_epoch(place: Place) -> Writer:
    return Writer(place.open("bob"), claimed(place.open("alice")), 0)


def _other_incarnation(place: Place) -> Writer:
    task = claimed(place.open("alice~one"))
    return Writer(place.open("alice~two"), task, task.epoch)


def _other_incarnation_without_epoch(place: Place) -> Writer:
    return Writer(place.open("alice~two"), claimed(place.open("alice~one")), 0)


def _longer_incarnation(place: Place) -> Writer:
    return Writer(place.open("alice~one1"), claimed(place.open("alice~one")), 0)


def _lease_that_ran_out(place: Place) -> Writer:
    alice = place.open("alice")
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE)
    return Writer(alice, task, task.epoch)


def _lapse_that_was_written_down(place: Place) -> Writer:
    writer = _lease_that_ran_out(place)
    writer.board.tasks.sweep()
    return writer


def _lapse_that_was_written_down_without_epoch(place: Place) -> Writer:
    return _lapse_that_was_written_down(place)._replace(epoch=0)


def _lapse_of_the_last_attempt(place: Place) -> Writer:
    alice = place.open("alice")
    task = claimed(alice, max_attempts=1, lease=LEASE)
    place.advance(LEASE)
    alice.tasks.sweep()
    return Writer(alice, task, task.epoch)


def _claim_that_passed_to_another(place: Place) -> Writer:
    writer = _lease_that_ran_out(place)
    place.open("bob").tasks.claim(ref=writer.task.id)
    return writer


def _claim_that_passed_to_another_without_epoch(place: Place) -> Writer:
    return _claim_that_passed_to_another(place)._replace(epoch=0)


def _claim_that_was_released(place: Place) -> Writer:
    alice = place.open("alice")
    task = claimed(alice)
    alice.tasks.release(ref=task.id)
    return Writer(alice, task, task.epoch)


def _attempt_that_failed(place: Place) -> Writer:
    alice = place.open("alice")
    task = claimed(alice)
    alice.tasks.fail(ref=task.id)
    return Writer(alice, task, task.epoch)


def _task_that_failed(place: Place) -> Writer:
    alice = place.open("alice")
    task = in_state(alice, "failed")
    return Writer(alice, task, task.epoch)


def _task_that_was_reopened(place: Place) -> Writer:
    writer = _task_that_failed(place)
    writer.board.tasks.retry(ref=writer.task.id)
    return writer


def _task_that_was_cancelled(place: Place) -> Writer:
    alice = place.open("alice")
    task = claimed(alice)
    place.open("bob").tasks.cancel(ref=task.id)
    return Writer(alice, task, task.epoch)


def _task_that_was_completed(place: Place) -> Writer:
    alice = place.open("alice")
    task = in_state(alice, "completed")
    return Writer(alice, task, task.epoch)


def _task_that_was_completed_without_epoch(place: Place) -> Writer:
    return _task_that_was_completed(place)._replace(epoch=0)


def _task_that_nobody_claimed(place: Place) -> Writer:
    alice = place.open("alice")
    return Writer(alice, in_state(alice, "pending"), 0)


def _task_that_is_blocked(place: Place) -> Writer:
    alice = place.open("alice")
    return Writer(alice, in_state(alice, "blocked"), 0)


SITUATIONS: list[Situation] = [
    _older_epoch,
    _epoch_to_come,
    _other_agent,
    _other_agent_without_epoch,
    _other_incarnation,
    _other_incarnation_without_epoch,
    _longer_incarnation,
    _lapse_that_was_written_down,
    _lapse_that_was_written_down_without_epoch,
    _lapse_of_the_last_attempt,
    _claim_that_passed_to_another,
    _claim_that_passed_to_another_without_epoch,
    _claim_that_was_released,
    _attempt_that_failed,
    _task_that_failed,
    _task_that_was_reopened,
    _task_that_was_cancelled,
    _task_that_was_completed,
    _task_that_was_completed_without_epoch,
    _task_that_nobody_claimed,
    _task_that_is_blocked,
]
WRITES: dict[str, tuple[str, dict[str, Any]]] = {
    "extend": ("tasks.extend", {"lease": 1000}),
    "complete": ("tasks.complete", {"result": "late"}),
    "complete with ack": ("tasks.complete", {"result": "late", "ack": True}),
    "fail": ("tasks.fail", {"reason": "late"}),
    "fail for good": ("tasks.fail", {"reason": "late", "retry": False}),
    "release": ("tasks.release", {"reason": "late"}),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.__name__.strip("_"))
def test_a_write_by_another_agent_than_the_holder_has_no_effect(place: Place, situation: Situation, write: str) -> None:
    board, task, epoch = situation(place)
    operation, extra = WRITES[write]

    with unchanged(board), pytest.raises(Fenced):
        board.call(operation, {"ref": task.id, "epoch": epoch, **extra})


@pytest.mark.parametrize("write", WRITES)
def test_a_bare_name_is_not_the_incarnation_that_holds(place: Place, write: str) -> None:
    alice = place.open("alice~one")
    task = claimed(alice)
    operation, extra = WRITES[write]

    with unchanged(alice), pytest.raises(Fenced):
        alice.call(operation, {"ref": task.id, "epoch": task.epoch, "agent": "alice", **extra})


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("reference", ["number", "key", "prefix"])
def test_no_way_to_name_a_task_goes_around_the_fence(alice: Board, bob: Board, write: str, reference: str) -> None:
    task = alice.tasks.claim(ref="build")
    ref = {"number": f"#{task.number}", "key": "build", "prefix": task.id[:13]}[reference]
    operation, extra = WRITES[write]

    with unchanged(alice), pytest.raises(Fenced):
        bob.call(operation, {"ref": ref, "epoch": task.epoch, **extra})


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("named", [True, False], ids=["epoch named", "epoch left out"])
def test_the_holder_is_not_fenced_out_until_its_last_moment(
    place: Place, alice: Board, write: str, named: bool
) -> None:
    task = claimed(alice, lease=LEASE)
    place.advance(LEASE - 0.001)
    operation, extra = WRITES[write]

    alice.call(operation, {"ref": task.id, "epoch": task.epoch if named else 0, **extra})

    assert len(happened(alice, task)) == 3


def test_the_fenced_learns_who_holds_it_now(place: Place) -> None:
    alice, task, epoch = _claim_that_passed_to_another(place)

    with pytest.raises(Fenced) as refusal:
        alice.tasks.complete(ref=task.id, epoch=epoch)

    assert (refusal.value.data["holder"], refusal.value.data["epoch"]) == ("bob", 2)
    assert "bob" in refusal.value.message
    assert "\n" not in refusal.value.message


def test_the_fenced_learns_that_its_task_is_over(place: Place) -> None:
    alice, task, epoch = _task_that_was_cancelled(place)

    with pytest.raises(Fenced, match="cancelled") as refusal:
        alice.tasks.complete(ref=task.id, epoch=epoch)

    assert refusal.value.data["state"] == "cancelled"


def test_the_new_holder_is_not_disturbed_by_the_old_one(place: Place) -> None:
    alice, task, epoch = _claim_that_passed_to_another(place)
    with pytest.raises(Fenced):
        alice.tasks.complete(ref=task.id, epoch=epoch, result="old")

    done = place.open("bob").tasks.complete(ref=task.id, epoch=epoch + 1, result="new")

    assert (done.state, done.holder, done.result) == ("completed", "bob", "new")


def test_a_late_write_reaches_the_log_with_a_later_change(place: Place) -> None:
    alice, task, epoch = _claim_that_passed_to_another(place)
    with pytest.raises(Fenced):
        alice.tasks.complete(ref=task.id, epoch=epoch)

    alice.tasks.post(name="something else")

    (late,) = alice.events.read(event="task.fenced", subject=task.id)
    assert (late.agent, late.epoch) == ("alice", epoch)
