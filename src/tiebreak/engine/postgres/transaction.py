"""A transaction on PostgreSQL, as operations see it.

Operations write their SQL once, with named fragments (`{now}`, `{skip_locked}` …) where the databases differ. This
module replaces each fragment by PostgreSQL's SQL.

Events are collected and written together, in one statement, before the commit or before a statement reads them. Each
statement is a round trip, and nobody else sees the events before the commit anyway. Their order is safe: the events of
one task or resource are ordered by the lock on its row, which is held until the commit.

Time is the server's clock, read when the transaction begins, after its scopes were taken. Each call of a batch adds the
time that has passed since on this machine. So it is never ahead of the server's clock, and a lease never seems to have
run out too early.
"""

from __future__ import annotations

import json
import re
from time import monotonic

from psycopg import ClientCursor
from psycopg.types.numeric import Int8Dumper

from ...operations import scope
from ...operations.events import WRITTEN
from ..transaction import LocalTransaction
from .transaction_settings import CLOCK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ...operations import Operation, Scope
    from ..refusals import Refusals


class _TextSearch:
    """`{search:TABLE.COLUMN :PARAMETER}`."""

    def __format__(self, given: str) -> str:
        column, parameter = given.split(" ")
        return f"to_tsvector('simple', {column}) @@ to_tsquery('simple', {parameter})"


_FRAGMENTS: dict[str, str | _TextSearch] = {
    "now": ":now",
    "share": "FOR SHARE",
    "lock": "FOR UPDATE",
    "always_skip_locked": "FOR UPDATE SKIP LOCKED",
    "always_skip_locked_tasks": "FOR UPDATE OF tasks SKIP LOCKED",
    "position": "strpos",
    "lower": "lower",
    "search": _TextSearch(),
    "settled": ":settled",
    "log": "events",
    "newest": "(SELECT max(number) FROM events WHERE number <= :settled)",
}
_EVENTS = f"INSERT INTO events ({', '.join(WRITTEN)}) "
_VALUES = f"({', '.join(['%s'] * len(WRITTEN))})"
_NUMBERS = {"at", "priority", "epoch", "until", "times"}
_TYPED = ", ".join(f"{each} {'bigint' if each in _NUMBERS else 'text'}" for each in WRITTEN)
# One statement for any number of rows, so that it has to be prepared only once.
_MANY = f"{_EVENTS}SELECT * FROM json_to_recordset(CAST(%s AS json)) AS event ({_TYPED})"  # noqa: S608
FEW = 4
"""Up to this many events are sent in the same message as the COMMIT; more are quicker as one JSON list."""
_translated: dict[tuple[str, bool, bool], tuple[str, bool, bool, bool]] = {}


def _translate(sql: str, waits: bool, given_clock: bool) -> tuple[str, bool, bool, bool]:
    """The operation's SQL for psycopg, and three flags.

    Whether it uses the log of events, whether it wants the settled part, and whether it writes names of projects.
    """
    fragments = {
        **_FRAGMENTS,
        "skip_locked": "FOR UPDATE" if waits else "FOR UPDATE SKIP LOCKED",
        "skip_locked_tasks": "FOR UPDATE OF tasks" if waits else "FOR UPDATE OF tasks SKIP LOCKED",
        "fresh": ":now" if given_clock else CLOCK,
    }
    filled = sql.format_map(fragments).replace("%", "%%")
    filled = re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", filled)
    settled = "{settled}" in sql or "{newest}" in sql
    writes_projects = "INTO projects" in sql or "UPDATE projects" in sql
    done = _translated[sql, waits, given_clock] = (filled, settled or "{log}" in sql, settled, writes_projects)
    return done


class MissingScope(BaseException):
    """An operation needs a scope that its transaction did not take at its beginning: it is run again with the scope.

    It is not an `Exception`, so that nothing between the operation and the engine handles it as an error.
    """

    def __init__(self, needed: Scope) -> None:
        super().__init__(needed)
        self.needed = needed


class WouldWait(BaseException):
    """A call of a batch would have to wait for a locked row.

    The batch is split before it, so that it does not wait while it holds the locks of the calls before it.
    """


class BoolAsInteger(Int8Dumper):
    """Stores a flag as a number, as on every engine."""

    def dump(self, obj: Any) -> bytes:
        """0 or 1."""
        return b"1" if obj else b"0"


