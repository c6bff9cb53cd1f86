"""Threads for slow work: a limited number run at once, and a limited number of calls wait for a free thread.

They are daemon threads, so the process can exit while they run. The threads of an executor would delay the exit.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ..errors import Unavailable
from .routes import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")


class BoundedThreads:
    """Runs each function on a new thread, at most `at_once` at a time. Create and use it inside the event loop."""

    def __init__(self, name: str, at_once: int, in_all: int) -> None:
        self._name = name
        self._in_all = in_all
        self._free = asyncio.Semaphore(at_once)
        self.count = 0
        """The number of calls that run or wait for a thread."""

    async def run(self, function: Callable[[], T]) -> T:
        """Run the function and return its result. Raises `Problem` 429 if `in_all` calls run or wait already."""
        if self.count >= self._in_all:
            error = Unavailable(f"{self.count} {self._name}s are being answered already", hint="try again in a moment")
            raise Problem(429, error, (b"retry-after", b"1"))
        self.count += 1
        try:
            await self._free.acquire()
        except BaseException:
            self.count -= 1
            raise
        return await self._started(function)

    def _started(self, function: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def ended(result: T | None, problem: BaseException | None) -> None:
            # Only now is the thread free, also when the caller stopped waiting for it long ago.
            self.count -= 1
            self._free.release()
            if future.cancelled():
                return
            if problem is None:
                future.set_result(result)  # type: ignore[arg-type]
            else:
                future.set_exception(problem)

        def work() -> None:
            result, problem = None, None
            try:
                result = function()
            except BaseException as exc:
                problem = exc
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(ended, result, problem)

        threading.Thread(target=work, name=f"tiebreak-{self._name}", daemon=True).start()
        return future
