"""The board in one SQLite file, used by many processes at once.

Who is authoritative: SQLite's write lock. `BEGIN IMMEDIATE` takes it before an operation reads anything, so
an operation sees the newest state and nobody changes it underneath. The gate (see `gate`) only makes the
waiting fair; a process that ignored it would be slower, not wrong.

Durability: WAL with `synchronous=FULL`. With NORMAL a power loss takes back commits that were acknowledged,
and a commit taken back is an epoch issued twice.

Checkpoints happen outside the request path: on a connection of their own when the WAL has grown, in the gate
only when it has grown out of all proportion, and when a short-lived process closes.
"""

from __future__ import annotations

import os
from _operator import itemgetter
from _thread import allocate_lock, get_ident, start_new_thread
from time import monotonic

import apsw

from ...errors import Refused, TiebreakError, Unavailable, as_answer
from ...operations import perform
from .. import follow
from .. import fork_safety as forks
from ..refusals import Refusals
from .board_files import Place
from .file_facts import NEWEST
from .opening import KEPT_WAL, board_clock, connect, create, prepare, wal_size
from .write_gate import Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from ...model import Event
    from ...operations import Operation
    from .. import Call

    T = TypeVar("T")

DEADLINE = 30.0
READ_DEADLINE = 30.0
LOOK_AGAIN = 0.005
"""Seconds after which a process looks again whether the board is still in its place."""
FOREVER = float("inf")
STEPS = 100_000
"""After so many steps of SQLite's machine a read looks at its deadline: some milliseconds."""
CHECKPOINT_PAGES = 1000
CHECKPOINT_PAGES_AT_CLOSE = 64
CHECKPOINT_PAGES_AT_ANY_COST = 16_000
CHECKPOINT_AGAIN = 10.0
SHORTEN_AGAIN = 5.0
"""Seconds between two tries to shorten a log that grew too large."""
"""Seconds after which a checkpoint that a reader was in the way of is tried again, however little was written."""
MOST_READERS = 8
FLOOR = 1.0
"""A waiter looks again after this many seconds even if nothing woke it."""

SHORT = 0.002
"""Below this, sleeping is more exact than listening."""

_FRAGMENTS = {
    "now": ":now",
    "fresh": ":now",
    "skip_locked": "",
    "skip_locked_tasks": "",
    "pass_over": "",
    "pass_over_tasks": "",
    "share": "",
    "lock": "",
    "position": "instr",
    "lower": "unicode_lower",
    "settled": "9223372036854775807",
    "newest": "(SELECT max(number) FROM events)",
    "search": "messages.number IN (SELECT rowid FROM messages_words WHERE messages_words MATCH :query)",
}
_prepared: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {}
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz_")


def _dialect(sql: str) -> tuple[str, Callable[[dict[str, Any]], Any]]:
    """The operation's SQL with this engine's fragments in it, and what puts its parameters in their order.

    By position SQLite is given parameters several times faster than by name.
    """
    first, *parts = sql.format_map(_FRAGMENTS).split(":")
    names: list[str] = []
    for i, part in enumerate(parts):
        end = next((at for at, c in enumerate(part) if c not in _LETTERS), len(part))
        if end == 0:  # a colon in a text
            parts[i] = ":" + part
            continue
        if part[:end] not in names:
            names.append(part[:end])
        parts[i] = f"?{names.index(part[:end]) + 1}{part[end:]}"
    order: Callable[[dict[str, Any]], Any] = _none
    if names:
        order = itemgetter(*names) if len(names) > 1 else lambda params: (params[names[0]],)
    done = _prepared[sql] = ("".join([first, *parts]), order)
    return done


def _none(_: dict[str, Any]) -> tuple[()]:
    return ()


