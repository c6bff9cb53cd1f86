"""The board in PostgreSQL, used by many machines at once.

Who is authoritative: the server's row locks. Transactions run at READ COMMITTED; a claim is one UPDATE with the
condition that decides, and when it had to wait for another transaction PostgreSQL evaluates that condition anew on
the row as it is then, so of any number of callers exactly one finds it free. Two statements are two moments: what a
decision over several rows relies on is kept still by an advisory lock (a scope) that is taken when the transaction
begins, before its first look. A deadlock or a serialisation failure undoes the transaction, and the operation runs
again from its beginning; nothing of the first run is left.

Time is the server's, read after the scopes were taken.

An answer is given after the commit; see `write_attempt` for what happens when the connection breaks meanwhile.

Events are numbered in the order of writing and seen in the order of commits; see `events_settled` in the schema for
how readers miss none.
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
from ...operations import perform
from ...operations.events import carry
from ..addresses import without_password
from ..protocol import follow
from ..refusals import Refusals
from .notifications import Notifications
from .opening import prepare, refusal_if_closed, schema_of
from .server_errors import CONFLICTS, GONE, diagnose, passing, unavailable
from .transaction import BoolAsInteger, PostgresTransaction, Unscoped, Waits
from .transaction_settings import TransactionSettings
from .write_attempt import Undone, WriteAttempt, carefully, outcome, quickly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from ...model import Event
    from ...operations import Operation, Scope
    from ..protocol import Call

    T = TypeVar("T")

DEADLINE = 30.0
MOST_IDLE = 8
TRIES = 12
"""How often an operation is run anew after a deadlock or a serialisation failure."""
PATIENCE = 5.0
"""Seconds to wait for a server that restarts or fails over."""
LINE = {
    "application_name": "tiebreak",
    "client_encoding": "UTF8",
    "connect_timeout": 5,
    "tcp_user_timeout": 5000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
"""What a connection is like unless the address says otherwise: a cut line is noticed, though nothing comes back."""
FLOOR = 1.0
"""A waiter looks again after this many seconds even if nothing woke it."""
IDLE = psycopg.pq.TransactionStatus.IDLE


class PostgresEngine:
    """Runs operations on a PostgreSQL database. Threads may share it; a forked child gets connections of its own."""

    def __init__(self, address: str, *, clock: Callable[[], int] | None = None, deadline: float = DEADLINE) -> None:
        self.address = without_password(address)
        self.path: str | None = None
        self.writers = 4
        self.deadline = deadline
        self.clock = clock
        self.whole = address
        """The address with everything in it, for commands that are run on behalf of this board."""
        try:
            self._conninfo = conninfo_to_dict(address)
        except psycopg.ProgrammingError:
            # It would quote what it does not understand, and that may be the password.
            message = f"board {self.address}: not an address that PostgreSQL understands"
            raise Invalid(message, hint="postgresql://USER@HOST/DATABASE?name=value") from None
        self._begin()
        self.settings = self._with_connection(self._open)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._closed = False
        self._idle: list[Any] = []
        self.left: set[str] = set()
        self._lock = allocate_lock()
        self.refused = Refusals("")
        self._high = 0
        self.carrying = allocate_lock()
        self._notifications = Notifications(self._connect, self._with_connection)

    def _open(self, connection: Any) -> TransactionSettings:
        """Make the board or find it, and remember in which schema it is."""
        prepare(connection, self.address)
        return TransactionSettings(schema_of(connection), self.deadline, connection.info.server_version)

    # ── Connections ──────────────────────────────────────────────────────────────────────────────────

    def _connect(self) -> Any:
        options: dict[str, Any] = {**LINE, **self._conninfo}
        made: Any = psycopg.connect(**options, autocommit=True, prepare_threshold=2)
        for kind, dumper in ((str, StrDumper), (int, Int8Dumper), (bool, BoolAsInteger)):
            made.adapters.register_dumper(kind, dumper)
        # Behind a pooler, names of prepared statements are shared with strangers: one could run another one's.
        if made.execute("SELECT pg_backend_pid()").fetchone()[0] != made.info.backend_pid:
            made.prepare_threshold = None
        return made

    def _take(self) -> Any:
        """A connection that nobody else uses; waits a while for a server that is not there."""
        self._check_open()
        end, pause = monotonic() + PATIENCE, 0.05
        while True:
            with self._lock:
                if self._idle:
                    return self._idle.pop()
            try:
                return self._connect()
            except psycopg.OperationalError as exc:
                if not passing(exc) or monotonic() + pause > end:
                    raise unavailable(exc, self.address) from exc
            except psycopg.ProgrammingError:  # it quotes what it does not understand, perhaps the password
                raise Unavailable(f"board {self.address}: not an address that PostgreSQL understands") from None
            sleep(pause)
            pause = min(pause * 2, 0.5)

    def _give_back(self, connection: Any) -> None:
        """Keep a connection for the next one, if it is still good and at rest."""
        with self._lock:
            rests = not connection.closed and connection.info.transaction_status == IDLE
            if rests and not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _with_connection(self, work: Callable[[Any], T]) -> T:
        """Do something outside of any transaction, again if the connection turns out to be dead."""
        end = monotonic() + PATIENCE
        while True:
            connection = self._take()
            try:
                return work(connection)
            except psycopg.Error as exc:
                self._forget_idle()
                if not (connection.closed and passing(exc)) or monotonic() > end:
                    raise self._explained(exc) from exc
            finally:
                self._give_back(connection)

    def _explained(self, problem: psycopg.Error) -> Unavailable:
        """Tables that are not there any more have been moved: then say where to."""
        if isinstance(problem, GONE):
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
            self._inherited = (self._idle, self._notifications)  # kept and never closed: they belong to the parent
            self._begin()
        if self._closed:
            raise Unavailable(f"board {self.address}: is closed here")

    # ── Running operations ───────────────────────────────────────────────────────────────────────────

    def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
        """Run one operation in a transaction of its own."""
        params = operation.checked(params)
        if not operation.writes:
            return self._read(operation, params)
        answer = self._write(lambda tx: perform(tx, operation, params, once), operation.scopes(params, once))
        if isinstance(answer, Refused):
            raise answer
        return answer

    def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Run several in one transaction; an error undoes and answers that one alone.

        A call that has to wait for others does not do so with what the calls before it have locked: the batch is cut
        before it, and goes on in another transaction.
        """
        answers: list[Any] = []
        while len(answers) < len(calls):
            try:
                answers += self._batch(calls[len(answers) :])
            except TiebreakError as exc:
                if not answers:
                    raise
                answers += [exc] * (len(calls) - len(answers))  # what was committed before is told all the same
        return answers

    def _batch(self, calls: Sequence[Call]) -> list[Any]:
        """The answers to as many of these calls as can be run in one transaction: to the first one at least."""
        scopes = _scopes(calls)
        try:
            try:
                return self._write(lambda tx: _each(tx, calls, quickly), scopes)
            except Undone:
                return self._write(lambda tx: self._with_savepoints(tx, calls), scopes)
        except Waits as cut:
            return self._batch(calls[: max(1, cut.args[0])])

    def _with_savepoints(self, tx: PostgresTransaction, calls: Sequence[Call]) -> list[Any]:
        tx.connection.execute("SAVEPOINT one")
        return _each(tx, calls, lambda *call: carefully(self.address, *call))

    def batch_at_once(self, calls: Sequence[Call]) -> list[Any] | None:
        """A server is always waited for."""
        return None

    def _write(self, work: Callable[[PostgresTransaction], T], scopes: Sequence[Scope]) -> T:
        """Run in a transaction, from its beginning again after a conflict, or after a break if it did not happen."""
        end, tries, rejected = monotonic() + self.deadline, 0, False
        while True:
            connection = self._take()
            attempt = WriteAttempt(self, connection, work, scopes, carry=tries == 0)
            try:
                answer: T = attempt.run()
            except Unscoped as exc:
                self._roll_back(connection)
                scopes = [*scopes, exc.needed]
                continue
            except psycopg.Error as exc:
                tries += 1
                if not self._go_on(connection, attempt, exc, last=tries == TRIES or monotonic() > end):
                    rejected = rejected or attempt.rejected  # it carries none when it is run again
                    sleep(random.random() * 0.002 * 2 ** min(tries, 6))  # noqa: S311  (to part those who met)
                    continue
                answer = attempt.answer
            except BaseException:
                attempt.end(committed=False)
                self.refused.resolve_held_back(drop=False)
                self._roll_back(connection)
                raise
            attempt.end(committed=attempt.changed)
            self.left |= attempt.left
            if rejected:
                self.refused.resolve_held_back(drop=attempt.changed)
            if attempt.changed and not connection.closed:
                self._notifications.ring(connection)
            self._give_back(connection)
            return answer

    def _roll_back(self, connection: Any) -> None:
        try:
            if connection.closed or connection.info.transaction_status != IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()
        self._give_back(connection)

    def _go_on(self, connection: Any, attempt: WriteAttempt, problem: psycopg.Error, *, last: bool) -> bool:
        """After an error: True when the commit happened after all, False to try again; else it is raised."""
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
        again = isinstance(problem, CONFLICTS) or (connection.closed and passing(problem)) or attempt.rejected
        if last or not again:
            self.refused.resolve_held_back(drop=False)
            raise self._explained(problem) from problem
        return False

    def _did_commit(self, attempt: WriteAttempt) -> bool:
        """The connection broke between COMMIT and its answer: the server knows what became of it, nobody guesses."""
        end, problem = monotonic() + self.deadline, None
        while monotonic() < end:
            try:
                known = self._with_connection(lambda connection: outcome(self.settings, connection, attempt.trace))
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
        """Run in one snapshot. Which events are settled is asked before it begins: a snapshot cannot tell."""

        def work(connection: Any) -> Any:
            settled = self.settled(connection) if operation.name.startswith(("events.", "upkeep.")) else 0
            now = self.settings.reading(connection)
            tx = PostgresTransaction(connection, self.refused, now, lambda: settled, clock=self.clock)
            try:
                return operation.function(tx, **params)
            finally:
                if not connection.closed:
                    connection.execute("END")

        return self._with_connection(work)

    def settled(self, connection: Any) -> int:
        """The number up to which no event can appear any more: what was settled once stays so.

        The server may tell a lower one again, when a writer had looked long before it said where it begins.
        """
        return self._highest(self.settings.asking(connection, "SELECT events_settled()"))

    def settled_inside(self, connection: Any) -> int:
        """The same, asked inside of a transaction that is under way."""
        return self._highest(connection.execute("SELECT events_settled()").fetchone()[0])

    def _highest(self, told: int) -> int:
        with self._lock:
            self._high = max(self._high, int(told))
            return self._high

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────────────

    def wait(self, after: int, timeout: float, **_: Any) -> bool:
        """Sleep until there is an event after this number; False when the time is up.

        A notification is a hint that may be lost; a look every second is what can be relied on.
        """
        self._check_open()
        end = monotonic() + timeout
        while True:
            heard = self._notifications.listen()
            if self._newest() > after:
                return True
            left = end - monotonic()
            if left <= 0:
                return False
            self._notifications.sleep(min(left, FLOOR), heard)

    def _newest(self) -> int:
        # A number that was taken and given up again is none, or whoever waits would be woken by nothing for ever.
        newest = "SELECT coalesce(max(number), 0) FROM events WHERE number <= {}"
        return int(self._with_connection(lambda c: self.settings.asking(c, newest.format(self.settled(c)))))

    def follow(self, after: int, timeout: float, filters: dict[str, Any]) -> tuple[list[Event], int]:
        """The next events that match, and the number to go on after."""
        return follow(self, after, timeout, filters)

    # ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────

    def probe(self) -> None:
        """Whether the server takes writes at all; raises `Unavailable`."""
        standby = self._with_connection(lambda c: c.execute("SELECT pg_is_in_recovery()").fetchone()[0])
        if standby:
            raise Unavailable(f"board {self.address}: this server is a standby and takes no writes")

    def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the board to a SQLite board in a new file, while others use it."""
        from ..move.server_backup import to_file

        to_file(self._connect(), self.address, target, progress)

    def diagnose(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
        """What the server tells about itself and about the board's tables."""
        return [*self._with_connection(diagnose), *self.refused.findings()]

    @property
    def refusals_dropped(self) -> int:
        """How many refusals of this process will never be in the log."""
        return self.refused.dropped

    def tend(self) -> list[str]:
        """Nothing to do: the server looks after itself."""
        return []

    def close(self) -> None:
        """Close the connections; refusals that nobody carried yet are written down without waiting for the disk."""
        if self._closed or self._pid != os.getpid():
            return
        try:
            self._notifications.close()
            rows = self.refused.collect()
            if rows:
                self._with_connection(lambda connection: self._leave(connection, rows))
        except TiebreakError:
            pass  # what is lost here is an audit line, never a commit
        self._closed = True
        self._forget_idle()

    def _leave(self, connection: Any, rows: list[tuple[Any, ...]]) -> None:
        self.settings.writing(connection, ())
        connection.execute("SET LOCAL synchronous_commit = off")
        tx = PostgresTransaction(connection, Refusals(""), 0)
        carry(tx, rows)
        tx.commit()


def _scopes(calls: Sequence[Call]) -> list[Scope]:
    """The scopes of all calls together; one whose parameters are wrong needs none, and is told so later."""
    needed: dict[Scope, None] = {}
    for operation, params, once in calls:
        try:
            needed.update(dict.fromkeys(operation.scopes(operation.checked(params), once)))
        except TiebreakError:
            continue
    return list(needed)


def _each(tx: PostgresTransaction, calls: Sequence[Call], run: Callable[..., Any]) -> list[Any]:
    """Run call by call; one that has to wait for others says how many were run before it."""
    answers: list[Any] = []
    tx.in_batch = len(calls) > 1
    for call in calls:
        try:
            answers.append(run(tx, *call))
        except Waits:
            raise Waits(len(answers)) from None
    return answers
