"""One try to run a write on PostgreSQL, and what became of it when the connection broke.

An answer is given after the commit. If the connection breaks while committing, nobody knows yet what became of it, and
the server is asked before anything is said or done again: by the transaction's number and by an event that it wrote.
The number alone does not tell, because a server that crashed, or a standby that took over, gives numbers out again that
it never heard of. Writes that leave no event (a heartbeat, a cursor) may be made twice, and are.

A batch runs without savepoints first, because each is a round trip and a transaction of its own for the server. Most
refusals come before anything is written and undo nothing; when a call fails later than that, the whole batch is undone
and run again with savepoints (`Undone`).
"""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

from ..errors import TiebreakError
from ..operations import perform
from ..operations.events import carry
from .schema import POSTGRES_PASS
from .statements import PostgresTransaction
from .trouble import CONFLICTS, GONE, unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..operations import Operation
    from .postgres import PostgresEngine

CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_TRACE = (
    "SELECT EXISTS (SELECT 1 FROM events WHERE number >= %(floor)s AND at = %(at)s AND event = %(event)s "
    "AND agent IS NOT DISTINCT FROM %(agent)s AND subject IS NOT DISTINCT FROM %(subject)s)"
)
_WRITER = ", pg_current_xact_id()::text, (SELECT last_value FROM events_number)"


def begin(connection: Any, how: str = "", also: str = "") -> tuple[Any, ...]:
    """Begin a transaction; the server's time, and what else is asked for."""
    # A host that loses power inside a transaction says nothing, and what it has locked must be free again soon.
    begun = connection.execute(
        f"BEGIN{how}; {POSTGRES_PASS}; SET LOCAL idle_in_transaction_session_timeout = 5000; SELECT {CLOCK}{also}"
    )
    begun.set_result(-1)
    return tuple(begun.fetchone())


class Undone(Exception):
    """A call of a batch failed after it had written: without a savepoint, all must be undone with it."""


class Attempt:
    """One try to run a write in a transaction."""

    def __init__(self, engine: PostgresEngine, connection: Any, work: Callable[[PostgresTransaction], Any]) -> None:
        self._engine = engine
        self._connection = connection
        self._work = work
        self.trace: dict[str, Any] = {}
        """An event that was sent with the COMMIT, who sent it, and from which number on it is to be looked for."""
        self.committing = self.changed = self.carries = False
        self.answer: Any = None

    def run(self) -> Any:
        """Begin, work, commit; nothing is committed when nothing was changed."""
        connection, engine = self._connection, self._engine
        now, *self._told = begin(connection, also=_WRITER)
        tx = PostgresTransaction(
            connection, engine.refused, engine.clock() if engine.clock else now, lambda: engine.settled(connection)
        )
        try:
            self.answer = self._work(tx)
        except TiebreakError:
            tx.hand_in()
            raise
        tx.hand_in()
        if tx.changes:
            self._commit(tx)
        else:
            connection.execute("END")  # not ROLLBACK, after which psycopg would prepare all statements anew
        return self.answer

    def _commit(self, tx: PostgresTransaction) -> None:
        self.carries = self._engine.carrying.acquire(blocking=False)  # one transaction at a time takes them along
        if self.carries:
            carry(tx, self._engine.refused.collect())
        self.committing = True
        try:
            tx.commit()
        finally:
            if tx.trace:
                self.trace = {**tx.trace, **dict(zip(("transaction", "floor"), self._told, strict=True))}
        self.changed = True

    def end(self, *, committed: bool) -> None:
        """What became of the refusals that this transaction took along."""
        if self.carries:
            self.carries = False
            if committed:
                self._engine.refused.written()
            else:
                self._engine.refused.kept()
            self._engine.carrying.release()


def outcome(connection: Any, trace: dict[str, Any]) -> bool | None:
    """Whether the transaction that wrote this event was committed; None while it is under way."""
    if not trace:
        return False
    try:
        [status] = connection.execute("SELECT pg_xact_status(%s::text::xid8)", (trace["transaction"],)).fetchone()
    except pg.InvalidParameterValue:  # a number that this server has not given out yet
        return False
    if status == "in progress":
        return None
    [there] = connection.execute(_TRACE, trace).fetchone()
    return bool(there)


# ── One of many ──────────────────────────────────────────────────────────────────────────────────────


def quickly(tx: PostgresTransaction, operation: Operation[..., Any], params: dict[str, Any], once: str | None) -> Any:
    """Run one call of a batch without a savepoint; an error that has to undo something undoes the batch."""
    before = tx.changes
    try:
        return perform(tx, operation, operation.checked(params), once)
    except (*CONFLICTS, *GONE, psycopg.OperationalError):
        raise
    except Exception as exc:
        if tx.changes > before or isinstance(exc, psycopg.Error):
            raise Undone from exc
        return exc


def carefully(
    address: str, tx: PostgresTransaction, operation: Operation[..., Any], params: dict[str, Any], once: str | None
) -> Any:
    """Run one call of a batch after a savepoint, and set the next one; an error undoes and answers this one alone."""
    before, trace = tx.changes, tx.trace
    try:
        answer = perform(tx, operation, operation.checked(params), once)
        tx.write_events()
        tx.connection.execute("RELEASE one; SAVEPOINT one")
        return answer
    except (*CONFLICTS, *GONE, psycopg.OperationalError):
        raise
    except Exception as exc:
        tx.connection.execute("ROLLBACK TO one")
        tx.forget(before, trace)
        return unavailable(exc, address) if isinstance(exc, psycopg.Error) else exc
