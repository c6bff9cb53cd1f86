"""The two ends of a move: the few things that a move asks of a file and of a server, and what it finds there."""

from __future__ import annotations

import os
from typing import NamedTuple

import apsw

from ...errors import TiebreakError, Unavailable
from ..closed import closed
from ..schema import CLOSED, TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Row = tuple[Any, ...]

DEADLINE = 30.0
"""Seconds to wait for others to let go of the board."""
AT_ONCE = 1000
AGAIN = "nothing is lost; run the same command again"


class Endpoint:
    """One end of a move: the few things that both databases can do, each in its way."""

    def identity(self) -> Row:
        """The same for the same board, however it is addressed."""
        raise NotImplementedError

    def rows(self, sql: str, *params: Any) -> list[Row]:
        """Run a statement, with `?` for parameters."""
        raise NotImplementedError

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        raise NotImplementedError

    def refuse_strangers(self) -> None:
        """Raise `Refused` if what is there is not a board but something else."""

    def begin(self) -> None:
        """Start a transaction that will write."""
        raise NotImplementedError

    def snapshot(self) -> int:
        """Start a transaction that only reads, and sees one moment; the event before which none can appear any more."""
        newest = self.last_event()
        self.rows("BEGIN")
        return newest

    def keep_out(self) -> None:
        """Wait until nobody writes, and let nobody begin until the transaction has ended."""

    def take_over(self) -> None:
        """Let nobody else make, fill or use a board here until the transaction has ended."""

    def commit(self) -> None:
        """End the transaction, durably."""
        self.rows("COMMIT")

    def now(self) -> int:
        """Board time."""
        raise NotImplementedError

    def make(self, kept: dict[str, str]) -> None:
        """Replace whatever is there by an empty board, with these facts."""
        raise NotImplementedError

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns."""
        raise NotImplementedError

    def all(self, table: str, columns: list[str], where: str = "TRUE") -> Iterable[Row]:
        """Its rows, not all of them in memory at once."""
        raise NotImplementedError

    def fill(self, table: str, columns: list[str], rows: list[Row]) -> None:
        """Put rows into a table."""
        raise NotImplementedError

    def last_event(self) -> int:
        """The last number that was given to an event, also if nobody ever saw it."""
        return int(self.rows("SELECT coalesce(max(number), 0) FROM events")[0][0])

    def go_on_numbering(self, event: int) -> None:
        """Give no number twice."""

    def rename(self, before: str, after: str) -> None:
        """Change how all names begin; a board of an older version has fewer tables."""
        for table in (*TABLES, "board"):
            if self.has(before + table):
                self.rows(f"ALTER TABLE {before}{table} RENAME TO {after}{table}")

    def upgrade(self) -> None:
        """Run the steps that a board lacks that was closed by an older version, in the transaction of the caller."""
        raise NotImplementedError

    def close(self) -> None:
        """Give everything back; a transaction that is not committed did not happen."""


def selected(table: str, columns: list[str], where: str) -> str:
    """The statement that reads some rows of a table, in their order."""
    order = " ORDER BY number" if "number" in columns else ""
    return f"SELECT {', '.join(columns)} FROM {table} WHERE {where}{order}"  # noqa: S608


class Found(NamedTuple):
    """What is found at an address."""

    how: str
    """`nothing`, `open` or `closed`."""
    facts: dict[str, str]


def look(place: Endpoint) -> Found:
    """Whether there is a board, and what it tells of itself."""
    for how, prefix in (("closed", CLOSED), ("open", "")):
        if place.has(f"{prefix}board"):
            return Found(how, dict(place.rows(f"SELECT name, value FROM {prefix}board")))  # noqa: S608
    return Found("nothing", {})


def still_open(place: Endpoint) -> Found:
    """Inside a transaction: it may have been moved since the first look."""
    found = look(place)
    if found.how == "closed":
        raise closed(found.facts, str(place))
    return found


def counts(place: Endpoint) -> dict[str, int]:
    """How many rows each table has; none if the board is of a version that did not have the table."""
    return {
        table: place.rows(f"SELECT count(*) FROM {table}")[0][0] if place.has(table) else 0  # noqa: S608
        for table in TABLES
    }


def explained(problem: Exception, old: Endpoint, new: Endpoint) -> Exception:
    """An error as a person can act on it; one of our own, or a bug, stays as it is."""
    if isinstance(problem, TiebreakError):
        return problem
    text = str(problem).strip().split("\n", 1)[0] or type(problem).__name__
    if isinstance(problem, (apsw.Error, OSError)) or type(problem).__module__.startswith("psycopg"):
        return Unavailable(f"migrate {old} to {new}: {text}", hint=AGAIN)
    return problem


def sync(folder: str) -> None:
    """Have a file, or the names in a folder, on the disk."""
    fd = os.open(folder or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
