"""`tb queue …`: pauses, resumes and lists queues."""

from __future__ import annotations

from ..text import Styled, ago, plain, table
from .claims import who
from .command_group import CommandGroup
from .parser import Argument, Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Queue
    from .context import Context
    from .parser import Args


GROUP = CommandGroup("queue")
QUEUE = Argument("queue", "the queue")


@GROUP.command(
    "pause", "Pause a queue: nothing new starts; running jobs go on.", QUEUE, Option("reason", "TEXT", "why")
)
def pause(context: Context, args: Args) -> None:
    """It stays paused until `tb queue resume`."""
    made = context.board.queues.pause(queue=args.queue, reason=args.reason)
    context.answer(made, f"paused {plain(made.queue)}  ({made.ready} ready)")


@GROUP.command("resume", "Resume a queue.", QUEUE)
def resume(context: Context, args: Args) -> None:
    """Its jobs can be claimed again."""
    made = context.board.queues.resume(queue=args.queue)
    context.answer(made, f"resumed {plain(made.queue)}  ({made.ready} ready)")


@GROUP.command("list", "List queues with waiting tasks, and paused queues.")
def queues(context: Context, args: Args) -> None:
    """Sorted by name."""
    found = context.board.queues.list()
    now = context.board.upkeep.now()
    rows = [[each.queue, str(each.ready), *_paused(each, now)] for each in found]
    shown = table(rows, header=["QUEUE", "READY", "STATE", "BY", "REASON"], right={1}, colour=context.colour)
    context.answer(found, shown if found else "nothing waits, and nothing is paused")


def _paused(each: Queue, now: float) -> list[str]:
    if each.paused_at is None:
        return [Styled("open", "good"), "-", "-"]
    return [Styled(f"paused {ago(now - each.paused_at)}", "warn"), who(each.paused_by), each.reason or "-"]


@command("queue", "Pause, resume or list queues.", *GROUP.parts, example="tb queue pause mail")
def queue(context: Context, args: Args) -> int:
    """Pausing does not affect jobs that run already.

    pause QUEUE [--reason]
    resume QUEUE
    list
    """
    return GROUP.run(context, args)
