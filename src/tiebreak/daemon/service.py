"""The service: operations for the routes. It sends writes to the writer, reads to threads, and waits to the hub."""

from __future__ import annotations

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from time import time
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import Fenced, Invalid, Lost, Refused, TiebreakError, TimedOut, Unavailable
from ..limits import LONGEST_WAIT
from ..names import shown
from ..operations import every, find
from ..process_identity import identity, token
from .metrics import Metrics
from .security import admitted, all_admitted, told
from .threads import SlowThreads
from .waiters import Hub
from .writer import Writer

if TYPE_CHECKING:
    from ..engine.protocol import Call, Engine
    from ..operations import Operation
    from .routes import Request
    from .security import Guard

WAIT_MS = int(LONGEST_WAIT * 1000)
"""Milliseconds for which one request may wait."""
READERS = 4
CALLERS = 32
"""Threads for those who use the daemon as a board: the tools of `/mcp`."""
HOOKS = 16
"""Hooks that are decided at once."""
MOST_HOOKS = 512
"""Those and the ones that wait for their turn."""
MOST_TRIES = 10_000
"""Repeated calls whose last try is remembered."""
SWEEP = 1.0
TEND = 10.0
log = logging.getLogger("tiebreak")

_OUTCOMES = ((Lost, "lost"), (Fenced, "fenced"), (Refused, "refused"), (Invalid, "invalid"), (TimedOut, "timed_out"))


