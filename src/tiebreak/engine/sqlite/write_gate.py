"""The write gate: a fair queue of writers in front of SQLite's write lock.

SQLite itself waits for its write lock by sleeping and trying again. With dozens of writers, some never get the lock and
time out while others get it thousands of times. `flock` on a file beside the board makes the kernel queue the writers.
A process that enters again at once may be faster than the first in the queue; one that works in many steps lets those
who wait pass first (`let_waiters_pass`).
The gate decides nothing: SQLite's write lock does. The file is never removed, because a lock on a removed file protects
nothing.

A blocking `flock` has no time-out. So a caller that has to queue lets a thread wait for the lock, and waits for that
thread with a deadline. If the deadline passes, the thread releases the lock as soon as it gets it.

The file has three lines. The first names the process that entered the gate last, for messages. The other two are the
mark of the board (see `Mark` and `board_files`).
"""

from __future__ import annotations

import fcntl
import os
import time
from _thread import allocate_lock, start_new_thread

from ...errors import Unavailable
from ..side_files import opened
from .waiting_writers import let_pass, wait_here, wait_no_longer

MARK_AT = 64
"""The offset of the second line: token, `-wal`, `-shm` and the last event."""
LAST_EVENT_AT = 160
"""The offset of the last event, in the second line."""
FILE_STATE_AT = 181
"""The offset of the third line: the state of the database file. A mark of an older version has no such line."""
END = 224
_FILE_STATE = b"%20d %20d\n"


class Mark:
    """What the gate knows about the files of its board."""

    __slots__ = ("file_changed", "file_event", "last_event", "shm", "token", "wal")

    def __init__(self, words: list[str]) -> None:
        self.token = words[0]
        """The same random text as in the database, if they belong together."""
        self.wal, self.shm = int(words[1]), int(words[2])
        """The inode numbers of the `-wal` and the `-shm` that belong to the board."""
        self.last_event = int(words[3])
        """The number of the last event that was committed."""
        self.file_event = int(words[4])
        """The number of the last event that a checkpoint has copied into the database file; 0 if that is unknown."""
        self.file_changed = int(words[5])
        """The time of the last change of the database file (`st_ctime_ns`).

        0 while a checkpoint copies the WAL into it, and before the first checkpoint.
        """

    def same_file_state(self, other: Mark) -> bool:
        """Whether both know the same about the database file."""
        return (self.file_event, self.file_changed) == (other.file_event, other.file_changed)


