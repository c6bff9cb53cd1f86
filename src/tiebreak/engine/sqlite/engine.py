"""The board in one SQLite file, used by many processes at once.

SQLite's write lock is authoritative. `BEGIN IMMEDIATE` takes it before an operation reads anything. So the operation
sees the newest state, and no other process can change that state before the operation commits. The gate (see
`write_gate`) only makes the waiting fair: a process that ignores it gets slower answers, not wrong ones.

Commits are durable because of WAL mode with `synchronous=FULL`. With NORMAL, a power loss could undo an acknowledged
commit, and the same epoch could be granted twice.

Requests do not wait for checkpoints: see `wal_checkpoint`.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from time import monotonic

import apsw

from ...errors import Refused, TiebreakError, Unavailable, as_answer
from ...limits import DEADLINE, READ_DEADLINE
from ...operations import perform, run_precheck
from .. import fork_safety
from ..refusals import Refusals
from .board_files import BoardFiles
from .file_facts import NEWEST
from .opening import board_clock, connect, create, prepare
from .readers import FOREVER, Reader, ReaderPool
from .sqlite_errors import ENVIRONMENT, unavailable
from .transaction import SqliteTransaction, lower
from .wal_checkpoint import WalCheckpoints
from .write_gate import WriteGate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from ...operations import Call, Operation

    T = TypeVar("T")

LOOK_AGAIN = 0.005
"""Seconds for which a check of the board's files is valid."""
LOOK_EVERY = 1.0
"""Seconds after which a waiter looks again, even if nothing woke it."""
SHORT = 0.002
"""Below this many seconds, sleeping is more exact than waiting for a notification."""


class _RefusalsRejected(Exception):
    """The database did not accept the refusals: the write is repeated without them."""


