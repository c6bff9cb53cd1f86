"""`tb coordination …`: the command line that gptme's agents know, on whatever board is configured.

The first word after a subcommand is who acts: a plain name, because each of these commands is a process of its own
and only the name comes again. So two sessions that use one name are one holder here, and claiming what one holds
renews it. That is what this command line promises, and names that differ keep sessions apart. The fence holds within
a name too: a claim tells its epoch, and with `--epoch` a write of an earlier grant is refused.

The board is tiebreak's own (`--board`, `TIEBREAK_BOARD`); `COORDINATION_DB` names a database of another form, and is
not looked at.
"""

from __future__ import annotations

from ..errors import Invalid, Lost, NotFound, Refused
from ..names import ANNOUNCEMENTS, short
from ..names import agent as check_agent
from ..names import lease as check_lease
from ..text import block, parse_rfc3339, plain, rfc3339
from .command_group import CommandGroup
from .parser import Args, Argument, Option, command, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..model import Hold, Message, Task
    from .context import Context

FILE_LEASE = 30 * 60.0
WORK_LEASE = 60 * 60.0
ANNOUNCED = "announce"
"""The channel on which agents say that they are there."""
ATTEMPTS = 1000
"""Work that is claimed by name may lapse and be claimed again as often as agents die; it does not fail by itself."""
AVAILABLE = {"pending": "available"}
"""States that have another name here."""


def minutes(value: str) -> float:
    """A time to live: `--ttl 30` means minutes; with a unit (`90s`, `2h`) it means what it says."""
    return check_lease(f"{value}m" if value.replace(".", "", 1).isdecimal() else value)


def moment(value: str) -> float | int:
    """Since when: the number of a message, or a time."""
    return whole(value) if value.isdecimal() else parse_rfc3339(value)


AGENT = Argument("agent", "who acts")
PATH = Argument("path", "the file")
TASK = Argument("task", "the work's name")
TTL = Option(
    "ttl",
    "MINUTES",
    "how long it lasts (default: a file 30, work 60); 90s and 2h are understood too",
    convert=minutes,
)
EPOCH = Option("epoch", "N", "the grant that is meant (default: the one that name has now)", convert=whole)
CHANNEL = Option("channel", "CHANNEL", "on this channel (default: send to general, read all)")

GROUP = CommandGroup("coordination")


# ── Who is there ─────────────────────────────────────────────────────────────────────────────────────


@GROUP.command("announce", "Say that one is there.", AGENT, Argument("message", "at what", many=True, optional=True))
def announce(context: Context, args: Args) -> None:
    """Seen among the agents and on a channel, in one step."""
    text = " ".join(args.message)
    said = text or f"{short(args.agent)} is active"
    sent: Message = _together(
        context.board,
        ("agents.announce", {"agent": args.agent, "doing": text or None}),
        ("messages.send", {"agent": args.agent, "body": said, "channel": ANNOUNCED}),
    )
    context.answer(sent, f"announced {plain(args.agent)} (message {sent.number})")


@GROUP.command(
    "status", "Who is there, and what they hold.", Argument("agent", "only what this agent holds", optional=True)
)
def status(context: Context, args: Args) -> None:
    """Leases, claims and agents."""
    board = context.board
    leases = board.holds.list(agent=args.agent)
    claims = board.tasks.list(states=["claimed"], agent=args.agent, limit=1000)
    agents = [each for each in board.agents.list(agent=args.agent) if each.status != "gone"]
    if context.json:
        from ..model import encode

        context.answer({"leases": encode(leases), "claims": encode(claims), "agents": encode(agents)})
        return
    context.say(f"board: {plain(board.engine.address)}, project {plain(board.project)}")
    _list(context, "file leases", [_lease(each) for each in leases])
    _list(context, "work claims", [_work(each) for each in claims])
    _list(
        context, "agents", [f"{plain(each.id)} [{each.status}] {plain(each.doing or '')}".rstrip() for each in agents]
    )


