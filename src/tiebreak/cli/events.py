"""Commands about events and the state of the board: why, wait, events, status."""

from __future__ import annotations

import os
from time import monotonic

from ..board import LOOK_AGAIN
from ..errors import NotFound, TimedOut
from ..limits import SENTENCES, SHOWN
from ..model import encode
from ..names import FINAL, STATES, seconds
from ..text import Styled, ago, plain, rfc3339, table
from .claims import called, who
from .parser import Argument, Option, command, number, whole
from .tasks import STYLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..board import Board
    from ..model import Event, Task
    from .context import Context
    from .parser import Args

FILTERS = (
    Option("event", "NAME", "only these events: a name such as task.claimed, or its first part"),
    Option("kind", "KIND", "only about this kind of task (or file, lock, seat, pool)"),
    Option("name-contains", "TEXT", "only with this text in the name"),
    Option("state", "STATE", "only events that lead to this state", sets="events.read.state"),
    Option("priority", "PRIORITY", "only of this priority", sets="events.read.priority"),
    Option("agent", "NAME", "only by this agent"),
    Option("every-project", text="of all projects, not only this one"),
)


def _filters(context: Context, args: Args) -> dict[str, Any]:
    given = {key: args[key] for key in ("event", "kind", "name_contains", "state", "priority", "agent")}
    given["project"] = None if args.every_project else context.board.project_names
    return given


@command(
    "why",
    "Explain the history of a task or resource: who got it, who did not, and its state now.",
    Argument("ref", "a task's reference, a path, or lock:NAME, seat:NAME, pool:NAME"),
    number("limit", "at most this many of the newest lines", SENTENCES),
    example="tb why src/auth.py",
)
def why(context: Context, args: Args) -> None:
    """Shows every grant, refusal, renewal, expiry and break."""
    board = context.board
    try:
        sentences = board.events.why(ref=board.reference(args.ref), limit=args.limit)
    except NotFound as missing:
        # It may be a path relative to this folder.
        if args.ref.startswith("#") or (os.path.isabs(args.ref) is False and ":" in args.ref):
            raise
        try:
            sentences = board.events.why(ref=board.resource(args.ref), limit=args.limit)
        except NotFound:
            raise missing from None
    if context.json:
        context.answer(sentences)
        return
    now = board.upkeep.now()
    for each in sentences:
        when = "" if each.event == 0 and each.text.startswith("Now") else ago(now - each.at)
        context.say(f"{context.styled(f'{when:>5}', 'dim')}  {plain(each.text)}")


@command(
    "wait",
    "Wait until a task has finished, or for the next event that matches.",
    Argument("ref", "a task to wait for", optional=True),
    *FILTERS,
    Option("after", "N", "also match events after this number (default: only new ones)", convert=whole),
    Option("timeout", "DURATION", "give up after (default: never)"),
    example="tb wait login-bug --timeout 10m",
)
def wait(context: Context, args: Args) -> int:
    """Exit 0 if it happened (a task: was completed), 1 if the task ended otherwise, 2 on time-out."""
    if args.ref:
        return _wait_for_task(context, args)
    event = _wait_for_event(context, args)
    context.answer(event, "" if context.json else _line(context, event))
    return 0


def _wait_for_event(context: Context, args: Args) -> Event:
    board, filters = context.board, _filters(context, args)
    end = _end(args)
    after = board.events.last() if args.after is None else args.after
    while True:
        left = max(0.0, end - monotonic())
        nap = min(left, context.waiting("an event that matches", left)) if left else 0.0
        try:
            return board.wait(after=after, timeout=nap, **filters)
        except TimedOut:
            if monotonic() >= end:
                raise TimedOut(f"nothing matched within {args.timeout}") from None


def _end(args: Args) -> float:
    """When to give up."""
    return float("inf") if args.timeout is None else monotonic() + seconds(args.timeout, "timeout")


def _wait_for_task(context: Context, args: Args) -> int:
    board = context.board
    wanted = (args.state,) if args.state else FINAL
    end = _end(args)
    while True:
        seen = board.events.last()
        task = board.settled(args.ref)
        if task.state in wanted or task.state in FINAL:
            break
        left = end - monotonic()
        if left <= 0:
            raise TimedOut(f"{called(task)} is still {task.state}")
        left = min(left, context.waiting(_unfinished(task, args.state), left))
        if task.state == "blocked":  # the process that should have unblocked it may have died
            left = min(left, LOOK_AGAIN)
        if task.until is not None:  # its lease may run out without an event
            left = min(left, max(0.01, task.until - board.upkeep.now() + 0.001))
        _until_changed(context, seen, left, task.id)
    context.answer(task, f"{called(task)} is {task.state}")
    return 0 if task.state == (args.state or "completed") else 1


