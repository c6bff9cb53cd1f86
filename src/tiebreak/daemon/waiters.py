"""Requests that wait for a change: one thread watches the board for all of them.

A waiter repeats a read until its answer is not empty. The read is an ordinary operation with its filters, so the same
SQL as everywhere decides what matches.

One thread sleeps in the engine's `wait`, which the commits of any process wake. It then runs the read of every waiter
again. A waiter registers before it reads for the first time, so a change in between is seen by the thread's next round:
no change is missed. While nobody waits the thread sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from threading import Condition, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ..errors import TiebreakError, Unavailable
from ..limits import MAX_CLIENT_WAITS, MAX_OPEN_WAITS
from ..operations import find
from .routes import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

    from ..engine.protocol import Engine

NAP = 5.0
"""Seconds of one sleep in the engine's `wait`."""
LONGEST_REST = 0.05
"""The longest pause, in seconds, after a round of reads."""


class WaitingRead:
    """A read that is repeated until its answer is not empty. Waiters with equal keys share one answer."""

    __slots__ = ("future", "key", "read")

    def __init__(self, read: Callable[[], Any], key: Any) -> None:
        self.read = read
        self.key = key
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Waiters:
    """All waiters of a daemon, and the thread that watches the board for them."""

    def __init__(self, engine: Engine, threads: Executor) -> None:
        self._engine = engine
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._waiters: set[WaitingRead] = set()
        self._changed = Condition()
        self._clients: Counter[str] = Counter()
        self._last = find("events.last")
        self._ended = False
        self._thread: Thread | None = None

    def __len__(self) -> int:
        return self._clients.total()

    def slot(self, client: str) -> contextlib.AbstractContextManager[None]:
        """Count one open wait while the context lasts. Raises `Problem` 429 when the client or all have too many."""
        if self._clients[client] >= MAX_CLIENT_WAITS:
            raise _too_many(f"this client has {MAX_CLIENT_WAITS} open waits already")
        if len(self) >= MAX_OPEN_WAITS:
            raise _too_many(f"{MAX_OPEN_WAITS} waits are open already")
        return self._counted(client)

    @contextlib.contextmanager
    def _counted(self, client: str) -> Any:
        self._clients[client] += 1
        try:
            yield
        finally:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    async def wait(
        self, read: Callable[[], Any], key: Any, timeout: float, gone: Callable[[], Awaitable[None]] | None = None
    ) -> Any:
        """The first answer that is not empty.

        An empty one when the time is up, the client has disconnected, or the daemon shuts down.
        """
        waiter = WaitingRead(read, key)
        with self._changed:
            self._waiters.add(waiter)
            self._changed.notify()
        if self._thread is None:
            self._thread = Thread(target=self._watch, name="tiebreak-waiters", daemon=True)
            self._thread.start()
        disconnect = asyncio.ensure_future(gone()) if gone is not None else None
        try:
            answer = await self._loop.run_in_executor(self._threads, read)
            if answer or self._ended:
                return answer
            awaited = {waiter.future} if disconnect is None else {waiter.future, disconnect}
            await asyncio.wait(awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            return waiter.future.result() if waiter.future.done() else answer
        finally:
            self._forget(waiter)
            if disconnect is not None:
                disconnect.cancel()

    def _forget(self, waiter: WaitingRead) -> None:
        with self._changed:
            self._waiters.discard(waiter)
        if waiter.future.done() and not waiter.future.cancelled():
            waiter.future.exception()  # mark it as retrieved, or asyncio logs it
        waiter.future.cancel()

    def end(self) -> None:
        """Answer every waiter with an empty list."""
        self._ended = True
        with self._changed:
            waiters = list(self._waiters)
            self._changed.notify()
        for waiter in waiters:
            _resolve(waiter, [])

    # ── In the watching thread ───────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        seen = 0
        while not self._ended:
            with self._changed:
                self._changed.wait_for(lambda: self._waiters or self._ended)
            try:
                if self._engine.wait(seen, NAP):
                    began = monotonic()
                    seen = self._read_all()
                    sleep(min(LONGEST_REST, monotonic() - began))  # so that reads take at most half of the time
            except TiebreakError as exc:
                self._answer_all(exc)
                seen = 0

    def _read_all(self) -> int:
        """Run every read once. Returns the number of the newest event from before the first read."""
        newest: int = self._engine.run(self._last, {})
        answers: dict[Any, Any] = {}
        with self._changed:
            waiters = list(self._waiters)
        for waiter in waiters:
            if waiter.key not in answers:
                try:
                    answers[waiter.key] = waiter.read()
                except TiebreakError as exc:
                    answers[waiter.key] = exc
            if answers[waiter.key]:
                self._answer(waiter, answers[waiter.key])
        return newest

    def _answer_all(self, problem: TiebreakError) -> None:
        """The board cannot be read: give every waiter the error."""
        with self._changed:
            waiters, self._waiters = list(self._waiters), set()
        for waiter in waiters:
            self._answer(waiter, problem)

    def _answer(self, waiter: WaitingRead, answer: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_resolve, waiter, answer)


def _resolve(waiter: WaitingRead, answer: Any) -> None:
    if waiter.future.done():
        return
    if isinstance(answer, BaseException):
        waiter.future.set_exception(answer)
    else:
        waiter.future.set_result(answer)


def _too_many(what: str) -> Problem:
    return Problem(429, Unavailable(what, hint="close one, or try again later"), (b"retry-after", b"1"))
