"""One attempt at one job, from the claim to the report."""

from __future__ import annotations

from ..clock import elapsed
from ..limits import JOB_GRACE
from ..model import Job, row_of
from ..text import plain, span
from .output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .command_process import CommandProcess
    from .function_process import FunctionProcess

TIMED_OUT, CANCELLED, DRAINED, KEEPER_KILLED, LOST, LATE, SHORT = 1, 2, 3, 4, 5, 6, 7
"""Why the worker ended an attempt; a higher number replaces a lower one. The last two: why it did not begin."""
GIVEN_BACK = (DRAINED, LATE, SHORT)
"""For these reasons the job is given back and the attempt does not count: the job is not to blame."""
_REASONS = {
    TIMED_OUT: "not done after {}",
    CANCELLED: "cancelled",
    DRAINED: "its worker was told to stop",
    # The job itself may have killed it, so the attempt counts. Otherwise such a job would be retried for ever.
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
"""The same reasons, for the output of `tb work`."""
_COMMAND = Job.fields.index("command")


class Attempt:
    """A claimed job while this worker runs it: its process, its lease, its deadlines and its output."""

    __slots__ = (
        "command_process",
        "expires",
        "function_process",
        "grace",
        "is_function",
        "job",
        "kill_at",
        "kills",
        "mark",
        "output",
        "settings",
        "since",
        "stored",
        "timeout",
        "why",
    )

    def __init__(self, job: Job, expires: float) -> None:
        settings: dict[str, Any] = job.settings or {}
        self.job = job
        self.settings = settings
        self.stored: str = row_of(job)[_COMMAND]
        """The command as the board stores it: JSON."""
        self.is_function = self.stored.startswith("{")
        self.expires = expires
        """The earliest moment at which the lease can end, by this machine's clock."""
        self.mark = (job.id, str(job.epoch))
        """The job's id and epoch, as they stand in the environment of its processes."""
        self.timeout: float | None = settings.get("timeout")
        self.grace = float(JOB_GRACE if settings.get("grace") is None else settings["grace"])
        self.output = Output(settings.get("cap"))
        self.command_process: CommandProcess | None = None
        self.function_process: FunctionProcess | None = None
        self.since = elapsed()
        self.why = 0
        self.kill_at: float | None = None
        """When to kill what is left of it."""
        self.kills = 0
        """How often the worker has tried to kill what is left of it."""

    @property
    def key(self) -> tuple[int, int]:
        """The job's number and epoch, which no other attempt shares."""
        return self.job.number, self.job.epoch

    def outcome(self, ok: bool, result: Any = None, reason: str | None = None) -> dict[str, Any]:
        """The report for the board: how the job ended by itself, or why the worker ended it."""
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
        """The reason of a failure in one line, with the last line that the job wrote."""
        last = self.output.last_line()
        return plain(f"{text}: {last}" if last else text)[:1000]