class SqliteEngine:
    """Runs operations on a SQLite file. Threads may share it; a forked child gets connections of its own."""

    def __init__(self, path: str, *, clock: Callable[[], int] | None = None, deadline: float = DEADLINE) -> None:
        self.path: str = os.path.realpath(path)
        self.address = self.full_address = self.path
        self.writers = 1
        self.shared = False
        self.follow = None
        self.deadline = deadline
        self._given_clock = clock
        self._inherited: list[Any] = []
        """In a forked child, the parent's connections: kept, so that they are never closed, and never used."""
        self.reopen_lock = allocate_lock()
        """Held while a forked child opens new connections."""
        self._open()
        fork_safety.register(self)

    def _open(self) -> None:
        try:
            self._open_connections()
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc
        except OSError as exc:
            raise Unavailable(f"board {self.path}: {exc.strerror or exc}") from exc

    def _open_connections(self) -> None:
        self._closed = False
        self.deferred_work: set[str] = set()
        self._writing = allocate_lock()
        self._readers = ReaderPool(self._connect)
        self._idle_watches: list[Any] = []
        self._used_watches: list[Any] = []
        self._checked_at = 0.0
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
        self._checkpoints = WalCheckpoints(self._files, self._writer, self._connect, self._is_open, self._busy_timeout)
        self._tx = SqliteTransaction(self._writer, self._refusals)
        self._writer_as_reader = Reader(self._writer)
        self._pid = os.getpid()  # last: a thread that sees it may use all of the above

    @property
    def _busy_timeout(self) -> int:
        """Milliseconds that SQLite waits for a program that ignores the gate."""
        return int(self.deadline * 1000)

    def _is_open(self) -> bool:
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
            return self._read(lambda tx: perform(tx, operation, params))
        precheck = run_precheck if operation.precheck is not None and once is None else None
        answer = self._write(perform, operation, params, once, precheck=precheck)
        if isinstance(answer, Refused):
            raise answer
        return answer

    def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Run several calls in one transaction, each in a savepoint; an error undoes that call alone."""
        return self._write(self._run_calls, calls)

    def _run_calls(self, tx: SqliteTransaction, calls: Sequence[Call]) -> list[Any]:
        return [self._run_in_savepoint(tx, *call) for call in calls]

    def batch_at_once(self, calls: Sequence[Call]) -> list[Any] | None:
        """Like `batch`, for callers that must not block; None, and nothing done, if it would have to wait."""
        self._check_open()
        if not self._readers.readers:
            self._readers.take().lock.release()  # from now on reads have connections of their own
        if not self._writing.acquire(blocking=False):
            return None
        try:
            if not self._gate.enter_at_once():
                return None
            self._writer.set_busy_timeout(0)
            return self._transact(self._run_calls, calls)
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

    def _run_in_savepoint(
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
            raise  # a full disk, a damaged page: nothing else in this transaction can be trusted either
        except Exception as exc:
            execute("ROLLBACK TO one")
            tx.undone += self._writer.total_changes() - before
            answer = unavailable(exc, self.path) if isinstance(exc, apsw.Error) else as_answer(exc)
        execute("RELEASE one")
        return answer

    def _write(
        self,
        work: Callable[..., T],
        *args: Any,
        precheck: Callable[..., None] | None = None,
    ) -> T:
        """Run `work(tx, *args)` in a write transaction.

        `precheck` is a read that may already refuse, so that a loser does not queue at the gate.
        """
        self._check_open()
        if not self._writing.acquire(timeout=self.deadline):
            raise Unavailable(f"busy: held by another thread of pid {self._pid}; gave up after {self.deadline:g} s")
        try:
            if precheck is not None:
                self._check_files(self._writer)
                self._tx.now = self._now()
                precheck(self._tx, *args)  # it needs no transaction: its first statement decides
            try:
                self._gate.enter()
                return self._transact(work, *args)
            finally:
                self._gate.leave()
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc
        except OSError as exc:
            raise Unavailable(f"board {self.path}: {exc.strerror or exc}") from exc
        finally:
            self._writing.release()

    def let_others_pass(self) -> None:
        """Return when the processes that wait for the write lock now have had it."""
        self._check_open()
        try:
            self._gate.let_waiters_pass()
        except OSError:
            pass  # another thread has closed the board

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"board {self.path}: is closed here")
        if self._pid != os.getpid():
            self._after_fork()

    def _transact(self, work: Callable[..., T], *args: Any, with_refusals: bool = True) -> T:
        writer = self._writer
        self._check_files(writer)
        writer.execute("BEGIN IMMEDIATE")
        try:
            tx = self._tx
            tx.now = self._now()
            tx.shared = self.shared
            before = writer.total_changes()
            tx.undone = 0
            tx.deferred_work.clear()
            answer = work(tx, *args)
            changed = writer.total_changes() - before > tx.undone
            refusals_written = changed and with_refusals and self._write_refusals(tx)
            newest = tx.all(NEWEST)[0][0] if changed else 0
            writer.execute("COMMIT" if changed else "ROLLBACK")
        except BaseException as exc:
            self._refusals.put_back()
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            if isinstance(exc, _RefusalsRejected):
                return self._transact(work, *args, with_refusals=False)
            raise
        if tx.deferred_work:
            self.deferred_work |= tx.deferred_work
        if changed:
            self._checked_at = 0.0
            self._check_files(writer)  # a commit to a WAL that no other process uses must not be acknowledged
        try:
            if changed:
                self._files.committed(newest)
            if refusals_written:
                self._refusals.committed()
            self._checkpoints.after_commit()
        except (OSError, RuntimeError, apsw.Error, Unavailable):
            pass  # the change is committed; the next commit tries again what failed here
        return answer

    def _write_refusals(self, tx: SqliteTransaction) -> bool:
        """Add earlier refusals to the log; raises `_RefusalsRejected` if the database does not accept them."""
        if rows := self._refusals.collect():
            from ...operations.events import append_refusals

            try:
                append_refusals(tx, rows)
            except (apsw.Error, ValueError, OverflowError) as exc:
                if isinstance(exc, ENVIRONMENT):
                    self._refusals.put_back()  # there may be room on the disk later
                else:
                    self._refusals.drop()
                raise _RefusalsRejected from exc
        return True

    def _read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Run on the writer's connection if it is free and there is no reader yet, otherwise on a reader."""
        self._check_open()
        try:
            if not self._readers.readers and self._writing.acquire(blocking=False):
                try:
                    return self._read_on(self._writer_as_reader, work)
                finally:
                    self._writing.release()
            reader = self._readers.take()
            try:
                if self._closed:
                    raise Unavailable(f"board {self.path}: is closed here")
                return self._read_on(reader, work)
            finally:
                reader.lock.release()
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc

    def _read_on(self, reader: Reader, work: Callable[[SqliteTransaction], T]) -> T:
        connection = reader.connection
        self._check_files(connection)
        tx = SqliteTransaction(connection, self._refusals, shared=self.shared)
        tx.now = self._now()
        reader.end = monotonic() + READ_DEADLINE  # during a read SQLite cannot reset the WAL
        connection.execute("BEGIN")  # all statements of the operation see one snapshot
        try:
            return work(tx)
        finally:
            reader.end = FOREVER
            connection.execute("ROLLBACK")

    def _check_files(self, connection: apsw.Connection) -> None:
        """Check the board's files, unless a thread of this process has just done so."""
        now = monotonic()
        if now > self._checked_at + LOOK_AGAIN:
            self._files.check(connection)
            self._checked_at = now

    # ── Forks (see `fork_safety`) ────────────────────────────────────────────────────────────────────

    def locks(self) -> Iterator[LockType]:
        """All locks that together keep every thread out of the engine, to be taken one by one as they come."""
        if not self._closed:
            yield self.reopen_lock
            yield self._writing
            yield from self._readers.locks()
            yield self._checkpoints.running

    def abandon_gate(self) -> None:
        """In a forked child: close the inherited descriptors of the gate."""
        if not self._closed:
            self._gate.abandon()

    def _after_fork(self) -> None:
        with self.reopen_lock:
            if self._pid != os.getpid():
                self._inherited.append((self._writer, self._readers, self._gate, self._idle_watches))
                self._open()

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────────────

    def wait(self, after: int, timeout: float, **_: Any) -> bool:
        """Sleep until there is an event after this number; False when the time is up.

        The watch exists before the first look, so a commit in between is not missed. A notification can come before
        its commit is visible, so a short series of looks follows each one.
        """
        from time import sleep

        from .file_watch import Watch, recheck_delays

        end = monotonic() + timeout
        self._check_open()
        watch = self._idle_watches.pop() if self._idle_watches else Watch(self.path)
        self._used_watches.append(watch)
        try:
            watch.drain()
            delays = recheck_delays()  # for a commit that was notified before the watch existed
            while not self._newest() > after:
                remaining = end - monotonic()
                if remaining <= 0:
                    return False
                delay = min(remaining, next(delays, LOOK_EVERY))
                if delay < SHORT:
                    sleep(delay)
                elif watch.wait(delay):
                    delays = recheck_delays()
            return True
        finally:
            self._used_watches.remove(watch)
            if self._closed:
                watch.close()
            else:
                self._idle_watches.append(watch)  # making one costs milliseconds; each is for one waiter at a time

    def _newest(self) -> int:
        return int(self._read(lambda tx: tx.all(NEWEST))[0][0])

    # ── The WAL ──────────────────────────────────────────────────────────────────────────────────────

    def shorten_log(self) -> list[str]:
        """Shorten the WAL if it is large; returns the processes that prevent it."""
        return self._checkpoints.shorten()

    # ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────

    def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the board to a new file, while others use it."""
        from .backup import backup

        self._check_open()
        try:
            backup(self._connect(), target, progress)
        except apsw.Error as exc:
            raise unavailable(exc, target) from exc
        except FileExistsError:
            raise Refused(f"backup {target}: exists already, and a backup never overwrites") from None
        except OSError as exc:
            raise Unavailable(f"backup {target}: {exc.strerror or exc}", reason="backup-failed") from exc

    def probe(self) -> None:
        """Check the file for damage, for a fraction of a second; raises `Unavailable` if there is any."""
        from .health import probe

        self._check_open()
        try:
            probe(self._connect(), self.path)
        except apsw.Error as exc:
            raise unavailable(exc, self.path) from exc

    def diagnose(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
        """The findings of `tb doctor` about the file; `repair` corrects permissions and empties the WAL first."""
        from .health import diagnose, repair_permissions

        self._check_open()
        if repair:
            repair_permissions(self.path)
            with self._writing, self._gate:
                self._checkpoints.empty()
        return [*diagnose(self.path, self._connect, self._gate, self._now), *self._refusals.findings()]

    @property
    def refusals_dropped(self) -> int:
        """How many refusals of this process will never be in the log."""
        return self._refusals.dropped

    def close(self) -> None:
        """Close the connections; refusals that are not in the log yet are left in the side file."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        with self._writing, self._checkpoints.running:
            try:
                self._refusals.save_to_file()
                self._checkpoints.before_close()
            except (OSError, apsw.Error, Unavailable):
                pass  # what is lost here is an audit line or a checkpoint, never a commit
            self._writer.close()
            self._readers.close()
            for watch in [*self._idle_watches, *self._used_watches]:
                watch.close()  # a waiter wakes up and finds the board closed
            self._gate.close()
