"""The board in one SQLite file, used by many processes at once.

Who is authoritative: SQLite's write lock. `BEGIN IMMEDIATE` takes it before an operation reads anything, so
an operation sees the newest state and nobody changes it underneath. The gate (see `write_gate`) only makes the
waiting fair; a process that ignored it would be slower, not wrong.

Durability: WAL with `synchronous=FULL`. With NORMAL a power loss takes back commits that were acknowledged,
and a commit taken back is an epoch issued twice.

The log is copied into the file outside the path of requests: see `wal_checkpoint`.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from time import monotonic

import apsw

from ...errors import Refused, TiebreakError, Unavailable, as_answer
from ...operations import perform
from .. import fork_safety
from ..protocol import follow
from ..refusals import Refusals
from .board_files import BoardFiles
from .file_facts import NEWEST
from .opening import board_clock, connect, create, prepare
from .readers import FOREVER, Reader, ReaderPool
from .sqlite_errors import ENVIRONMENT, READ_DEADLINE, unavailable
from .transaction import SqliteTransaction, lower
from .wal_checkpoint import WalCheckpoints
from .write_gate import WriteGate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from ...model import Event
    from ...operations import Operation
    from ..protocol import Call

    T = TypeVar("T")

DEADLINE = 30.0
LOOK_AGAIN = 0.005
"""Seconds after which a process looks again whether the board is still in its place."""
FLOOR = 1.0
"""A waiter looks again after this many seconds even if nothing woke it."""

SHORT = 0.002
"""Below this, sleeping is more exact than listening."""


class _NotCarried(Exception):
    """Refusals could not be written down: the write is done again without them."""


class SqliteEngine:
    """Runs operations on a SQLite file. Threads may share it; a forked child gets connections of its own."""

    def __init__(self, path: str, *, clock: Callable[[], int] | None = None, deadline: float = DEADLINE) -> None:
        self.path: str = os.path.realpath(path)
        self.address = self.whole = self.path
        self.writers = 1
        self.deadline = deadline
        self._given_clock = clock
        self._orphans: list[Any] = []
        self.reopen_lock = allocate_lock()
        """Held while connections are made anew after a fork."""
        self._begin()
        fork_safety.register(self)

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
        self._writing = allocate_lock()
        self._readers = ReaderPool(self._connect)
        self._watches: list[Any] = []
        self._waiting: list[Any] = []
        self._looked = 0.0
        self._gate = WriteGate(self.path + "-gate", self.deadline)
        self._files = BoardFiles(self.path, self._gate)
        self._files.refuse_lost_file()
        create(self.path)
        self._refusals = Refusals(self.path + "-refused")
        try:
            self._writer = self._files.open(self._connect)
            prepare(self._writer, self._gate, self.path)
            self._now = self._given_clock or board_clock(self._writer, self._gate)
        except BaseException:
            self._gate.close()
            raise
        self._log = WalCheckpoints(self._files, self._writer, self._connect, self._in_use, self._busy_timeout)
        self._tx = SqliteTransaction(self._writer, self._refusals)
        self._reading_writer = Reader(self._writer)
        self._pid = os.getpid()  # last: whoever sees it may use all of the above

    @property
    def _busy_timeout(self) -> int:
        """Milliseconds that SQLite waits for a program that ignores the gate."""
        return int(self.deadline * 1000)

    def _in_use(self) -> bool:
        """Whether the engine is open, in the process that opened it."""
        return not self._closed and self._pid == os.getpid()

    def _connect(self) -> apsw.Connection:
        connection = connect(self.path, self.deadline)
        connection.create_scalar_function("unicode_lower", lower, 1, deterministic=True)
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
        if not self._readers.readers:
            self._readers.take().lock.release()  # from now on no read keeps this from writing
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
            self._writer.set_busy_timeout(self._busy_timeout)
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
        except ENVIRONMENT:
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
            self._refusals.put_back()
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
                self._files.committed(newest)
            if carried:
                self._refusals.committed()
            self._log.after_commit()
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
                if isinstance(exc, ENVIRONMENT):
                    self._refusals.put_back()  # a full disk may have room for them later
                else:
                    self._refusals.drop()
                raise _NotCarried from exc
        return True

    def _read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Run on the writer's connection while nobody writes with it, else on one for reading."""
        self._check_open()
        try:
            if not self._readers.readers and self._writing.acquire(blocking=False):
                try:
                    return self._snapshot(self._reading_writer, work)
                finally:
                    self._writing.release()
            reader = self._readers.take()
            try:
                if self._closed:
                    raise Unavailable(f"board {self.path}: is closed here")
                return self._snapshot(reader, work)
            finally:
                reader.lock.release()
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc

    def _snapshot(self, reader: Reader, work: Callable[[SqliteTransaction], T]) -> T:
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
            self._files.check(connection)
            self._looked = now

    # ── Forks (see `fork_safety`) ────────────────────────────────────────────────────────────────────

    def locks(self) -> list[LockType]:
        """All that must be held for the engine to stand still."""
        if self._closed:
            return []
        return [self.reopen_lock, self._writing, *self._readers.locks(), self._log.running]

    def abandon_gate(self) -> None:
        """In a forked child: let go of the parent's place at the gate."""
        if not self._closed:
            self._gate.abandon()

    def _after_fork(self) -> None:
        with self.reopen_lock:
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

    # ── The log ──────────────────────────────────────────────────────────────────────────────────────

    def tend(self) -> list[str]:
        """For a process that lives long, now and then: shorten a large log; who keeps it from that."""
        return self._log.tend()

    # ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────

    def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the board, while others use it, to a file that does not exist yet."""
        from .backup import backup

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
                self._log.empty()
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
        with self._writing, self._log.running:
            try:
                self._refusals.save_to_file()
                self._log.before_close()
            except (OSError, apsw.Error, Unavailable):
                pass  # what is lost here is an audit line or a checkpoint, never a commit
            self._writer.close()
            self._readers.close()
            for watch in [*self._watches, *self._waiting]:
                watch.close()  # whoever waits wakes up and finds the board closed
            self._gate.close()
