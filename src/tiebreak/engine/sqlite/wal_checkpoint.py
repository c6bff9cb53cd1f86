"""Checkpoints: copy the WAL (`-wal`) into the database file, without making requests wait.

SQLite appends commits to the WAL. It resets the WAL, that is, writes from its beginning again, once all of it has been
copied into the database file and nobody reads from it any more. Until then the WAL grows, and every new process has to
read it. SQLite's own checkpoints are off, because they run inside the commit that crosses a limit. Instead:

- After a commit that made the WAL long, a thread copies most of it while others write. They write little meanwhile,
  and the next commit copies that too, while the gate is locked.
- A WAL that has become very long is copied while the gate is locked, although everybody has to wait for it.
- If a reader prevents the reset, the WAL is shortened after the reader has stopped, even if nobody writes any more.
- A process empties a long WAL when it closes the board.

Nothing here affects what is committed: a checkpoint that fails is tried again later.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from time import monotonic

import apsw

from ...errors import Unavailable
from .opening import KEPT_WAL, wal_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .board_files import BoardFiles

CHECKPOINT_PAGES = 1000
CHECKPOINT_PAGES_AT_CLOSE = 64
CHECKPOINT_PAGES_AT_ANY_COST = 16_000
CHECKPOINT_AGAIN = 10.0
"""Seconds after which a checkpoint that a reader has prevented is tried again, however little was written."""
SHORTEN_AGAIN = 5.0
"""Seconds between two attempts to shorten a WAL that has become too large."""


class WalCheckpoints:
    """Keeps the WAL of one engine short."""

    def __init__(
        self,
        files: BoardFiles,
        writer: apsw.Connection,
        connect: Callable[[], apsw.Connection],
        is_open: Callable[[], bool],
        busy_timeout: int,
    ) -> None:
        self._files = files
        self._writer = writer
        self._connect = connect
        self._is_open = is_open
        """Whether the engine is still open, in the process that opened it."""
        self._busy_timeout = busy_timeout
        self.running = allocate_lock()
        """Held while a checkpoint runs on a connection of its own."""
        self.pages = 0
        """How many pages the WAL had after the last commit."""
        self._copy_at = CHECKPOINT_PAGES
        """The size of the WAL, in pages, that causes the next checkpoint."""
        self._copy_again = monotonic() + CHECKPOINT_AGAIN
        self._copied = False
        """Whether the thread has copied most of the WAL, so that the next commit can copy the rest."""
        self._shortening = False
        writer.set_wal_hook(self._note_size)

    def _note_size(self, _: apsw.Connection, __: str, pages: int) -> int:
        self.pages = pages
        return apsw.SQLITE_OK

    def after_commit(self) -> None:
        """After each commit, while the gate is locked: start a checkpoint, or finish one, if the WAL is long."""
        if self.pages < self._copy_at - CHECKPOINT_PAGES:
            self._copy_at = CHECKPOINT_PAGES  # SQLite has reset the WAL
        overdue = self.pages >= CHECKPOINT_PAGES and monotonic() > self._copy_again
        if self.pages < self._copy_at and self.pages <= CHECKPOINT_PAGES_AT_ANY_COST and not overdue:
            return
        self._copy_again = monotonic() + CHECKPOINT_AGAIN
        self._start_shortening()
        if self._copied or self.pages > CHECKPOINT_PAGES_AT_ANY_COST:
            self._checkpoint(self._writer)
            self._copied = False
            # A reader may prevent the reset: do not try again after every commit.
            self._copy_at = self.pages + CHECKPOINT_PAGES
        elif self.running.acquire(blocking=False):
            try:
                start_new_thread(self._copy, ())
            except RuntimeError:
                self.running.release()
                raise

    def _copy(self) -> None:
        """In a thread of its own: copy most of the WAL."""
        try:
            connection = self._connect()
            self._checkpoint(connection)
            self._checkpoint(connection)  # what was written meanwhile, so that little is left for the next commit
            connection.close()
            self._copied = True
        except (OSError, apsw.Error, Unavailable):
            pass  # the next commit asks again
        finally:
            self.running.release()

    def _checkpoint(self, connection: apsw.Connection) -> None:
        try:
            self._files.checkpoint(connection, apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            pass  # another process runs a checkpoint

    def _is_large(self) -> bool:
        return wal_size(self._files.path) > KEPT_WAL

    def _start_shortening(self) -> None:
        """If the WAL is large, start a thread that tries to shorten it, even if nothing is written any more."""
        if self._shortening or not self._is_large():
            return
        self._shortening = True
        try:
            start_new_thread(self._shorten_when_possible, ())
        except RuntimeError:
            self._shortening = False  # the next commit asks again

    def _shorten_when_possible(self) -> None:
        from time import sleep

        while self._is_open() and self._is_large():
            sleep(SHORTEN_AGAIN)
            self.shorten()
        self._shortening = False

    def shorten(self) -> list[str]:
        """Shorten the WAL if it is large; returns the processes that prevent it because they read from it."""
        with self.running:
            if not self._is_open() or not self._is_large():
                return []
            try:
                connection = self._connect()
            except apsw.Error:
                return []  # the next operation reports it
            try:
                return self._shorten_beside_writers(connection)
            finally:
                connection.close()

    def _shorten_beside_writers(self, connection: apsw.Connection) -> list[str]:
        try:
            self._checkpoint(connection)  # most of it, while others write
            connection.set_busy_timeout(0)
            self._files.checkpoint(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (OSError, Unavailable):
            pass  # the next operation reports it
        except apsw.Error:
            from .health import MOMENT, stuck_readers

            return stuck_readers(self._files.path, MOMENT)
        return []

    def empty(self) -> None:
        """Empty the WAL if nobody reads from it, because the next process would have to read all of it."""
        self._writer.set_busy_timeout(0)
        try:
            self._files.checkpoint(self._writer, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError):
            pass  # the process that reads from it closes the board later
        finally:
            self._writer.set_busy_timeout(self._busy_timeout)

    def before_close(self) -> None:
        """Empty a long WAL before this process ends."""
        if self.pages > CHECKPOINT_PAGES_AT_CLOSE or self._is_large():
            self.empty()
