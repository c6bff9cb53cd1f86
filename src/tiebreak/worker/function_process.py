"""The worker's end of the pipes to a child that runs Python functions (see `callables`)."""

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
"""Calls that are sent ahead at most, when calls are short."""
SHORT = 0.02
"""Seconds that the calls sent ahead may take together; so many are sent that they do."""
READ = 256 * 1024
SERVE = "import sys; from tiebreak.worker.function_child import serve; serve(sys.argv[2:], int(sys.argv[1]))"


class FunctionProcess:
    """One child, and the calls that were sent to it."""

    def __init__(self, modules: list[str], environment: Mapping[str, str]) -> None:
        words = [sys.executable, "-c", SERVE, str(os.getpid()), *modules]
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
        """The functions that it can run, once it has said so."""
        self.waiting: dict[int, Attempt] = {}
        """The calls that it has not answered, by their tickets, in the order in which it runs them."""
        self.window = 1
        """How many calls may be under way at once."""
        self.begun = elapsed()
        """When the first of them can have begun, at the earliest."""
        self.killed = False
        """Whether the worker ends it."""
        self._tickets = 0
        self._unsent = bytearray()
        self._rest = b""

    def room(self) -> int:
        """How many more calls it should be sent now."""
        return 0 if self.names is None or self.killed else max(0, self.window - len(self.waiting))

    def first(self) -> Attempt | None:
        """The call that runs, as far as is known here."""
        return next(iter(self.waiting.values()), None)

    def send(self, attempts: list[Attempt]) -> None:
        """Send calls ahead."""
        if not self.waiting:
            self.begun = elapsed()
        for attempt in attempts:
            self._tickets += 1
            self.waiting[self._tickets] = attempt
            attempt.function_process = self
            self._unsent += _call(self._tickets, attempt).encode() + b"\n"
        self.push()

    def tell(self, variables: Mapping[str, str]) -> None:
        """Change the environment of the calls that begin from now on."""
        self._unsent += json.dumps(variables).encode() + b"\n"
        self.push()

    def take_back(self, wanted: Attempt) -> None:
        """Ask not to begin a call; the child answers if it has not."""
        for ticket, attempt in self.waiting.items():
            if attempt is wanted:
                self._unsent += b"[%d]\n" % ticket
        self.push()

    def push(self) -> bool:
        """Send what the pipe takes; whether something is left that it did not."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self._to, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # it is gone, which shows elsewhere
            self._unsent.clear()
        return bool(self._unsent)

    @property
    def to(self) -> int:
        """The descriptor that calls are written to."""
        return self._to

    def read(self) -> tuple[list[list[Any]], bool]:
        """The answers that have come, `[ticket, code, value]` each, and whether there will be no more."""
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
        *lines, self._rest = (self._rest + data).split(b"\n")
        return (list(json.loads(b"[" + b",".join(lines) + b"]")) if lines else []), ended

    def answered(self, ticket: int) -> Attempt | None:
        """The call that an answer is for; it is not waited for any more."""
        attempt = self.waiting.pop(ticket, None)
        now = elapsed()
        took, self.begun = now - self.begun, now
        # As many as pass in a moment: calls sent ahead wait behind each other, and nobody else can take them.
        self.window = min(MOST, self.window * 2) if took * self.window < SHORT else max(1, self.window // 2)
        return attempt

    def close(self) -> None:
        """Close the pipes."""
        for fd in (self._to, self.answers, *self.pipes):
            os.close(fd)


def _call(ticket: int, attempt: Attempt) -> str:
    # The command goes on as it is stored: it was made by a JSON encoder, and the child takes it apart.
    job = attempt.job
    return f'[{ticket},{attempt.expires},"{job.id}",{job.epoch},{job.attempts},{attempt.stored}]'
