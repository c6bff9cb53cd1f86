"""`tb coordination …`: the command line of gptme's coordination, on a tiebreak board.

The first argument of each subcommand is the name of the agent. Each command is a process of its own, so the name is all
that identifies the agent. Two sessions that use the same name are therefore one holder, and claiming what one already
holds renews it, as gptme's users expect. Sessions with different names exclude each other. To tell two sessions with
the same name apart, use `--epoch`: `claim` prints the epoch, and a write with an earlier epoch is refused.

The board is chosen as for every command of `tb` (`--board`, `TIEBREAK_BOARD`). `COORDINATION_DB` is ignored, because it
names a database in gptme's own format.
"""

from __future__ import annotations

from ..cli.family import Family
from ..cli.spec import Args, Argument, Option, command, whole
from ..errors import Invalid, Lost, NotFound, Refused
from ..names import ANNOUNCEMENTS, short
from ..names import agent as check_agent
from ..names import lease as check_lease
from ..text import block, parse_rfc3339, plain, rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..cli.context import Context
    from ..model import Hold, Message, Task

FILE_LEASE = 30 * 60.0
WORK_LEASE = 60 * 60.0
ANNOUNCED = "announce"
"""The channel for announcements of presence."""
ATTEMPTS = 1000
"""Attempts of a task: so many that work does not fail because the agents that claimed it died."""
AVAILABLE = {"pending": "available"}
"""States that gptme calls by another name."""


def minutes(value: str) -> float:
    """Read `--ttl`: a plain number is in minutes; units such as `90s` and `2h` are accepted too."""
    return check_lease(f"{value}m" if value.replace(".", "", 1).isdecimal() else value)


def moment(value: str) -> float | int:
    """Read `--since`: the number of a message, or a time."""
    return whole(value) if value.isdecimal() else parse_rfc3339(value)


AGENT = Argument("agent", "the name of the agent")
PATH = Argument("path", "the file")
TASK = Argument("task", "the name of the work")
TTL = Option(
    "ttl",
    "MINUTES",
    "how long the claim lasts (default: 30 for files, 60 for work); also 90s or 2h",
    convert=minutes,
)
EPOCH = Option("epoch", "N", "the epoch that the claim printed (default: that of the current claim)", convert=whole)
CHANNEL = Option("channel", "CHANNEL", "the channel (default: send to general, read from all)")

FAMILY = Family("coordination")


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────


@FAMILY.member("announce", "Announce an agent.", AGENT, Argument("message", "what it does", many=True, optional=True))
def announce(context: Context, args: Args) -> None:
    """Registers the agent and sends a message on a channel, in one transaction."""
    text = " ".join(args.message)
    said = text or f"{short(args.agent)} is active"
    sent: Message = _together(
        context.board,
        ("agents.announce", {"agent": args.agent, "doing": text or None}),
        ("messages.send", {"agent": args.agent, "body": said, "channel": ANNOUNCED}),
    )
    context.answer(sent, f"announced {plain(args.agent)} (message {sent.number})")


@FAMILY.member(
    "status", "Show agents and what they hold.", Argument("agent", "only what this agent holds", optional=True)
)
def status(context: Context, args: Args) -> None:
    """File leases, work claims and agents."""
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


@FAMILY.member("claim", "Claim a file before editing it.", AGENT, PATH, TTL)
def claim(context: Context, args: Args) -> None:
    """Exit 0 if the agent has the file now, 1 if another agent holds it."""
    board = context.board
    lease = FILE_LEASE if args.ttl is None else args.ttl
    [held] = board.holds.take(resources=[board.resource(args.path)], agent=args.agent, lease=lease, again=True)
    context.answer(held, f"claimed {_lease(held)}")


@FAMILY.member("release", "Release a file.", AGENT, PATH, EPOCH)
def release(context: Context, args: Args) -> None:
    """Exit 1 if the agent does not hold the file."""
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


