"""The board in PostgreSQL, used by many machines at once.

The server's row locks are authoritative. Transactions run at READ COMMITTED. A claim is one UPDATE whose condition
decides. If it has to wait for another transaction, PostgreSQL evaluates the condition again on the row as it is then,
so exactly one of any number of callers finds the row free.

Two statements see two different moments. So a decision over several rows takes an advisory lock (a scope) when its
transaction begins, before the first read; no other transaction with that scope can change what it relies on. After a
deadlock or a serialisation failure the transaction is rolled back, and the operation runs again from its beginning.

Time is the server's clock, read after the scopes were taken.

The caller gets its answer after the commit; see `write_attempt` for what happens if the connection breaks meanwhile.

Events get their numbers when they are written and become visible when they are committed, in another order; see
`events_settled` in the schema for why readers miss none.
"""

from __future__ import annotations

import os
import random
from _thread import allocate_lock
from time import monotonic, sleep

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper

from ...errors import Invalid, Refused, TiebreakError, Unavailable
from ...limits import DEADLINE
from ...operations import perform
from ...operations.events import append_refusals
from ..addresses import without_password
from ..refusals import Refusals
from .notifications import Notifications
from .opening import prepare, refusal_if_closed, schema_of
from .server_errors import CONFLICTS, MISSING, is_temporary, unavailable
from .transaction import BoolAsInteger, MissingScope, PostgresTransaction, WouldWait
from .transaction_settings import TransactionSettings
from .write_attempt import NeedsSavepoints, WriteAttempt, outcome, run_alone, run_in_savepoint, run_without_savepoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from ...operations import Call, Operation, Scope

    T = TypeVar("T")

