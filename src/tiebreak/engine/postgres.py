"""The board in PostgreSQL, used by many machines at once.

Who is authoritative: the server's row locks. Transactions run at READ COMMITTED; a claim is one UPDATE with the
condition that decides, and when it had to wait for another transaction PostgreSQL evaluates that condition anew on
the row as it is then, so of any number of callers exactly one finds it free. Decisions over several rows take an
advisory lock first (`serialize`). A deadlock or a serialisation failure undoes the transaction, and the operation runs
again from its beginning; nothing of the first run is left.

Time is the server's, read when a transaction begins.

An answer is given after the commit. If the connection breaks while committing, nobody knows yet what became of it:
the server is asked, by the transaction's number, before anything is said or done again.

Events are numbered in the order of writing and seen in the order of commits; see `events_settled` in the schema for
how readers miss none.
"""

from __future__ import annotations

import os
import random
from _thread import allocate_lock
from time import monotonic, sleep

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper

from ..errors import Invalid, TiebreakError, Unavailable
from ..names import checksum
from ..operations import perform
from . import follow, without_password
from .bell import Bell
from .refusals import Refusals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from ..model import Event
    from ..operations import Operation
    from . import Call

    T = TypeVar("T")

VERSION = 1
DEADLINE = 30.0
MOST_IDLE = 8
TRIES = 12
"""How often an operation is run anew after a deadlock or a serialisation failure."""
PATIENCE = 5.0
"""Seconds to wait for a server that restarts or fails over."""
LINE = {
    "application_name": "tiebreak",
    "connect_timeout": 5,
    "tcp_user_timeout": 5000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
"""What a connection is like unless the address says otherwise: a cut line is noticed, though nothing comes back."""
# A host that loses power inside a transaction says nothing, and what it has locked must be free again soon.
_BEGIN = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 5000; "
FLOOR = 1.0
"""A waiter looks again after this many seconds even if nothing woke it."""
IDLE = psycopg.pq.TransactionStatus.IDLE
_SCOPE = 0x7469
_CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

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
_CARRY = (
    "INSERT INTO events (at, event, project, subject, name, kind, state, priority, agent, epoch, until, note, times, "
    "data) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_EVENT = "INSERT INTO events"
_TRACE = (
    "SELECT EXISTS (SELECT 1 FROM events WHERE number = %(number)s AND at = %(now)s AND event = %(event)s "
    "AND agent IS NOT DISTINCT FROM %(agent)s)"
)
_prepared: dict[str, str] = {}


def _dialect(sql: str) -> str:
    """The operation's SQL with this engine's fragments in it, and parameters as psycopg writes them."""
    done = _prepared.get(sql)
    if done is None:
        import re

        filled = sql.format_map(_FRAGMENTS).replace("%", "%%")
        if filled.startswith(_EVENT):
            filled += " RETURNING number"
        done = _prepared[sql] = re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", filled)
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

    __slots__ = ("_refusals", "_settled", "changed", "connection", "now", "trace")

    def __init__(self, connection: Any, refusals: Refusals, now: int, settled: int | None = None) -> None:
        self.connection = connection
        self._refusals = refusals
        self._settled = settled
        self.now = now
        self.changed = False
        """Whether anything was written that has to be committed."""
        self.trace: dict[str, Any] = {}
        """An event that this transaction wrote: where it is, the transaction was committed."""

    def all(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        params["now"] = self.now
        if "query" in params:
            params["query"] = _match(params["query"])
        statement = _dialect(sql)
        if "%(settled)s" in statement:
            params["settled"] = self.settled()
        cursor = self.connection.execute(statement, params)
        if cursor.statusmessage and not cursor.statusmessage.startswith("SELECT") and cursor.rowcount:
            self.changed = True
        rows = cursor.fetchall() if cursor.description is not None else []
        if statement.startswith(_EVENT):
            self.trace.update(params, number=rows[0][0])
        return rows

    def first(self, sql: str, **params: Any) -> tuple[Any, ...] | None:
        """Run a statement and return its first row."""
        rows = self.all(sql, **params)
        return rows[0] if rows else None

    def settled(self) -> int:
        """The number up to which no event can appear any more."""
        if self._settled is None:
            self._settled = self.connection.execute("SELECT events_settled()").fetchone()[0]
        return self._settled

    def serialize(self, *scope: str) -> None:
        """Let no other transaction that names this scope run until this one has ended."""
        key = checksum("\0".join(scope).encode()) & 0x7FFFFFFF
        self.connection.execute("SELECT pg_advisory_xact_lock(%s::int, %s::int)", (_SCOPE, key))

    def refuse(self, event: str, **facts: Any) -> None:
        """Remember a refusal for a later write."""
        self._refusals.add(event, self.now, facts)

    def refusals(self, subject: str) -> list[tuple[Any, ...]]:
        """The refusals about a subject that no write has carried yet."""
        return self._refusals.waiting(subject)


class _Attempt:
    """One try to run a write in a transaction."""

    def __init__(self, engine: PostgresEngine, connection: Any, work: Callable[[PostgresTransaction], Any]) -> None:
        self._engine = engine
        self._connection = connection
        self._work = work
        self.transaction = ""
        self.trace: dict[str, Any] = {}
        self.committing = self.changed = self.carries = False
        self.answer: Any = None

    def run(self) -> Any:
        """Begin, work, commit; nothing is committed when nothing was changed."""
        connection, refusals = self._connection, self._engine.refused
        begun = connection.execute(f"{_BEGIN}SELECT {_CLOCK}, pg_current_xact_id()::text")
        begun.set_result(-1)
        now, self.transaction = begun.fetchone()
        tx = PostgresTransaction(connection, refusals, self._engine.clock() if self._engine.clock else now)
        self.trace = tx.trace
        self.answer = self._work(tx)
        if not tx.changed:
            connection.execute("ROLLBACK")
            return self.answer
        self.carries = self._engine.carrying.acquire(blocking=False)  # one transaction at a time takes them along
        if self.carries:
            for row in refusals.collect():
                connection.execute(_CARRY, row[1:])
        self.committing = True
        connection.execute("COMMIT")
        self.changed = True
        return self.answer

    def end(self, *, committed: bool) -> None:
        """What became of the refusals that this transaction took along."""
        if self.carries:
            self.carries = False
            if committed:
                self._engine.refused.written()
            else:
                self._engine.refused.kept()
            self._engine.carrying.release()


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
        self._prepare = True
        """Whether statements are prepared; a pooler that gives each transaction another server loses them."""
        self._begin()
        self._with_connection(lambda connection: prepare(connection, self.address))

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._closed = False
        self._idle: list[Any] = []
        self._lock = allocate_lock()
        self.refused = Refusals("")
        self._high = 0
        self.carrying = allocate_lock()
        self._bell = Bell(self._connect, self._with_connection)

    # ── Connections ──────────────────────────────────────────────────────────────────────────────────

    def _connect(self) -> Any:
        options: dict[str, Any] = {**LINE, **self._conninfo}
        made: Any = psycopg.connect(**options, autocommit=True, prepare_threshold=2 if self._prepare else None)
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
            from .moving import closed_database

            found = self._with_connection(lambda connection: closed_database(connection, self.address))
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
            self._inherited = (self._idle, self._bell)  # kept and never closed: they belong to the parent
            self._begin()
        if self._closed:
            raise Unavailable(f"board {self.address}: is closed here")

    # ── Running operations ───────────────────────────────────────────────────────────────────────────

    def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
        """Run one operation in a transaction of its own."""
        params = operation.checked(params)
        if not operation.writes:
            return self._read(operation, params)
        glance = operation.glance if once is None else None
        if glance is not None:
            self._with_connection(lambda connection: glance(self._looking(connection), **params))
        return self._write(lambda tx: perform(tx, operation, params, once))

    def _looking(self, connection: Any) -> PostgresTransaction:
        """No transaction around it: its first statement decides."""
        now = self.clock() if self.clock else connection.execute(f"SELECT {_CLOCK}").fetchone()[0]
        return PostgresTransaction(connection, self.refused, now)

    def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Run several in one transaction, each in a savepoint; an error undoes and answers that one alone."""

        def work(tx: PostgresTransaction) -> list[Any]:
            tx.connection.execute("SAVEPOINT one")
            return [_one_of_many(tx, *call) for call in calls]

        return self._write(work)

    def batch_at_once(self, calls: Sequence[Call]) -> list[Any] | None:
        """A server is always waited for."""
        return None

    def _write(self, work: Callable[[PostgresTransaction], T]) -> T:
        """Run in a transaction, from its beginning again after a conflict, or after a break if it did not happen."""
        end = monotonic() + self.deadline
        for tries in range(TRIES):
            connection = self._take()
            attempt = _Attempt(self, connection, work)
            try:
                answer: T = attempt.run()
            except psycopg.Error as exc:
                if not self._go_on(connection, attempt, exc, last=tries + 1 == TRIES or monotonic() > end):
                    sleep(random.random() * 0.002 * 2 ** min(tries, 6))  # noqa: S311  (to part those who met)
                    continue
                answer = attempt.answer
            except BaseException:
                attempt.end(committed=False)
                self._roll_back(connection)
                raise
            attempt.end(committed=attempt.changed)
            if attempt.changed and not connection.closed:
                self._bell.ring(connection)
            self._give_back(connection)
            return answer
        raise AssertionError("the last try ends by itself")

    def _roll_back(self, connection: Any) -> None:
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()
        self._give_back(connection)

    def _go_on(self, connection: Any, attempt: _Attempt, problem: psycopg.Error, *, last: bool) -> bool:
        """After an error: True when the commit happened after all, False to try again; else it is raised."""
        try:
            attempt.changed = connection.closed and attempt.committing and self._did_commit(attempt)
        finally:
            attempt.end(committed=attempt.changed)
        if attempt.changed:
            return True
        if connection.closed:
            self._forget_idle()
        else:
            self._roll_back(connection)
        if isinstance(problem, pg.InvalidSqlStatementName):
            self._prepare = False  # a pooler gave us another server than the one that knows the statement
            self._forget_idle()
        elif last or not (isinstance(problem, CONFLICTS) or (connection.closed and passing(problem))):
            raise self._explained(problem) from problem
        return False

    def _did_commit(self, attempt: _Attempt) -> bool:
        """The connection broke between COMMIT and its answer: the server knows what became of it, nobody guesses."""
        end, problem = monotonic() + self.deadline, None
        while monotonic() < end:
            try:
                known = self._with_connection(lambda connection: _outcome(connection, attempt))
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
            settled = None
            if operation.name.startswith(("events.", "upkeep.")):
                settled = self._settled(connection)
            begun = connection.execute(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
                f"SET LOCAL idle_in_transaction_session_timeout = 5000; SELECT {_CLOCK}"
            )
            begun.set_result(-1)
            [now] = begun.fetchone()
            tx = PostgresTransaction(connection, self.refused, self.clock() if self.clock else now, settled)
            try:
                return operation.function(tx, **params)
            finally:
                if not connection.closed:
                    connection.execute("ROLLBACK")

        try:
            return self._with_connection(work)
        except Unavailable as exc:
            if not isinstance(exc.__cause__, pg.InvalidSqlStatementName):
                raise
            self._prepare = False
            return self._with_connection(work)

    def _settled(self, connection: Any) -> int:
        """The number up to which no event can appear any more: what was settled once stays so.

        The server may tell a lower one again, when a writer had looked long before it said where it begins.
        """
        told = int(connection.execute("SELECT events_settled()").fetchone()[0])
        with self._lock:
            self._high = max(self._high, told)
            return self._high

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────────────

    def wait(self, after: int, timeout: float, **_: Any) -> bool:
        """Sleep until there is an event after this number; False when the time is up.

        A notification is a hint that may be lost; a look every second is what can be relied on.
        """
        self._check_open()
        end = monotonic() + timeout
        while True:
            heard = self._bell.listen()
            if self._newest() > after:
                return True
            left = end - monotonic()
            if left <= 0:
                return False
            self._bell.sleep(min(left, FLOOR), heard)

    def _newest(self) -> int:
        # A number that was taken and given up again is none, or whoever waits would be woken by nothing for ever.
        newest = "SELECT coalesce(max(number), 0) FROM events WHERE number <= %s"
        return int(self._with_connection(lambda c: c.execute(newest, (self._settled(c),)).fetchone()[0]))

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
        from .moving import to_file

        to_file(self, target, progress)

    def diagnose(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
        """What the server tells about itself and about the board's tables."""
        return self._with_connection(diagnose)

    def close(self) -> None:
        """Close the connections; refusals that nobody carried yet are written down without waiting for the disk."""
        if self._closed or self._pid != os.getpid():
            return
        try:
            rows = self.refused.collect()
            if rows:
                self._with_connection(lambda connection: _leave(connection, rows))
            self._bell.close()
        except TiebreakError:
            pass  # what is lost here is an audit line, never a commit
        self._closed = True
        self._forget_idle()


def _outcome(connection: Any, attempt: _Attempt) -> bool | None:
    """Whether a transaction was committed; None while it is under way.

    Its number alone does not tell: a server that crashed, or a standby that took over, gives numbers out again that it
    never heard of. So it is looked for by what it wrote.
    """
    try:
        [status] = connection.execute("SELECT pg_xact_status(%s::text::xid8)", (attempt.transaction,)).fetchone()
    except pg.InvalidParameterValue:  # a number that this server has not given out yet
        return False
    if status == "in progress":
        return None
    if status != "committed" or not attempt.trace:
        return bool(status == "committed")
    [there] = connection.execute(_TRACE, attempt.trace).fetchone()
    return bool(there)


def _leave(connection: Any, rows: list[tuple[Any, ...]]) -> None:
    connection.execute("BEGIN; SET LOCAL synchronous_commit = off")
    for row in rows:
        connection.execute(_CARRY, row[1:])
    connection.execute("COMMIT")


def _one_of_many(
    tx: PostgresTransaction, operation: Operation[..., Any], params: dict[str, Any], once: str | None
) -> Any:
    before, trace = tx.changed, dict(tx.trace)
    try:
        answer = perform(tx, operation, operation.checked(params), once)
        tx.connection.execute("RELEASE one; SAVEPOINT one")
        return answer
    except (*CONFLICTS, *GONE, psycopg.OperationalError):
        raise
    except Exception as exc:
        tx.connection.execute("ROLLBACK TO one")
        tx.changed = before
        tx.trace.clear()  # what it wrote was undone: its absence tells nothing
        tx.trace.update(trace)
        return unavailable(exc, "") if isinstance(exc, psycopg.Error) else exc


# ── Opening ──────────────────────────────────────────────────────────────────────────────────────────


def prepare(connection: Any, address: str) -> None:
    """Make the schema, or find it made; any number of processes may come at the same moment."""
    version = _version(connection, address)
    if version is None:
        connection.execute("BEGIN")
        connection.execute("SELECT pg_advisory_xact_lock(%s::int, 0)", (_SCOPE,))
        if _version(connection, address) is None:
            path = os.path.join(os.path.dirname(__file__), "schema", f"postgres-{VERSION}.sql")
            with open(path, encoding="utf-8") as file:
                connection.execute(file.read())
            connection.execute("INSERT INTO board (name, value) VALUES ('version', %s)", (str(VERSION),))
        connection.execute("COMMIT")
        version = VERSION
    if version > VERSION:
        raise Unavailable(
            f"board {address}: written by a newer tiebreak (schema {version}, this one knows {VERSION})",
            hint="upgrade tiebreak on this machine",
        )


def _version(connection: Any, address: str) -> int | None:
    # Not to_regclass: it would remember, while waiting for the lock, that there was no such table.
    there = "SELECT 1 FROM pg_class WHERE relname = 'board' AND relkind = 'r' AND pg_table_is_visible(oid)"
    if connection.execute(there).fetchone() is None:
        from .moving import closed_database

        if (closed := closed_database(connection, address)) is not None:
            raise closed
        return None
    row = connection.execute("SELECT value FROM board WHERE name = 'version'").fetchone()
    return int(row[0]) if row else None


# ── What goes wrong ──────────────────────────────────────────────────────────────────────────────────

CONFLICTS = (pg.DeadlockDetected, pg.SerializationFailure, pg.UniqueViolation)
GONE = (pg.UndefinedTable, pg.UndefinedFunction)
_FOR_GOOD = ("authentication failed", "no password", "does not exist", "could not translate", "invalid ")
_PASSING = ("08", "57P", "53300", "25006", "25P03")


def passing(problem: psycopg.Error) -> bool:
    """Whether it may be better in a moment: a server that restarts, fails over, or has no room right now."""
    state = problem.sqlstate
    if state is None:  # the connection itself: refused, reset, timed out; but not a wrong password or name
        text = str(problem)
        return not any(words in text for words in _FOR_GOOD)
    return state.startswith(_PASSING)


def unavailable(problem: Exception, address: str) -> Unavailable:
    """What the server says, as an error that a person can act on."""
    text = str(problem).strip().split("\n", 1)[0] or type(problem).__name__
    hints = {"28": "check the user and the password", "3D": "create the database first", "53": "free some resources"}
    state = getattr(problem, "sqlstate", None) or ""
    return Unavailable(f"board {address}: {text}", hint=hints.get(state[:2], ""), sqlstate=state)


def diagnose(connection: Any) -> list[tuple[str, str, str]]:
    """What the server tells about itself and about the board's tables."""
    settings = dict(
        connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'fsync', 'synchronous_commit', "
            "'full_page_writes', 'autovacuum', 'max_connections')"
        ).fetchall()
    )
    durable = all(settings[name] != "off" for name in ("fsync", "synchronous_commit", "full_page_writes"))
    kept = ", ".join(f"{name} {settings[name]}" for name in ("fsync", "synchronous_commit", "full_page_writes"))
    [standby] = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    [oldest] = connection.execute(
        "SELECT coalesce(max(extract(epoch FROM now() - xact_start)), 0)::float8 FROM pg_stat_activity "
        "WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()"
    ).fetchone()
    dead = connection.execute(
        "SELECT relname, n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relname IN ('tasks', 'holds', 'agents') "
        "AND n_dead_tup > 10000 AND n_dead_tup > n_live_tup"
    ).fetchall()
    return [
        ("ok", "postgresql", settings["server_version"]),
        ("bad" if standby else "ok", "role", "a standby, which takes no writes" if standby else "a primary"),
        ("ok" if durable else "bad", "durability", kept),
        ("ok" if settings["autovacuum"] == "on" else "bad", "autovacuum", settings["autovacuum"]),
        ("warn" if oldest > 300 else "ok", "oldest transaction", f"{oldest:.0f} s; a long one stops vacuum"),
        *[("warn", "vacuum", f"{name} has {gone} dead rows beside {live}") for name, gone, live in dead],
    ]