class WriteGate:
    """A fair lock among processes, with a deadline. One thread of a process may enter it at a time."""

    def __init__(self, path: str, deadline: float) -> None:
        self.path = path
        self._board = path.removesuffix("-gate")
        self.deadline = deadline
        self._fd = -1
        self._held = -1

    # ── Entering and leaving ─────────────────────────────────────────────────────────────────────────

    def enter(self) -> None:
        """Lock the gate; raises `Unavailable`, which names the process inside, when the deadline passes."""
        if not self.enter_at_once():
            self._held = self._queue()
            self._write_entry()

    def enter_at_once(self) -> bool:
        """Lock the gate if it is free; False if it is not."""
        if self._fd < 0:
            self._fd = opened(self.path, os.O_RDWR | os.O_CREAT, self._board)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._held = self._fd
        self._write_entry()
        return True

    def _queue(self) -> int:
        turn = _QueuedLock(opened(self.path, os.O_RDWR, self._board))
        wait_here(turn.fd)
        start_new_thread(turn.acquire, ())
        if turn.wait(self.deadline):
            return turn.fd
        raise Unavailable(
            f"busy: held by {self.last_entry()}; gave up after {self.deadline:g} s",
            hint="if that process is stuck, end it and try again; nothing was written",
        )

    def leave(self) -> None:
        """Unlock the gate; does nothing if it is not locked here."""
        held, self._held = self._held, -1
        if held >= 0:
            fcntl.flock(held, fcntl.LOCK_UN)
        if held not in (-1, self._fd):
            os.close(held)

    def let_waiters_pass(self) -> None:
        """Between two writes: return when those who wait now have entered (see `waiting_writers`)."""
        if self._fd >= 0:
            let_pass(self._fd)

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def abandon(self) -> None:
        """In a forked child: close the inherited copies, which would keep the gate locked after the parent's death."""
        for fd in {self._fd, self._held} - {-1}:
            os.close(fd)
        self._fd = self._held = -1

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # ── The process that entered last ────────────────────────────────────────────────────────────────

    def _write_entry(self) -> None:
        try:
            os.pwrite(self._held, b"%20d %20d\n" % (os.getpid(), time.monotonic_ns()), 0)
        except OSError:
            pass  # it is only for messages

    def last_entry(self) -> str:
        """The process that entered the gate last, and how long ago: `pid N for N s`."""
        text = os.pread(self._fd, MARK_AT, 0).decode("utf-8", "replace") if self._fd >= 0 else ""
        pid, _, since = text.partition("\n")[0].strip().partition(" ")
        since = since.strip()
        if not pid.isdecimal() or not since.isdecimal():
            return "an unknown process"
        return f"pid {pid} for {(time.monotonic_ns() - int(since)) / 1e9:.1f} s"

    # ── The mark ─────────────────────────────────────────────────────────────────────────────────────

    def mark(self) -> Mark | None:
        """The mark; None if there is none yet, or if it is malformed."""
        try:
            fd = opened(self.path, os.O_RDONLY, self._board)
        except FileNotFoundError:
            return None
        try:
            words = os.pread(fd, END - MARK_AT, MARK_AT).decode("ascii", "replace").split()
        finally:
            os.close(fd)
        if len(words) == 4:
            words += ["0", "0"]
        return Mark(words) if len(words) == 6 and all(word.isdecimal() for word in words[1:]) else None

    def never_marked(self) -> bool:
        """Whether no process has ever written a mark here."""
        try:
            return os.lstat(self.path).st_size <= MARK_AT
        except FileNotFoundError:
            return True

    def set_mark(self, token: str, wal: int, shm: int) -> None:
        """Replace the mark, with 0 for the events and for the state of the file; only while the gate is locked."""
        files = f"{token} {wal} {shm}".encode().ljust(LAST_EVENT_AT - MARK_AT)
        os.pwrite(self._held, files + b"%20d\n" % 0 + _FILE_STATE % (0, 0), MARK_AT)

    def set_last_event(self, number: int) -> None:
        """Replace the number of the last event in the mark; only while the gate is locked."""
        os.pwrite(self._held, b"%20d" % number, LAST_EVENT_AT)

    def set_file_state(self, event: int, changed: int, *, durably: bool = False) -> None:
        """Replace the state of the database file in the mark: the last event in it, and when it was changed.

        The gate need not be locked: every state written here was true at some time, and the events in a file only
        increase.
        """
        fd = opened(self.path, os.O_RDWR, self._board)
        try:
            os.pwrite(fd, _FILE_STATE % (event, changed), FILE_STATE_AT)
            if durably:
                os.fsync(fd)
        finally:
            os.close(fd)


class _QueuedLock:
    """A place in the queue. It has a descriptor of its own, so that a time-out cannot unlock anybody else's lock."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._done = allocate_lock()
        self._done.acquire()
        self._guard = allocate_lock()
        self._acquired = self._abandoned = False

    def acquire(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        with self._guard:
            self._acquired = True
            wait_no_longer(self.fd)
            if self._abandoned:
                self._release()
        self._done.release()

    def wait(self, deadline: float) -> bool:
        try:
            if self._done.acquire(timeout=deadline):
                return True
        except BaseException:  # a signal handler raised, so the caller will not use the lock
            if not self._abandon():
                self._release()
            raise
        return not self._abandon()

    def _abandon(self) -> bool:
        with self._guard:
            self._abandoned = not self._acquired
            if self._abandoned:
                wait_no_longer(self.fd)
            return self._abandoned

    def _release(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)  # closing alone would leave the lock to a forked child's copy
        os.close(self.fd)
