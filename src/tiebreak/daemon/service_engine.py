"""`ServiceEngine` lets code that blocks, such as hooks and MCP tools, use the board through the daemon's own service.

Such code expects a `Board`, runs on a thread of the daemon, and must not open the database a second time.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from ..errors import Unavailable
from .routes import Problem

if TYPE_CHECKING:
    from ..operations import Operation
    from .service import Service


class ServiceEngine:
    """The part of an engine that tools and hooks need. Each operation runs in the event loop, as for a request.

    Create it in the event loop while the request is handled, and use it on another thread.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()  # of the request: above all, whether it comes from a stranger
        self.address = service.engine.address
        self.path = service.engine.path
        self.deferred_work: set[str] = set()  # always empty: the writer continues it

    def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
        """Run one operation as a request would, and block until it has ended."""
        running = self._service.run(operation, params, once, None)
        asked = self._context.copy().run(asyncio.run_coroutine_threadsafe, running, self._loop)
        try:
            return asked.result()
        except Problem as problem:
            raise problem.error from None

    def wait(self, after: int, timeout: float, **filters: Any) -> bool:
        """Wait for an event after the given number. Raises `Unavailable` when the daemon shuts down."""
        if self._service.draining:
            raise Unavailable("this daemon is shutting down")
        return self._service.engine.wait(after, timeout, **filters)
