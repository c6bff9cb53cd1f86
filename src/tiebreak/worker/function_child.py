"""The child that runs Python functions: it imported what the operator named, and knows no other name.

The worker sends calls as JSON lines on standard input; answers go back on another pipe, each with the job's
number. Before it begins a call the child looks whether the call was taken back meanwhile, and whether its lease may
have ended: a child whose worker is stopped must not begin what somebody else may have by now.
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
from ..text import plain
from ..trees import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DONE, FAILED, NOT_BEGUN, READY = 0, 10, 20, 30
"""What an answer means; 1 and 2 are output of that stream."""
ANSWERS = 3
"""The descriptor for answers."""
LARGEST = 256 * 1024
"""Characters of an answer at most: what a board takes as one JSON value."""


def serve(modules: list[str], parent: int) -> None:
    """Import, say what is there, and run calls until the worker is gone."""
    import signal

    die_with_parent(signal.SIGKILL, parent)
    sys.stdout, sys.stderr = _Told(1), _Told(2)
    try:
        for module in modules:
            import_module(module)
    except BaseException as exc:
        traceback.print_exc()
        _tell(0, FAILED, plain(f"--import {module}: {type(exc).__name__}: {exc}")[:1000])
        os._exit(1)
    _tell(0, READY, sorted(REGISTRY))
    _Calls().run()
    os._exit(0)


class _Calls:
    """The calls that were sent and have not begun, in order."""

    def __init__(self) -> None:
        self._waiting: deque[list[Any]] = deque()
        self._rest = b""

    def run(self) -> None:
        """One call after the other, until standard input ends."""
        while self._receive():
            number, expires, *call = self._waiting.popleft()
            if elapsed() >= expires:
                _tell(number, NOT_BEGUN, None)
            else:
                _perform(number, *call)

    def _receive(self) -> bool:
        """Take in what has come; wait for something if there is nothing to do. False at the end."""
        while True:
            os.set_blocking(0, not self._waiting)
            try:
                data = os.read(0, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            *lines, self._rest = (self._rest + data).split(b"\n")
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
            _tell(waiting[0], NOT_BEGUN, None)


def _perform(number: int, job: str, epoch: int, attempt: int, command: dict[str, Any]) -> None:
    _running[0] = number
    os.environ["TIEBREAK_JOB"] = job
    os.environ["TIEBREAK_EPOCH"] = str(epoch)
    os.environ["TIEBREAK_ATTEMPT"] = str(attempt)
    try:
        function = REGISTRY[command["call"]].function
        result = function(*command.get("args", ()), **command.get("kwargs", {}))
        if hasattr(result, "__await__"):
            result = _awaited(result)
        _tell(number, DONE, result)
    except BaseException as exc:  # also SystemExit: a function that gives up has not done its job
        traceback.print_exc()
        _tell(number, FAILED, plain(f"{type(exc).__name__}: {exc}".rstrip(": "))[:1000])


def _awaited(result: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


def _tell(number: int, code: int, value: Any) -> None:
    line = json.dumps([number, code, value], allow_nan=False, separators=(",", ":"))
    if len(line) > LARGEST:
        raise ValueError(f"the result is too large: {len(line)} characters of JSON, the limit is {LARGEST}")
    data = memoryview(line.encode() + b"\n")
    while data:
        data = data[os.write(ANSWERS, data) :]


_running = [0]
"""The ticket of the call that runs."""


class _Told(io.TextIOBase):
    """Standard output or error: what is written goes to the worker at once, as the output of the call that runs."""

    def __init__(self, stream: int) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream

    def write(self, text: str) -> int:
        for at in range(0, len(text), 16384):
            _tell(_running[0], self._stream, text[at : at + 16384])
        return len(text)
