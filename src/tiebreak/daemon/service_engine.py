"""The daemon's own operations for code that wants a board and runs on one of the daemon's threads."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from ..errors import Unavailable
from .routes import Problem

if TYPE_CHECKING:
    from ..operations import Operation
    from .service import Service


class Inside:
    """As much of an engine as tools and hooks need. Writes go to the writer, reads to the threads for reading.

    Made in the event loop, while the request is answered; used on another thread.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()  # what is known of the request, above all whether a token vouches for it
        self.address = service.engine.address
        self.path = service.engine.path
        self.left: set[str] = set()  # the writer goes on with what is left

    def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
        """Run one operation as a request would."""
        running = self._service.run(operation, params, once, None)
        asked = self._context.copy().run(asyncio.run_coroutine_threadsafe, running, self._loop)
        try:
            return asked.result()
        except Problem as problem:
            raise problem.error from None

    def wait(self, after: int, timeout: float, **filters: Any) -> bool:
        """Sleep until something happens, or until the daemon ends."""
        if self._service.draining:
            raise Unavailable("this daemon is shutting down")
        return self._service.engine.wait(after, timeout, **filters)
