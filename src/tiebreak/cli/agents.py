"""Commands about agents: announce, heartbeat, leave, agents, whoami."""

from __future__ import annotations

from ..names import short
from ..text import Styled, ago, plain, table
from .parser import Argument, Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Agent
    from .context import Context
    from .parser import Args

STYLES = {"active": "good", "idle": "accent", "stale": "warn", "gone": "dim"}
DOING = Argument("doing", "what you work on", many=True, optional=True)


@command(
    "announce",
    "Say who you are and what you work on.",
    DOING,
    Option("program", "NAME", "what you run in, such as claude-code"),
    example="tb announce 'moving the login to OAuth'",
)
def announce(context: Context, args: Args) -> None:
    """Registers the process of this session: while it is alive, so are you."""
    agent = context.board.announce(" ".join(args.doing) or None, program=args.program)
    context.answer(agent, f"you are {context.styled(plain(short(agent.id)), 'bold')} in project {plain(agent.project)}")


@command("heartbeat", "Show that you are still active.", DOING, example="tb heartbeat")
def heartbeat(context: Context, args: Args) -> None:
    """Optionally says what you work on now."""
    agent: Agent = context.board.call("agents.heartbeat", {"doing": " ".join(args.doing) or None})
    context.answer(agent, f"{plain(short(agent.id))} is {agent.status}")


@command(
    "leave",
    "Mark yourself as gone; claims and holds stay until they are released or run out.",
    Option("reason", "TEXT", "why"),
)
def leave(context: Context, args: Args) -> None:
    """`tb agents` then shows you as gone."""
    context.answer(context.board.agents.leave(reason=args.reason), "good-bye")


@command(
    "agents",
    "List agents, most recently seen first.",
    Option("all", text="also agents that are gone"),
    Option("status", "STATUS", "only with this status", sets="agents.list.status"),
    Option("every-project", text="of all projects, not only this one"),
    example="tb agents",
)
def agents(context: Context, args: Args) -> None:
    """Status: active (seen within a minute), idle (within half an hour), stale, or gone."""
    board = context.board
    found = board.agents.list(project=None if args.every_project else board.project_names, status=args.status)
    if not args.all and not args.status:
        found = [agent for agent in found if agent.status != "gone"]
    if context.json:
        context.answer(found)
        return
    if not found:
        context.say("nobody is here")
        return
    now = board.upkeep.now()
    named = [short(each.id) for each in found]
    rows = [
        [
            # Two sessions of one name are shown with their session, so that people can tell them apart.
            (each.id if named.count(short(each.id)) > 1 else short(each.id))
            + (" (you)" if each.id == board.agent else ""),
            Styled(each.status, STYLES[each.status]),
            ago(now - each.seen_at),
            f"{each.host}:{each.pid}" if each.pid else "-",
            each.doing or "",
        ]
        for each in found
    ]
    header = ["AGENT", "STATUS", "SEEN", "PROCESS", "DOING"]
    context.say(table(rows, header=header, right={2}, limit=context.width, colour=context.colour))


@command("whoami", "Show the name, project and board that commands act with here.")
def whoami(context: Context, args: Args) -> None:
    """Shows which agent `tb` takes you for; `--as` chooses another one."""
    board = context.board
    name, _, session = board.agent.partition("~")
    facts = {"agent": name, "session": session, "project": board.project, "board": board.engine.address}
    context.answer(facts, table([[key, value] for key, value in facts.items()]))
