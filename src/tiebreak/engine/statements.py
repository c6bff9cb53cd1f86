"""A transaction on PostgreSQL as operations see it: their statements in this database's words.

Events are put off and written together, by one statement, when the transaction is about to commit or when a statement
is about to read them: nobody else sees them before the commit anyway, and each statement is a round trip. What
orders the events of one task or resource is the lock on its row, and that is kept until the commit.
"""

from __future__ import annotations

import json
import re

from psycopg import ClientCursor
from psycopg.types.numeric import Int8Dumper

from ..names import checksum
from ..operations.events import INSERT, WRITTEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .refusals import Refusals

SCOPE = 0x7469
"""The first half of every advisory lock that operations take."""

_FRAGMENTS = {
    "now": ":now",
    "skip_locked": "FOR UPDATE SKIP LOCKED",
    "share": "FOR SHARE",
    "position": "strpos",
    "lower": "lower",
    "search": "to_tsvector('simple', messages.body) @@ to_tsquery('simple', :query)",
    "settled": ":settled",
    "newest": "(SELECT max(number) FROM events WHERE number <= :settled)",
}
_EVENTS = f"INSERT INTO events ({', '.join(WRITTEN)}) "
_VALUES = f"({', '.join(['%s'] * len(WRITTEN))})"
_NUMBERS = {"at", "priority", "epoch", "until", "times"}
_TYPED = ", ".join(f"{each} {'bigint' if each in _NUMBERS else 'text'}" for each in WRITTEN)
# One statement for any number of rows, so that it is prepared once.
_MANY = f"{_EVENTS}SELECT * FROM json_to_recordset(CAST(%s AS json)) AS told ({_TYPED})"  # noqa: S608
FEW = 4
"""So many events travel with the COMMIT; more are quicker as one list."""
_prepared: dict[str, tuple[str, bool]] = {}


def _dialect(sql: str) -> tuple[str, bool]:
    """The operation's SQL as psycopg takes it, with this engine's fragments; and whether it is about events."""
    filled = sql.format_map(_FRAGMENTS).replace("%", "%%")
    done = _prepared[sql] = (re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", filled), "events" in filled)
    return done


class BoolAsInteger(Int8Dumper):
    """A flag is a number in a row, on every engine."""

    def dump(self, obj: Any) -> bytes:
        """0 or 1."""
        return b"1" if obj else b"0"


def _match(words: str) -> str:
    """Words as a text query in which nothing is special but a star at the end."""
    parts = []
    for word in words.split():
        bare = word.rstrip("*").replace("\\", " ").replace("'", "''").replace(":", " ")
        parts.append(f"'{bare}'" + (":*" if word.endswith("*") else ""))
    return " & ".join(parts)


class PostgresTransaction:
    """A transaction as operations see it."""

    __slots__ = ("_events", "_refusals", "_refused", "_settled", "changes", "connection", "now", "trace")

    def __init__(self, connection: Any, refusals: Refusals, now: int, settled: Callable[[], int] | None = None) -> None:
        self.connection = connection
        self.now = now
        self._refusals = refusals
        self._settled = settled
        self._events: list[dict[str, Any]] = []
        self._refused: list[tuple[str, dict[str, Any]]] = []
        self.changes = 0
        """How much was written that has to be committed."""
        self.trace: dict[str, Any] = {}
        """An event that was sent to be written: where it is, the transaction was committed."""

    def all(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        if sql is INSERT:
            self._events.append(params)
            self.changes += 1
            return []
        statement, of_events = _prepared.get(sql) or _dialect(sql)
        if of_events:
            self.write_events()
            if self._settled is not None and "%(settled)s" in statement:
                params["settled"] = self._settled()
        if "query" in params:
            params["query"] = _match(params["query"])
        params["now"] = self.now
        cursor = self.connection.execute(statement, params)
        result = cursor.pgresult  # asked itself: the cursor would describe every column first
        if not result.command_status.startswith(b"SELECT"):
            self.changes += result.command_tuples or 0
        return cursor.fetchall() if result.nfields else []

    def first(self, sql: str, **params: Any) -> tuple[Any, ...] | None:
        """Run a statement and return its first row."""
        rows = self.all(sql, **params)
        return rows[0] if rows else None

    def write_events(self) -> None:
        """Write down the events that were put off."""
        rows = self._taken()
        if rows:
            self.connection.execute(_MANY, (json.dumps(rows),))

    def commit(self) -> None:
        """Write down the events that were put off, and commit; a few of them in the same round trip."""
        if len(self._events) > FEW:
            self.write_events()
        if not self._events:
            self.connection.execute("COMMIT")
            return
        rows = self._taken()
        insert = f"{_EVENTS}VALUES {', '.join([_VALUES] * len(rows))}"
        values = [row[each] for row in rows for each in WRITTEN]
        self.connection.execute(ClientCursor(self.connection).mogrify(insert, values) + "; COMMIT")

    def _taken(self) -> list[dict[str, Any]]:
        rows, self._events = self._events, []
        if rows:
            self.trace = rows[0]
        return rows

    def forget(self, changes: int, trace: dict[str, Any]) -> None:
        """What was done since then was undone: its absence tells nothing any more."""
        self._events.clear()
        self.changes, self.trace = changes, trace

    def serialize(self, *scope: str) -> None:
        """Let no other transaction that names this scope run until this one has ended."""
        key = checksum("\0".join(scope).encode()) & 0x7FFFFFFF
        self.connection.execute("SELECT pg_advisory_xact_lock(%s::int, %s::int)", (SCOPE, key))

    def refuse(self, event: str, **facts: Any) -> None:
        """Remember a refusal for a later write."""
        self._refused.append((event, facts))

    def hand_in(self) -> None:
        """What was refused here is told to the caller, so it counts; a try that is made again counts once."""
        refused, self._refused = self._refused, []
        for event, facts in refused:
            self._refusals.add(event, self.now, facts)

    def refusals(self, subject: str) -> list[tuple[Any, ...]]:
        """The refusals about a subject that no write has carried yet."""
        self.hand_in()
        return self._refusals.waiting(subject)
