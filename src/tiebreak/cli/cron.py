"""`tb cron …`: scheduled jobs."""

from __future__ import annotations

from ..errors import Invalid, NotFound
from ..job_fields import written
from ..limits import INSTANTS, RUNS
from ..names import OF_SCHEDULES
from ..text import Styled, ago, plain, rfc3339, span, table
from .claims import who
from .command_group import CommandGroup
from .jobs import OPTIONS, given
from .parser import Argument, Option, command, whole
from .tasks import STYLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Event, Schedule, Task
    from .context import Context
    from .parser import Args

GROUP = CommandGroup("cron")
NAME = Argument("name", "the schedule")
COUNT = Option("count", "N", f"next, history: how many (default {INSTANTS} and {RUNS})", convert=whole)
LONGEST = 60.0
"""Longest time in seconds between two checks of `tb cron run`."""


@GROUP.command(
    "add",
    "Add a schedule, or change the one of this name.",
    NAME,
    Argument("expression", "minute hour day month weekday, in quotes"),
    Option("zone", "ZONE", "the time zone of the expression", sets="schedules.add.zone"),
    Option("policy", "POLICY", "what to do about missed runs", sets="schedules.add.policy"),
    *OPTIONS,
    rest="CMD…",
)
def add(context: Context, args: Args) -> None:
    """One word after -- is run by the shell; several words are a command and its arguments."""
    if not args.rest:
        raise Invalid("cron add: CMD is missing", hint="usage: tb cron add NAME '*/5 * * * *' -- CMD…")
    made = context.board.schedules.add(
        name=args.name,
        expression=args.expression,
        command=args.rest[0] if len(args.rest) == 1 else args.rest,
        **args.given("zone", "policy"),
        options=given(args),
    )
    verb = "added" if made.created_at == made.updated_at else "changed"
    context.answer(made, f"{context.styled(verb, 'good')} {plain(made.name)}  {_next(context, made)}")


def _next(context: Context, made: Schedule) -> str:
    if made.paused_at is not None:
        return "paused"
    if made.due is None:
        return "no further runs"
    return f"next at {local(made.due, made.zone)}, in {span(made.due - context.board.upkeep.now())}"


def local(at: float, zone: str) -> str:
    """A time in a zone; in UTC if the zone is not known here."""
    if zone.upper() != "UTC":
        from datetime import datetime
        from zoneinfo import ZoneInfo

        try:
            return datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S %Z")
        except (KeyError, ValueError, OSError):
            pass
    return rfc3339(at)[:19].replace("T", " ") + " UTC"


@GROUP.command("list", "List schedules.", Option("every-project", text="list: of all projects, not only this one"))
def listing(context: Context, args: Args) -> None:
    """Sorted by name."""
    board = context.board
    found = board.schedules.list(project=None if args.every_project else board.project_names)
    now = board.upkeep.now()
    rows = [_row(each, now) for each in found]
    header = ["NAME", "WHEN", "ZONE", "MISSED", "RUNS", "LAST", "NEXT", "COMMAND"]
    shown = table(rows, header=header, right={4}, limit=context.width, colour=context.colour)
    context.answer(found, shown if found else "no schedules (`tb cron add` adds one)")


def _row(each: Schedule, now: float) -> list[str]:
    following = ago(now - each.due) if each.due else "-"
    if each.paused_at is not None:
        following = Styled(f"paused: {each.reason}" if each.reason else "paused", "warn")
    last = ago(now - each.last) + " ago" if each.last else "-"
    when = [each.name, each.expression, each.zone, each.policy]
    return [*when, str(each.epoch), last, following, written(each.command)]


@GROUP.command("pause", "Pause a schedule until it is resumed.", NAME, Option("reason", "TEXT", "pause: why"))
def pause(context: Context, args: Args) -> None:
    """Runs that fall into the pause are not made up for."""
    context.answer(context.board.schedules.pause(name=args.name, reason=args.reason), f"paused {plain(args.name)}")


@GROUP.command("resume", "Resume a schedule with its next run.", NAME)
def resume(context: Context, args: Args) -> None:
    """Continues from now on."""
    made = context.board.schedules.resume(name=args.name)
    context.answer(made, f"resumed {plain(made.name)}  {_next(context, made)}")