def _list(context: Context, title: str, lines: list[str]) -> None:
    context.say("\n  ".join([f"{title}: {len(lines)}", *lines]))


# ── Files ────────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command("claim", "Take a file before editing it.", AGENT, PATH, TTL)
def claim(context: Context, args: Args) -> None:
    """Exit 0 when it is yours, 1 when somebody else has it."""
    board = context.board
    lease = FILE_LEASE if args.ttl is None else args.ttl
    [held] = board.holds.take(resources=[board.resource(args.path)], agent=args.agent, lease=lease, again=True)
    context.answer(held, f"claimed {_lease(held)}")


@GROUP.command("release", "Give a file back.", AGENT, PATH, EPOCH)
def release(context: Context, args: Args) -> None:
    """Exit 1 when it is not yours."""
    board = context.board
    wanted = board.resource(args.path)
    [released] = board.holds.release(resources=[wanted], agent=args.agent, epochs=[args.epoch or 0])
    context.answer(released, f"released {plain(args.path)}")


def _lease(held: Hold) -> str:
    return f"{plain(held.resource.removeprefix('file:'))} {_grant(held)}"


def _grant(row: Hold | Task) -> str:
    until = f", expires {rfc3339(row.until)}" if row.until else ""
    return f"(by {plain(row.holder or '-')}, epoch {row.epoch}{until})"


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "send",
    "Tell others.",
    AGENT,
    Argument("message", "what to say", many=True),
    CHANNEL,
    Option("to", "AGENT", "to this agent (default: to everybody)"),
    Option("recipient", "AGENT", "the same as --to"),
)
def send(context: Context, args: Args) -> None:
    """To one, or to everybody."""
    sent = context.board.messages.send(
        body=" ".join(args.message),
        agent=args.agent,
        to=args.to or args.recipient,
        channel=args.channel or "general",
    )
    context.answer(sent, f"sent message {sent.number} to {plain(sent.recipient or 'everybody')} on {sent.channel}")


@GROUP.command(
    "inbox",
    "What was said to an agent, or to everybody.",
    AGENT,
    CHANNEL,
    Option("since", "WHEN", "only after this time, or after the message of this number", convert=moment),
)
def inbox(context: Context, args: Args) -> None:
    """All of it, each time: reading marks nothing."""
    found = [each for each in _messages(context.board, args) if _after(each, args.since)]
    if context.json:
        context.answer(found)
        return
    for each in found:
        to = plain(each.recipient or "everybody")
        said = block(each.body).replace("\n", "\n    ")
        context.say(f"{each.number} [{rfc3339(each.sent_at)}] {plain(each.sender)} to {to} on {each.channel}: {said}")
    if not found:
        context.say(f"no messages for {plain(args.agent)}")


def _messages(board: Board, args: Args) -> list[Message]:
    """Page after page: the newest come last, and are what a reader is after."""
    found: list[Message] = []
    after = args.since if isinstance(args.since, int) else 0
    while page := board.messages.inbox(agent=args.agent, every=True, channel=args.channel, after=after, limit=1000):
        found += page
        after = page[-1].number
    return found


def _after(message: Message, since: float | int | None) -> bool:
    return not isinstance(since, float) or message.sent_at > since


# ── Work ─────────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command("work-claim", "Win a piece of work; what nobody knew is put on the board.", AGENT, TASK, TTL)
def work_claim(context: Context, args: Args) -> None:
    """Exit 0 when it is yours, 1 when it is somebody else's or done."""
    board = context.board
    lease = WORK_LEASE if args.ttl is None else args.ttl
    mine = {"ref": args.task, "agent": args.agent, "lease": lease}
    post = {"name": args.task, "key": args.task, "agent": args.agent, "max_attempts": ATTEMPTS}
    try:
        task = _together(board, ("tasks.post", post), ("tasks.claim", mine))
    except Lost as lost:
        if "~".join(filter(None, (lost.holder, lost.data.get("session")))) != args.agent:
            raise
        task = board.tasks.extend(**mine)
    context.answer(task, f"claimed {_called(task)} {_grant(task)}")


