"""`tb coordination …`: the coordination command line of gptme's agents, on a board of tiebreak.

The first argument of every subcommand is the agent's name, without a session: each command is a process of its own,
and only the name stays the same. So two sessions with one name are one holder here, and claiming what the name holds
already renews it. Sessions with different names exclude each other. Epochs work within a name too: a claim prints its
epoch, and with `--epoch` a write under an earlier grant is refused.

Work is named by its key, and a key may be a number here: `work-claim alice 5` is about the work called 5, not about the
task #5. Nothing is said about near keys, and a message may be for an agent that has not come yet: gptme's agents expect
neither refusal.

The board is chosen as for every command (`--board`, `TIEBREAK_BOARD`). gptme's `COORDINATION_DB` is ignored, because it
names a database of another format.
"""

from __future__ import annotations

from ..cli.command_group import CommandGroup
from ..cli.parser import Args, Argument, Option, command, whole
from ..errors import Invalid, Lost, NotFound, Refused
from ..held_files import called
from ..limits import HOLD_LEASE, MAX_ATTEMPTS, MAX_LIMIT, WORK_LEASE
from ..names import ANNOUNCEMENTS, by_key, short
from ..names import agent as check_agent
from ..names import lease as check_lease
from ..text import block, parse_rfc3339, plain, rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..cli.context import Context
    from ..model import Hold, Message, Task

ANNOUNCED = "announce"
"""The channel for announcements of agents."""
ATTEMPTS = MAX_ATTEMPTS
"""Attempts of a task that is claimed by name: it should not fail because claims of dead agents lapsed."""
AVAILABLE = {"pending": "available"}
"""States that gptme calls differently."""


def minutes(value: str) -> float:
    """A lease in seconds: `30` are minutes; `90s` and `2h` have their own unit."""
    return check_lease(f"{value}m" if value.replace(".", "", 1).isdecimal() else value)


def moment(value: str) -> float | int:
    """A message's number, or a time."""
    return whole(value) if value.isdecimal() else parse_rfc3339(value)


AGENT = Argument("agent", "the agent's name")
PATH = Argument("path", "the file")
TASK = Argument("task", "the name of the work")
TTL = Option(
    "ttl",
    "MINUTES",
    f"how long the claim lasts (default: files {HOLD_LEASE / 60:g}, work {WORK_LEASE / 60:g}); 90s and 2h work too",
    convert=minutes,
)
EPOCH = Option("epoch", "N", "the epoch of the claim (default: the current one)", convert=whole)
CHANNEL = Option("channel", "CHANNEL", "the channel; inbox reads all without it", sets="messages.send.channel")

GROUP = CommandGroup("coordination")


# ── Who is there ─────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "announce", "Announce an agent.", AGENT, Argument("message", "what the agent works on", many=True, optional=True)
)
def announce(context: Context, args: Args) -> None:
    """Registers the agent and sends a message on the channel `announce`."""
    text = " ".join(args.message)
    said = text or f"{short(args.agent)} is active"
    sent: Message = _together(
        context.board,
        ("agents.announce", {"agent": args.agent, "doing": text or None}),
        ("messages.send", {"agent": args.agent, "body": said, "channel": ANNOUNCED}),
    )
    context.answer(sent, f"announced {plain(args.agent)} (message {sent.number})")


@GROUP.command(
    "status", "Show agents, and what they hold.", Argument("agent", "only what this agent holds", optional=True)
)
def status(context: Context, args: Args) -> None:
    """File leases, work claims and agents."""
    board = context.board
    leases = board.holds.list(agent=args.agent)
    claims = board.tasks.list(states=["claimed"], agent=args.agent, limit=MAX_LIMIT)
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


@GROUP.command("claim", "Claim a file before editing it.", AGENT, PATH, TTL)
def claim(context: Context, args: Args) -> None:
    """Exit 0 if you have it now, 1 if somebody else has it."""
    board = context.board
    lease = HOLD_LEASE if args.ttl is None else args.ttl
    [held] = board.holds.take(resources=[board.resource(args.path)], agent=args.agent, lease=lease, again=True)
    context.answer(held, f"claimed {_lease(held)}")


@GROUP.command("release", "Release a file.", AGENT, PATH, EPOCH)
def release(context: Context, args: Args) -> None:
    """Exit 1 if it is not yours."""
    board = context.board
    wanted = board.held_resource(args.path)
    [released] = board.holds.release(resources=[wanted], agent=args.agent, epochs=[args.epoch or 0])
    context.answer(released, f"released {plain(args.path)}")


def _lease(held: Hold) -> str:
    return f"{plain(called(held.resource))} {_grant(held)}"


