"""Eight threads reach for the same two hundred tasks: 1,600 attempts, 200 winners.

Compared: (a) one durable `tasks.claim` for each attempt, on one board that the threads share; (b) `tasks.claim_many`,
each thread asking for all tasks at once; against the bare SQL of a claim on one connection behind a plain lock.
Aims: (a) within 100 ms (the figure that coord publishes for this race is 70 ms), (b) within 15 ms. Whoever is slow is
slow, but a race with more or fewer than 200 winners ends the benchmark.
"""

from __future__ import annotations

import threading
from statistics import median
from typing import TYPE_CHECKING

import tiebreak

from . import boards
from .claims import CLAIM, Raw
from .measure import Report, Settings, folder, in_turns, percentile, seconds, times

if TYPE_CHECKING:
    from collections.abc import Callable

TASKS, THREADS = 200, 8


def race(racer: Callable[[int, range], int], numbers: range) -> float:
    """Let all threads go at the same moment; seconds until the last is done.

    A racer is told who it is and which tasks to reach for, and returns how many it won.
    """
    start = threading.Barrier(THREADS + 1)
    won = [0] * THREADS

    def run(who: int) -> None:
        start.wait()
        won[who] = racer(who, numbers)

    threads = [threading.Thread(target=run, args=(who,)) for who in range(THREADS)]
    for thread in threads:
        thread.start()

    def until_the_last() -> None:
        start.wait()
        for thread in threads:
            thread.join()

    taken = seconds(until_the_last)
    if sum(won) != len(numbers):
        raise AssertionError(f"{sum(won)} winners of {len(numbers)} tasks: {won}")
    return taken


def run(settings: Settings) -> Report:
    """How long the race takes, one attempt at a time, all at once, and bare."""
    rounds = settings.size(15, 2)
    with folder() as place:
        ready = TASKS * (rounds + 1)
        shared, batched = (boards.board(f"{place}/{name}.db", ready) for name in ("shared", "batched"))
        boards.board(f"{place}/bare.db", ready).close()
        connection = boards.raw(f"{place}/bare.db")
        raw = Raw(connection, int(shared.upkeep.status().now * 1_000_000))
        ways = {
            "claim, one shared board": _one_by_one(shared),
            "claim_many": _at_once(batched),
            "bare SQL behind a lock": _bare(raw),
        }
        found = in_turns({name: _rounds(racer) for name, racer in ways.items()}, rounds)
        for each in (shared, batched, connection):
            each.close()
    report = Report(
        "race",
        f"{TASKS} tasks × {THREADS} threads = 1,600 attempts, {TASKS} winners every time, durable. "
        "Aims: claim ≤ 100 ms, claim_many ≤ 15 ms.",
        ["way", "median ms", "best ms", "worst ms", "of bare"],
    )
    bare = median(found["bare SQL behind a lock"])
    for name, taken in found.items():
        ms = [each * 1000 for each in taken]
        report.add(name, median(ms), percentile(ms, 0), percentile(ms, 100), times(median(taken), bare))
    return report


def _rounds(racer: Callable[[int, range], int]) -> Callable[[], float]:
    numbers = iter(range(1, 1_000_000, TASKS))

    def one() -> float:
        first = next(numbers)
        return race(racer, range(first, first + TASKS))

    return one


def _one_by_one(board: tiebreak.Board) -> Callable[[int, range], int]:
    def racer(who: int, numbers: range) -> int:
        won = 0
        for number in numbers:
            try:
                board.tasks.claim(ref=f"#{number}", agent=f"racer{who}~one")
                won += 1
            except tiebreak.Lost:
                pass
        return won

    return racer


def _at_once(board: tiebreak.Board) -> Callable[[int, range], int]:
    def racer(who: int, numbers: range) -> int:
        return len(board.tasks.claim_many(refs=[f"#{number}" for number in numbers], agent=f"racer{who}~one"))

    return racer


def _bare(raw: Raw) -> Callable[[int, range], int]:
    lock = threading.Lock()

    def attempt(who: int, number: int) -> int:
        with lock:
            return raw.one(CLAIM, number=number, agent=f"racer{who}~one")

    def racer(who: int, numbers: range) -> int:
        return sum(attempt(who, number) for number in numbers)

    return racer
