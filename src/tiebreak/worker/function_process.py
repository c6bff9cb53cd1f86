"""A child process that runs Python functions, as the worker sees it: its pipes, and the calls sent to it.

The other end of the pipes is `function_child`.
"""

from __future__ import annotations

import json
import os
import sys

from ..clock import elapsed
from .command_process import pipes, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .attempt import Attempt

MOST = 100
"""Most calls that may wait in the child at once."""
AHEAD = 0.02
"""Seconds of work to send ahead: while the calls that wait in the child take less time together, it gets more."""
READ = 256 * 1024


class FunctionProcess:
    """One child and its unanswered calls."""

    def __init__(self, modules: list[str], environment: Mapping[str, str]) -> None:
        words = [sys.executable, "-m", f"{__package__}.function_child", str(os.getpid()), *modules]
        (calls, self._to), (self.answers, answers) = pipes(2)
        try:
            self.pid, self.pipes = spawn(words, environment, [(calls, 0), (answers, 3)])
        except BaseException:
            os.close(self._to)
            os.close(self.answers)
            raise
        finally:
            os.close(calls)
            os.close(answers)
        os.set_blocking(self._to, False)
        os.set_blocking(self.answers, False)
        self.names: list[str] | None = None
        """The functions that it can run; None until it has imported its modules."""
        self.waiting: dict[int, Attempt] = {}
        """Unanswered calls by ticket, in the order in which the child runs them."""
        self.window = 1
        """How many unanswered calls it may have."""
        self.begun = elapsed()
        """The earliest moment at which the first of them can have begun."""
        self.ending = False
        """Whether the worker is ending it."""
        self._tickets = 0
        self._unsent = bytearray()
        self._partial = b""

    def room(self) -> int:
        """How many more calls to send now."""
        return 0 if self.names is None or self.ending else max(0, self.window - len(self.waiting))

    def first(self) -> Attempt | None:
        """The call that runs now, as far as the worker knows."""
        return next(iter(self.waiting.values()), None)

    def send(self, attempts: list[Attempt]) -> None:
        """Send calls; they run one after the other."""
        if not self.waiting:
            self.begun = elapsed()
        for attempt in attempts:
            self._tickets += 1
            self.waiting[self._tickets] = attempt
            attempt.function_process = self
            self._unsent += _call(self._tickets, attempt).encode() + b"\n"
        self.push()

    def set_environment(self, variables: Mapping[str, str]) -> None:
        """Set environment variables for the calls that begin from now on."""
        self._unsent += json.dumps(variables).encode() + b"\n"
        self.push()

    def take_back(self, wanted: Attempt) -> None:
        """Ask the child not to begin a call. It answers `NOT_BEGUN` if it had not begun."""
        for ticket, attempt in self.waiting.items():
            if attempt is wanted:
                self._unsent += b"[%d]\n" % ticket
        self.push()

    def push(self) -> bool:
        """Write as much as the pipe takes; whether something is left to write."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self._to, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # the child is gone; `exited` deals with that
            self._unsent.clear()
        return bool(self._unsent)

    @property
    def to(self) -> int:
        """The descriptor that calls are written to."""
        return self._to

    def read(self) -> tuple[list[list[Any]], bool]:
        """New answers, each `[ticket, code, value]`, and whether the pipe has ended."""
        data, ended = b"", False
        try:
            while len(data) < 4 * READ:
                piece = os.read(self.answers, READ)
                data += piece
                if not piece:
                    ended = True
                    break
        except BlockingIOError:
            pass
        *lines, self._partial = (self._partial + data).split(b"\n")
        return (list(json.loads(b"[" + b",".join(lines) + b"]")) if lines else []), ended

    def answered(self, ticket: int) -> Attempt | None:
        """Take the call that was answered off the list."""
        attempt = self.waiting.pop(ticket, None)
        now = elapsed()
        took, self.begun = now - self.begun, now
        # Calls that wait in this child cannot go to another one, so only short calls are sent ahead.
        self.window = min(MOST, self.window * 2) if took * self.window < AHEAD else max(1, self.window // 2)
        return attempt

    def close(self) -> None:
        """Close the pipes."""
        for fd in (self._to, self.answers, *self.pipes):
            os.close(fd)


def _call(ticket: int, attempt: Attempt) -> str:
    # The command is passed on as stored: it is JSON already, and the child decodes it.
    job = attempt.job
    return f'[{ticket},{attempt.expires},"{job.id}",{job.epoch},{job.attempts},{attempt.stored}]'
