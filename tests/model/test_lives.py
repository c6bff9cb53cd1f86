"""Sequences of calls in which a board once differed from its reference, run again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.engines import ENGINES

from .machine import BoardMachine
from .test_model import machine


@pytest.fixture(params=sorted(ENGINES))
def life(request: pytest.FixtureRequest) -> Iterator[BoardMachine]:
    """A board beside its reference."""
    made = machine(request.param)()
    yield made
    made.teardown()


def agree(life: BoardMachine) -> None:
    """Everything that can be seen is the same."""
    life.tasks_are_the_same()
    life.holds_are_the_same()
    life.nobody_shares_a_file()


def post(life: BoardMachine, *after: int, **facts: Any) -> None:
    """A task that comes after those numbers."""
    plain = {"key": None, "priority": "normal", "delay": 0.0, "run_anyway": False, "max_attempts": 1, "backoff": 0.0}
    life.post(after=[number - 1 for number in after], **{**plain, **facts})


def newest(life: BoardMachine, number: int) -> int:
    """How a rule names a task: counted from the newest."""
    return len(life.reference.tasks) - number


def test_next_finds_at_once_what_a_lapse_has_unblocked(life: BoardMachine) -> None:
    post(life)
    post(life, 1, delay=2.0, run_anyway=True)
    life.claim(newest(life, 1), "ann~1", 1.0)
    life.time_passes(3.0)
    life.next("bob~1", 1, 60.0)
    agree(life)


def test_a_task_cancelled_while_blocked_is_blocked_when_reopened(life: BoardMachine) -> None:
    post(life)
    post(life, 1)
    life.cancel(newest(life, 2))
    life.retry(newest(life, 2))
    agree(life)
    life.claim(newest(life, 2), "ann~1", 1.0)
    agree(life)


def test_a_task_that_ends_twice_counts_once_for_what_comes_after_it(life: BoardMachine) -> None:
    post(life)
    post(life)
    post(life, 1, 2, run_anyway=True)
    life.cancel(newest(life, 1))
    life.retry(newest(life, 1))
    life.cancel(newest(life, 1))
    agree(life)
    life.cancel(newest(life, 2))
    agree(life)


def test_a_file_cannot_be_handed_out_of_a_glob_that_is_kept(life: BoardMachine) -> None:
    life.take(["file:src/a.py", "file:src/*.py"], "ann~1", 60.0, None, False)
    life.transfer("file:src/a.py", "ann~1", True, "any", "bob~1", 60.0)
    agree(life)


def test_a_lapse_that_unblocks_at_second_hand_is_seen_by_a_claim(life: BoardMachine) -> None:
    post(life)
    life.claim(newest(life, 1), "ann~1", 1.0)
    post(life, max_attempts=3)
    life.claim(newest(life, 2), "ann~1", 1.0)
    post(life, 1)
    life.time_passes(1.0)
    post(life, 3, run_anyway=True)
    life.claim(newest(life, 4), "ann~1", 1.0)
    agree(life)
