"""`Service` runs operations for the routes of the daemon.

Writes go to the writer (`writer.py`), which commits many at once. Reads run on a pool of threads. Reads that wait for
a change are registered with the waiters (`waiters.py`).
"""

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
from ..operations.death import reports
from ..process_identity import identity, token
from .advice import body_of
from .machine_view import MachineView
from .metrics import Metrics
from .security import admitted, all_admitted, result_or_raise
from .threads import BoundedThreads
from .waiters import Waiters
from .writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..engine.protocol import Engine
    from ..operations import Call, Operation
    from .routes import Request
    from .security import AccessCheck

WAIT_MS = int(LONGEST_WAIT * 1000)
"""Milliseconds that one request may wait for a change."""
READERS = 4
CALLERS = 32
"""Threads for the tools of `/mcp`, which use the daemon as a board and block while they do."""
HOOKS = 16
"""Hooks that are answered at the same time."""
MOST_HOOKS = 512
"""Hooks that are answered or wait for a thread. More are refused."""
MOST_TRIES = 10_000
"""Repeated calls for which the number of the last try is remembered."""
SWEEP = 1.0
"""Seconds between two sweeps for lapsed leases and due schedules."""
SHORTEN_LOG = 10.0
"""Seconds between two attempts to shorten the write-ahead log."""
log = logging.getLogger("tiebreak")

_OUTCOMES = ((Lost, "lost"), (Fenced, "fenced"), (Refused, "refused"), (Invalid, "invalid"), (TimedOut, "timed_out"))