def _unfinished(task: Task, state: str | None) -> str:
    """What is waited for, and how it stands."""
    by = f" by {plain(who(task.holder))}" if task.state == "claimed" and task.holder else ""
    return f"{called(task)} to be {state or 'finished'}; it is {task.state}{by}"


def _until_changed(context: Context, seen: int, left: float, subject: str) -> None:
    try:
        context.board.wait(after=seen, timeout=left, subject=subject, project=None)
    except TimedOut:
        pass  # the caller looks again


@command(
    "events",
    "Show what happened, oldest first.",
    *FILTERS,
    Option("after", "N", "only after this number", convert=whole),
    Option("follow", text="continue with new events as they happen, after the newest N with --limit N", short="f"),
    Option("limit", "N", f"at most this many of the newest (default {SHOWN}; with --follow 0)", convert=whole),
    example="tb events --follow --limit 20 --event task",
)
def events(context: Context, args: Args) -> None:
    """With --json: a list, or with --follow one object on each line.

    With --follow, --limit N is what `tail -n N -f` does: the newest N first, then each new one until you stop it.
    """
    board = context.board
    filters = _filters(context, args)
    if args.follow:
        for event in _followed(board, args.after, args.limit, filters):
            context.answer(event, "" if context.json else _line(context, event))
        return
    limit = SHOWN if args.limit is None else args.limit
    found = board.events.read(after=args.after or 0, limit=limit, newest=args.after is None, **filters)
    if context.json:
        context.answer(found)
    for event in found if not context.json else []:
        context.say(_line(context, event))


def _followed(board: Board, after: int | None, limit: int | None, filters: dict[str, Any]) -> Iterator[Event]:
    """The newest `limit` events, then those that happen; without a limit those after a number, or from now on."""
    if limit:
        seen = board.events.last()  # before reading, so that no event falls between the two
        found = board.events.read(after=after or 0, limit=limit, newest=True, **filters)
        yield from found
        after = max([seen, *(event.number for event in found)])
    elif limit is not None:
        after = None  # --limit 0: only what happens from now on
    yield from board.follow(after=after, **filters)


def _line(context: Context, event: Event) -> str:
    style = STYLES.get(event.state or "", "") or (
        "bad" if event.event.endswith((".refused", ".fenced", ".broken")) else ""
    )
    parts = [
        context.styled(f"{event.number:>6}", "dim"),
        rfc3339(event.at)[11:19],
        context.styled(f"{event.event:<16}", style or "accent"),
        f"{plain(who(event.agent)):<20}",
        plain(event.name or ""),
    ]
    if event.epoch:
        parts.append(context.styled(f"epoch {event.epoch}", "dim"))
    if event.times > 1:
        parts.append(f"×{event.times}")
    if event.note:
        parts.append(context.styled(f"({plain(event.note)})", "dim"))
    return "  ".join(parts)


def _daemons(address: str) -> list[dict[str, Any]]:
    """The daemons on this machine that serve the board."""
    from ..daemon.lock import daemons

    return [] if address.startswith(("http", "unix:")) else list(daemons(address).values())


@command(
    "status",
    "Show the board in numbers.",
    Option("every-project", text="of all projects, not only this one"),
    example="tb status",
)
def status(context: Context, args: Args) -> None:
    """Open questions to a person come first. Counts tasks by state, holds, agents, messages and events."""
    board = context.board
    project = None if args.every_project else board.project_names
    found = board.upkeep.status(project=project)
    questions = board.questions.list(project=project)
    daemons = _daemons(board.engine.address)
    if context.json:
        context.answer(
            {
                "questions": encode(questions),
                **encode(found),
                "daemon": daemons[0] if daemons else None,
                "daemons": daemons,
            }
        )
        return
    if questions:
        from .questions import lines

        context.say("\n".join([*lines(context, questions, board.upkeep.now()), ""]))
    context.say(f"{context.styled('board', 'bold')}    {plain(board.engine.address)}")
    for daemon in daemons:
        where = " and ".join(daemon["addresses"])
        context.say(
            f"{context.styled('daemon', 'bold')}   pid {daemon['pid']} at {plain(where)}, since {daemon['since']}"
            + (", draining" if "draining" in daemon else "")
        )
    context.say(f"{context.styled('project', 'bold')}  {plain(found.project or 'all projects')}")
    counts = [[state, str(getattr(found, state))] for state in STATES]
    counts += [[name, str(getattr(found, name))] for name in ("holds", "agents", "messages", "events")]
    rows: list[list[str]] = [[Styled(name, STYLES.get(name, "")), number] for name, number in counts]
    context.say(table(rows, right={1}, colour=context.colour))