class Service:
    """What routes work with. Made inside the running event loop."""

    def __init__(self, engine: Engine, guard: Guard) -> None:
        every()  # loads all operations now, so that no request has to
        self.engine = engine
        self.guard = guard
        self.metrics = Metrics()
        self.began = time()
        self.draining = False
        self._me = f"daemon~{token(identity())}.{os.urandom(3).hex()}"
        self.tries: dict[str, int] = {}
        self.log_kept_by: list[str] = []
        """The processes that read from the board for so long that its log grows."""
        self._readers = ThreadPoolExecutor(READERS, "tiebreak-read")
        self.callers = ThreadPoolExecutor(CALLERS, "tiebreak-call")
        self.hooks = SlowThreads("hook", HOOKS, MOST_HOOKS)
        self._committer = ThreadPoolExecutor(engine.writers, "tiebreak-write")
        self.writer = Writer(engine, self._committer, self.metrics)
        self.hub = Hub(engine, self._readers)

    # ── Operations ───────────────────────────────────────────────────────────────────────────────────

    async def call(
        self, name: str, params: dict[str, Any], *, once: str | None = None, request: Request | None = None
    ) -> Any:
        """Run the operation of that name; raises its refusal. A read may have `wait_ms` among its parameters."""
        return await self.run(find(name), params, once, request)

    async def run(
        self, operation: Operation[..., Any], params: dict[str, Any], once: str | None, request: Request | None
    ) -> Any:
        """Run an operation; raises its refusal."""
        if operation.writes:
            [answer] = await self.write([(operation, params, once)])
            return told(answer)
        if "wait_ms" in params:
            return await self._patient(admitted(operation, params), dict(params), request)
        return await self.read(operation, params)

    async def write(self, calls: list[Call]) -> list[Any]:
        """Run calls in one transaction, in their order; each answer is a result or the error of that one alone."""
        calls = all_admitted(calls)
        try:
            answers = await self.writer.submit(calls)
        except TiebreakError as exc:
            for operation, _, _ in calls:
                self.metrics.operation(operation.name, outcome(exc))
            raise
        for (operation, _, _), answer in zip(calls, answers, strict=True):
            self.metrics.operation(operation.name, outcome(answer) if isinstance(answer, BaseException) else "ok")
        return answers

    def overtaken(self, key: str, number: int) -> bool:
        """Whether a later try of the call with this key has come already; remembers this one if it is not the first."""
        if self.tries.get(key, 1) > number:
            return True
        if number > 1:
            self.tries[key] = number
            if len(self.tries) > MOST_TRIES:
                del self.tries[next(iter(self.tries))]
        return False

    async def read(self, operation: Operation[..., Any], params: dict[str, Any]) -> Any:
        """Run a reading operation beside the writer."""
        operation = admitted(operation, params)
        try:
            answer = await self.threaded(self.engine.run, operation, params)
        except Exception as exc:
            self.metrics.operation(operation.name, outcome(exc))
            raise
        self.metrics.operation(operation.name, "ok")
        return answer

    async def threaded(self, function: Any, *arguments: Any) -> Any:
        """Run something that takes time where it keeps nobody waiting."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    async def _patient(self, operation: Operation[..., Any], params: dict[str, Any], request: Request | None) -> Any:
        try:
            wait = wait_of(params)
            params = operation.checked(params)
            answer = await self._first(operation, params, wait, request)
        except TiebreakError as exc:
            self.metrics.operation(operation.name, outcome(exc))
            raise
        self.metrics.operation(operation.name, "ok")
        return answer

    async def _first(
        self, operation: Operation[..., Any], params: dict[str, Any], wait: int, request: Request | None
    ) -> Any:
        """The first answer that is not empty, or the empty one when the time is up."""
        if not wait or request is None:
            return await self.threaded(self.engine.run, operation, params)
        key = (operation, msgspec.json.encode(params))  # itself: strangers wait for another answer than others
        with self.hub.place(request.client):
            return await self.hub.wait(lambda: self.engine.run(operation, params), key, wait / 1000, request.gone)

    # ── Life ─────────────────────────────────────────────────────────────────────────────────────────

    async def tend(self, pause: float) -> None:
        """Look after the log of the board, and remember who keeps it from being shortened; never ends."""
        while True:
            await asyncio.sleep(pause)
            try:
                kept = await self.threaded(self.engine.tend)
            except TiebreakError:
                continue  # whoever uses the board is told
            if kept and kept != self.log_kept_by:
                log.warning("the log cannot be shortened", extra={"facts": {"kept_by": kept}})
            self.log_kept_by = kept

    async def sweep(self, pause: float) -> None:
        """Write down what time has done, so that whoever waits learns it in time; never ends."""
        while True:
            await asyncio.sleep(pause)
            try:
                due = await self.read(find("tasks.due"), {"project": None})
                if due is not None and due <= 0:
                    await self.call("tasks.sweep", {"project": None})
                due = await self.read(find("schedules.due"), {"project": None})
                if due is not None and due <= 0:
                    await self.call("schedules.fire", {"project": None, "agent": self._me})
            except TiebreakError as exc:
                log.warning("the sweep failed", extra={"facts": exc.to_dict()})

    def drain(self) -> None:
        """Take no new request; send those who wait home."""
        self.draining = self.writer.draining = True
        self.hub.end()

    def close(self) -> None:
        """Give the threads back."""
        self.hub.end()
        self._committer.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(wait=False, cancel_futures=True)
        self.callers.shutdown(wait=False, cancel_futures=True)


def outcome(error: BaseException) -> str:
    """One word for how an operation ended."""
    for kind, word in _OUTCOMES:
        if isinstance(error, kind):
            return word
    return "unavailable" if isinstance(error, TiebreakError) else "error"


def wait_of(params: dict[str, Any]) -> int:
    """Take `wait_ms` out of the parameters of a read."""
    wait = params.pop("wait_ms", 0)
    if isinstance(wait, bool) or not isinstance(wait, int) or not 0 <= wait <= WAIT_MS:
        raise Invalid(f"wait_ms: a whole number from 0 to {WAIT_MS}, got {shown(wait)}")
    return wait


def internal(error: BaseException, number: str) -> Unavailable:
    """What a client learns of a mistake in the daemon: where to look for it, and nothing else."""
    log.error("internal error", exc_info=error, extra={"facts": {"request": number}})
    return Unavailable("internal error", hint=f"the daemon's log tells more about request {number}", request=number)
