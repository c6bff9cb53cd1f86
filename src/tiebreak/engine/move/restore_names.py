"""The names of projects when a backup is restored: what they mean now counts, not what they meant in the backup.

A project may have been renamed since the backup was made. Its epochs since then are stored under the new name. So the
rows of the backup get that name first, in the copy of the backup that is being restored. Names that only the backup
knows are added; those of the board stay.
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
    taken: dict[str, str] = {name: name for name in used if present.get(name, name) == name}
    for old in sorted(used - set(taken)):
        new = present[old]
        if new in taken:
            raise Refused(
                f"restore: {taken[new]} and {old} are one project now, {new}, and were two in the backup",
                hint="restore it into a new board",
            )
        taken[new] = old
        for table in tables:
            backup.rows(f"UPDATE {table} SET project = ? WHERE project = ?", new, old)  # noqa: S608


def add_names(backup: Endpoint, board: Endpoint) -> None:
    """Add the names that the board does not know."""
    present: dict[str, str] = dict(board.rows("SELECT name, project FROM projects"))
    for name, project, rule, root in backup.rows("SELECT name, project, rule, root FROM projects"):
        if name not in present:
            board.rows(
                "INSERT INTO projects (name, project, rule, root) VALUES (?, ?, ?, ?)",
                *(name, present.get(project, project), rule, root),
            )
