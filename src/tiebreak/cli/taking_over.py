"""Commands that end the grants of another agent or session: break, adopt."""

from __future__ import annotations

from ..errors import Invalid, NotFound, Refused
from ..held_files import called
from ..limits import CLAIM_LEASE, HOLD_LEASE, MAX_LIMIT
from ..names import JOB, RESOURCE_TYPES, is_uuid, short
from ..text import plain
from .context import needed
from .parser import Argument, Option, command, duration, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..model import Hold, Task
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
        from .holds import called as called_hold

        given = {"resource": context.board.held_resource(args.thing), "reason": args.reason, "slot": args.slot}
        hold = context.board.call("holds.break", given)
        context.answer(hold, f"broke the hold on {called_hold(hold)}")
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
        resource = context.board.held_resource(word)
    except Invalid:
        return False
    held: list[Any] = context.board.call("holds.list", {"matching": resource})
    return any(hold.resource == resource for hold in held)


@command(
    "adopt",
    "Go on with your own work in a new terminal: take over what an earlier session of yours holds.",
    Argument(THING.name + "s", THING.text, many=True, optional=True),
    Option("yes", text="do not ask whether a session that may be alive is over; only in a terminal"),
    duration("lease", "how long each claim lasts unless renewed", CLAIM_LEASE),
    duration("hold-lease", "how long each hold lasts unless renewed", HOLD_LEASE),
    example="tb adopt '#7'",
)
def adopt(context: Context, args: Args) -> int:
    """Without names, everything that agents of your name hold in other sessions. Each is a new grant.

    What a session holds whose process has ended is taken over at once. Otherwise a person has to confirm, in a
    terminal. Exit 0 if everything was taken over, 1 if something was not.
    """
    adopted: list[Any] = []
    refused: list[Refused] = []
    for name, params in _adoptions(context, args):
        try:
            answer = _confirmed(context, args, name, params)
            adopted += answer if isinstance(answer, list) else [answer]
        except Refused as exc:
            refused.append(exc)
    if not refused or context.json:
        context.answer(adopted)
    for each in adopted if not context.json else []:
        context.say(f"{context.styled('adopted', 'good')} {_called(each)}  epoch {each.epoch}")
    for problem in refused:
        context.complain(problem)
    if not adopted and not refused and not context.json:
        context.say("no other session of yours holds anything here")
    return 1 if refused else 0


def _called(grant: Task | Hold) -> str:
    from ..model import Hold
    from .holds import called as called_hold

    return called_hold(grant) if isinstance(grant, Hold) else f"#{grant.number} {plain(grant.name)}"


def _adoptions(context: Context, args: Args) -> Iterator[tuple[str, dict[str, Any]]]:
    """What to take over, each as a call: an operation and its parameters."""
    named = [(word, task_named(context, word)) for word in args.things]
    tasks = [ref for _, ref in named if ref is not None]
    resources = [context.board.held_resource(word) for word, ref in named if ref is None]
    if not named:
        tasks = [(f"#{task.number}", task.epoch) for task in _claims_elsewhere(context)]
    for ref, epoch in tasks:
        yield "tasks.adopt", {"ref": ref, "epoch": epoch, "lease": args.lease}
    for holder, wanted in _holds_elsewhere(context, resources if named else None).items():
        yield "holds.adopt", {"holder": holder, "resources": wanted, "lease": args.hold_lease}


def _claims_elsewhere(context: Context) -> list[Task]:
    board = context.board
    filters = {"states": ["claimed"], "agent": short(board.agent), "limit": MAX_LIMIT}
    found: list[Task] = board.call("tasks.list", filters)
    return [task for task in found if not board.is_me(task) and task.kind != JOB and not task.lapsed]


def _holds_elsewhere(context: Context, resources: list[str] | None) -> dict[str, list[str]]:
    """The holds to take over, by their holders: the named ones, or all of agents of this name."""
    from ..model import holder_id
    from ..operations.session_fence import SEAT

    board = context.board
    found: list[Hold] = board.call("holds.list", {} if resources else {"agent": short(board.agent)})
    missing = set(resources or ()) - {hold.resource for hold in found}
    if missing:
        raise NotFound(f"{called(missing.pop())} is not held by anybody")
    out: dict[str, list[str]] = {}
    for hold in found if resources != [] else []:
        if (hold.resource in resources if resources else hold.resource != SEAT) and not board.is_me(hold):
            out.setdefault(holder_id(hold) or "", []).append(hold.resource)
    return out


def _confirmed(context: Context, args: Args, name: str, params: dict[str, Any]) -> Any:
    """Take over; if the other session may be alive, ask the person at the terminal first."""
    try:
        return context.board.call(name, params)
    except Refused as exc:
        if exc.reason != "holder-may-live" or not context.has_person:
            raise
        question = f"{exc.message}.\nIs that session over, and do you take it over?"
        if not args.yes and not context.agrees(question):
            raise
    return context.board.call(name, {**params, "confirmed": True})
