"""Group commit: all writes that wait at the same moment go into one transaction and share one sync of the disk.

The writer takes everything that has arrived in one turn of the event loop. Each operation has a savepoint of its own,
so a failed operation undoes only itself. Then comes one commit, and only then the answers.

On SQLite the event loop commits by itself, because handing a commit to a thread and back would take longer than the
commit. A thread commits when another process has the board locked, when recent commits were slow, and on PostgreSQL
always. Streams, waits and reads then continue in the meantime.

An operation may defer work to later steps (see `operations.deferred_work`). The writer continues it after the
operation has been answered. Each step is a transaction of its own on a thread, queued behind the writes that wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..errors import Unavailable
from ..operations import find

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ..engine.protocol import Engine
    from ..operations import Call
    from .metrics import Metrics

    Entry = tuple[list[Call], asyncio.Future[list[Any]]]

MOST_TOGETHER = 256
"""Operations in one transaction. With more, the first would wait too long for their answers."""
MOST_WAITING = 20_000
"""Operations in the queue. Beyond that, clients write faster than the disk, and further writes are refused."""
SLOW = 0.005
"""Seconds: when commits take longer than this, a thread makes them until they are quick again."""


class Writer:
    """The queue of writes, and the commits that empty it."""

    def __init__(self, engine: Engine, threads: Executor, metrics: Metrics) -> None:
        self._engine = engine
        self._threads = threads
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Entry] = deque()
        self._scheduled = False
        self._running = 0
        """Transactions that threads are committing."""
        self._commit_time = 0.0
        """An average of the last commits, in seconds. It falls at once when a commit is quicker."""
        self._being_continued: set[str] = set()
        """The projects with a step that is queued or running."""
        self._step = find("tasks.cascade")
        self.draining = False
        """Whether no further step is begun. The next daemon does what is left."""
        self.depth = 0
        """Operations that are queued or being committed."""

    def submit(self, calls: list[Call]) -> asyncio.Future[list[Any]]:
        """Queue calls that are to run together. The future has an answer for each: its result or its error."""
        if self.depth + len(calls) > MOST_WAITING:
            raise Unavailable(f"{self.depth} writes are waiting already", hint="try again in a moment")
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self._queue.append((calls, future))
        self.depth += len(calls)
        self._go_on()
        return future

    def _go_on(self) -> None:
        """Schedule a commit for the next turn of the loop, if the queue is not empty and a writer is free."""
        if self._queue and not self._scheduled and self._running < self._engine.writers:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Commit one batch from the queue, and schedule the next."""
        self._scheduled = False
        entries = self._take()
        calls = [call for each, _ in entries for call in each]
        if self._is_step(entries[0]):
            self._commit_on_thread(entries, calls)
            self._go_on()
            return
        began = perf_counter()
        try:
            needs_thread = self._commit_time > SLOW or len(calls) > MOST_TOGETHER
            answers = None if needs_thread else self._engine.batch_at_once(calls)
        except Exception as exc:
            self._fail(entries, exc)
        else:
            if answers is None:
                self._commit_on_thread(entries, calls)
            else:
                self._answer(entries, answers, perf_counter() - began)
        self._go_on()

    def _take(self) -> list[Entry]:
        entries: list[Entry] = []
        size = 0
        while self._queue and (not entries or size + len(self._queue[0][0]) <= MOST_TOGETHER):
            if self._is_step(self._queue[0]) and entries:
                break
            entry = self._queue.popleft()
            entries.append(entry)
            size += len(entry[0])
            if self._is_step(entry):
                break
        return entries

    def _is_step(self, entry: Entry) -> bool:
        """Whether this is a step of deferred work. No client waits for it, so it gets a transaction of its own."""
        return entry[0][0][0] is self._step

    def _queue_deferred_work(self) -> None:
        """Queue a step for each project with deferred work."""
        projects = self._engine.deferred_work
        while projects and not self.draining:
            project = projects.pop()
            if project not in self._being_continued:
                self._being_continued.add(project)
                self._queue_step(project)

    def _queue_step(self, project: str) -> None:
        step: asyncio.Future[list[Any]] = self._loop.create_future()
        self._queue.append(([(self._step, {"project": project}, None)], step))
        self.depth += 1

        def done(finished: asyncio.Future[list[Any]]) -> None:
            if finished.cancelled() or finished.exception() is not None:
                again = False  # the board is not available; the next sweep continues
            else:
                [answer] = finished.result()
                again = isinstance(answer, int) and answer > 0 and not self.draining
            if again:
                self._queue_step(project)
                self._go_on()
            else:
                self._being_continued.discard(project)

        step.add_done_callback(done)

    def _commit_on_thread(self, entries: list[Entry], calls: list[Call]) -> None:
        began = perf_counter()
        self._running += 1
        work = self._loop.run_in_executor(self._threads, self._engine.batch, calls)

        def done(finished: asyncio.Future[list[Any]]) -> None:
            self._running -= 1
            problem = finished.exception()
            if problem is None:
                self._answer(entries, finished.result(), perf_counter() - began)
            else:
                self._fail(entries, problem)
            self._go_on()

        work.add_done_callback(done)

    def _answer(self, entries: list[Entry], answers: list[Any], took: float) -> None:
        self._metrics.batch_size.add(len(answers))
        self._metrics.commit.add(took)
        if not self._is_step(entries[0]):
            self._commit_time = took if took < self._commit_time else (self._commit_time * 7 + took) / 8
        at = 0
        for calls, future in entries:
            end = at + len(calls)
            if not future.cancelled():
                future.set_result(answers[at:end])
            at = end
        self.depth -= at
        self._queue_deferred_work()

    def _fail(self, entries: list[Entry], problem: BaseException) -> None:
        self._commit_time = 0.0
        for calls, future in entries:
            self.depth -= len(calls)
            if not future.cancelled():
                future.set_exception(problem)
