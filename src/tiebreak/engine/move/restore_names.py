"""The names of projects when a backup is restored: what they mean now counts, not what they meant in the backup.

A project may have been renamed since the backup was made, or the board may be a new one on which its clones have
settled another name. Its epochs since then are stored under the present name. So the rows of the backup get that name
first, in the copy of the backup that is being restored: any name by which the backup knows a project tells which one it
is now. Names that only the backup knows are added; those of the board stay.
"""

from __future__ import annotations

from ...errors import Refused
from ..schema import TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .endpoints import Endpoint


def use_present_names(backup: Endpoint, board: Endpoint) -> None:
    """Give the rows of the backup the names that their projects have on the board.

    Raises `Refused` if projects were joined since then: which of their rows belong together cannot be told any more.
    """
    present: dict[str, str] = dict(board.rows("SELECT name, project FROM projects"))
    tables = [table for table in TABLES if table != "projects" and "project" in backup.columns(table)]
    used = {name for table in tables for (name,) in backup.rows(f"SELECT DISTINCT project FROM {table}")}  # noqa: S608
    meant = {name: _present_name(name, _names_of(backup, name), present) for name in used}
    taken: dict[str, str] = {name: name for name in used if meant[name] == name}
    for old in sorted(used - set(taken)):
        new = meant[old]
        if new in taken:
            raise Refused(
                f"restore: {taken[new]} and {old} are one project now, {new}, and were two in the backup",
                hint="restore it into a new board",
            )
        taken[new] = old
        for table in tables:
            backup.rows(f"UPDATE {table} SET project = ? WHERE project = ?", new, old)  # noqa: S608


def _names_of(backup: Endpoint, project: str) -> list[str]:
    rows = backup.rows("SELECT name FROM projects WHERE project = ? ORDER BY name", project)
    return [project, *(name for (name,) in rows)]


def _present_name(project: str, names: list[str], present: dict[str, str]) -> str:
    """What a project of the backup is called now, by all names that the backup has for it."""
    found = {present[name] for name in names if name in present}
    if len(found) > 1:
        raise Refused(
            f"restore: {project} was one project in the backup, and is {' and '.join(sorted(found))} now",
            hint="restore it into a new board",
        )
    return found.pop() if found else project


def add_names(backup: Endpoint, board: Endpoint) -> None:
    """Add the names that the board does not know."""
    present: dict[str, str] = dict(board.rows("SELECT name, project FROM projects"))
    for name, project, rule, root in backup.rows("SELECT name, project, rule, root FROM projects"):
        if name not in present:
            now = _present_name(project, _names_of(backup, project), present)
            board.rows("INSERT INTO projects (name, project, rule, root) VALUES (?, ?, ?, ?)", name, now, rule, root)
