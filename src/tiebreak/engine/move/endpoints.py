"""The source and the target of a move: what a move needs of each database, and what is found there.

`Endpoint` is the base of `SqliteEndpoint` and `PostgresEndpoint`. A move is written against it alone.
"""

from __future__ import annotations

from typing import NamedTuple

import apsw

from ...errors import TiebreakError, Unavailable
from ..closed_board import closed
from ..schema import CLOSED, TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .copying import Progress

    Row = tuple[Any, ...]

AT_ONCE = 1000
"""Rows that are copied together."""


class Endpoint:
    """The source or the target of a move."""

    def identity(self) -> Row:
        """A value that is equal for two addresses of the same board."""
        raise NotImplementedError

    def rows(self, sql: str, *params: Any) -> list[Row]:
        """Run a statement, with `?` for parameters."""
        raise NotImplementedError

    def has_table(self, table: str) -> bool:
        """Whether there is such a table."""
        raise NotImplementedError

    def refuse_other_data(self, command: str) -> None:
        """Raise `Refused` if the database has tables, but is not a board; `command` is what was asked for."""

    def begin(self) -> None:
        """Start a transaction that will write."""
        raise NotImplementedError

    def snapshot(self) -> int:
        """Begin a transaction that reads one snapshot; returns the number up to which no more events can appear."""
        newest = self.last_event()
        self.rows("BEGIN")
        return newest

    def lock_out(self) -> None:
        """Wait until nobody writes, and keep writers out until the transaction ends."""

    def lock_all_out(self) -> None:
        """Keep everybody else from making, filling or using a board here until the transaction ends."""

    def commit(self) -> None:
        """End the transaction, durably."""
        self.rows("COMMIT")

    def now(self) -> int:
        """Board time."""
        raise NotImplementedError

    def make_empty(self, kept: dict[str, str]) -> None:
        """Replace the board that is there, if any, by an empty one with these facts."""
        raise NotImplementedError

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns."""
        raise NotImplementedError

    def read(self, table: str, columns: list[str], where: str = "TRUE") -> Iterable[Row]:
        """Rows of a table, without loading all of them into memory."""
        raise NotImplementedError

    def insert(self, table: str, columns: list[str], rows: list[Row]) -> None:
        """Insert rows into a table."""
        raise NotImplementedError

    def last_event(self) -> int:
        """The highest number that an event ever got, even if its transaction was rolled back."""
        return int(self.rows("SELECT coalesce(max(number), 0) FROM events")[0][0])

    def continue_numbers(self, event: int) -> None:
        """Let the next event get a number after this one. Tasks and messages continue after their highest numbers."""

    def save_to(self, target: str, progress: Progress | None) -> None:
        """Copy the board to a new file, as it was before this transaction changed anything."""
        raise NotImplementedError

    def rename(self, before: str, after: str) -> None:
        """Replace the prefix of all table names; a board of an older version has fewer tables."""
        for table in (*TABLES, "board"):
            if self.has_table(before + table):
                self.rows(f"ALTER TABLE {before}{table} RENAME TO {after}{table}")

    def upgrade(self) -> None:
        """Run the schema steps that the board lacks because an older version closed it, in the caller's transaction."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection; rolls back a transaction that is not committed."""


def selected(table: str, columns: list[str], where: str) -> str:
    """The statement that reads rows of a table, ordered by number if there is one."""
    order = " ORDER BY number" if "number" in columns else ""
    return f"SELECT {', '.join(columns)} FROM {table} WHERE {where}{order}"  # noqa: S608


class Found(NamedTuple):
    """What is found at an address."""

    state: str
    """`nothing`, `open` or `closed`."""
    facts: dict[str, str]


def look(place: Endpoint) -> Found:
    """Find out whether there is a board, and read its facts."""
    for state, prefix in (("closed", CLOSED), ("open", "")):
        if place.has_table(f"{prefix}board"):
            return Found(state, dict(place.rows(f"SELECT name, value FROM {prefix}board")))  # noqa: S608
    return Found("nothing", {})


def still_open(place: Endpoint) -> Found:
    """Like `look`, inside a transaction; raises `Unavailable` if the board was moved since the first look."""
    found = look(place)
    if found.state == "closed":
        raise closed(found.facts, str(place))
    return found


def counts(place: Endpoint) -> dict[str, int]:
    """The number of rows in each table; 0 for a table that the board's version does not have."""
    return {
        table: place.rows(f"SELECT count(*) FROM {table}")[0][0] if place.has_table(table) else 0  # noqa: S608
        for table in TABLES
    }


def explained(problem: Exception, what: str, reason: str) -> Exception:
    """An error of a database or of the disk as `Unavailable`; any other error unchanged."""
    if isinstance(problem, TiebreakError):
        return problem
    text = str(problem).strip().split("\n", 1)[0] or type(problem).__name__
    if isinstance(problem, (apsw.Error, OSError)) or type(problem).__module__.startswith("psycopg"):
        return Unavailable(f"{what} {text}", reason=reason)
    return problem
