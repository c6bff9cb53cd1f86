"""`tb` without a command: where you are, and what fits there, in about ten lines.

It only looks: a board that does not exist yet is not created.
"""

from __future__ import annotations

import os

from ..errors import TiebreakError
from ..held_files import called
from ..limits import SHOWN
from ..names import short
from ..need_words import counted, next_step, number_of, sentence
from ..text import plain, span, table
from .help_layout import columns, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Activity, Counts, Need
    from .context import Context

_AT_WORK = 5
"""Lines about who does what, at most; fewer if something needs a person."""
_NEEDS = 2
"""Lines about what needs a person, at most."""

NEW = (
    ("tb init", "set this repository up for coding agents"),
    ("tb claim login-bug", "take a piece of work; others are told that you have it"),
    ("tb hold src/auth.py", "take a file before you edit it"),
    ("tb help", "all commands, by theme"),
)
AT_WORK = (
    ("tb next", "take the next open task"),
    ("tb tasks, tb holds", "what there is to do, and who has which file"),
    ("tb top", "watch the board: what needs you, who works, who waits"),
    ("tb help", "all commands, by theme"),
)


def welcome(context: Context) -> int:
    """Tell where you are. A board that cannot be opened is told in one line."""
    if is_missing(context.address):
        return _tell_new(context, "There is no board yet; the first command makes it")
    try:
        board = context.board
        counts, needs, agents = board.overview.counts(), board.overview.needs(), board.overview.agents()
    except TiebreakError as exc:
        from .advice import in_one_line

        raise type(exc)(in_one_line(exc), **exc.data) from exc
    if not (needs or counts.claimed or counts.holds or counts.ready or counts.blocked):
        return _tell_new(context, "Nobody is at work here yet", agents=len(agents))
    if context.json:
        _answer_in_json(context, counts, needs, agents)
        return 0
    for line in [*_needed(context, needs), *_at_work(context, counts, agents, _AT_WORK - (2 if needs else 0))]:
        context.say(line)
    return 0


def is_missing(address: str) -> bool:
    """Whether the board is a file that does not exist and that any command would make."""
    from ..engine.addresses import path_of

    path = path_of(address)
    return bool(path) and not os.path.lexists(path) and os.path.isdir(os.path.dirname(os.path.abspath(path)))


def _tell_new(context: Context, why: str, **facts: Any) -> int:
    from .help import TITLE

    me, project = context.who()
    if context.json:
        context.answer({"where": "new", "agent": short(me), "project": project, **facts})
        return 0
    context.say("\n".join(wrapped(TITLE, columns())))
    context.say("")
    set_up = _is_set_up()
    you = f"You are {plain(short(me))} in project {plain(project)}."
    start = " This repository is set up: start your coding agents as always." if set_up else ""
    for line in (you, f"{why}.{start}"):
        context.say("\n".join(wrapped(line, columns())))
    context.say("")
    context.say(_commands(NEW[1:] if set_up else NEW))
    return 0


def _is_set_up() -> bool:
    """Whether somebody has run `tb init` in this repository."""
    from ..board import here
    from ..guard.setup.init import is_set_up
    from ..repository import repository

    found = repository(here())
    return found is not None and is_set_up(found)


def _commands(rows: tuple[tuple[str, str], ...]) -> str:
    return table([[f"  {name}", text] for name, text in rows], limit=columns())


def _answer_in_json(context: Context, counts: Counts, needs: list[Need], agents: list[Activity]) -> None:
    from ..model import encode

    context.answer(
        {
            "where": "at work",
            "agent": short(context.board.agent),
            **encode(counts),
            "needs": [{**encode(each), "next": next_step(each)} for each in needs],
            "at_work": encode(agents),
        }
    )


def _needed(context: Context, needs: list[Need]) -> list[str]:
    """What needs a person, each with the command that deals with it."""
    if not needs:
        return []
    count = f"{number_of(needs, SHOWN)} {'thing needs' if len(needs) == 1 else 'things need'} you"
    rows = [[f"  {next_step(each)}", plain(sentence(each))] for each in needs[:_NEEDS]]
    more = len(needs) - len(rows)
    lines = [context.styled(count, "warn"), table(rows, limit=columns())]
    return [*lines, *([f"  and {more} more: `tb top`"] if more else [])]


def _at_work(context: Context, counts: Counts, agents: list[Activity], most: int) -> list[str]:
    board = context.board
    shown = [_count(counts.agents, "agent"), _count(counts.ready + counts.blocked, "open task")]
    shown += [f"{counted(counts.claimed)} claimed", _count(counts.holds, "hold")]
    head = f"{context.styled(plain(counts.project), 'bold')}: {', '.join(shown)}; you are {plain(short(board.agent))}"
    rows = [[f"  {each.agent}", _does(each)] for each in agents[:most]]
    more = len(agents) - len(rows)
    lines = [head, table(rows, limit=columns())] if rows else [head]
    return [*lines, *([f"  and {more} more: `tb agents`"] if more > 0 else []), _commands(AT_WORK)]


def _does(agent: Activity) -> str:
    """What an agent has claimed and holds, what it says that it does, and for whom it waits."""
    told = [agent.doing] if agent.doing else []
    for task in agent.tasks:
        left = "its lease ran out" if task["lapsed"] else f"{span(task['left'])} left"
        told.append(f"#{task['number']} {task['name']} ({left})")
    told += [called(hold["resource"]) for hold in agent.holds]
    return ", ".join(told) or agent.status


def _count(number: int, what: str) -> str:
    return f"{counted(number)} {what}{'' if number == 1 else 's'}"
