"""The words on the board that a shell completes: references of tasks, held resources, agents, queues and sessions.

A shell asks at each press of a key, so this is quick, never fails and never prints an error. It makes no board, and
gives up after two seconds (a server that cannot be reached). What agents wrote is offered only if no shell could take
any of its characters for a command.
"""

from __future__ import annotations

import os

from ..errors import TiebreakError
from ..names import JOB, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..board import Board
    from ..model import Task
    from .context import Context

PATIENCE = 2.0
_MOST = 200
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/+@#-")


def found(context: Context, kind: str) -> list[str]:
    """The words of one kind, in the order in which they are likely to be meant; [] if anything is wrong."""
    from .welcome import is_missing

    if is_missing(context.address):
        return []
    try:
        _give_up_after(PATIENCE)
        words = KINDS[kind](context.board)
        return list(dict.fromkeys(word for word in words if word and _SAFE.issuperset(word) and word[0] != "-"))
    except (TiebreakError, OSError):
        return []


def _give_up_after(seconds: float) -> None:
    """End the process without a word. The board is only read, so there is nothing to undo."""
    import signal

    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _references(tasks: Iterable[Task]) -> list[str]:
    """The key of each task, or its number if it has none."""
    return [task.key or f"#{task.number}" for task in tasks]


def _tasks(board: Board) -> list[str]:
    return _references(board.tasks.list(states=["claimed", "pending", "blocked"], limit=_MOST))


def _ended(board: Board) -> list[str]:
    return _references(board.tasks.list(states=["failed", "cancelled"], limit=_MOST))


def _all_tasks(board: Board) -> list[str]:
    return _references(board.tasks.list(limit=_MOST))


def _questions(board: Board) -> list[str]:
    return [question.key or f"#{question.number}" for question in board.questions.list(limit=_MOST)]


def _jobs(board: Board) -> list[str]:
    return _references(board.tasks.list(kind=JOB, limit=_MOST))


def _holds(board: Board) -> list[str]:
    """Held resources; files as they are called from the current folder."""
    root, words = board.root(), []
    for hold in board.holds.list(limit=_MOST):
        kind, _, name = hold.resource.partition(":")
        words.append(os.path.relpath(os.path.join(root, name)) if kind == "file" else hold.resource)
    return words


def _things(board: Board) -> list[str]:
    return [*_all_tasks(board), *_holds(board)]


def _agents(board: Board) -> list[str]:
    return [short(agent.id) for agent in board.agents.list() if agent.status != "gone"]


def _sessions(board: Board) -> list[str]:
    return [short(session.agent) for session in board.sessions.list()]


def _queues(board: Board) -> list[str]:
    used = {task.queue for task in board.tasks.list(limit=_MOST)}
    return sorted(used | {each.queue for each in board.queues.list()})


KINDS: dict[str, Callable[[Board], list[str]]] = {
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
}
"""What `tb completion --list KIND` prints."""

OF_ARGUMENT = {
    "ref": "tasks",
    "resources": "holds",
    "resource": "holds",
    "to": "agents",
    "agent": "sessions",
    **{f"{name} ref": "all-tasks" for name in ("show", "graph", "wait")},
    "retry ref": "ended",
    "answer ref": "questions",
    "logs ref": "jobs",
    "why ref": "things",
    "hold resources": "",
}
"""The kind of an argument, by its name, or by its command and its name."""
OF_METAVAR = {"REF": "tasks", "QUEUE": "queues", "AGENT": "agents", "RESOURCE": "holds"}
"""The kind of an option's value."""
OF_OPTION = {"agent": "agents", "as": "agents"}