def _grant(row: Hold | Task) -> str:
    until = f", expires {rfc3339(row.until)}" if row.until else ""
    return f"(by {plain(row.holder or '-')}, epoch {row.epoch}{until})"


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "send",
    "Send a message.",
    AGENT,
    Argument("message", "what to say", many=True),
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
        later=True,
        **args.given("channel"),
    )
    context.answer(sent, f"sent message {sent.number} to {plain(sent.recipient or 'everybody')} on {sent.channel}")


@GROUP.command(
    "inbox",
    "Show messages to an agent, or to everybody.",
    AGENT,
    CHANNEL,
    Option("since", "WHEN", "only after this time, or after the message of this number", convert=moment),
)
def inbox(context: Context, args: Args) -> None:
    """Shows all messages each time: reading does not mark them as read."""
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
    """All pages of messages; the newest come last."""
    found: list[Message] = []
    after = args.since if isinstance(args.since, int) else 0
    while page := board.messages.inbox(
        agent=args.agent, every=True, channel=args.channel, after=after, limit=MAX_LIMIT
    ):
        found += page
        after = page[-1].number
    return found


def _after(message: Message, since: float | int | None) -> bool:
    return not isinstance(since, float) or message.sent_at > since


# ── Work ─────────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command("work-claim", "Claim work; work that is not on the board yet is added.", AGENT, TASK, TTL)
def work_claim(context: Context, args: Args) -> None:
    """Exit 0 if you have it now, 1 if somebody else has it or it is done."""
    board = context.board
    lease = WORK_LEASE if args.ttl is None else args.ttl
    mine = {"ref": by_key(args.task), "agent": args.agent, "lease": lease}
    post = {"name": args.task, "key": args.task, "agent": args.agent, "max_attempts": ATTEMPTS}
    try:
        task = _together(board, ("tasks.post", post), ("tasks.claim", mine))
    except Lost as lost:
        if "~".join(filter(None, (lost.holder, lost.data.get("session")))) != args.agent:
            raise
        task = board.tasks.extend(**mine)
    context.answer(task, f"claimed {_called(task)} {_grant(task)}")


@GROUP.command("work-complete", "Finish claimed work.", AGENT, TASK, Option("result", "TEXT", "the result"), EPOCH)
def work_complete(context: Context, args: Args) -> None:
    """Exit 1 if it is not, or no longer, yours."""
    task = context.board.tasks.complete(
        ref=by_key(args.task), agent=args.agent, epoch=args.epoch or 0, result=args.result or None
    )
    context.answer(task, f"completed {_called(task)}")


@GROUP.command("work-abandon", "Give claimed work back.", AGENT, TASK, Option("reason", "TEXT", "why"), EPOCH)
def work_abandon(context: Context, args: Args) -> None:
    """It can be claimed again at once. Exit 1 if it is not yours."""
    task = context.board.tasks.release(
        ref=by_key(args.task), agent=args.agent, epoch=args.epoch or 0, reason=args.reason
    )
    context.answer(task, f"abandoned {_called(task)}")


@GROUP.command(
    "work-list",
    "List work, and who has claimed it.",
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
    found = context.board.tasks.list(states=states, agent=args.agent, limit=MAX_LIMIT)
    found = [task for task in found if task.kind not in ANNOUNCEMENTS]
    context.answer(found, "\n".join(_work(task) for task in found) or "no work")


def _work(task: Task) -> str:
    state = f"{_called(task)} [{AVAILABLE.get(task.state, task.state)}]"
    return f"{state} {_grant(task)}" if task.holder else state


def _called(task: Task) -> str:
    return plain(task.key or f"#{task.number}")


# ── All of them ──────────────────────────────────────────────────────────────────────────────────────


def _together(board: Board, *calls: tuple[str, dict[str, Any]]) -> Any:
    """Run operations in one transaction; returns the answer of the last, or raises it."""
    answer = board.batch(calls)[-1]
    if isinstance(answer, BaseException):
        raise answer
    return answer


@command(
    "coordination",
    "Speak the coordination command line of gptme: AGENT first, exit 0 or 1.",
    *GROUP.parts,
    example="tb coordination work-claim alice login-bug --ttl 60",
)
def coordination(context: Context, args: Args) -> int:
    """Exit 0: you have it, or it is done. Exit 1: somebody else has it, or it is no longer yours.

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
        refusal.own_hint, refusal.reason = _advice(refusal, inner), ""
        raise


def _advice(refusal: Refused, args: Args) -> str:
    """What to do next, as a command of this command line."""
    if isinstance(refusal, Lost):
        return f"`tb coordination send {args.agent} … --to {refusal.holder}` asks for it"
    if isinstance(refusal, NotFound):
        return "`tb coordination work-list` shows what there is"
    return "`tb coordination status` shows who holds what"
