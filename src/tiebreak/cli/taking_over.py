"""Commands that end another agent's grants: break."""

from __future__ import annotations

from ..errors import Invalid, NotFound
from ..names import RESOURCE_TYPES, is_uuid
from ..text import plain
from .context import needed
from .parser import Argument, Option, command, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Task
    from .context import Context
    from .parser import Args

THING = Argument("thing", "a task: #number, number, key or id; or a path, a glob, lock:NAME, seat:NAME, pool:NAME")


@command(
    "break",
    "Take a task or a hold away from its holder, as an operator, with a reason that everybody can read.",
    THING,
    Option("reason", "TEXT", "why"),
    Option("slot", "N", "which slot of a pool", convert=whole),
    example="tb break '#7' --reason 'the tab was closed an hour ago'",
)
def break_grant(context: Context, args: Args) -> None:
    """The old holder's next write is refused. `7` is the task #7; `./7` and `file:7` are a file."""
    needed(args.reason, "--reason")
    ref = task_named(context, args.thing) if args.slot is None else None
    if ref is None:
        from .holds import called

        given = {"resource": context.board.resource(args.thing), "reason": args.reason, "slot": args.slot}
        hold = context.board.call("holds.break", given)
        context.answer(hold, f"broke the hold on {called(hold)}")
        return
    task: Task = context.board.call("tasks.break", {"ref": ref[0], "reason": args.reason, "epoch": ref[1]})
    context.answer(task, f"broke the claim on #{task.number} {plain(task.name)}")


def task_named(context: Context, word: str) -> tuple[str, int] | None:
    """The task that a word means and, if it was looked up, the epoch of its claim; None if the word means a resource.

    A number, an id or `#…` is a task, and a word with a type or a path in it is a resource. Any other word may be the
    key of a task or the name of a file. If something by that name is held as both, the caller has to say which.
    """
    if word.startswith("#") or is_uuid(word):
        return word, 0
    if word.isdecimal():
        return f"#{word}", 0
    if word.partition(":")[0] in RESOURCE_TYPES or word.startswith((".", "/")):
        return None
    try:
        task: Task = context.board.call("tasks.get", {"ref": word})
    except (Invalid, NotFound):
        return None
    held = _file_held(context, word)
    if held and task.state == "claimed":
        raise Invalid(
            f"{word!a} is both a task and a file that is held",
            hint=f"say '#{task.number}' for the task, file:{word} for the file",
        )
    return None if held else (f"#{task.number}", task.epoch if task.state == "claimed" else 0)


def _file_held(context: Context, word: str) -> bool:
    try:
        resource = context.board.resource(word)
    except Invalid:
        return False
    held: list[Any] = context.board.call("holds.list", {"matching": resource})
    return any(hold.resource == resource for hold in held)
