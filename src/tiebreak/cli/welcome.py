"""`tb` without a command: where you are, and what fits there, in about ten lines.

It only looks: a board that does not exist yet is not created.
"""

from __future__ import annotations

import os

from ..errors import TiebreakError
from ..held_files import called
from ..limits import DAY
from ..names import JOB, short
from ..text import cut, plain, span, table
from .help_layout import columns, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..model import Agent, Hold, Question, Status, Task
    from .context import Context

_AT_WORK = 5
"""Lines about who does what, at most."""
_LOOK_AT = 200
"""Claims and holds that are read, at most: more than fit into the lines, so that an agent's files are counted."""

NEW = (
    ("tb init", "set this repository up for coding agents"),
    ("tb claim login-bug", "take a piece of work; others are told that you have it"),
    ("tb hold src/auth.py", "take a file before you edit it"),
    ("tb help", "all commands, by theme"),
)
AT_WORK = (
    ("tb next", "take the next open task"),
    ("tb tasks, tb holds", "what there is to do, and who has which file"),
    ("tb help", "all commands, by theme"),
)


def welcome(context: Context) -> int:
    """Tell where you are. A board that cannot be opened is told in one line."""
    if is_missing(context.address):
        return _tell_new(context, "There is no board yet; the first command makes it")
    try:
        board = context.board
        status: Status = board.upkeep.status(project=board.project_names, count_events=False)
        claims = board.tasks.list(states=["claimed"], limit=_LOOK_AT)
        holds = board.holds.list(limit=_LOOK_AT)
        agents = [agent for agent in board.agents.list() if agent.status in ("active", "idle")]
        failed = _failed_lately(board) if status.failed else []
        questions = board.questions.list(limit=_LOOK_AT)
    except TiebreakError as exc:
        from .advice import in_one_line

        raise type(exc)(in_one_line(exc), **exc.data) from exc
    if not (claims or holds or failed or status.pending or status.blocked):
        return _tell_new(context, "Nobody is at work here yet", agents=len(agents))
    if context.json:
        _answer_in_json(context, status, claims, failed, agents, questions)
        return 0
    for line in [
        *_asked(context, questions),
        *_at_work(context, status, claims, holds, agents, failed),
    ]:
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
    next_step = " This repository is set up: start your coding agents as always." if set_up else ""
    for sentence in (you, f"{why}.{next_step}"):
        context.say("\n".join(wrapped(sentence, columns())))
    context.say("")
    context.say(_commands(NEW[1:] if set_up else NEW))
    return 0


def _is_set_up() -> bool:
    """Whether somebody has run `tb init` in this repository."""
    from ..board import here
    from ..guard.init import is_set_up
    from ..repository import repository

    found = repository(here())
    return found is not None and is_set_up(found)


def _commands(rows: tuple[tuple[str, str], ...]) -> str:
    return table([[f"  {name}", text] for name, text in rows], limit=columns())


def _failed_lately(board: Board) -> list[Task]:
    """The jobs that failed within a day, newest first."""
    now = board.upkeep.now()
    found = board.tasks.list(states=["failed"], kind=JOB, limit=_LOOK_AT)
    return [task for task in found if task.finished_at and task.finished_at > now - DAY]


def _answer_in_json(
    context: Context,
    status: Status,
    claims: list[Task],
    failed: list[Task],
    agents: list[Agent],
    questions: list[Question],
) -> None:
    from ..model import encode

    context.answer(
        {
            "where": "jobs failing" if failed else "at work",
            "agent": short(context.board.agent),
            "questions": [encode(each) for each in questions],
            **{name: value for name, value in encode(status).items() if name != "events"},
            "at_work": [encode(each) for each in agents],
            "claims": [encode(each) for each in claims[:_AT_WORK]],
            "failing": [encode(each) for each in failed[:_AT_WORK]],
        }
    )


def _asked(context: Context, questions: list[Question]) -> list[str]:
    """The oldest open question, and the command that answers it."""
    if not questions:
        return []
    first, count = questions[0], _count(len(questions), "open question")
    name = cut(f": #{first.number} {plain(first.name)}", columns() - len(count))
    answers = f"tb answer {first.number}", f"{plain(short(first.asked_by or '-'))} waits for the answer of a person"
    more = [("tb questions", "all of them")] if len(questions) > 1 else []
    return [context.styled(count, "warn") + name, _commands((answers, *more))]


def _at_work(
    context: Context,
    status: Status,
    claims: list[Task],
    holds: list[Hold],
    agents: list[Agent],
    failed: list[Task],
) -> list[str]:
    board = context.board
    counts = [_count(len(agents), "agent"), _count(status.pending + status.blocked, "open task")]
    counts += [f"{status.claimed} claimed", _count(status.holds, "hold")]
    head = f"{context.styled(plain(status.project), 'bold')}: {', '.join(counts)}; you are {plain(short(board.agent))}"
    lines = [head, *_who_does_what(board, claims, holds, agents)]
    if failed:
        first = failed[0]
        lines.append(
            context.styled(f"{_count(len(failed), 'job')} failed within a day", "bad")
            + cut(f", last #{first.number} {plain(first.name)}", columns() - 28)
        )
        lines.append(
            _commands(((f"tb logs '#{first.number}'", "what it wrote"), ("tb jobs --failed", "all that failed")))
        )
    return [*lines, _commands(AT_WORK)]


def _who_does_what(board: Board, claims: list[Task], holds: list[Hold], agents: list[Agent]) -> list[str]:
    """One line for each agent: what it has claimed and holds, or what it says that it does."""
    now = board.upkeep.now()
    doing: dict[str, list[str]] = {}
    for task in claims:
        left = "its lease ran out" if task.lapsed else f"{span((task.until or now) - now)} left"
        doing.setdefault(task.holder or "-", []).append(f"#{task.number} {task.name} ({left})")
    for hold in holds:
        doing.setdefault(hold.holder or "-", []).append(called(hold.resource))
    for agent in agents:
        if agent.doing or short(agent.id) not in doing:
            doing.setdefault(short(agent.id), []).insert(0, agent.doing or agent.status)
    rows = [[f"  {name}", ", ".join(what)] for name, what in list(doing.items())[:_AT_WORK]]
    more = len(doing) - len(rows)
    lines = [table(rows, limit=columns())] if rows else []
    return [*lines, *([f"  and {more} more: `tb agents`"] if more > 0 else [])]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