class SqliteTransaction:
    """A transaction as operations see it."""

    __slots__ = ("_cursor", "_refusals", "left", "now", "undone")

    def __init__(self, connection: apsw.Connection, refusals: Refusals) -> None:
        self._cursor = connection.cursor()
        self._refusals = refusals
        self.now = 0
        self.left: set[str] = set()
        """The projects in which it leaves chores."""
        self.undone = 0
        """Changes in this transaction that were taken back again."""

    def all(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        params["now"] = self.now
        if "query" in params:
            params["query"] = _match(params["query"])
        text, order = _prepared.get(sql) or _dialect(sql)
        return self._cursor.execute(text, order(params)).fetchall()

    def first(self, sql: str, **params: Any) -> tuple[Any, ...] | None:
        """Run a statement and return its first row."""
        params["now"] = self.now
        text, order = _prepared.get(sql) or _dialect(sql)
        rows = self._cursor.execute(text, order(params)).fetchall()
        return rows[0] if rows else None

    passes_over = False
    """Nobody else changes anything while a transaction writes, so nothing is ever passed over."""

    def serialize(self, *names: str, shared: bool = False) -> None:
        """Nothing to do: the write lock already lets one transaction in at a time."""

    def wait_for_locked(self) -> None:
        """Nothing to do: no row is ever locked by somebody else."""

    def leave(self, project: str) -> None:
        """Tell that chores of a project are left behind."""
        self.left.add(project)

    def refuse(self, event: str, **facts: Any) -> None:
        """Remember a refusal for a later write."""
        self._refusals.add(event, self.now, facts)

    def refusals(self, subject: str) -> list[tuple[Any, ...]]:
        """The refusals about a subject that no write has carried yet."""
        return self._refusals.waiting(subject)


def _match(words: str) -> str:
    """Words as an FTS5 expression in which nothing is special but a star at the end."""
    return " ".join(f'"{word.rstrip("*")}"' + ("*" if word.endswith("*") else "") for word in words.split())


def _lower(*args: Any) -> Any:
    """SQLite's own lower() knows only ASCII."""
    return None if args[0] is None else args[0].lower()


class _NotCarried(Exception):
    """Refusals could not be written down: the write is done again without them."""


class _Reader:
    """A connection on which something is read until a deadline, by one thread at a time."""

    __slots__ = ("connection", "end", "lock")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.lock = allocate_lock()
        self.end = FOREVER
        connection.set_progress_handler(lambda: monotonic() > self.end, STEPS)


class SqliteEngine:
    """Runs operations on a SQLite file. Threads may share it; a forked child gets connections of its own."""

    def __init__(self, path: str, *, clock: Callable[[], int] | None = None, deadline: float = DEADLINE) -> None:
        self.path: str = os.path.realpath(path)
        self.address = self.path
        self.writers = 1
        self.deadline = deadline
        self._given_clock = clock
        self._orphans: list[Any] = []
        self.birth = allocate_lock()
        """Held while connections are made anew after a fork."""
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        try:
            self._start()
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc
        except OSError as exc:
            raise Unavailable(f"board {self.path}: {exc.strerror or exc}") from exc

    def _start(self) -> None:
        self._closed = False
        self.left: set[str] = set()
        self._writing, self._reading, self._checkpointing = allocate_lock(), allocate_lock(), allocate_lock()
        self._readers: list[_Reader] = []
        self._watches: list[Any] = []
        self._waiting: list[Any] = []
        self._pages = 0
        self._shortening = False
        self._copy_at = CHECKPOINT_PAGES
        self._copy_again = monotonic() + CHECKPOINT_AGAIN
        self._looked = 0.0
        self._copied = False
        self._gate = Gate(self.path + "-gate", self.deadline)
        self._place = Place(self.path, self._gate)
        self._place.refuse_lost_file()
        create(self.path)
        self._refusals = Refusals(self.path + "-refused")
        try:
            self._writer = self._place.open(self._connect)
            prepare(self._writer, self._gate, self.path)
            self._now = self._given_clock or board_clock(self._writer, self._gate)
        except BaseException:
            self._gate.close()
            raise
        self._writer.set_wal_hook(self._committed)
        self._tx = SqliteTransaction(self._writer, self._refusals)
        self._reading_writer = _Reader(self._writer)
        self._pid = os.getpid()  # last: whoever sees it may use all of the above

    def _connect(self) -> apsw.Connection:
        connection = connect(self.path, self.deadline)
        connection.create_scalar_function("unicode_lower", _lower, 1, deterministic=True)
        return connection

    # ── Running operations ───────────────────────────────────────────────────────────────────────────

    def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
        """Run one operation in a transaction of its own."""
        params = operation.checked(params)
        if not operation.writes:
            return self._read(lambda tx: operation.function(tx, **params))
        glance = operation.glance if once is None else None
        answer = self._write(
            lambda tx: perform(tx, operation, params, once),
            None if glance is None else lambda tx: glance(tx, **params),
        )
        if isinstance(answer, Refused):
            raise answer
        return answer

    def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Run several in one transaction, each in a savepoint; an error undoes and answers that one alone."""
        return self._write(lambda tx: [self._one_of_many(tx, *call) for call in calls])

    def batch_at_once(self, calls: Sequence[Call]) -> list[Any] | None:
        """The same, unless that would mean to wait for somebody: then None, and nothing was done."""
        self._check_open()
        if not self._readers:
            self._free_reader().lock.release()  # from now on no read keeps this from writing
        if not self._writing.acquire(blocking=False):
            return None
        try:
            if not self._gate.enter_at_once():
                return None
            self._writer.set_busy_timeout(0)
            return self._transact(lambda tx: [self._one_of_many(tx, *call) for call in calls])
        except apsw.BusyError:
            return None  # a program that ignores the gate
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc
        except OSError as exc:
            raise Unavailable(f"board {self.path}: {exc.strerror or exc}") from exc
        finally:
            self._writer.set_busy_timeout(int(self.deadline * 1000))
            self._gate.leave()
            self._writing.release()

    def _one_of_many(
        self, tx: SqliteTransaction, operation: Operation[..., Any], params: dict[str, Any], once: str | None
    ) -> Any:
        try:
            params = operation.checked(params)
        except TiebreakError as exc:
            return as_answer(exc)
        execute = tx._cursor.execute
        execute("SAVEPOINT one")
        before = self._writer.total_changes()
        tx.now = self._now()
        try:
            answer = perform(tx, operation, params, once)
        except _ENVIRONMENT:
            raise  # a full disk, a damaged page: what else is in this transaction cannot be trusted either
        except Exception as exc:
            execute("ROLLBACK TO one")
            tx.undone += self._writer.total_changes() - before
            answer = unavailable(exc, self.path) if isinstance(exc, apsw.Error) else as_answer(exc)
        execute("RELEASE one")
        return answer

    def _write(
        self,
        work: Callable[[SqliteTransaction], T],
        glance: Callable[[SqliteTransaction], None] | None = None,
    ) -> T:
        """Run in a write transaction; before queueing for it at the gate, take a glance that may already refuse."""
        self._check_open()
        if not self._writing.acquire(timeout=self.deadline):
            raise Unavailable(f"busy: held by another thread of pid {self._pid}; gave up after {self.deadline:g} s")
        try:
            if glance is not None:
                self._look(self._writer)
                self._tx.now = self._now()
                glance(self._tx)  # no transaction around it: its first statement decides
            try:
                self._gate.enter()
                return self._transact(work)
            finally:
                self._gate.leave()
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc
        except OSError as exc:
            raise Unavailable(f"board {self.path}: {exc.strerror or exc}") from exc
        finally:
            self._writing.release()

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"board {self.path}: is closed here")
        if self._pid != os.getpid():
            self._after_fork()

    def _transact(self, work: Callable[[SqliteTransaction], T], *, carry: bool = True) -> T:
        writer = self._writer
        self._look(writer)
        writer.execute("BEGIN IMMEDIATE")
        try:
            tx = self._tx
            tx.now = self._now()
            before = writer.total_changes()
            tx.undone = 0
            tx.left.clear()
            answer = work(tx)
            changed = writer.total_changes() - before > tx.undone
            carried = changed and carry and self._carry_refusals(tx)
            newest = tx.all(NEWEST)[0][0] if changed else 0
            writer.execute("COMMIT" if changed else "ROLLBACK")
        except BaseException as exc:
            self._refusals.kept()
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            if isinstance(exc, _NotCarried):
                return self._transact(work, carry=False)
            raise
        if tx.left:
            self.left |= tx.left
        if changed:
            self._looked = 0.0
            self._look(writer)  # nobody is told of what only this process can see
        try:
            if changed:
                self._place.committed(newest)
            if carried:
                self._refusals.written()
            self._care_for_wal()
        except (OSError, RuntimeError, apsw.Error, Unavailable):
            pass  # the change is committed; what failed here is tried again after the next one
        return answer

    def _carry_refusals(self, tx: SqliteTransaction) -> bool:
        """Write down what was refused earlier; raises `_NotCarried` if that fails."""
        if rows := self._refusals.collect():
            from ...operations.events import carry

            try:
                carry(tx, rows)
            except (apsw.Error, ValueError, OverflowError) as exc:
                if isinstance(exc, _ENVIRONMENT):
                    self._refusals.kept()  # a full disk may have room for them later
                else:
                    self._refusals.drop()
                raise _NotCarried from exc
        return True

    def _read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Run on the writer's connection while nobody writes with it, else on one for reading."""
        self._check_open()
        try:
            if not self._readers and self._writing.acquire(blocking=False):
                try:
                    return self._snapshot(self._reading_writer, work)
                finally:
                    self._writing.release()
            reader = self._free_reader()
            try:
                if self._closed:
                    raise Unavailable(f"board {self.path}: is closed here")
                return self._snapshot(reader, work)
            finally:
                reader.lock.release()
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc

    def _free_reader(self) -> _Reader:
        """A connection for reading that nobody else uses, with its lock held."""
        with self._reading:
            for reader in self._readers:
                if reader.lock.acquire(blocking=False):
                    return reader
            if len(self._readers) < MOST_READERS:
                self._readers.append(reader := _Reader(self._connect()))
                reader.lock.acquire()
                return reader
        reader = self._readers[get_ident() % MOST_READERS]
        reader.lock.acquire()
        return reader

    def _snapshot(self, reader: _Reader, work: Callable[[SqliteTransaction], T]) -> T:
        connection = reader.connection
        self._look(connection)
        tx = SqliteTransaction(connection, self._refusals)
        tx.now = self._now()
        reader.end = monotonic() + READ_DEADLINE  # while it reads, the log cannot start anew
        connection.execute("BEGIN")  # all statements of the operation see the same moment
        try:
            return work(tx)
        finally:
            reader.end = FOREVER
            connection.execute("ROLLBACK")

    def _look(self, connection: apsw.Connection) -> None:
        """See whether the board is still in its place, unless somebody here has just seen it."""
        now = monotonic()
        if now > self._looked + LOOK_AGAIN:
            self._place.check(connection)
            self._looked = now

    # ── Forks (see `forks`) ──────────────────────────────────────────────────────────────────────────

    def locks(self) -> list[LockType]:
        """All that must be held for the engine to stand still."""
        if self._closed:
            return []
        return [self.birth, self._writing, self._reading, *[each.lock for each in self._readers], self._checkpointing]

    def abandon_gate(self) -> None:
        """In a forked child: let go of the parent's place at the gate."""
        if not self._closed:
            self._gate.abandon()

    def _after_fork(self) -> None:
        with self.birth:
            if self._pid != os.getpid():
                self._orphans.append((self._writer, self._readers, self._gate, self._watches))
                self._begin()

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────────────

    def wait(self, after: int, timeout: float, **_: Any) -> bool:
        """Sleep until there is an event after this number; False when the time is up.

        The watch is set up before the first look, so a commit in between is not missed. A notification can
        come before its commit is visible, hence the short series of looks after each.
        """
        from time import sleep

        from .file_watch import Watch, recheck_delays

        end = monotonic() + timeout
        self._check_open()
        watch = self._watches.pop() if self._watches else Watch(self.path)
        self._waiting.append(watch)
        try:
            watch.drain()
            delays = recheck_delays()  # a commit under way may have been noticed before the watch was set
            while not self._newest() > after:
                left = end - monotonic()
                if left <= 0:
                    return False
                delay = min(left, next(delays, FLOOR))
                if delay < SHORT:
                    sleep(delay)
                elif watch.wait(delay):
                    delays = recheck_delays()
            return True
        finally:
            self._waiting.remove(watch)
            if self._closed:
                watch.close()
            else:
                self._watches.append(watch)  # making one costs milliseconds; each serves one waiter at a time

    def follow(self, after: int, timeout: float, filters: dict[str, Any]) -> tuple[list[Event], int]:
        """The next events that match, and the number to go on after."""
        return follow(self, after, timeout, filters)

    def _newest(self) -> int:
        return int(self._read(lambda tx: tx.all(NEWEST))[0][0])

    # ── Checkpoints ──────────────────────────────────────────────────────────────────────────────────

    def _committed(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _care_for_wal(self) -> None:
        """Called in the gate, after a commit: keep the WAL short without making anybody wait for it.

        A thread copies the bulk while others write. What they wrote meanwhile is little; the next one in the gate
        copies that too, and only then can the WAL start anew.
        """
        if self._pages < self._copy_at - CHECKPOINT_PAGES:
            self._copy_at = CHECKPOINT_PAGES  # the WAL has started anew
        late = self._pages >= CHECKPOINT_PAGES and monotonic() > self._copy_again
        if self._pages < self._copy_at and self._pages <= CHECKPOINT_PAGES_AT_ANY_COST and not late:
            return
        self._copy_again = monotonic() + CHECKPOINT_AGAIN
        self._have_wal_shortened()
        if self._copied or self._pages > CHECKPOINT_PAGES_AT_ANY_COST:
            self._checkpoint(self._writer)
            self._copied = False
            # If a reader keeps the WAL from starting anew, do not try again with every commit.
            self._copy_at = self._pages + CHECKPOINT_PAGES
        elif self._checkpointing.acquire(blocking=False):
            try:
                start_new_thread(self._copy, ())
            except RuntimeError:
                self._checkpointing.release()
                raise

    def _copy(self) -> None:
        try:
            connection = self._connect()
            self._checkpoint(connection)
            self._checkpoint(connection)  # what came meanwhile, so that next to nothing is left for the gate
            connection.close()
            self._copied = True
        except (OSError, apsw.Error, Unavailable):
            pass  # the next commit asks again
        finally:
            self._checkpointing.release()

    def _checkpoint(self, connection: apsw.Connection) -> None:
        try:
            self._place.checkpoint(connection, apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            pass  # somebody else is at it

    def _have_wal_shortened(self) -> None:
        """If the log is large, try to shorten it from time to time, even if nothing is written any more."""
        if self._shortening or wal_size(self.path) <= KEPT_WAL:
            return
        self._shortening = True
        try:
            start_new_thread(self._shorten_when_possible, ())
        except RuntimeError:
            self._shortening = False  # the next commit asks again

    def _shorten_when_possible(self) -> None:
        from time import sleep

        while not self._closed and self._pid == os.getpid() and wal_size(self.path) > KEPT_WAL:
            sleep(SHORTEN_AGAIN)
            self.tend()
        self._shortening = False

    def tend(self) -> list[str]:
        """For a process that lives long, now and then: shorten a log that a reader, who is gone now, had let grow.

        Answers who keeps it from that.
        """
        with self._checkpointing:
            return self._tend()

    def _tend(self) -> list[str]:
        if self._closed or self._pid != os.getpid() or wal_size(self.path) <= KEPT_WAL:
            return []
        try:
            connection = self._connect()
        except apsw.Error:
            return []  # whoever uses the board is told
        try:
            self._checkpoint(connection)  # the bulk, while others write
            connection.set_busy_timeout(0)
            self._place.checkpoint(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (OSError, Unavailable):
            pass  # the same
        except apsw.Error:
            from .health import MOMENT, stuck_readers

            return stuck_readers(self.path, MOMENT)
        finally:
            connection.close()
        return []

    def _shorten_wal(self) -> None:
        """Empty the WAL if nobody reads from it: the next process would have to read all of it."""
        self._writer.set_busy_timeout(0)
        try:
            self._place.checkpoint(self._writer, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError):
            pass  # whoever uses it closes later
        finally:
            self._writer.set_busy_timeout(int(self.deadline * 1000))

    # ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────

    def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the board, while others use it, to a file that does not exist yet."""
        from .health import backup

        self._check_open()
        try:
            backup(self._connect(), target, progress)
        except apsw.Error as exc:
            raise unavailable(exc, target) from exc
        except FileExistsError:
            raise Refused(f"backup {target}: exists already, and a backup never overwrites") from None
        except OSError as exc:
            raise Unavailable(f"backup {target}: {exc.strerror or exc}") from exc

    def probe(self) -> None:
        """Look for damage in the file, for a moment at most; raises `Unavailable`."""
        from .health import probe

        self._check_open()
        try:
            probe(self._connect(), self.path)
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc

    def diagnose(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
        """What the engine knows about its health; mends permissions and a large WAL when asked to."""
        from .health import diagnose, repair_permissions

        self._check_open()
        if repair:
            repair_permissions(self.path)
            with self._writing, self._gate:
                self._shorten_wal()
        return [*diagnose(self.path, self._connect, self._gate, self._now), *self._refusals.findings()]

    @property
    def refusals_dropped(self) -> int:
        """How many refusals of this process will never be in the log."""
        return self._refusals.dropped

    def close(self) -> None:
        """Close the connections; refusals that nobody carried yet are left beside the board."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        with self._writing, self._reading, self._checkpointing:
            try:
                self._refusals.spill()
                if self._pages > CHECKPOINT_PAGES_AT_CLOSE or wal_size(self.path) > KEPT_WAL:
                    self._shorten_wal()
            except (OSError, apsw.Error, Unavailable):
                pass  # what is lost here is an audit line or a checkpoint, never a commit
            self._writer.close()
            for reader in self._readers:
                with reader.lock:
                    reader.connection.close()
            for watch in [*self._watches, *self._waiting]:
                watch.close()  # whoever waits wakes up and finds the board closed
            self._gate.close()


_ENVIRONMENT = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.NoMemError,
    apsw.ReadOnlyError,
)
_REASONS: tuple[tuple[type[Exception], str, str], ...] = (
    (apsw.FullError, "the disk is full", "free some space; nothing was written"),
    (apsw.ReadOnlyError, "read-only", "check the permissions of the file and of its folder"),
    (apsw.CantOpenError, "cannot be opened", "check that the folder exists and can be written to"),
    (apsw.NotADBError, "not a tiebreak board (not a SQLite database)", "is the path right?"),
    (apsw.CorruptError, "the database is damaged", "`tb doctor` tells what is left; restore a backup"),
    (apsw.BusyError, "busy for too long", "another program holds a lock on the file"),
    (apsw.IOError, "the disk reports an error", "`tb doctor` tells more; nothing was written"),
    (apsw.InterruptError, f"a read took longer than {READ_DEADLINE:g} s and was ended", "ask for less at a time"),
    (apsw.PermissionsError, "permission denied", "check the permissions of the file"),
)


def unavailable(exc: apsw.Error, path: str) -> Unavailable:
    """What SQLite says, as an error that a person can act on."""
    for kind, message, hint in _REASONS:
        if isinstance(exc, kind):
            return Unavailable(f"board {path}: {message}", hint=hint, sqlite=str(exc))
    if str(exc).endswith("please_upgrade_tiebreak"):  # a trigger of a newer schema than ours, see `schema`
        message = f"board {path}: was upgraded by a newer tiebreak while this process had it open"
        return Unavailable(message, hint="upgrade tiebreak on this machine", sqlite=str(exc))
    if str(exc).startswith("no such table"):
        from ..move.moving import closed_file

        return closed_file(path) or Unavailable(f"board {path}: {exc}")
    return Unavailable(f"board {path}: {exc}")
