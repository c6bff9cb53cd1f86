"""One attempt of a write on PostgreSQL, and its outcome if the connection broke.

The caller gets its answer after the commit. If the connection breaks during the COMMIT, the engine does not know
whether it happened. So it asks the server before it answers the caller or repeats the write: is the transaction, by its
number, still in progress? If not, is an event there that the transaction wrote? The number alone does not prove the
commit, because a server that crashed, or a standby that took over, gives the same numbers to other transactions. Writes
without an event (a heartbeat, a cursor) are simply repeated, because doing them twice does no harm.

A batch first runs without savepoints, because each one is a round trip and a subtransaction on the server. Most
refusals happen before a call writes anything, so there is nothing to undo. If a call fails after it has written, the
whole batch is rolled back and run again with savepoints (`NeedsSavepoints`).
"""

from __future__ import annotations

import psycopg
from psycopg import ClientCursor
from psycopg import errors as pg

from ...errors import TiebreakError, as_answer
from ...operations import PROJECTS, perform, scope
from ...operations.events import append_refusals
from .server_errors import CONFLICTS, MISSING, unavailable
from .transaction import MissingScope, PostgresTransaction, WouldWait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...operations import Operation, Scope
    from .engine import PostgresEngine
    from .transaction_settings import TransactionSettings

_PROOF = (
    "SELECT EXISTS (SELECT 1 FROM events WHERE number >= %(floor)s AND at = %(at)s AND event = %(event)s "
    "AND agent IS NOT DISTINCT FROM %(agent)s AND subject IS NOT DISTINCT FROM %(subject)s)"
)


class NeedsSavepoints(Exception):
    """A call of a batch failed after it had written, and there is no savepoint to roll back to."""


class WriteAttempt:
    """One attempt to run a write in a transaction."""

    def __init__(
        self,
        engine: PostgresEngine,
        connection: Any,
        scopes: Sequence[Scope],
        projects: tuple[str, ...],
        work: Callable[..., Any],
        args: tuple[Any, ...],
        *,
        with_refusals: bool = True,
    ) -> None:
        self._engine = engine
        self._with_refusals = with_refusals
        self._connection = connection
        self._work, self._args = work, args
        self._scopes = [*scopes, scope(PROJECTS, shared=True)]
        self._projects = projects
        self.proof: dict[str, Any] = {}
        """An event of the transaction, the transaction's number, and the event number from which to search for it."""
        self.committing = False
        """Whether the COMMIT was sent."""
        self.changed = False
        """Whether something was committed."""
        self._has_refusals_lock = self._has_refusals = False
        self.rejected = False
        """Whether the server rejected a write that took refusals along; it is repeated without them."""
        self.answer: Any = None
        self.deferred_work: set[str] = set()
        """The projects in which this transaction has deferred work."""

    def run(self) -> Any:
        """Begin, run the operation, and commit if it has changed something."""
        connection, engine = self._connection, self._engine
        now, rows, *self._xid_and_last_number = engine.settings.writing(connection, self._scopes, self._projects)
        tx = PostgresTransaction(
            connection,
            engine.refusals,
            now,
            lambda: engine.settled_inside(connection),
            clock=engine.clock,
            scopes=self._scopes,
            projects=self._projects,
            project_rows=rows,
        )
        try:
            self.answer = self._work(tx, *self._args)
        except TiebreakError:
            tx.count_refusals()
            raise
        except (MissingScope, WouldWait):
            if not tx.changes:
                connection.execute("END")
            raise
        tx.count_refusals()
        self.deferred_work = tx.deferred_work
        if tx.changes:
            self._commit(tx)
        else:
            connection.execute("END")  # not ROLLBACK, after which psycopg would prepare all statements again
        return self.answer

    def _commit(self, tx: PostgresTransaction) -> None:
        # One transaction at a time adds refusals to the log.
        self._has_refusals_lock = self._with_refusals and self._engine.refusals_lock.acquire(blocking=False)
        if self._has_refusals_lock:
            rows = self._engine.refusals.collect()
            self._has_refusals = bool(rows)
            append_refusals(tx, rows)
        self.committing = True
        try:
            tx.commit()
        finally:
            if tx.proof:
                self.proof = {**tx.proof, **dict(zip(("transaction", "floor"), self._xid_and_last_number, strict=True))}
        self.changed = True

    def end(self, *, committed: bool, problem: psycopg.Error | None = None) -> None:
        """Decide what becomes of the refusals that this transaction took along."""
        if self._has_refusals_lock:
            self._has_refusals_lock = False
            server_refused = problem is not None and not self._connection.closed and not isinstance(problem, CONFLICTS)
            self.rejected = server_refused and self._has_refusals
            if committed:
                self._engine.refusals.committed()
            elif self.rejected:
                self._engine.refusals.hold_back()
            else:
                self._engine.refusals.put_back()
            self._engine.refusals_lock.release()


def outcome(settings: TransactionSettings, connection: Any, proof: dict[str, Any]) -> bool | None:
    """Whether the transaction that wrote this event was committed; None while it is in progress."""
    if not proof:
        return False
    filled = ClientCursor(connection).mogrify
    try:
        status = settings.asking(connection, filled("SELECT pg_xact_status(%(transaction)s::text::xid8)", proof))
    except pg.InvalidParameterValue:  # this server has not given out this number yet
        connection.execute("ROLLBACK")
        return False
    return None if status == "in progress" else bool(settings.asking(connection, filled(_PROOF, proof)))


# ── One call alone, and one of a batch ───────────────────────────────────────────────────────────────


def run_alone(tx: PostgresTransaction, operation: Operation[..., Any], params: dict[str, Any], once: str | None) -> Any:
    """Run the only call of a transaction, with checked parameters."""
    tx.reads_log = operation.reads_log
    return perform(tx, operation, params, once)


def run_without_savepoint(
    tx: PostgresTransaction, operation: Operation[..., Any], params: dict[str, Any], once: str | None
) -> Any:
    """Run one call of a batch without a savepoint; raises `NeedsSavepoints` if it fails after it has written."""
    before = tx.changes
    tx.next_call(operation)
    try:
        return perform(tx, operation, operation.checked(params), once)
    except (*CONFLICTS, *MISSING, psycopg.OperationalError):
        raise
    except Exception as exc:
        if tx.changes > before or isinstance(exc, psycopg.Error):
            raise NeedsSavepoints from exc
        return as_answer(exc)


def run_in_savepoint(
    address: str, tx: PostgresTransaction, operation: Operation[..., Any], params: dict[str, Any], once: str | None
) -> Any:
    """Run one call of a batch after a savepoint, and set the next savepoint; an error undoes this call alone."""
    before, proof = tx.changes, tx.proof
    tx.next_call(operation)
    try:
        answer = perform(tx, operation, operation.checked(params), once)
        tx.write_events()
        tx.connection.execute("RELEASE one; SAVEPOINT one")
        return answer
    except (*CONFLICTS, *MISSING, psycopg.OperationalError):
        raise
    except Exception as exc:
        tx.connection.execute("ROLLBACK TO one")
        tx.forget(before, proof)
        return unavailable(exc, address) if isinstance(exc, psycopg.Error) else as_answer(exc)