class Service:
    """Everything that the handlers of routes share. Create it inside the running event loop."""

    def __init__(
        self,
        engine: Engine,
        access: AccessCheck,
        machine: MachineView = MachineView(),  # noqa: B008  (it cannot be changed)
        known_as: Sequence[str] = (),
    ) -> None:
        every()  # load all operations now, so that no request has to
        self.engine = engine
        self.access = access
        self.machine = machine
        """What this machine shows besides the board."""
        self.known_as = list(known_as)
        """The addresses by which other programs call this board."""
        self.metrics = Metrics()
        self.began = time()
        self.draining = False
        self._me = f"daemon~{token(identity())}.{os.urandom(3).hex()}"
        self.tries: dict[str, int] = {}
        self.visitors_check: tuple[float, asyncio.Future[dict[str, Any]]] | None = None
        """When the last check of health for callers without the token began, and its result."""
        self.wal_kept_by: list[str] = []
        """Processes whose long reads keep the write-ahead log from being shortened."""
        self._readers = ThreadPoolExecutor(READERS, "tiebreak-read")
        self.callers = ThreadPoolExecutor(CALLERS, "tiebreak-call")
        self.hooks = BoundedThreads("hook", HOOKS, MOST_HOOKS)
        self._committer = ThreadPoolExecutor(engine.writers, "tiebreak-write")
        self.writer = Writer(engine, self._committer, self.metrics)
        self.waiters = Waiters(engine, self._readers)

    # ── Operations ───────────────────────────────────────────────────────────────────────────────────

    async def call(
        self, name: str, params: dict[str, Any], *, once: str | None = None, request: Request | None = None
    ) -> Any:
        """Run an operation by name, or raise its refusal. A read may have the parameter `wait_ms`."""
        return await self.run(find(name), params, once, request)

    async def run(
        self, operation: Operation[..., Any], params: dict[str, Any], once: str | None, request: Request | None
    ) -> Any:
        """Run an operation, or raise its refusal."""
        if operation.writes:
            [answer] = await self.write([(operation, params, once)])
            return result_or_raise(answer)
        if "wait_ms" in params:
            return await self._read_waiting(admitted(operation, params), dict(params), request)
        return await self.read(operation, params)

    async def write(self, calls: list[Call]) -> list[Any]:
        """Run calls together and in order (see `Engine.batch`). Each answer is the result or the error of that call."""
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

    def superseded(self, key: str, number: int) -> bool:
        """Whether a later try of the call with this key has arrived already. Remembers every try but the first."""
        if self.tries.get(key, 1) > number:
            return True
        if number > 1:
            self.tries[key] = number
            if len(self.tries) > MOST_TRIES:
                del self.tries[next(iter(self.tries))]
        return False

    async def read(self, operation: Operation[..., Any], params: dict[str, Any]) -> Any:
        """Run a read on a thread, at the same time as writes."""
        operation = admitted(operation, params)
        try:
            answer = await self.threaded(self.engine.run, operation, params)
        except Exception as exc:
            self.metrics.operation(operation.name, outcome(exc))
            raise
        self.metrics.operation(operation.name, "ok")
        return answer

    async def threaded(self, function: Any, *arguments: Any) -> Any:
        """Run a slow function on a thread, so that the event loop is not blocked."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    async def _read_waiting(
        self, operation: Operation[..., Any], params: dict[str, Any], request: Request | None
    ) -> Any:
        try:
            wait = wait_of(params)
            params = operation.checked(params)
            answer = await self._first_answer(operation, params, wait, request)
        except TiebreakError as exc:
            self.metrics.operation(operation.name, outcome(exc))
            raise
        self.metrics.operation(operation.name, "ok")
        return answer

    async def _first_answer(
        self, operation: Operation[..., Any], params: dict[str, Any], wait: int, request: Request | None
    ) -> Any:
        """The first answer that is not empty, or an empty one when the time is up."""
        if not wait or request is None:
            return await self.threaded(self.engine.run, operation, params)
        # The operation itself, not its name: strangers get another version of it.
        key = (operation, msgspec.json.encode(params))
        with self.waiters.slot(request.client):
            return await self.waiters.wait(lambda: self.engine.run(operation, params), key, wait / 1000, request.gone)

    # ── Maintenance and shutdown ─────────────────────────────────────────────────────────────────────

    async def shorten_log(self, pause: float) -> None:
        """Shorten the write-ahead log now and then, and record which processes prevent that. Runs until cancelled."""
        while True:
            await asyncio.sleep(pause)
            try:
                kept = await self.threaded(self.engine.shorten_log)
            except TiebreakError:
                continue  # every request meets the same error and reports it
            if kept and kept != self.wal_kept_by:
                log.warning("the log cannot be shortened", extra={"facts": {"kept_by": kept}})
            self.wal_kept_by = kept

    async def sweep(self, pause: float) -> None:
        """Record lapsed leases and dead agents, and start due schedules, so that waiters learn of them soon.

        Runs until cancelled.
        """
        while True:
            await asyncio.sleep(pause)
            try:
                due = await self.read(find("tasks.due"), {"project": None})
                if due is not None and due <= 0:
                    await self.call("tasks.sweep", {"project": None})
                due = await self.read(find("schedules.due"), {"project": None})
                if due is not None and due <= 0:
                    await self.call("schedules.fire", {"project": None, "agent": self._me})
                for dead in reports(await self.read(find("agents.bound"), {"project": None})):
                    await self.call("agents.report_dead", {**dead, "agent": self._me})
            except TiebreakError as exc:
                log.warning("the sweep failed", extra={"facts": body_of(exc)})

    def drain(self) -> None:
        """Refuse new requests, and answer all waiters with an empty result."""
        self.draining = self.writer.draining = True
        self.waiters.end()

    def close(self) -> None:
        """Stop the threads."""
        self.waiters.end()
        self._committer.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(wait=False, cancel_futures=True)
        self.callers.shutdown(wait=False, cancel_futures=True)


def outcome(error: BaseException) -> str:
    """One word for how an operation failed, for the metrics."""
    for kind, word in _OUTCOMES:
        if isinstance(error, kind):
            return word
    return "unavailable" if isinstance(error, TiebreakError) else "error"


def wait_of(params: dict[str, Any]) -> int:
    """Remove `wait_ms` from the parameters of a read and return it."""
    wait = params.pop("wait_ms", 0)
    if isinstance(wait, bool) or not isinstance(wait, int) or not 0 <= wait <= WAIT_MS:
        raise Invalid(f"wait_ms: a whole number from 0 to {WAIT_MS}, got {shown(wait)}")
    return wait


def internal(error: BaseException, number: str) -> Unavailable:
    """Log a bug in the daemon. The returned error tells the client the id of its request and nothing else."""
    log.error("internal error", exc_info=error, extra={"facts": {"request": number}})
    return Unavailable("internal error", hint=f"the daemon's log tells more about request {number}", request=number)
