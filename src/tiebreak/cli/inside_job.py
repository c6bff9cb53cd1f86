"""Commands that a job runs itself: report its progress, and check that its claim is still valid."""

from __future__ import annotations

import os

from ..errors import Invalid
from ..names import shown
from .parser import Argument, Option, command, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .parser import Args


def _this_job(ref: str | None, epoch: int | None, how: str) -> tuple[str, int]:
    """The job and its epoch: those in the environment, unless others are given; `how` the caller can name one."""
    job, own = os.environ.get("TIEBREAK_JOB"), os.environ.get("TIEBREAK_EPOCH", "0")
    if not ref and not job:
        raise Invalid("this does not run inside of a job: TIEBREAK_JOB is not set", hint=how)
    if epoch is None and ref in (None, job):
        epoch = whole(own)
    return ref or job or "", epoch or 0


EPOCH = Option("epoch", "N", "the epoch of the job's claim (default: TIEBREAK_EPOCH)", convert=whole)


@command(
    "progress",
    "Report how far a job is; used inside of the job.",
    Argument("percent", "0 to 100"),
    Argument("note", "what it is doing", optional=True),
    Option("ref", "REF", "the job (default: TIEBREAK_JOB)"),
    EPOCH,
    example='tb progress 40 "linking"',
)
def progress(context: Context, args: Args) -> None:
    """Shown in lists and events. Refused if the job was given to another worker meanwhile."""
    ref, epoch = _this_job(args.ref, args.epoch, "--ref REF names the job")
    try:
        share = float(args.percent.removesuffix("%"))
    except ValueError:
        raise Invalid(f"progress: a number from 0 to 100, got {shown(args.percent)}") from None
    task = context.board.jobs.progress(ref=ref, epoch=epoch, percent=share, note=args.note)
    context.answer(task)


@command(
    "guard-epoch",
    "Check that a job still has its claim, before it does something that cannot be undone.",
    Argument("ref", "the job (default: TIEBREAK_JOB)", optional=True),
    EPOCH,
    example="tb guard-epoch",
)
def guard_epoch(context: Context, args: Args) -> None:
    """Exit 0 if it has, 1 if it has lost it: `tb guard-epoch && ./deploy.sh`. Prints nothing on success."""
    ref, epoch = _this_job(args.ref, args.epoch, "`tb guard-epoch REF` names the job")
    context.answer(context.board.tasks.check(ref=ref, epoch=epoch))
