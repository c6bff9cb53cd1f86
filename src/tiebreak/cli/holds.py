"""Commands about holds: hold, renew, drop, holds, waits, transfer."""

from __future__ import annotations

from ..errors import Invalid, Unavailable
from ..held_files import called as resource_called
from ..held_files import is_file
from ..limits import HOLD_LEASE
from ..names import seconds, short
from ..text import plain, span, table
from .context import needed
from .parser import Argument, Option, command, duration, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Hold, Released, Wait
    from .context import Context
    from .parser import Args

RESOURCES = Argument("resources", "paths, globs such as 'src/auth/**', or lock:NAME, seat:NAME, pool:NAME", many=True)
RESOURCE = Argument("resource", "a path, a glob, or lock:NAME, seat:NAME, pool:NAME")
LEASE = duration("lease", "how long the hold lasts unless renewed", HOLD_LEASE)
EPOCH = Option("epoch", "N", "the epoch of your hold (default: the current one)", default=0, convert=whole)
SLOT = Option("slot", "N", "which slot of a pool", convert=whole)


def called(hold: Hold) -> str:
    """A hold's resource and slot, for messages."""
    slot = f" slot {hold.slot}" if hold.resource.startswith("pool:") else ""
    return plain(resource_called(hold.resource)) + slot


@command(
    "hold",
    "Take files, locks, seats or pool slots: all of them, or none.",
    RESOURCES,
    LEASE,
    Option("wait", "DURATION", "queue for them, and wait that long", default="0s"),
    Option("note", "TEXT", "what you are doing, shown to those who wait"),
    Option("slots", "N", "create the pool, or change its size", convert=whole),
    Option("new", text="fail if you hold it already, instead of renewing it"),
    example="tb hold src/auth.py 'tests/auth/**' --note 'moving to OAuth'",
)
def hold(context: Context, args: Args) -> None:
    """Exit 0 if you hold all of them now; 1 if somebody else holds one, who is named."""
    held = context.board.take(
        *args.resources, lease=args.lease, wait=args.wait, note=args.note, slots=args.slots, again=not args.new
    )
    _remember_left(context, held)
    context.answer(held)
    lease = span(seconds(args.lease))
    for each in held if not context.json else []:
        context.say(f"{context.styled('held', 'good')} {called(each)}  epoch {each.epoch}, for {lease}")


def _remember_left(context: Context, held: list[Hold]) -> None:
    """Tell the guard what is in the files: these contents are this agent's."""
    files = [each for each in held if is_file(each.resource)]
    if not files:
        return
    from ..guard.files.left_contents import remember_here

    try:
        remember_here(context.board, files, context.board.root())
    except Unavailable as exc:  # they are held all the same
        context.warn(f"no copy of these files is kept: {exc.message}")


@command("renew", "Renew holds for another lease.", RESOURCES, LEASE, example="tb renew src/auth.py --lease 1h")
def renew(context: Context, args: Args) -> None:
    """Also records the files as they are now: these contents are yours, and lift a quarantine."""
    from ..fingerprints import fingerprint

    board = context.board
    wanted = [board.held_resource(text) for text in args.resources]
    hashes = [fingerprint(resource, board.root()) for resource in wanted]
    held = board.holds.renew(resources=wanted, lease=args.lease, hashes=hashes)
    _remember_left(context, held)
    context.answer(held, "\n".join(f"renewed {called(each)}" for each in held))


@command(
    "drop",
    "Release holds; names the files that changed during another agent's command.",
    Argument(RESOURCES.name, RESOURCES.text, many=True, optional=True),
    Option("all", text="all your holds in this project"),
    Option("mine", text="the changes in these files are yours: do not name them"),
    EPOCH,
    SLOT,
    example="tb drop src/auth.py",
)
def drop(context: Context, args: Args) -> None:
    """Refused if a hold is no longer yours."""
    board = context.board
    wanted = [board.held_resource(text) for text in args.resources]
    slots: list[int] = [args.slot] * len(wanted) if args.slot is not None else []
    if args.all:
        mine = [each for each in board.holds.list() if board.is_me(each)]
        wanted, slots = [each.resource for each in mine], [each.slot for each in mine]
        if not wanted:
            context.answer([], "you hold nothing here")
            return
    if not wanted:
        raise Invalid("drop: RESOURCES is missing", hint="usage: tb drop RESOURCES…, or tb drop --all")
    # Without hashes: in the ordinary cycle the holder changed the file, and another worktree has contents of its own.
    given = {"resources": wanted, "slots": slots, "epochs": [args.epoch] * len(wanted)}
    released: list[Released] = board.call("holds.release", given)
    changed_by: dict[str, str | None] = {}
    try:
        changed_by = {each.resource: _changed_during_command(context, each) for each in released}
        _forget(context, released)
    except Unavailable:  # nothing is known about these files, and they are released all the same
        pass
    if context.json:
        context.answer(released)
        return
    for each in released:
        name = plain(resource_called(each.resource))
        context.say(f"{context.styled('dropped', 'good')} {name}")
        by = None if args.mine else changed_by.get(each.resource)
        if by:
            told = f"  {name} changed while a command of {plain(short(by))} ran and you held it: look at it"
            context.say(context.styled(told, "warn"))


