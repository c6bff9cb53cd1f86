"""A transaction on PostgreSQL as operations see it: their statements in this database's words.

Events are put off and written together, by one statement, when the transaction is about to commit or when a statement
is about to read them: nobody else sees them before the commit anyway, and each statement is a round trip. What
orders the events of one task or resource is the lock on its row, and that is kept until the commit.

Time is the server's, read when the transaction begins, after its scopes were taken; each call of a batch adds to it
what this machine's clock has counted since. So it is never ahead of the server's, and a lapse is never seen too early.
"""

from __future__ import annotations

import json
import re
from time import monotonic

from psycopg import ClientCursor
from psycopg.types.numeric import Int8Dumper

from ...operations import scope
from ...operations.events import INSERT, WRITTEN
from .transaction_settings import CLOCK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ...operations import Scope
    from ..refusals import Refusals

_FRAGMENTS = {
    "now": ":now",
    "share": "FOR SHARE",
    "lock": "FOR UPDATE",
    "pass_over": "FOR UPDATE SKIP LOCKED",
    "pass_over_tasks": "FOR UPDATE OF tasks SKIP LOCKED",
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
_prepared: dict[tuple[str, bool, bool], tuple[str, bool]] = {}


def _dialect(sql: str, waits: bool, given_clock: bool) -> tuple[str, bool]:
    """The operation's SQL as psycopg takes it, with this engine's fragments; and whether it is about events."""
    fragments = {
        **_FRAGMENTS,
        "skip_locked": "FOR UPDATE" if waits else "FOR UPDATE SKIP LOCKED",
        "skip_locked_tasks": "FOR UPDATE OF tasks" if waits else "FOR UPDATE OF tasks SKIP LOCKED",
        "fresh": ":now" if given_clock else CLOCK,
    }
    filled = sql.format_map(fragments).replace("%", "%%")
    filled = re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", filled)
    done = _prepared[sql, waits, given_clock] = (filled, "events" in filled)
    return done


class Unscoped(BaseException):
    """An operation needs a scope that its transaction did not begin with: it begins anew, with the scope.

    Not an `Exception`: nothing between the operation and the engine may take it for an answer.
    """

    def __init__(self, needed: Scope) -> None:
        super().__init__(needed)
        self.needed = needed


class Waits(BaseException):
    """A call of a batch would have to wait for a row.

    The batch is cut before it, so that it does not wait while it keeps what the calls before it have locked.
    """


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

    __slots__ = (
        "_begun",
        "_clock",
        "_events",
        "_refusals",
        "_refused",
        "_scopes",
        "_settled",
        "_since",
        "_waits",
        "changes",
        "connection",
        "in_batch",
        "left",
        "now",
        "trace",
    )

    passes_over = True

    def __init__(
        self,
        connection: Any,
        refusals: Refusals,
        now: int,
        settled: Callable[[], int] | None = None,
        *,
        clock: Callable[[], int] | None = None,
        scopes: Iterable[Scope] = (),
    ) -> None:
        self.connection = connection
        self._begun, self._since, self._clock = now, monotonic(), clock
        self.now = clock() if clock else now
        self._scopes = set(scopes)
        self._waits = False
        self.in_batch = False
        """Whether other calls have locked something in this transaction."""
        self._refusals = refusals
        self._settled = settled
        self._events: list[dict[str, Any]] = []
        self._refused: list[tuple[str, dict[str, Any]]] = []
        self.left: set[str] = set()
        """The projects in which it leaves chores."""
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
        key = (sql, self._waits, self._clock is not None)
        statement, of_events = _prepared.get(key) or _dialect(*key)
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
        """What was done since then was undone, so a missing event no longer proves that the commit failed."""
        self._events.clear()
        self.changes, self.trace = changes, trace

    def next_call(self) -> None:
        """Another call begins to run: it has a time of its own."""
        self.now = self._clock() if self._clock else self._begun + int((monotonic() - self._since) * 1_000_000)

    def serialize(self, *names: str, shared: bool = False) -> None:
        """Be the only transaction with this scope, since it began; begins anew with the scope if need be."""
        name, _ = needed = scope(*names, shared=shared)
        if (name, False) not in self._scopes and needed not in self._scopes:
            raise Unscoped(needed)

    def wait_for_locked(self) -> None:
        """Let `{skip_locked}` wait from now on; a call of a batch is run again, in a transaction of its own."""
        if self.in_batch:
            raise Waits
        self._waits = True

    def leave(self, project: str) -> None:
        """Tell that chores of a project are left behind."""
        self.left.add(project)

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
        return self._refusals.pending(subject)
