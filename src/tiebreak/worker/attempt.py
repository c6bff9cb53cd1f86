"""One attempt at one job, from the claim to the report."""

from __future__ import annotations

from ..clock import elapsed
from ..model import Job
from ..text import plain, span
from .output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .command_process import CommandProcess
    from .function_process import FunctionProcess

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL when nobody says."""
TIMED_OUT, CANCELLED, DRAINED, KEEPER_KILLED, LOST, LATE, SHORT = 1, 2, 3, 4, 5, 6, 7
"""Why an attempt is ended by its worker, a higher one outranks a lower one; or, the last two, why it never began."""
GIVEN_BACK = (DRAINED, LATE, SHORT)
"""After these it goes back to the board without having used an attempt: nothing is known against the job."""
_REASONS = {
    TIMED_OUT: "not done after {}",
    CANCELLED: "cancelled",
    DRAINED: "its worker was told to stop",
    # Perhaps by the job itself, so it counts: else such a job would be begun again for ever.
    KEEPER_KILLED: "ended because the keeper of its worker was killed",
    LOST: "ended because its lease was lost",
    LATE: "not begun because its lease had run out when the answer came",
    SHORT: "not begun because its worker cannot start a process at the moment",
}
ENDING = {
    TIMED_OUT: "its time is up",
    CANCELLED: "it was cancelled",
    DRAINED: "this worker stops",
    KEEPER_KILLED: "this worker's keeper was killed",
    LOST: "its lease is lost",
}
"""The same for whoever watches a worker."""
_COMMAND = Job._fields.index("command")


class Attempt:
    """A job that was won, how long it may run, and what became of it."""

    __slots__ = (
        "command_process",
        "expires",
        "function_process",
        "grace",
        "is_function",
        "job",
        "kill_at",
        "mark",
        "output",
        "settings",
        "since",
        "stored",
        "stubborn",
        "timeout",
        "why",
    )

    def __init__(self, job: Job, expires: float) -> None:
        settings: dict[str, Any] = job.settings or {}
        self.job = job
        self.settings = settings
        self.stored: str = tuple.__getitem__(job, _COMMAND)
        """The command as the board stores it: JSON."""
        self.is_function = self.stored.startswith("{")
        self.expires = expires
        """When the lease ends at the earliest, by this machine's clock."""
        self.mark = (job.id, str(job.epoch))
        self.timeout: float | None = settings.get("timeout")
        self.grace = float(GRACE if settings.get("grace") is None else settings["grace"])
        self.output = Output(settings.get("cap"))
        self.command_process: CommandProcess | None = None
        self.function_process: FunctionProcess | None = None
        self.since = elapsed()
        self.why = 0
        self.kill_at: float | None = None
        """When to look again, and to kill what is found."""
        self.stubborn = 0
        """How often that has been done."""

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from every other attempt."""
        return self.job.number, self.job.epoch

    def outcome(self, ok: bool, result: Any = None, reason: str | None = None) -> dict[str, Any]:
        """What is reported: how it ended by itself, unless its worker ended it."""
        if self.why:
            ok, reason = False, self.sentence(_REASONS[self.why].format(span(self.timeout or 0)))
        return {
            "number": self.job.number,
            "epoch": self.job.epoch,
            "ok": ok,
            "result": result,
            "reason": None if ok else reason,
            "drained": self.why in GIVEN_BACK,
        }

    def sentence(self, text: str) -> str:
        """A reason as a board takes it: one line, with the last one that the job wrote."""
        last = self.output.last_line()
        return plain(f"{text}: {last}" if last else text)[:1000]