def _changed_during_command(context: Context, dropped: Released) -> str | None:
    """The other agent during whose command the file changed while it was held; None if none is known."""
    from ..fingerprints import file_of

    path = file_of(dropped.resource, context.board.root())
    if not path:
        return None
    from ..guard.files.watched_files import quarantined

    record = quarantined(path)
    same = record is not None and (record.holder, record.epoch) == (context.board.agent, dropped.epoch)
    return record.by if record is not None and same else None


def _forget(context: Context, released: list[Released]) -> None:
    files = {each.resource for each in released if is_file(each.resource)}
    if files:
        from ..guard.files.watched_files import forget_released

        forget_released(context.board.project, context.board.agent, files)


@command(
    "holds",
    "List current holds; those that end first come first.",
    Option("mine", text="only yours"),
    Option("agent", "NAME", "only of this agent"),
    Option("matching", "RESOURCE", "only those that conflict with this path, glob or lock"),
    Option("every-project", text="of all projects, not only this one"),
    example="tb holds --matching src/auth.py",
)
def holds(context: Context, args: Args) -> None:
    """Shows who holds what, for how much longer, and why."""
    board = context.board
    found = board.holds.list(
        project=None if args.every_project else board.project_names,
        agent=board.agent if args.mine else args.agent,
        matching=board.resource(args.matching) if args.matching else None,
    )
    if args.mine:
        found = [each for each in found if board.is_me(each)]
    if context.json:
        context.answer(found)
        return
    if not found:
        context.say("nothing is held")
        return
    now = board.upkeep.now()
    rows = [
        [called(each), each.holder or "-", str(each.epoch), span((each.until or now) - now), each.note or ""]
        for each in found
    ]
    header = ["RESOURCE", "HOLDER", "EPOCH", "LEFT", "NOTE"]
    context.say(table(rows, header=header, right={2, 3}, limit=context.width, colour=context.colour))


@command(
    "waits",
    "List who waits for what and for whom, in the order of the queue.",
    Option("matching", "RESOURCE", "only waits for this path, glob or lock"),
    example="tb waits --matching lock:deploy",
)
def waits(context: Context, args: Args) -> None:
    """`tb hold --wait` joins the queue; what becomes free goes to the first in it."""
    board = context.board
    found = board.waits.list(matching=board.resource(args.matching) if args.matching else None)
    if context.json or not found:
        context.answer(found, "nobody is waiting")
        return
    now = board.upkeep.now()
    rows = [
        [each.agent, _listed(each.resources), _reasons(each), span(now - each.since_at), each.note or ""]
        for each in found
    ]
    header = ["AGENT", "WANTS", "BEHIND", "SINCE", "NOTE"]
    context.say(table(rows, header=header, right={3}, limit=context.width, colour=context.colour))


def _listed(resources: list[str]) -> str:
    return " ".join(map(resource_called, resources))


def _reasons(wait: Wait) -> str:
    """Who it waits for: first the holders, then those ahead in the queue."""
    return ", ".join(dict.fromkeys(f"{each['agent']} ({each['how']})" for each in wait.waits_for)) or "nobody"


@command(
    "transfer",
    "Hand a hold to another agent; your own writes under it are refused from then on.",
    RESOURCE,
    Option("to", "AGENT", "the new holder: a name, or name~session as `tb agents --json` shows it"),
    LEASE,
    EPOCH,
    SLOT,
    example="tb transfer seat:coordinator --to bob~1k2j3",
)
def transfer(context: Context, args: Args) -> None:
    """This is a new grant: the epoch goes up by one."""
    board = context.board
    needed(args.to, "--to")
    held = board.holds.transfer(
        resource=board.held_resource(args.resource), to=args.to, lease=args.lease, epoch=args.epoch, slot=args.slot
    )
    context.answer(held, f"{called(held)} now belongs to {short(args.to)} (epoch {held.epoch})")