@FAMILY.member(
    "send",
    "Send a message.",
    AGENT,
    Argument("message", "the text", many=True),
    CHANNEL,
    Option("to", "AGENT", "to this agent (default: to everybody)"),
    Option("recipient", "AGENT", "the same as --to"),
)
def send(context: Context, args: Args) -> None:
    """To one agent, or to everybody."""
    sent = context.board.messages.send(
        body=" ".join(args.message),
        agent=args.agent,
        to=args.to or args.recipient,
        channel=args.channel or "general",
    )
    context.answer(sent, f"sent message {sent.number} to {plain(sent.recipient or 'everybody')} on {sent.channel}")


@FAMILY.member(
    "inbox",
    "Show the messages to an agent and to everybody.",
    AGENT,
    CHANNEL,
    Option("since", "WHEN", "only messages after this time, or after the message with this number", convert=moment),
)
def inbox(context: Context, args: Args) -> None:
    """Shows all messages each time. Reading does not mark them as read."""
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
    """Read all pages, because the newest messages are on the last one."""
    found: list[Message] = []
    after = args.since if isinstance(args.since, int) else 0
    while page := board.messages.inbox(agent=args.agent, every=True, channel=args.channel, after=after, limit=1000):
        found += page
        after = page[-1].number
    return found


def _after(message: Message, since: float | int | None) -> bool:
    return not isinstance(since, float) or message.sent_at > since


# ── Work ─────────────────────────────────────────────────────────────────────────────────────────────


@FAMILY.member("work-claim", "Claim a piece of work. Posts it first if it is new.", AGENT, TASK, TTL)
def work_claim(context: Context, args: Args) -> None:
    """Exit 0 if the agent has the work now, 1 if another agent has it or it is finished."""
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


@FAMILY.member("work-complete", "Complete claimed work.", AGENT, TASK, Option("result", "TEXT", "the result"), EPOCH)
def work_complete(context: Context, args: Args) -> None:
    """Exit 1 if the agent does not, or no longer, hold the claim."""
    task = context.board.tasks.complete(
        ref=args.task, agent=args.agent, epoch=args.epoch or 0, result=args.result or None
    )
    context.answer(task, f"completed {_called(task)}")


@FAMILY.member("work-abandon", "Release claimed work.", AGENT, TASK, Option("reason", "TEXT", "why"), EPOCH)
def work_abandon(context: Context, args: Args) -> None:
    """It can be claimed again at once. Exit 1 if the agent does not hold the claim."""
    task = context.board.tasks.release(ref=args.task, agent=args.agent, epoch=args.epoch or 0, reason=args.reason)
    context.answer(task, f"abandoned {_called(task)}")


@FAMILY.member(
    "work-list",
    "List work and who has claimed it.",
    Argument("agent", "only work that this agent has claimed", optional=True),
    Option("agent", "NAME", "only work that this agent has claimed"),
    Option("available", text="only work that can be claimed"),
    Option("claimed", text="only claimed work"),
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


# ── The command ──────────────────────────────────────────────────────────────────────────────────────


def _together(board: Board, *calls: tuple[str, dict[str, Any]]) -> Any:
    """Run operations in one transaction. Returns or raises the answer of the last."""
    answer = board.batch(calls)[-1]
    if isinstance(answer, BaseException):
        raise answer
    return answer


@command(
    "coordination",
    "Use the command line of gptme's coordination: AGENT first, exit 0 or 1.",
    FAMILY.words,
    *FAMILY.options,
    example="tb coordination work-claim alice login-bug --ttl 60",
)
def coordination(context: Context, args: Args) -> int:
    """Exit 0: done. Exit 1: another agent has it, or the agent no longer holds it.

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
        raise Invalid("coordination: name the agent as the first word after the subcommand, not with --as")
    wanted, inner = FAMILY.choose(args)
    if inner.agent is not None:
        check_agent(inner.agent)
    try:
        return wanted.run(context, inner) or 0
    except Refused as refusal:
        refusal.hint = _advice(refusal, inner)
        raise


def _advice(refusal: Refused, args: Args) -> str:
    """The next step, as a command of this command line."""
    if isinstance(refusal, Lost):
        return f"`tb coordination send {args.agent} … --to {refusal.holder}` asks for it"
    if isinstance(refusal, NotFound):
        return "`tb coordination work-list` shows what there is"
    return "`tb coordination status` shows who holds what"