@GROUP.command("rm", "Remove a schedule; its jobs stay.", NAME)
def remove(context: Context, args: Args) -> None:
    """Jobs that it has submitted are not changed."""
    context.answer(context.board.schedules.remove(name=args.name), f"removed {plain(args.name)}")


@GROUP.command("next", "Show the next runs.", NAME, COUNT)
def coming(context: Context, args: Args) -> None:
    """In the time zone of the schedule."""
    board = context.board
    times = board.schedules.next(name=args.name, count=args.count or INSTANTS)
    [known] = board.schedules.list(name=args.name)
    now = board.upkeep.now()
    rows = [[local(at, known.zone), f"in {span(at - now)}"] for at in times]
    context.answer([rfc3339(at) for at in times], table(rows) if rows else "no further runs")


@GROUP.command("history", "Show the last runs.", NAME, COUNT)
def history(context: Context, args: Args) -> None:
    """Newest first, with the runs that were missed and skipped."""
    board = context.board
    known = board.schedules.list(name=args.name)
    runs = board.schedules.history(name=args.name, limit=args.count or RUNS)
    if not known and not runs:
        raise NotFound(f"no schedule {args.name} in project {board.project}", reason="schedule-unknown")
    if context.json:
        context.answer(runs)
        return
    zone = known[0].zone if known else "UTC"
    skipped = board.events.read(
        event="schedule.skipped", subject=f"{OF_SCHEDULES}{args.name}", newest=True, limit=len(runs) or RUNS
    )
    lines = [*map(_run, runs), *map(_skip, skipped)]
    lines.sort(key=lambda line: -line[0])
    rows: list[list[str]] = [[local(at, zone), *rest] for at, *rest in lines]
    header = ["INSTANT", "STATE", "JOB", "LATE", "TOOK", "BY"]
    shown = table(rows, header=header, right={3, 4}, limit=context.width, colour=context.colour)
    context.say(shown if rows else "it has not run yet")


def _run(task: Task) -> list[Any]:
    from ..text import parse_rfc3339

    at = parse_rfc3339((task.key or "")[-20:])
    took = span(task.finished_at - task.claimed_at) if task.finished_at and task.claimed_at else "-"
    late = span(max(0.0, task.created_at - at))
    return [at, Styled(task.state, STYLES.get(task.state, "")), f"#{task.number}", late, took, who(task.holder)]


def _skip(event: Event) -> list[Any]:
    from ..text import parse_rfc3339

    return [parse_rfc3339(event.data["instant"]), Styled("skipped", "dim"), "-", "-", "-", who(event.agent)]


@GROUP.command("run", "Submit scheduled jobs, in the foreground, until interrupted.")
def run(context: Context, args: Args) -> int:
    """For boards without a daemon or worker, which do the same. Any number may run at once."""
    board = context.board
    if not context.json:
        context.say(f"submitting scheduled jobs of project {plain(board.project)}; Ctrl-C ends it")
    looking = False
    while True:
        seen = board.events.last()
        due = board.schedules.due()
        if looking and due != 0.0:
            board.engine.wait(seen, LONGEST if due is None else min(LONGEST, due), project=board.project)
            continue
        # At first in any case, so that a missing library for cron expressions is reported.
        for task in board.schedules.fire():
            context.answer(task, "" if context.json else f"#{task.number} {plain(task.key or task.name)}")
        looking = True


@command(
    "cron",
    "Run commands on a schedule: each run happens once, however many machines watch.",
    *GROUP.parts,
    rest="CMD…",
    example="tb cron add backup '30 2 * * *' --zone Europe/Berlin -- ./backup.sh",
)
def cron(context: Context, args: Args) -> int:
    """Workers and daemons submit the jobs when they are due.

    add NAME EXPRESSION [--zone] [--policy] [what `tb submit` takes] -- CMD…
    list
    next NAME [--count]
    history NAME [--count]
    pause NAME [--reason]
    resume NAME
    rm NAME
    run
    """
    return GROUP.run(context, args)
