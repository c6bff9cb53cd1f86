"""How soon a waiter learns of a commit in another process, and what waiting costs.

Compared: `board.wait` in one process, from the moment a commit has returned in another, against a byte through a pipe
(what the kernel needs to wake a process) and against looking at `PRAGMA data_version` every millisecond (what one does
without notifications). A waiter can be back before the writer is: then the figure is negative. A board's waiter looks
again a few times while it settles down, so it is measured both in its first quarter of a second and asleep. Idle is the
CPU time of a waiter to whom nothing happens. Aims: half within 1 ms, 99 % within 5 ms, idle at most 1 ms a second.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import resource
import select
import time
from typing import TYPE_CHECKING

import tiebreak

from . import boards
from .measure import Report, Settings, folder, in_turns, percentile, progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    import apsw

    Sleep = Callable[[float], object]
    """Sleep until there is news, or for so many seconds."""

SETTLED = 0.3
"""Seconds after which a waiter has settled down."""
PATIENCE = 30.0

_FORK = multiprocessing.get_context("fork")


def run(settings: Settings) -> Report:
    """Latency and idle CPU of each way to wait."""
    rounds, idle = settings.size(300, 10), settings.size(5, 1)
    with folder() as place:
        path = f"{place}/board.db"
        boards.board(path, 1000).close()
        ends = os.pipe()
        board, pipe, poll = Waiter(_board(path)), Waiter(_pipe(ends[0])), Waiter(_poll(path))
        writer = tiebreak.open(path, agent=boards.AGENT, project=boards.PROJECT)

        def commit() -> None:
            writer.tasks.post(name="news")

        found = in_turns(
            {
                "board.wait, asleep": lambda: board.latency(commit, SETTLED + _jitter(0.05)),
                "board.wait, in its first 0.25 s": lambda: board.latency(commit, _jitter(0.25)),
                "data_version every 1 ms": lambda: poll.latency(commit, _jitter(0.02)),
                "a byte through a pipe": lambda: pipe.latency(lambda: os.write(ends[1], b"!"), _jitter(0.02)),
            },
            rounds,
        )
        progress(f"idle for {idle} s each")
        asleep, _, polling, reading = found
        lazy = {name: each.idle(idle) for name, each in ((asleep, board), (polling, poll), (reading, pipe))}
        for each in (board, pipe, poll, writer):
            each.close()
    return _report(found, lazy)


def _jitter(most: float) -> float:
    return random.uniform(0.0, most)


def _report(found: dict[str, list[float]], lazy: dict[str, float]) -> Report:
    count = len(next(iter(found.values())))
    report = Report(
        "waiting",
        f"From the return of a commit to the return of a waiter in another process, {count} times in turns; and CPU "
        "time of a waiter per second without news. Aims: p50 ≤ 1 ms, p99 ≤ 5 ms, idle ≤ 1 ms/s.",
        ["waiter", "p50 ms", "p99 ms", "longest ms", "idle CPU ms/s"],
    )
    for name, taken in found.items():
        ms = [each * 1000 for each in taken]
        report.add(name, percentile(ms, 50), percentile(ms, 99), max(ms), lazy[name] * 1000 if name in lazy else "")
    return report


class Waiter:
    """A process that waits when it is told to."""

    def __init__(self, ready: Callable[[], Sleep]) -> None:
        self._line, theirs = _FORK.Pipe()
        self._process = _FORK.Process(target=_obey, args=(ready, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def latency(self, news: Callable[[], object], after: float) -> float:
        """Let it wait for so long before there is news; seconds from there to its return."""
        self._line.send(PATIENCE)
        self._line.recv()
        time.sleep(after)
        news()
        told = time.monotonic()
        woken: float = self._line.recv()[0]
        if woken - told > PATIENCE / 2:
            raise AssertionError("a waiter missed the news")
        return woken - told

    def idle(self, seconds: float) -> float:
        """CPU seconds per second of waiting for nothing."""
        self._line.send(seconds)
        self._line.recv()
        used: float = self._line.recv()[1]
        return used / seconds

    def close(self) -> None:
        """Send it home."""
        self._line.send(None)
        self._process.join()


# ── In the waiter's process ──────────────────────────────────────────────────────────────────────────


def _obey(ready: Callable[[], Sleep], line: Connection) -> None:
    while (timeout := line.recv()) is not None:
        sleep = ready()
        line.send("waiting")
        before = _cpu()
        sleep(timeout)
        line.send((time.monotonic(), _cpu() - before))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _board(path: str) -> Callable[[], Sleep]:
    board: list[tiebreak.Board] = []  # opened in the process that uses it

    def ready() -> Sleep:
        if not board:
            board.append(tiebreak.open(path, agent="waiter~one", project=boards.PROJECT))
        seen = board[0].events.last()

        def sleep(timeout: float) -> None:
            with contextlib.suppress(tiebreak.TimedOut):
                board[0].wait(after=seen, timeout=timeout)

        return sleep

    return ready


def _poll(path: str) -> Callable[[], Sleep]:
    connection: list[apsw.Connection] = []  # opened in the process that uses it

    def version() -> object:
        return connection[0].execute("PRAGMA data_version").fetchall()[0][0]

    def ready() -> Sleep:
        if not connection:
            connection.append(boards.raw(path))
        seen = version()

        def sleep(timeout: float) -> None:
            end = time.monotonic() + timeout
            while version() == seen and time.monotonic() < end:
                time.sleep(0.001)

        return sleep

    return ready


def _pipe(end: int) -> Callable[[], Sleep]:
    def ready() -> Sleep:
        return lambda timeout: select.select([end], [], [], timeout)[0] and os.read(end, 1)

    return ready
