"""What a job says and asks while it runs: how far it is, and whether it is still the one that may act."""

from __future__ import annotations

import os

from ..errors import Invalid
from ..names import shown
from .parser import Argument, Option, command, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .parser import Args


def _this_job(ref: str | None, epoch: int | None) -> tuple[str, int]:
    """The job and the grant that are meant: those of the job that this runs in, unless others are named."""
    job, own = os.environ.get("TIEBREAK_JOB"), os.environ.get("TIEBREAK_EPOCH", "0")
    if not ref and not job:
        raise Invalid("this is not inside of a job: TIEBREAK_JOB is not set", hint="name the job")
    if epoch is None and ref in (None, job):
        epoch = whole(own)
    return ref or job or "", epoch or 0


EPOCH = Option("epoch", "N", "the grant that is meant (default: TIEBREAK_EPOCH)", convert=whole)


@command(
    "progress",
    "Say how far this job is; used inside of a job.",
    Argument("percent", "0 to 100"),
    Argument("note", "what it is doing", optional=True),
    Option("ref", "REF", "the job (default: TIEBREAK_JOB)"),
    EPOCH,
    example='tb progress 40 "linking"',
)
def progress(context: Context, args: Args) -> None:
    """Shown in lists and events; refused when the job is not this process's any more."""
    ref, epoch = _this_job(args.ref, args.epoch)
    try:
        share = float(args.percent.removesuffix("%"))
    except ValueError:
        raise Invalid(f"progress: a number from 0 to 100, got {shown(args.percent)}") from None
    task = context.board.jobs.progress(ref=ref, epoch=epoch, percent=share, note=args.note)
    context.answer(task)


@command(
    "guard-epoch",
    "Check that this job is still this process's, before it does something that cannot be undone.",
    Argument("ref", "the job (default: TIEBREAK_JOB)", optional=True),
    EPOCH,
    example="tb guard-epoch",
)
def guard_epoch(context: Context, args: Args) -> None:
    """Exit 0 when it is, 1 when it is not any more: `tb guard-epoch && ./deploy.sh`. Says nothing when all is well."""
    ref, epoch = _this_job(args.ref, args.epoch)
    context.answer(context.board.tasks.check(ref=ref, epoch=epoch))
