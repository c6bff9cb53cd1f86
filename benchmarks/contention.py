"""Many processes reach for work at the same time.

Compared: processes that claim as fast as they can through the API, by `tasks.next` and by references that nobody else
asks for, which queue at the gate; against the bare SQL of `next` and of its event, where they wait in SQLite's own way
(`BEGIN IMMEDIATE` with a `busy_timeout` of 5 s, which sleeps and tries again). A wait lasts from asking until having,
failed attempts included. Aims: nobody waits for longer than a second, and nobody gets less than half of what the
luckiest gets. An error through the API or a task won twice ends the benchmark; those of the bare SQL are counted, for
they are what the gate is for.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import apsw

import tiebreak

from . import boards
from .claims import NEXT, Raw
from .measure import Report, Settings, folder, percentile, progress, spread, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier

    Attempt = Callable[[], bool]

PROCESSES = (16, 64)
BARE = "bare next, without the gate"
ENOUGH = 25_000
"""Tasks for each second: more than a disk can commit."""
PATIENCE = 120.0
_WAITS = ("p50 ms", "p99 ms", "longest ms")


class Done(NamedTuple):
    """What one process did."""

    wins: list[tuple[float, float]]
    """For each task won: seconds from the start, and seconds waited for it."""
    in_vain: float
    """Seconds waited at the end for a task that was not won."""
    errors: list[str]


def run(settings: Settings) -> Report:
    """Throughput, waits, fairness and errors of each crowd."""
    lasting = settings.size(8, 2)
    report = Report(
        "contention",
        f"Processes that claim for {lasting} s, durable. Aims: no error, longest wait ≤ 1,000 ms, fewest ≥ 0.50× most.",
        ["way", "processes", "claims/s", "of bare", *_WAITS, "fewest", "most", "errors", "noise"],
    )
    with folder() as place:
        boards.board(f"{place}/full.db", lasting * ENOUGH).close()
        for count in PROCESSES:
            crowds = {way: Crowd(place, way, count, lasting) for way in WAYS}
            for crowd in crowds.values():
                crowd.claim()
            for crowd in crowds.values():
                crowd.add_to(report, crowds[BARE].rate)
    return report


class Crowd:
    """Processes on a board of their own."""

    def __init__(self, place: str, way: str, count: int, lasting: float) -> None:
        self._way, self._count, self._lasting = way, count, lasting
        self._full, self._path = f"{place}/full.db", f"{place}/board.db"
        self._done: list[Done] = []

    def claim(self) -> None:
        """Let them all go, and check what they tell against the board."""
        progress(f"{self._count} processes: {self._way}")
        shutil.copyfile(self._full, self._path)
        self._done = list(self._results())
        self._check()
        for end in ("", "-wal", "-shm", "-gate", "-refused"):
            if os.path.exists(self._path + end):
                os.remove(self._path + end)

    def _results(self) -> Iterator[Done]:
        start = _FORK.Barrier(self._count)
        ends, processes = [], []
        for who in range(self._count):
            mine, theirs = _FORK.Pipe(duplex=False)
            args = (self._way, self._path, range(who + 1, self._tasks, self._count), self._lasting, start, theirs)
            processes.append(_FORK.Process(target=_process, args=args, daemon=True))
            processes[-1].start()
            theirs.close()
            ends.append(mine)
        for end in ends:
            yield end.recv()  # EOFError: that process has ended with a traceback
        for process in processes:
            process.join()

    @property
    def _tasks(self) -> int:
        return int(self._lasting * ENOUGH)

    def _check(self) -> None:
        wins = sum(len(done.wins) for done in self._done)
        connection = boards.raw(self._path)
        claimed = connection.execute("SELECT count(*), max(epoch) FROM tasks WHERE state = 'claimed'").fetchall()
        connection.close()
        if claimed != [(wins, 1)]:
            raise AssertionError(f"{self._way}: {wins} wins, but (tasks claimed, highest epoch) is {claimed}")
        if self._way != BARE and self._errors:
            raise AssertionError(f"{self._way}: {len(self._errors)} errors, such as {self._errors[0]}")

    @property
    def _errors(self) -> list[str]:
        return [error for done in self._done for error in done.errors]

    @property
    def rate(self) -> float:
        """Claims per second."""
        return sum(self._each()) / self._lasting

    def _each(self) -> list[int]:
        """How many each process won in time."""
        return [sum(ended < self._lasting for ended, _ in done.wins) for done in self._done]

    def add_to(self, report: Report, bare: float) -> None:
        """One row."""
        waits = [wait * 1000 for done in self._done for _, wait in done.wins]
        longest = max(*waits, *(done.in_vain * 1000 for done in self._done))
        each = self._each()
        by_second = Counter(int(ended) for done in self._done for ended, _ in done.wins)
        rates = [float(by_second[second]) for second in range(int(self._lasting))]
        middle = [percentile(waits, 50), percentile(waits, 99), longest]
        counts = [min(each), max(each), len(self._errors)]
        report.add(self._way, self._count, self.rate, times(self.rate, bare), *middle, *counts, spread(rates))


# ── In each process ──────────────────────────────────────────────────────────────────────────────────

_FORK = multiprocessing.get_context("fork")


def _process(way: str, path: str, numbers: range, lasting: float, start: Barrier, result: Connection) -> None:
    attempt = WAYS[way](path, numbers)
    start.wait(PATIENCE)
    result.send(_claim_until(attempt, lasting))


def _claim_until(attempt: Attempt, lasting: float) -> Done:
    done, in_vain = Done([], 0.0, []), 0.0
    begun = asked = time.monotonic()
    while asked - begun < lasting:
        try:
            if not attempt():
                raise AssertionError("no task is left: this disk is faster than ENOUGH")
        except (tiebreak.TiebreakError, apsw.BusyError) as exc:
            done.errors.append(f"{type(exc).__name__}: {exc}")
            in_vain = time.monotonic() - asked
            if asked + in_vain - begun < lasting:
                continue
            break
        now = time.monotonic()
        done.wins.append((now - begun, now - asked))
        asked, in_vain = now, 0.0
    return done._replace(in_vain=in_vain)


def _next(path: str, _: range) -> Attempt:
    board = tiebreak.open(path, agent=f"claimer~{os.getpid()}", project=boards.PROJECT)
    return lambda: bool(board.tasks.next())


def _by_reference(path: str, numbers: range) -> Attempt:
    board = tiebreak.open(path, agent=f"claimer~{os.getpid()}", project=boards.PROJECT)
    refs = (f"#{number}" for number in numbers)
    return lambda: bool(board.tasks.claim(ref=next(refs)))


def _bare(path: str, _: range) -> Attempt:
    board = tiebreak.open(path, project=boards.PROJECT)
    now = int(board.upkeep.status().now * 1_000_000)
    board.close()
    connection = boards.raw(path)
    raw = Raw(connection, now)

    def attempt() -> bool:
        try:
            return bool(raw.one_and_tell(NEXT, count=1))
        except apsw.BusyError:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    return attempt


WAYS: dict[str, Callable[[str, range], Attempt]] = {"next": _next, "claim by reference": _by_reference, BARE: _bare}