MOST_IDLE = 8
TRIES = 12
"""How often an operation is tried, if it meets deadlocks or serialisation failures."""
PATIENCE = 5.0
"""Seconds to wait for a server that restarts or fails over."""
CONNECTION_DEFAULTS = {
    "application_name": "tiebreak",
    "client_encoding": "UTF8",
    "connect_timeout": 5,
    "tcp_user_timeout": 5000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
"""Parameters of a connection, unless the address has others: a broken network is noticed within seconds."""
_LONGEST_NAMES = 1000
LOOK_EVERY = 1.0
"""Seconds after which a waiter looks again, even if nothing woke it."""
IDLE = psycopg.pq.TransactionStatus.IDLE


class PostgresEngine:
    """Runs operations on a PostgreSQL database. Threads may share it; a forked child gets connections of its own."""

    def __init__(
        self,
        address: str,
        copy_to_file: Callable[..., None],
        *,
        clock: Callable[[], int] | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        self.address = without_password(address)
        self.path: str | None = None
        self.writers = 4
        self.shared = True
        self.follow = None
        self.deadline = deadline
        self.clock = clock
        self._copy_to_file = copy_to_file
        """Makes a backup: the other engine's file. So it is given, and engines know nothing of each other."""
        self.full_address = address
        """The complete address, with its password: for commands that are started for this board."""
        try:
            self._conninfo = conninfo_to_dict(address)
        except psycopg.ProgrammingError:
            # Its message would quote what it cannot parse, and that may be the password.
            message = f"board {self.address}: not an address that PostgreSQL understands"
            raise Invalid(message, hint="postgresql://USER@HOST/DATABASE?name=value") from None
        self._reset()
        self.settings = self._with_connection(self._open)

    def _reset(self) -> None:
        """Start without connections, in the constructor and in a forked child."""
        self._pid = os.getpid()
        self._closed = False
        self._idle: list[Any] = []
        self.deferred_work: set[str] = set()
        self._lock = allocate_lock()
        self.refusals = Refusals("")
        self._highest_settled = 0
        self.refusals_lock = allocate_lock()
        self._notifications = Notifications(self._connect, self._with_connection)

    def _open(self, connection: Any) -> TransactionSettings:
        """Make or upgrade the board, and remember in which schema it is."""
        prepare(connection, self.address)
        return TransactionSettings(schema_of(connection), self.deadline, connection.info.server_version)

    # ── Connections ──────────────────────────────────────────────────────────────────────────────────

    def _connect(self) -> Any:
        options: dict[str, Any] = {**CONNECTION_DEFAULTS, **self._conninfo}
        made: Any = psycopg.connect(**options, autocommit=True, prepare_threshold=2)
        for kind, dumper in ((str, StrDumper), (int, Int8Dumper), (bool, BoolAsInteger)):
            made.adapters.register_dumper(kind, dumper)
        # Behind a pooler, other clients share the names of prepared statements: one could run another one's statement.
        if made.execute("SELECT pg_backend_pid()").fetchone()[0] != made.info.backend_pid:
            made.prepare_threshold = None
        return made

    def _take(self) -> Any:
        """A connection for this caller alone; waits up to `PATIENCE` seconds for a server that does not answer."""
        self._check_open()
        end, pause = monotonic() + PATIENCE, 0.05
        while True:
            with self._lock:
                if self._idle:
                    return self._idle.pop()
            try:
                return self._connect()
            except psycopg.OperationalError as exc:
                if not is_temporary(exc) or monotonic() + pause > end:
                    raise unavailable(exc, self.address) from exc
            except psycopg.ProgrammingError:  # its message may quote the password
                raise Unavailable(f"board {self.address}: not an address that PostgreSQL understands") from None
            sleep(pause)
            pause = min(pause * 2, 0.5)

    def _give_back(self, connection: Any) -> None:
        """Keep a connection for the next caller if it is open and in no transaction, otherwise close it."""
        with self._lock:
            reusable = not connection.closed and connection.info.transaction_status == IDLE
            if reusable and not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _with_connection(self, work: Callable[[Any], T]) -> T:
        """Run `work` on a connection that is in no transaction; again on a new connection if that one breaks."""
        end = monotonic() + PATIENCE
        while True:
            connection = self._take()
            try:
                return work(connection)
            except psycopg.Error as exc:
                self._forget_idle()
                if not (connection.closed and is_temporary(exc)) or monotonic() > end:
                    raise self._explained(exc) from exc
            finally:
                self._give_back(connection)

    def _explained(self, problem: psycopg.Error) -> Unavailable:
        """The error for the caller; if tables are missing because the board was moved, it says where to."""
        if isinstance(problem, MISSING):
            found = self._with_connection(lambda connection: refusal_if_closed(connection, self.address))
            if found is not None:
                return found
        return unavailable(problem, self.address)

    def _forget_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            # These belong to the parent. A reference keeps them from being closed here.
            self._inherited = (self._idle, self._notifications)
            self._reset()
        if self._closed:
            raise Unavailable(f"board {self.address}: is closed here")

    # ── Running operations ───────────────────────────────────────────────────────────────────────────

    def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
        """Run one operation in a transaction of its own."""
        params = operation.checked(params)
        if not operation.writes:
            return self._read(operation, params)
        answer = self._write(operation.scopes(params, once), _projects([params]), run_alone, operation, params, once)
        if isinstance(answer, Refused):
            raise answer
        return answer

    def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Run several calls in one transaction; an error undoes that call alone.

        A call that would have to wait for a locked row must not wait while it holds the locks of the calls before it.
        So the batch is split before such a call, and continues in another transaction.
        """
        answers: list[Any] = []
        while len(answers) < len(calls):
            try:
                answers += self._batch(calls[len(answers) :])
            except TiebreakError as exc:
                if not answers:
                    raise
                # The calls before these are committed, so their answers are returned.
                answers += [exc] * (len(calls) - len(answers))
        return answers

    def _batch(self, calls: Sequence[Call]) -> list[Any]:
        """Run as many of these calls as possible in one transaction, at least the first; their answers."""
        scopes, projects = _scopes(calls), _projects([params for _, params, _ in calls])
        try:
            try:
                return self._write(scopes, projects, _run_calls, calls, run_without_savepoint)
            except NeedsSavepoints:
                return self._write(scopes, projects, self._with_savepoints, calls)
        except WouldWait as cut:
            return self._batch(calls[: max(1, cut.args[0])])

    def _with_savepoints(self, tx: PostgresTransaction, calls: Sequence[Call]) -> list[Any]:
        tx.connection.execute("SAVEPOINT one")
        return _run_calls(tx, calls, lambda *call: run_in_savepoint(self.address, *call))

    def batch_at_once(self, calls: Sequence[Call]) -> list[Any] | None:
        """Always None: every call waits for the server."""
        return None

    def _write(self, scopes: Sequence[Scope], projects: tuple[str, ...], work: Callable[..., T], *args: Any) -> T:
        """Run `work(tx, *args)` in a transaction that begins with these scopes and the names of these projects.

        It is run again after a conflict, and after a broken connection if it was not committed.
        """
        end, tries, rejected = monotonic() + self.deadline, 0, False
        while True:
            connection = self._take()
            attempt = WriteAttempt(self, connection, scopes, projects, work, args, with_refusals=tries == 0)
            try:
                answer: T = attempt.run()
            except MissingScope as exc:
                self._roll_back(connection)
                scopes = [*scopes, exc.needed]
                continue
            except psycopg.Error as exc:
                tries += 1
                if not self._resolve_failure(connection, attempt, exc, last=tries == TRIES or monotonic() > end):
                    rejected = rejected or attempt.rejected  # the next attempt takes no refusals along
                    sleep(random.random() * 0.002 * 2 ** min(tries, 6))  # noqa: S311  (so that two that met do not meet again)
                    continue
                answer = attempt.answer
            except BaseException:
                attempt.end(committed=False)
                self.refusals.resolve_held_back(drop=False)
                self._roll_back(connection)
                raise
            attempt.end(committed=attempt.changed)
            self.deferred_work |= attempt.deferred_work
            if rejected:
                self.refusals.resolve_held_back(drop=attempt.changed)
            if attempt.changed and not connection.closed:
                self._notifications.notify(connection)
            self._give_back(connection)
            return answer

    def _roll_back(self, connection: Any) -> None:
        """End the transaction, if one is open, and give the connection back."""
        try:
            if connection.closed or connection.info.transaction_status != IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()
        self._give_back(connection)

    def _resolve_failure(self, connection: Any, attempt: WriteAttempt, problem: psycopg.Error, *, last: bool) -> bool:
        """After an error: True if the commit happened all the same, False to try again; otherwise raises the error."""
        try:
            attempt.changed = connection.closed and attempt.committing and self._did_commit(attempt)
        finally:
            attempt.end(committed=attempt.changed, problem=problem)
        if attempt.changed:
            return True
        if connection.closed:
            self._forget_idle()
        else:
            self._roll_back(connection)
        again = isinstance(problem, CONFLICTS) or (connection.closed and is_temporary(problem)) or attempt.rejected
        if last or not again:
            self.refusals.resolve_held_back(drop=False)
            raise self._explained(problem) from problem
        return False

    def _did_commit(self, attempt: WriteAttempt) -> bool:
        """Ask the server whether a transaction was committed, after the connection broke during its COMMIT."""
        end, problem = monotonic() + self.deadline, None
        while monotonic() < end:
            try:
                known = self._with_connection(lambda connection: outcome(self.settings, connection, attempt.proof))
            except Unavailable as exc:
                problem = exc
                break
            if known is not None:
                return known
            sleep(0.05)
        raise Unavailable(
            f"board {self.address}: the connection broke while committing, and the server does not tell the outcome",
            hint="asking again with the same `once` is safe",
        ) from problem

    def _read(self, operation: Operation[..., Any], params: dict[str, Any]) -> Any:
        """Run in one snapshot.

        Which events are settled has to be asked before the snapshot begins, because a snapshot does not see the
        transactions that begin after it.
        """

        def work(connection: Any) -> Any:
            settled = self.settled(connection) if operation.reads_log else 0
            projects = _projects([params])
            now, rows = self.settings.reading(connection, projects)
            tx = PostgresTransaction(
                connection,
                self.refusals,
                now,
                lambda: settled,
                clock=self.clock,
                projects=projects,
                project_rows=rows,
            )
            tx.reads_log = operation.reads_log
            try:
                return perform(tx, operation, params)
            finally:
                if not connection.closed:
                    connection.execute("END")

        return self._with_connection(work)

    def settled(self, connection: Any) -> int:
        """The number up to which no more events can appear. It never decreases.

        The server may answer with a lower number than before, if a writer read the sequence long before it announced
        where it begins. The highest answer is right.
        """
        return self._highest(self.settings.asking(connection, "SELECT events_settled()"))

    def settled_inside(self, connection: Any) -> int:
        """The same, asked inside a transaction."""
        return self._highest(connection.execute("SELECT events_settled()").fetchone()[0])

    def _highest(self, number: int) -> int:
        with self._lock:
            self._highest_settled = max(self._highest_settled, int(number))
            return self._highest_settled

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────────────

    def let_others_pass(self) -> None:
        """Nothing to do: the server queues those that wait for a lock."""

    def wait(self, after: int, timeout: float, **_: Any) -> bool:
        """Sleep until there is an event after this number; False when the time is up.

        A notification is a hint that may be lost, so the events are also read every second.
        """
        self._check_open()
        end = monotonic() + timeout
        while True:
            received = self._notifications.listen()
            if self._newest() > after:
                return True
            remaining = end - monotonic()
            if remaining <= 0:
                return False
            self._notifications.sleep(min(remaining, LOOK_EVERY), received)

    def _newest(self) -> int:
        # The sequence does not answer this: a rolled-back transaction leaves a gap, which would wake waiters for ever.
        newest = "SELECT coalesce(max(number), 0) FROM events WHERE number <= {}"
        return int(self._with_connection(lambda c: self.settings.asking(c, newest.format(self.settled(c)))))

    # ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────

    def probe(self) -> None:
        """Raise `Unavailable` if the server accepts no writes."""
        standby = self._with_connection(lambda c: c.execute("SELECT pg_is_in_recovery()").fetchone()[0])
        if standby:
            raise Unavailable(f"board {self.address}: this server is a standby and takes no writes")

    def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the board to a new file, as a SQLite board, while others use it."""
        self._copy_to_file(self._connect(), self.address, target, progress)

    def diagnose(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
        """The findings of `tb doctor` about the server and the board's tables."""
        from .health import diagnose

        return [*self._with_connection(diagnose), *self.refusals.findings()]

    @property
    def refusals_dropped(self) -> int:
        """How many refusals of this process will never be in the log."""
        return self.refusals.dropped

    def shorten_log(self) -> list[str]:
        """Nothing to do: the server maintains its own log."""
        return []

    def close(self) -> None:
        """Close the connections; refusals that are not in the log yet are written without waiting for the disk."""
        if self._closed or self._pid != os.getpid():
            return
        try:
            self._notifications.close()
            rows = self.refusals.collect()
            if rows:
                self._with_connection(lambda connection: self._write_refusals(connection, rows))
        except TiebreakError:
            pass  # what is lost here is an audit line, never a commit
        self._closed = True
        self._forget_idle()

    def _write_refusals(self, connection: Any, rows: list[tuple[Any, ...]]) -> None:
        self.settings.writing(connection, ())
        connection.execute("SET LOCAL synchronous_commit = off")
        tx = PostgresTransaction(connection, Refusals(""), 0)
        append_refusals(tx, rows)
        tx.commit()


def _scopes(calls: Sequence[Call]) -> list[Scope]:
    """The scopes of all calls together; a call with invalid parameters needs none, and fails later."""
    needed: dict[Scope, None] = {}
    for operation, params, once in calls:
        try:
            needed.update(dict.fromkeys(operation.scopes(operation.checked(params), once)))
        except TiebreakError:
            continue
    return list(needed)


def _projects(calls: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The names of all projects in the parameters of these calls, which need not have been checked."""
    names: dict[str, None] = {}
    for params in calls:
        given = params.get("project")
        if isinstance(given, str) and given.isprintable() and len(given) <= _LONGEST_NAMES:
            names.update(dict.fromkeys(given.split(" ")))
    return tuple(names)


def _run_calls(tx: PostgresTransaction, calls: Sequence[Call], run: Callable[..., Any]) -> list[Any]:
    """Run the calls one by one; raises `WouldWait` with the number of those that ran before a call that has to wait."""
    answers: list[Any] = []
    tx.in_batch = len(calls) > 1
    for call in calls:
        try:
            answers.append(run(tx, *call))
        except WouldWait:
            raise WouldWait(len(answers)) from None
    return answers
