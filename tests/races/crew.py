"""A crew: workers that prepare, meet at a starting line, run at the same instant, and report.

A worker is a generator function. What stands before its `yield` is preparation, the `yield` is the starting
line, and what it returns is its report. The same worker runs in a process or in a thread:

    def claimer(address, agent, refs):
        board = tiebreak.open(address, agent=agent, project=PROJECT)
        yield
        return [ref for ref in refs if wins(board, ref)]

Processes are forked from one warm server that has imported everything and holds no board, so sixteen of
them start in a fraction of a second and none inherits a lock. The line is an exclusive `flock` held by the
test: letting go of it wakes all of them at once.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running
from typing import IO, Any, TypeVar

T = TypeVar("T")
Worker = Callable[..., Generator[None, None, T]]
Plant = Callable[[Callable[[object, str, object], None]], None]
"""A bug to be planted in a worker before it starts; see `plants`."""

PROJECT = "race"
PATIENCE = 200.0
"""No crew takes longer than this; whoever is not back by then hangs."""

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        "pytest",
        "tiebreak.engine.postgres",
        "tests.races.plants",
        "tests.races.scenarios",
        "tests.crash.writers",
        "tests.histories.lives",
    ]
)


def _server_runs() -> None:
    """Start the server that workers are forked from, if it does not run yet. They do not count for the coverage."""
    measuring = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("COV")}
    try:
        ensure_running()
    finally:
        os.environ.update(measuring)


class WorkerFailed(Exception):
    """A worker raised, died or did not come back."""


def race(
    worker: Worker[T],
    each: Iterable[Sequence[Any]],
    *,
    plant: Plant | None = None,
    patience: float = PATIENCE,
) -> list[T]:
    """Run one process for each tuple of arguments, all from the same instant; their reports in that order."""
    with Crew(worker, each, plant=plant, patience=patience) as crew:
        crew.go()
        return crew.reports()


class Crew:
    """Processes under way; leaving the context ends those that are left."""

    def __init__(
        self,
        worker: Worker[Any],
        each: Iterable[Sequence[Any]],
        *,
        plant: Plant | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.deadline = time.monotonic() + patience
        self._line: IO[bytes] = tempfile.NamedTemporaryFile(prefix="line-")  # noqa: SIM115
        fcntl.flock(self._line, fcntl.LOCK_EX)
        self.processes = []
        self._reports: list[Connection] = []
        _server_runs()
        for args in each:
            mine, theirs = processes.Pipe(duplex=False)
            process = processes.Process(target=_run, args=(theirs, self._line.name, plant, worker, tuple(args)))
            process.start()
            theirs.close()
            self.processes.append(process)
            self._reports.append(mine)

    def go(self) -> None:
        """Wait until all stand at the line, then let them run."""
        for report in self._reports:
            _expect(report, "ready", self.deadline)
        fcntl.flock(self._line, fcntl.LOCK_UN)

    def kill(self) -> None:
        """End them as a crash would, wherever they are, and wait until they are gone."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()

    def reports(self) -> list[Any]:
        """What each of them returned."""
        return [_expect(report, "done", self.deadline) for report in self._reports]

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._line, fcntl.LOCK_UN)
        for process in self.processes:
            process.join(timeout=5.0)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._line.close()


def _expect(report: Connection, stage: str, deadline: float) -> Any:
    if not report.poll(max(0.0, deadline - time.monotonic())):
        raise WorkerFailed(f"a worker hangs before it is {stage}")
    try:
        said, what = report.recv()
    except EOFError:
        raise WorkerFailed(f"a worker died before it was {stage}") from None
    if said != stage:
        raise WorkerFailed(what)
    return what


def _run(report: Connection, line: str, plant: Plant | None, worker: Worker[Any], args: tuple[Any, ...]) -> None:
    try:
        if plant is not None:
            plant(setattr)
        running = worker(*args)
        next(running)
        with open(line, "rb") as start:
            report.send(("ready", None))
            fcntl.flock(start, fcntl.LOCK_SH)
        report.send(("done", _finish(running)))
    except BaseException:
        report.send(("failed", traceback.format_exc()))


def _finish(running: Generator[None, None, T]) -> T:
    try:
        next(running)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a worker has one starting line")


def race_threads(worker: Worker[T], each: Iterable[Sequence[Any]], *, patience: float = PATIENCE) -> list[T]:
    """The same with threads of this process."""
    arguments = list(each)
    line = threading.Barrier(len(arguments), timeout=patience)
    reports: list[Any] = [WorkerFailed("a thread hangs")] * len(arguments)

    def run(i: int) -> None:
        try:
            running = worker(*arguments[i])
            next(running)
            line.wait()
            reports[i] = _finish(running)
        except BaseException as exc:
            reports[i] = exc

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(arguments))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    for report in reports:
        if isinstance(report, BaseException):
            raise WorkerFailed("a thread failed") from report
    return reports
