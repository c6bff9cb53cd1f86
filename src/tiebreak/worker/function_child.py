"""The child process that runs Python functions. It imports the modules that the operator named, and nothing else.

The worker sends calls as JSON lines on standard input. Answers go back on another pipe, each with the ticket of its
call. Before the child begins a call, it checks that the worker has not taken the call back and that its lease has not
ended: while the worker was suspended, the job may have gone to another worker.

Run as `python -m tiebreak.worker.function_child PARENT MODULE …`; modules in the current folder are found.
"""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections import deque
from importlib import import_module

from ..clock import elapsed
from ..functions import REGISTRY
from ..limits import MAX_JSON
from ..process_tree import die_with_parent
from ..text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DONE, FAILED, NOT_BEGUN, READY = 0, 10, 20, 30
"""Codes of answers. Codes 1 and 2 are output: standard output and standard error."""
ANSWERS = 3
"""The file descriptor that answers are written to."""


def serve(modules: list[str], parent: int) -> None:
    """Import the modules, report the functions that they declare, and run calls until the worker is gone."""
    import signal

    die_with_parent(signal.SIGKILL, parent)
    sys.stdout, sys.stderr = _OutputStream(1), _OutputStream(2)
    try:
        for module in modules:
            import_module(module)
    except BaseException as exc:
        traceback.print_exc()
        _send(0, FAILED, plain(f"{module}: {type(exc).__name__}: {exc}")[:1000])
        os._exit(1)
    _send(0, READY, sorted(REGISTRY))
    _CallQueue().run()
    os._exit(0)


class _CallQueue:
    """Calls that have arrived and have not begun, in order."""

    def __init__(self) -> None:
        self._waiting: deque[list[Any]] = deque()
        self._partial = b""

    def run(self) -> None:
        """Run one call after the other, until standard input ends."""
        while self._receive():
            ticket, expires, *call = self._waiting.popleft()
            if elapsed() >= expires:
                _send(ticket, NOT_BEGUN, None)
            else:
                _perform(ticket, *call)

    def _receive(self) -> bool:
        """Read what has arrived; wait if no call is left to run. False when standard input has ended."""
        while True:
            os.set_blocking(0, not self._waiting)
            try:
                data = os.read(0, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, call: list[Any] | dict[str, str]) -> None:
        if isinstance(call, dict):
            os.environ.update(call)
            return
        if len(call) > 1:
            self._waiting.append(call)
            return
        for waiting in [each for each in self._waiting if each[0] == call[0]]:
            self._waiting.remove(waiting)
            _send(waiting[0], NOT_BEGUN, None)


def _perform(ticket: int, job: str, epoch: int, attempt: int, command: dict[str, Any]) -> None:
    _running[0] = ticket
    os.environ["TIEBREAK_JOB"] = job
    os.environ["TIEBREAK_EPOCH"] = str(epoch)
    os.environ["TIEBREAK_ATTEMPT"] = str(attempt)
    try:
        function = REGISTRY[command["call"]].function
        result = function(*command.get("args", ()), **command.get("kwargs", {}))
        if hasattr(result, "__await__"):
            result = _awaited(result)
        _send(ticket, DONE, result)
    except BaseException as exc:  # also SystemExit: a function that exits has failed
        traceback.print_exc()
        _send(ticket, FAILED, plain(f"{type(exc).__name__}: {exc}".rstrip(": "))[:1000])


def _awaited(result: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


def _send(ticket: int, code: int, value: Any) -> None:
    line = json.dumps([ticket, code, value], allow_nan=False, separators=(",", ":"))
    if len(line) > MAX_JSON:  # the board would not accept it
        raise ValueError(f"the result is too large: {len(line)} characters of JSON, the limit is {MAX_JSON}")
    data = memoryview(line.encode() + b"\n")
    while data:
        data = data[os.write(ANSWERS, data) :]


_running = [0]
"""The ticket of the running call; 0 before the first."""


class _OutputStream(io.TextIOBase):
    """Standard output or error: text goes to the worker at once, as output of the running call."""

    def __init__(self, stream: int) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream

    def write(self, text: str) -> int:
        for at in range(0, len(text), 16384):
            _send(_running[0], self._stream, text[at : at + 16384])
        return len(text)


if __name__ == "__main__":
    serve(sys.argv[2:], int(sys.argv[1]))
