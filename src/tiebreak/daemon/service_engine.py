"""`ServiceEngine` lets code that blocks, such as hooks and MCP tools, use the board through the daemon's own service.

Such code expects a `Board`, runs on a thread of the daemon, and must not open the database a second time.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from ..errors import TiebreakError, Unavailable, as_answer
from .routes import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..operations import Call, Operation
    from .service import Service

_NO_UPKEEP = "hooks and tools do no upkeep of the board"


class ServiceEngine:
    """The engine that tools and hooks use. Each operation runs in the event loop, as for a request.

    Create it in the event loop while the request is handled, and use it on another thread.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()  # of the request: above all, whether it comes from a stranger
        self.address = self.full_address = service.engine.address  # no password: nothing is started for this board
        self.path = service.engine.path
        self.writers = service.engine.writers
        self.shared = service.engine.shared
        self.follow = None
        self.deferred_work: set[str] = set()  # always empty: the writer continues it
        self.refusals_dropped = 0  # the daemon's own engine counts them

    def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
        """Run one operation as a request would, and block until it has ended."""
        running = self._service.run(operation, params, once, None)
        asked = self._context.copy().run(asyncio.run_coroutine_threadsafe, running, self._loop)
        try:
            return asked.result()
        except Problem as problem:
            raise problem.error from None

    def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Run the calls one after the other. The daemon's writer puts those that write into its own transactions."""
        return [self._answer(*call) for call in calls]

    def _answer(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None) -> Any:
        try:
            return self.run(operation, params, once)
        except TiebreakError as exc:
            return as_answer(exc)

    def batch_at_once(self, calls: Sequence[Call]) -> list[Any] | None:
        """Always None: every call waits for the event loop."""
        return None

    def let_others_pass(self) -> None:
        """Nothing to do: the daemon's writer decides whose turn it is."""

    def wait(self, after: int, timeout: float, **filters: Any) -> bool:
        """Wait for an event after the given number. Raises `Unavailable` when the daemon shuts down."""
        if self._service.draining:
            raise Unavailable("this daemon is shutting down")
        return self._service.engine.wait(after, timeout, **filters)

    def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Raises `Unavailable`."""
        raise Unavailable(_NO_UPKEEP)

    def probe(self) -> None:
        """Raises `Unavailable`."""
        raise Unavailable(_NO_UPKEEP)

    def diagnose(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
        """Raises `Unavailable`."""
        raise Unavailable(_NO_UPKEEP)

    def shorten_log(self) -> list[str]:
        """Nothing to do: the daemon does this."""
        return []

    def close(self) -> None:
        """Nothing to do: the daemon closes its own engine."""
