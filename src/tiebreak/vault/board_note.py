"""`Board.md`: open questions, what failed, who works on what, what waits, and the latest announcements."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from .markdown import caption, link, properties
from .note_names import FOLDERS_OF_KINDS
from .task_note import task_link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model import Task
    from .source import Source
    from .vault_folder import VaultFolder

WINDOW = 50
"""How many of the newest tasks of each kind it lists."""
_LOOKED_AT = 200
"""How many notes of announcements are looked at, to find those that are still on the board."""
_ANNOUNCEMENTS = {"Decided": "decision", "Learned": "knowledge", "Acknowledged": "ack"}


def board_note(source: Source, vault: VaultFolder, projects: Iterable[str]) -> str:
    """The generated part of the note that everything begins with."""
    project = None if source.project is None else caption(source.project)
    lines = properties({"tiebreak": "board", "project": project})
    lines += [f"# {project or 'All projects'}", ""]
    groups: dict[str, list[str]] = {"Questions": [], "Failed": [], "Working": [], "Waiting": [], "Ready": []}
    for task in _newest(source, projects, ["blocked", "pending", "claimed"]):
        title, text = _listed(task, source)
        groups[title].append(text)
    groups["Failed"] = [f"- {task_link(task, source)}" for task in _newest(source, projects, ["failed"])]
    for title, kind in _ANNOUNCEMENTS.items():
        groups[title] = [f"- {task_link(task, source)}" for task in _announced(source, vault, kind)]
    for title, entries in groups.items():
        lines += [f"## {title}", "", *entries, ""] if entries else []
    return "\n".join([*lines, ""])


def _newest(source: Source, projects: Iterable[str], states: list[str]) -> list[Task]:
    """The newest tasks in these states. Each project is asked alone: the database has an index for that."""
    read = source.board.tasks.list
    found = [task for each in sorted(projects) for task in read(project=each, states=states, limit=WINDOW)]
    return sorted(found, key=lambda task: -task.number)[:WINDOW]


def _announced(source: Source, vault: VaultFolder, kind: str) -> list[Task]:
    """The newest announcements of a kind. The vault knows them; the board would have to search all its tasks."""
    newest = vault.numbers(FOLDERS_OF_KINDS[kind])[: -_LOOKED_AT - 1 : -1]
    there = (task for number in newest if (task := source.task(number)) and task.kind == kind)
    return list(islice(there, WINDOW))


def _listed(task: Task, source: Source) -> tuple[str, str]:
    """The section that an open task belongs to, and its line there."""
    if task.kind == "question":
        return "Questions", f"- {task_link(task, source)}"
    state, holder = source.state_and_holder(task)
    if state == "claimed":
        by = f" by {link(source.agent_path(holder, task.project), holder)}" if holder else ""
        return "Working", f"- {task_link(task, source)}{by}"
    return ("Waiting" if state == "blocked" else "Ready"), f"- {task_link(task, source)}"