@GROUP.command("work-complete", "Finish claimed work.", AGENT, TASK, Option("result", "TEXT", "what came out"), EPOCH)
def work_complete(context: Context, args: Args) -> None:
    """Exit 1 when it is not yours, or not any more."""
    task = context.board.tasks.complete(
        ref=args.task, agent=args.agent, epoch=args.epoch or 0, result=args.result or None
    )
    context.answer(task, f"completed {_called(task)}")


@GROUP.command("work-abandon", "Give claimed work back.", AGENT, TASK, Option("reason", "TEXT", "why"), EPOCH)
def work_abandon(context: Context, args: Args) -> None:
    """It can be claimed again at once. Exit 1 when it is not yours."""
    task = context.board.tasks.release(ref=args.task, agent=args.agent, epoch=args.epoch or 0, reason=args.reason)
    context.answer(task, f"abandoned {_called(task)}")


@GROUP.command(
    "work-list",
    "What there is to do, and who does it.",
    Argument("agent", "only what this agent has claimed", optional=True),
    Option("agent", "NAME", "only what this agent has claimed"),
    Option("available", text="only what can be claimed"),
    Option("claimed", text="only what is claimed"),
)
def work_list(context: Context, args: Args) -> None:
    """Newest first."""
    if args.available and args.claimed:
        raise Invalid("coordination work-list: --available or --claimed, not both")
    states = ["pending"] if args.available else ["claimed"] if args.claimed else None
    found = context.board.tasks.list(states=states, agent=args.agent, limit=1000)
    found = [task for task in found if task.kind not in ANNOUNCEMENTS]
    context.answer(found, "\n".join(_work(task) for task in found) or "no work")


def _work(task: Task) -> str:
    state = f"{_called(task)} [{AVAILABLE.get(task.state, task.state)}]"
    return f"{state} {_grant(task)}" if task.holder else state


def _called(task: Task) -> str:
    return plain(task.key or f"#{task.number}")


# ── All of them ──────────────────────────────────────────────────────────────────────────────────────


def _together(board: Board, *calls: tuple[str, dict[str, Any]]) -> Any:
    """Run operations in one transaction; the answer of the last, which decides."""
    answer = board.batch(calls)[-1]
    if isinstance(answer, BaseException):
        raise answer
    return answer


@command(
    "coordination",
    "Speak as gptme's coordination does: AGENT first, exit 0 or 1.",
    *GROUP.parts,
    example="tb coordination work-claim alice login-bug --ttl 60",
)
def coordination(context: Context, args: Args) -> int:
    """Exit 0: it is yours, or done. Exit 1: somebody else has it, or it is not yours any more.

    announce AGENT [MESSAGE]
    claim AGENT PATH [--ttl]
    release AGENT PATH [--epoch]
    send AGENT MESSAGE [--to] [--channel]
    inbox AGENT [--channel] [--since]
    work-claim AGENT TASK [--ttl]
    work-complete AGENT TASK [--result] [--epoch]
    work-abandon AGENT TASK [--reason] [--epoch]
    work-list [AGENT] [--available | --claimed]
    status [AGENT]
    """
    if args["as"]:
        raise Invalid("coordination: the first word after the subcommand says who acts, not --as")
    wanted, inner = GROUP.choose(args)
    if inner.agent is not None:
        check_agent(inner.agent)
    try:
        return wanted.run(context, inner) or 0
    except Refused as refusal:
        refusal.hint = _advice(refusal, inner)
        raise


def _advice(refusal: Refused, args: Args) -> str:
    """What to do next, in the words of this command line."""
    if isinstance(refusal, Lost):
        return f"`tb coordination send {args.agent} … --to {refusal.holder}` asks for it"
    if isinstance(refusal, NotFound):
        return "`tb coordination work-list` shows what there is"
    return "`tb coordination status` shows who holds what"
