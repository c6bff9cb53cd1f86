"""The words on the board that a shell completes: references of tasks, held resources, agents, queues and more.

A shell asks at each press of a key, so this is quick, never fails and never prints an error. It makes no board, and
gives up after two seconds (a server that cannot be reached). Agents choose many of these words. They are data here:
each shell quotes them, and what could move a cursor or be taken for an option is left out.
"""

from __future__ import annotations

import os

from ..errors import TiebreakError
from ..names import JOB, by_key, short
from ..text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..board import Board
    from ..model import Task
    from .context import Context

    Offered = list[tuple[str, str]]
    """Words with what each means, or ""."""

PATIENCE = 2.0
_MOST = 200


def on_board(context: Context, kind: str) -> Offered:
    """The words of one kind, in the order in which they are likely to be meant; [] if anything is wrong."""
    from .welcome import is_missing

    try:
        if not kind or is_missing(context.address):
            return []
        _give_up_after(PATIENCE)
        found = dict(_KINDS[kind](context.board))
    except (TiebreakError, OSError):
        return []
    return [(word, plain(text)) for word, text in found.items() if word and plain(word) == word and word[0] != "-"]


def _give_up_after(seconds: float) -> None:
    """End the process without a word. The board is only read, so there is nothing to undo."""
    import signal

    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _references(tasks: Iterable[Task]) -> Offered:
    """The key of each task, or its number if it has none, with its name."""
    return [(by_key(task.key) if task.key else f"#{task.number}", task.name) for task in tasks]


def _unexplained(words: Iterable[str]) -> Offered:
    return [(word, "") for word in words]


def _tasks(board: Board) -> Offered:
    return _references(board.tasks.list(states=["claimed", "pending", "blocked"], limit=_MOST))


def _ended(board: Board) -> Offered:
    return _references(board.tasks.list(states=["failed", "cancelled"], limit=_MOST))


def _all_tasks(board: Board) -> Offered:
    return _references(board.tasks.list(limit=_MOST))


def _questions(board: Board) -> Offered:
    return [(each.key or f"#{each.number}", each.name) for each in board.questions.list(limit=_MOST)]


def _jobs(board: Board) -> Offered:
    return _references(board.tasks.list(kind=JOB, limit=_MOST))


def _holds(board: Board) -> Offered:
    """Held resources, with their holders; files as they are called from the current folder."""
    from ..fingerprints import is_in
    from ..held_files import path_of

    root, words = board.root(), []
    for hold in board.holds.list(limit=_MOST):
        here = is_in(hold.resource, root)
        word = os.path.relpath(os.path.join(root, path_of(hold.resource))) if here else hold.resource
        words.append((word, f"held by {short(hold.holder)}" if hold.holder else ""))
    return words


def _things(board: Board) -> Offered:
    return [*_all_tasks(board), *_holds(board)]


def _agents(board: Board) -> Offered:
    return [(short(agent.id), agent.doing or "") for agent in board.agents.list() if agent.status != "gone"]


def _sessions(board: Board) -> Offered:
    return [(short(session.agent), session.role) for session in board.sessions.list()]


def _queues(board: Board) -> Offered:
    used = {task.queue for task in board.tasks.list(limit=_MOST)}
    return _unexplained(sorted(used | {each.queue for each in board.queues.list()}))


def _projects(board: Board) -> Offered:
    return _unexplained(each.project for each in board.projects.list())


def _schedules(board: Board) -> Offered:
    return [(each.name, each.expression) for each in board.schedules.list()]


def _kinds(board: Board) -> Offered:
    return _unexplained(sorted({task.kind for task in board.tasks.list(limit=_MOST)}))


def _tags(board: Board) -> Offered:
    return _unexplained(sorted({tag for task in board.tasks.list(limit=_MOST) for tag in task.tags or ()}))


_KINDS: dict[str, Callable[[Board], Offered]] = {
    "tasks": _tasks,
    "ended": _ended,
    "all-tasks": _all_tasks,
    "jobs": _jobs,
    "questions": _questions,
    "holds": _holds,
    "things": _things,
    "agents": _agents,
    "sessions": _sessions,
    "queues": _queues,
    "projects": _projects,
    "schedules": _schedules,
    "kinds": _kinds,
    "tags": _tags,
}

OF_ARGUMENT = {
    "ref": "tasks",
    "resources": "holds",
    "resource": "holds",
    "thing": "things",
    "things": "things",
    "to": "agents",
    "agent": "sessions",
    "queue": "queues",
    "where": "projects",
    **{f"{name} ref": "all-tasks" for name in ("show", "graph", "wait")},
    "retry ref": "ended",
    "answer ref": "questions",
    **{f"{name} ref": "jobs" for name in ("logs", "guard-epoch")},
    "why ref": "things",
    "hold resources": "",
    **{f"cron {name} name": "schedules" for name in ("pause", "resume", "rm", "next", "history")},
}
"""The kind of an argument, by its name, or by its command and its name."""
OF_METAVAR = {
    "REF": "tasks",
    "QUEUE": "queues",
    "AGENT": "agents",
    "RESOURCE": "holds",
    "KIND": "kinds",
    "TAG": "tags",
}
"""The kind of an option's value."""
OF_OPTION = {"agent": "agents", "as": "agents", "project": "projects"}
FILES = frozenset(
    ("FILE", "FOLDER", "PATH", "PATHS", "ADDRESS", "RESOURCE", "RESOURCES", "THING", "THINGS", "JSON", "why ref")
)
"""Metavars and arguments that may be files, which are offered where no other word fits."""
