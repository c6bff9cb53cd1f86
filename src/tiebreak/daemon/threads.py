"""Threads for work that may take long: a bounded number at once, and a bounded number that waits for one.

They are daemon threads, so that a daemon that ends does not wait for them. An executor's threads would be waited for.
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


class SlowThreads:
    """Runs functions on threads of their own. Made and used inside the event loop."""

    def __init__(self, name: str, at_once: int, in_all: int) -> None:
        self._name = name
        self._in_all = in_all
        self._free = asyncio.Semaphore(at_once)
        self.count = 0
        """How many run or wait for a thread."""

    async def run(self, function: Callable[[], T]) -> T:
        """What the function returns, once it has had its turn; `Problem` 429 if too many wait already."""
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
            # The thread has ended, also if nobody waits for it any more: only now is its place free.
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
            with suppress(RuntimeError):  # the daemon has ended
                loop.call_soon_threadsafe(ended, result, problem)

        threading.Thread(target=work, name=f"tiebreak-{self._name}", daemon=True).start()
        return future
