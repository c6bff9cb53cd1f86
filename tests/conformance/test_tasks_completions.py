"""Many tasks are completed in one step, and the fence stops each one that is not its caller's any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiebreak import Board
from tiebreak.errors import Invalid
from tiebreak.model import Task

from .engines import Place
from .tasks_support import claimed, happened, in_state, state, unchanged


def test_several_are_completed_in_the_order_in_which_they_were_named(alice: Board) -> None:
    mine = [claimed(alice, f"work {i}") for i in range(5)][::-1]

    done = alice.tasks.complete_many(refs=[task.id for task in mine], epochs=[task.epoch for task in mine])

    assert done == [alice.tasks.get(ref=task.id) for task in mine]
    assert {(task.state, task.holder, task.until) for task in done} == {("completed", "alice", None)}
    assert [happened(alice, task)[-1] for task in mine] == ["completed"] * 5


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param(lambda task: task.id, id="id"),
        pytest.param(lambda task: task.id.upper(), id="id in capitals"),
        pytest.param(lambda task: f"#{task.number}", id="number"),
        pytest.param(lambda task: task.key, id="key"),
        pytest.param(lambda task: task.id[:13], id="unique prefix"),
    ],
)
def test_they_may_be_named_in_every_way(alice: Board, reference: Callable[[Task], str]) -> None:
    task = alice.tasks.claim(ref="work")

    assert [done.id for done in alice.tasks.complete_many(refs=[reference(task)])] == [task.id]


def test_a_task_named_twice_is_completed_once(alice: Board) -> None:
    task = alice.tasks.claim(ref="work")

    done = alice.tasks.complete_many(refs=[task.id, "work", f"#{task.number}"])

    assert [each.id for each in done] == [task.id]
    assert happened(alice, task).count("completed") == 1


@pytest.mark.parametrize("other", ["blocked", "pending", "completed", "failed", "cancelled"])
def test_those_in_another_state_are_left_out(alice: Board, other: str) -> None:
    mine, theirs = claimed(alice), in_state(alice, other)

    assert [task.id for task in alice.tasks.complete_many(refs=[theirs.id, mine.id])] == [mine.id]
    assert alice.tasks.get(ref=theirs.id) == theirs


def test_those_of_others_are_left_out_and_the_log_tells_who_tried(alice: Board, bob: Board) -> None:
    mine, theirs = claimed(alice), claimed(bob)

    assert [task.id for task in alice.tasks.complete_many(refs=[mine.id, theirs.id])] == [mine.id]
    assert (state(alice, theirs), alice.tasks.get(ref=theirs.id).holder) == ("claimed", "bob")
    alice.tasks.post(name="carries the refusal")
    assert [event.agent for event in alice.events.read(event="task.fenced", subject=theirs.id)] == ["alice"]


def test_each_is_fenced_by_its_own_epoch(alice: Board) -> None:
    old, good = claimed(alice), claimed(alice)
    alice.tasks.release(ref=old.id)
    again = alice.tasks.claim(ref=old.id)

    done = alice.tasks.complete_many(refs=[old.id, good.id], epochs=[old.epoch, good.epoch])

    assert [task.id for task in done] == [good.id]
    assert alice.tasks.get(ref=old.id) == again


def test_those_whose_lease_ran_out_are_left_out(place: Place, alice: Board) -> None:
    late, good = claimed(alice, lease=10), claimed(alice, lease=60)
    place.advance(10)

    assert [task.id for task in alice.tasks.complete_many(refs=[late.id, good.id])] == [good.id]
    assert state(alice, late) == "pending"


def test_those_that_come_after_go_on(alice: Board) -> None:
    first, second, other = claimed(alice), claimed(alice), claimed(alice)
    both = alice.tasks.post(name="after both", after=[first.id, second.id])
    one = alice.tasks.post(name="after one", after=[second.id])
    never = alice.tasks.post(name="after another", after=[other.id])

    alice.tasks.complete_many(refs=[first.id, second.id])

    assert [state(alice, task) for task in (both, one, never)] == ["pending", "pending", "blocked"]


@pytest.mark.parametrize("ref", ["#999", "00000000-0000-7000-8000-000000000000", "unknown-key"])
def test_unknown_ones_are_no_error(alice: Board, ref: str) -> None:
    with unchanged(alice):
        assert alice.tasks.complete_many(refs=[ref]) == []


def test_none_named_is_none_completed(alice: Board) -> None:
    with unchanged(alice):
        assert alice.tasks.complete_many(refs=[]) == []


@pytest.mark.parametrize("epochs", [[1], [1, 1, 1]])
def test_epochs_that_do_not_fit_the_tasks_are_refused(alice: Board, epochs: list[int]) -> None:
    refs = [claimed(alice).id, claimed(alice).id]

    with unchanged(alice), pytest.raises(Invalid, match="one for each task"):
        alice.tasks.complete_many(refs=refs, epochs=epochs)
