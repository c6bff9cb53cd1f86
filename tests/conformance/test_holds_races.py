"""Holds under contention: of many callers at the same moment, the right number wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any

import pytest

from tiebreak import Board, Fenced, Hold, Lost

from .engines import Place

AGENTS = 4
ROUNDS = 10
SOON = 90.0


class Crowd:
    """Several agents, each on a board and in a thread of its own, that all act at the same moment."""

    def __init__(self, place: Place) -> None:
        self.boards = [place.open(f"agent{i}") for i in range(AGENTS)]
        self._pool = ThreadPoolExecutor(AGENTS)

    def rush(self, act: Callable[[int, Board], Any]) -> list[Any]:
        """What each got; None for those who lost."""
        start = Barrier(AGENTS)

        def attempt(i: int) -> Any:
            start.wait(SOON)
            try:
                return act(i, self.boards[i])
            except Lost:
                return None

        futures = [self._pool.submit(attempt, i) for i in range(AGENTS)]
        return [future.result(SOON) for future in futures]

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def crowd(place: Place) -> Iterator[Crowd]:
    """A crowd of agents."""
    made = Crowd(place)
    yield made
    made.close()


def winners(crowd: Crowd, *names: str, **more: Any) -> list[Hold]:
    """The holds that were won when everybody reached for one of these names at once."""

    def take(n: int, board: Board) -> list[Hold]:
        return board.holds.take(resources=[names[n % len(names)]], **more)

    return [answer[0] for answer in crowd.rush(take) if answer]


def test_of_many_at_once_exactly_one_wins(crowd: Crowd) -> None:
    for i in range(ROUNDS):
        assert len(winners(crowd, f"lock:{i}")) == 1


def test_epochs_have_no_gap_and_no_repeat_when_many_take_turns(crowd: Crowd) -> None:
    def turns(_: int, board: Board) -> list[int]:
        epochs: list[int] = []
        while len(epochs) < 5:
            with board.hold("lock:deploy", wait=SOON) as holding:
                epochs.append(holding.epoch)
        return epochs

    epochs = sorted(epoch for mine in crowd.rush(turns) for epoch in mine)
    assert epochs == list(range(1, AGENTS * 5 + 1))


def test_a_glob_and_a_path_are_not_won_at_the_same_moment(crowd: Crowd) -> None:
    for i in range(ROUNDS):
        assert len(winners(crowd, f"file:{i}/**", f"file:{i}/a.py", f"file:{i}/*.py", f"file:{i}/?.py")) == 1


def test_a_pool_is_not_overdrawn_at_the_same_moment(crowd: Crowd) -> None:
    for i in range(ROUNDS):
        assert sorted(hold.slot for hold in winners(crowd, f"pool:{i}", slots=2)) == [0, 1]


def test_opposite_orders_neither_deadlock_nor_split(crowd: Crowd) -> None:
    def take(n: int, board: Board) -> list[Hold]:
        return board.holds.take(resources=["lock:a", "lock:b"] if n % 2 else ["lock:b", "lock:a"])

    operator = crowd.boards[0]
    for _ in range(ROUNDS):
        assert sum(answer is not None for answer in crowd.rush(take)) == 1
        assert len({hold.holder for hold in operator.holds.list()}) == 1
        for resource in ("lock:a", "lock:b"):
            operator.call("holds.break", {"resource": resource, "reason": "next round"})


def test_a_handover_and_a_break_at_the_same_moment_leave_one_truth(crowd: Crowd) -> None:
    def hand_over_or_break(n: int, board: Board) -> None:
        with suppress(Fenced):
            if n == 0:
                board.holds.transfer(resource="lock:deploy", to="agent3~test")
            elif n == 1:
                board.call("holds.break", {"resource": "lock:deploy", "reason": "stuck"})

    holder = crowd.boards[0]
    for _ in range(ROUNDS):
        holder.holds.take(resources=["lock:deploy"])
        before = holder.events.last()
        crowd.rush(hand_over_or_break)
        told = [event.event for event in holder.events.read(after=before) if event.event != "hold.fenced"]
        assert told in (["hold.broken"], ["hold.transferred", "hold.broken"])
        assert holder.holds.list() == []
