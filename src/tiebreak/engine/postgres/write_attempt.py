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
from psycopg import ClientCursor
from psycopg import errors as pg

from ...errors import TiebreakError, as_answer
from ...operations import perform
from ...operations.events import carry
from .server_errors import CONFLICTS, GONE, unavailable
from .transaction import PostgresTransaction, Unscoped, Waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...operations import Operation, Scope
    from .engine import PostgresEngine
    from .transaction_settings import TransactionSettings

_TRACE = (
    "SELECT EXISTS (SELECT 1 FROM events WHERE number >= %(floor)s AND at = %(at)s AND event = %(event)s "
    "AND agent IS NOT DISTINCT FROM %(agent)s AND subject IS NOT DISTINCT FROM %(subject)s)"
)


class Undone(Exception):
    """A call of a batch failed after it had written: without a savepoint, all must be undone with it."""


class WriteAttempt:
    """One try to run a write in a transaction."""

    def __init__(
        self,
        engine: PostgresEngine,
        connection: Any,
        work: Callable[[PostgresTransaction], Any],
        scopes: Sequence[Scope],
        *,
        carry: bool = True,
    ) -> None:
        self._engine = engine
        self._carry = carry
        self._connection = connection
        self._work = work
        self._scopes = scopes
        self.trace: dict[str, Any] = {}
        """An event that was sent with the COMMIT, who sent it, and from which number on it is to be looked for."""
        self.committing = self.changed = self.carries = False
        self.laden = self.rejected = False
        """Whether it took refusals along, and whether the server rejected that; it is then tried without them."""
        self.answer: Any = None
        self.left: set[str] = set()
        """The projects in which it leaves chores."""

    def run(self) -> Any:
        """Begin, work, commit; nothing is committed when nothing was changed."""
        connection, engine = self._connection, self._engine
        now, *self._told = engine.settings.writing(connection, self._scopes)
        tx = PostgresTransaction(
            connection,
            engine.refused,
            now,
            lambda: engine.settled_inside(connection),
            clock=engine.clock,
            scopes=self._scopes,
        )
        try:
            self.answer = self._work(tx)
        except TiebreakError:
            tx.hand_in()
            raise
        except (Unscoped, Waits):
            if not tx.changes:
                connection.execute("END")
            raise
        tx.hand_in()
        self.left = tx.left
        if tx.changes:
            self._commit(tx)
        else:
            connection.execute("END")  # not ROLLBACK, after which psycopg would prepare all statements anew
        return self.answer

    def _commit(self, tx: PostgresTransaction) -> None:
        # One transaction at a time takes them along.
        self.carries = self._carry and self._engine.carrying.acquire(blocking=False)
        if self.carries:
            rows = self._engine.refused.collect()
            self.laden = bool(rows)
            carry(tx, rows)
        self.committing = True
        try:
            tx.commit()
        finally:
            if tx.trace:
                self.trace = {**tx.trace, **dict(zip(("transaction", "floor"), self._told, strict=True))}
        self.changed = True

    def end(self, *, committed: bool, problem: psycopg.Error | None = None) -> None:
        """What became of the refusals that this transaction took along."""
        if self.carries:
            self.carries = False
            said_no = problem is not None and not self._connection.closed and not isinstance(problem, CONFLICTS)
            self.rejected = said_no and self.laden
            if committed:
                self._engine.refused.committed()
            elif self.rejected:
                self._engine.refused.hold_back()
            else:
                self._engine.refused.put_back()
            self._engine.carrying.release()


def outcome(settings: TransactionSettings, connection: Any, trace: dict[str, Any]) -> bool | None:
    """Whether the transaction that wrote this event was committed; None while it is under way."""
    if not trace:
        return False
    filled = ClientCursor(connection).mogrify
    try:
        status = settings.asking(connection, filled("SELECT pg_xact_status(%(transaction)s::text::xid8)", trace))
    except pg.InvalidParameterValue:  # a number that this server has not given out yet
        connection.execute("ROLLBACK")
        return False
    return None if status == "in progress" else bool(settings.asking(connection, filled(_TRACE, trace)))


# ── One of many ──────────────────────────────────────────────────────────────────────────────────────


def quickly(tx: PostgresTransaction, operation: Operation[..., Any], params: dict[str, Any], once: str | None) -> Any:
    """Run one call of a batch without a savepoint; an error that has to undo something undoes the batch."""
    before = tx.changes
    tx.next_call()
    try:
        return perform(tx, operation, operation.checked(params), once)
    except (*CONFLICTS, *GONE, psycopg.OperationalError):
        raise
    except Exception as exc:
        if tx.changes > before or isinstance(exc, psycopg.Error):
            raise Undone from exc
        return as_answer(exc)


def carefully(
    address: str, tx: PostgresTransaction, operation: Operation[..., Any], params: dict[str, Any], once: str | None
) -> Any:
    """Run one call of a batch after a savepoint, and set the next one; an error undoes and answers this one alone."""
    before, trace = tx.changes, tx.trace
    tx.next_call()
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
        return unavailable(exc, address) if isinstance(exc, psycopg.Error) else as_answer(exc)
