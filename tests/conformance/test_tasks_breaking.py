"""Breaking a claim: anybody may take a task away with a reason; the old holder is fenced, and no attempt is used up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tiebreak import Board
from tiebreak.errors import Fenced, Invalid, NotFound
from tiebreak.names import STATES

from .engines import Place
from .tasks_support import changes, claimed, in_state, unchanged


def test_a_broken_claim_is_ready_again_and_the_next_one_gets_the_next_epoch(alice: Board, bob: Board) -> None:
    task = claimed(alice)

    broken = bob.tasks.break_(task.id, reason="the tab was closed")

    assert (broken.state, broken.holder, broken.until, broken.epoch) == ("pending", None, None, 1)
    assert bob.tasks.claim(ref=task.id).epoch == 2


def test_the_log_tells_who_broke_a_claim_whose_it_was_and_why(alice: Board, bob: Board) -> None:
    task = claimed(alice)

    bob.tasks.break_(task.id, reason="the tab was closed")

    event = changes(bob)[-1]
    assert (event.event, event.subject, event.agent, event.epoch) == ("task.broken", task.id, "bob", 1)
    assert (event.state, event.note) == ("pending", "held by alice: the tab was closed")
    assert "bob broke the claim (epoch 1)" in bob.events.why(ref=task.id)[-2].text


@pytest.mark.parametrize("write", ["extend", "complete", "fail", "release"])
def test_the_old_holder_of_a_broken_claim_writes_nothing(alice: Board, bob: Board, write: str) -> None:
    task = claimed(alice)
    bob.tasks.break_(task.id, reason="stuck")

    with unchanged(bob), pytest.raises(Fenced):
        alice.call(f"tasks.{write}", {"ref": task.id, "epoch": 1})


def test_a_break_never_makes_a_task_fail_not_even_its_last_attempt(alice: Board, bob: Board) -> None:
    task = claimed(alice, max_attempts=1)
    later = alice.tasks.post(name="later", after=[task.id])

    broken = bob.tasks.break_(task.id, reason="stuck")

    assert (broken.state, broken.attempts) == ("pending", 0)
    assert bob.tasks.get(ref=later.id).state == "blocked"
    assert bob.tasks.claim(ref=task.id).epoch == 2


@pytest.mark.parametrize("state", [state for state in STATES if state != "claimed"])
def test_what_nobody_has_claimed_cannot_be_broken(alice: Board, bob: Board, state: str) -> None:
    task = in_state(alice, state)

    with unchanged(alice), pytest.raises(NotFound, match=f"not claimed by anybody: it is {state}"):
        bob.tasks.break_(task.id, reason="stuck")


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_lapsed_claim_cannot_be_broken(place: Place, alice: Board, bob: Board, attempts: int) -> None:
    task = claimed(alice, lease=10, max_attempts=attempts)
    place.advance(10)

    with unchanged(alice), pytest.raises(NotFound, match="the lease ran out"):
        bob.tasks.break_(task.id, reason="stuck")


def test_a_late_break_does_not_hit_the_next_holder(alice: Board, bob: Board) -> None:
    task = claimed(alice)
    alice.tasks.release(ref=task.id)
    bob.tasks.claim(ref=task.id)

    with unchanged(alice), pytest.raises(NotFound, match="bob has it as epoch 2"):
        alice.tasks.break_(task.id, reason="stuck", epoch=1)


def test_a_break_needs_a_reason(alice: Board, bob: Board) -> None:
    task = claimed(alice)

    with unchanged(alice), pytest.raises(Invalid, match="reason"):
        bob.call("tasks.break", {"ref": task.id})


def test_of_many_breaks_of_one_claim_one_succeeds(place: Place, alice: Board) -> None:
    task = claimed(alice)
    boards = [place.open(f"agent-{i}") for i in range(6)]

    def breaking(board: Board) -> str:
        try:
            return board.tasks.break_(task.id, reason="stuck").state
        except NotFound:
            return "too late"

    with ThreadPoolExecutor(len(boards)) as pool:
        answers = list(pool.map(breaking, boards))

    assert sorted(answers) == ["pending", *["too late"] * 5]
    assert [event.event for event in changes(alice)].count("task.broken") == 1