class PostgresTransaction(LocalTransaction):
    """A transaction as operations see it."""

    __slots__ = (
        "_begun_at",
        "_begun_here",
        "_clock",
        "_events",
        "_projects",
        "_refusals",
        "_refused",
        "_scopes",
        "_settled",
        "_waits",
        "changes",
        "connection",
        "deferred_work",
        "in_batch",
        "now",
        "proof",
        "reads_log",
    )

    skips_locked_rows = True
    shared = True
    """Other machines use the board, or may do so at any time."""

    def __init__(
        self,
        connection: Any,
        refusals: Refusals,
        now: int,
        settled: Callable[[], int] = lambda: 0,
        *,
        clock: Callable[[], int] | None = None,
        scopes: Iterable[Scope] = (),
        projects: tuple[str, ...] = (),
        project_rows: list[list[str]] | None = None,
    ) -> None:
        self.connection = connection
        self._projects = {name: [row for row in project_rows or () if row[0] == name] for name in projects}
        self._begun_at, self._begun_here, self._clock = now, monotonic(), clock
        self.now = clock() if clock else now
        self._scopes = set(scopes)
        self._waits = False
        self.in_batch = False
        """Whether other calls share this transaction, and may have locked rows."""
        self._refusals = refusals
        self._settled = settled
        self.reads_log = False
        """Whether the operation that runs now has declared that it reads the log without gaps."""
        self._events: list[dict[str, Any]] = []
        self._refused: list[tuple[str, dict[str, Any]]] = []
        self.deferred_work: set[str] = set()
        """The projects in which this transaction has deferred work."""
        self.changes = 0
        """How many rows were written."""
        self.proof: dict[str, Any] = {}
        """An event of this transaction: if the server has it, the transaction was committed."""

    def all(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        key = (sql, self._waits, self._clock is not None)
        statement, uses_log, uses_settled, writes_projects = _translated.get(key) or _translate(*key)
        if uses_log:
            self.write_events()
        if writes_projects:
            self._projects.clear()
        if uses_settled:
            params["settled"] = self._settled_number()
        params["now"] = self.now
        cursor = self.connection.execute(statement, params)
        result = cursor.pgresult  # not the cursor's properties: it would describe every column first
        if not result.command_status.startswith(b"SELECT"):
            self.changes += result.command_tuples or 0
        return cursor.fetchall() if result.nfields else []

    def project_rows(self, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """What table `projects` says about these names; known since the transaction began, unless it writes there."""
        if not all(name in self._projects for name in names):
            return super().project_rows(names)
        return [tuple(row) for name in names for row in self._projects[name]]

    def _settled_number(self) -> int:
        if not self.reads_log:
            raise RuntimeError("an operation reads the log of events without declaring `reads_log`")
        return self._settled()

    def first(self, sql: str, **params: Any) -> tuple[Any, ...] | None:
        """Run a statement and return its first row."""
        rows = self.all(sql, **params)
        return rows[0] if rows else None

    @staticmethod
    def search_words(words: Iterable[str]) -> str:
        """A search for rows with all these words, as a text query."""
        parts = []
        for word in words:
            bare = word.rstrip("*").replace("\\", " ").replace("'", "''").replace(":", " ")
            parts.append(f"'{bare}'" + (":*" if word.endswith("*") else ""))
        return " & ".join(parts)

    def write_event(self, **event: Any) -> None:
        """Append an event to the log. It is sent later, in one message with others."""
        self._events.append(event)
        self.changes += 1

    def write_events(self) -> None:
        """Write the collected events."""
        rows = self._take_events()
        if rows:
            self.connection.execute(_MANY, (json.dumps(rows),))

    def commit(self) -> None:
        """Write the collected events and commit; if they are few, in the same round trip."""
        if len(self._events) > FEW:
            self.write_events()
        if not self._events:
            self.connection.execute("COMMIT")
            return
        rows = self._take_events()
        insert = f"{_EVENTS}VALUES {', '.join([_VALUES] * len(rows))}"
        values = [row[each] for row in rows for each in WRITTEN]
        self.connection.execute(ClientCursor(self.connection).mogrify(insert, values) + "; COMMIT")

    def _take_events(self) -> list[dict[str, Any]]:
        rows, self._events = self._events, []
        if rows:
            self.proof = rows[0]
        return rows

    def forget(self, changes: int, proof: dict[str, Any]) -> None:
        """After a rollback to a savepoint: forget the events and changes since then.

        `proof` goes back too: an event that was rolled back is missing even if the transaction commits.
        """
        self._events.clear()
        self.changes, self.proof = changes, proof

    def next_call(self, operation: Operation[..., Any]) -> None:
        """Begin the next call of a batch: it has a time of its own."""
        self.reads_log = operation.reads_log
        self.now = self._clock() if self._clock else self._begun_at + int((monotonic() - self._begun_here) * 1_000_000)

    def serialize(self, *names: str, shared: bool = False) -> None:
        """Require a scope; raises `MissingScope` if this transaction did not take it at its beginning."""
        name, _ = needed = scope(*names, shared=shared)
        if (name, False) not in self._scopes and needed not in self._scopes:
            raise MissingScope(needed)

    def wait_for_locked(self) -> None:
        """Let `{skip_locked}` wait for locked rows from now on; in a batch, raises `WouldWait`."""
        if self.in_batch:
            raise WouldWait
        self._waits = True

    def report_deferred_work(self, project: str) -> None:
        """Remember that this transaction has deferred work in a project."""
        self.deferred_work.add(project)

    def refuse(self, event: str, **facts: Any) -> None:
        """Remember a refusal for a later write."""
        self._refused.append((event, facts))

    def count_refusals(self) -> None:
        """Count the refusals of this transaction, because its caller gets the answer.

        An attempt that fails before its COMMIT and is repeated does not call this, so that each refusal is counted
        once.
        """
        refused, self._refused = self._refused, []
        for event, facts in refused:
            self._refusals.add(event, self.now, facts)

    def refusals(self, subject: str) -> list[tuple[Any, ...]]:
        """The refusals about a subject that are not in the log yet."""
        self.count_refusals()
        return self._refusals.pending(subject)
