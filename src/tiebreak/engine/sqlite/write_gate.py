"""The gate: writers queue here, in the kernel, before they reach for SQLite's write lock.

SQLite's own waiting is a back-off by sleeping: with dozens of writers some starve and give up while others
win thousands of times. `flock` on a side file makes them a queue. The file is never removed: a lock on an
unlinked file protects nobody.

A blocking `flock` knows no time-out, so a caller that has to queue lets a thread do it and waits for that
thread with a deadline. A waiter that gave up lets go of the lock as soon as it gets it.

The file has three lines. The first tells who went in last, for messages. The other two are the mark by which a board
knows its files (see `board_files`): which belong together, and what is known of the database file without its log.
"""

from __future__ import annotations

import fcntl
import os
import time
from _thread import allocate_lock, start_new_thread

from ...errors import Unavailable
from ..side_files import opened

MARK = 64
"""Where the second line begins."""
COUNT = 160
"""Where the number in the second line begins."""
FILE = 181
"""Where the third line begins; a mark of an older version has none."""
END = 224
_THIRD = b"%20d %20d\n"


class WriteGate:
    """A fair lock among processes, with a deadline. One thread at a time may use it."""

    def __init__(self, path: str, deadline: float) -> None:
        self.path = path
        self._board = path.removesuffix("-gate")
        self.deadline = deadline
        self._fd = -1
        self._held = -1

    def enter(self) -> None:
        """Wait for one's turn; raises `Unavailable` that names who is in there when the deadline passes."""
        if not self.enter_at_once():
            self._held = self._queue()
            self._sign()

    def enter_at_once(self) -> bool:
        """Go in if nobody is there."""
        if self._fd < 0:
            self._fd = opened(self.path, os.O_RDWR | os.O_CREAT, self._board)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._held = self._fd
        self._sign()
        return True

    def mark(self) -> list[str]:
        """The six words of the mark; none if there is no mark yet, or it makes no sense.

        They are what `set_mark`, `count` and `set_file` were given, in this order.
        """
        try:
            fd = opened(self.path, os.O_RDONLY, self._board)
        except FileNotFoundError:
            return []
        try:
            words = os.pread(fd, END - MARK, MARK).decode("ascii", "replace").split()
        finally:
            os.close(fd)
        if len(words) == 4:
            words += ["0", "0"]
        return words if len(words) == 6 and all(word.isdecimal() for word in words[1:]) else []

    def blank(self) -> bool:
        """Whether nobody ever wrote a mark here."""
        try:
            return os.lstat(self.path).st_size <= MARK
        except FileNotFoundError:
            return True

    def set_mark(self, token: str, wal: int, shm: int) -> None:
        """Replace the mark, with 0 for all that is counted; only from inside the gate."""
        files = f"{token} {wal} {shm}".encode().ljust(COUNT - MARK)
        os.pwrite(self._held, files + b"%20d\n" % 0 + _THIRD % (0, 0), MARK)

    def count(self, number: int) -> None:
        """Replace the last word of the mark by a number that only grows; only from inside the gate."""
        os.pwrite(self._held, b"%20d" % number, COUNT)

    def set_file(self, events: int, changed: int, *, durably: bool = False) -> None:
        """Replace what is known of the database file: the last event in it, and when it was changed.

        Also from outside the gate: whatever is written here was true of the file, and the file only moves on.
        """
        fd = opened(self.path, os.O_RDWR, self._board)
        try:
            os.pwrite(fd, _THIRD % (events, changed), FILE)
            if durably:
                os.fsync(fd)
        finally:
            os.close(fd)

    def _sign(self) -> None:
        try:
            os.pwrite(self._held, b"%20d %20d\n" % (os.getpid(), time.monotonic_ns()), 0)
        except OSError:
            pass  # a name for error messages, nothing more

    def leave(self) -> None:
        """Let the next one in; harmless for who is not in."""
        held, self._held = self._held, -1
        if held >= 0:
            fcntl.flock(held, fcntl.LOCK_UN)
        if held not in (-1, self._fd):
            os.close(held)

    def abandon(self) -> None:
        """In a forked child: close the copies, so that they do not keep the gate closed after the parent's death."""
        for fd in {self._fd, self._held} - {-1}:
            os.close(fd)
        self._fd = self._held = -1

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def _queue(self) -> int:
        turn = _Turn(opened(self.path, os.O_RDWR, self._board))
        start_new_thread(turn.take, ())
        if turn.wait(self.deadline):
            return turn.fd
        raise Unavailable(
            f"busy: held by {self.occupant()}; gave up after {self.deadline:g} s",
            hint="if that process is stuck, end it and try again; nothing was written",
        )

    def occupant(self) -> str:
        """Who is in the gate and for how long, as far as it can be known."""
        text = os.pread(self._fd, MARK, 0).decode("utf-8", "replace") if self._fd >= 0 else ""
        pid, _, since = text.partition("\n")[0].strip().partition(" ")
        since = since.strip()
        if not pid.isdecimal() or not since.isdecimal():
            return "an unknown process"
        return f"pid {pid} for {(time.monotonic_ns() - int(since)) / 1e9:.1f} s"

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _Turn:
    """A place in the queue, on a descriptor of its own so that giving up cannot unlock anybody else."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._done = allocate_lock()
        self._done.acquire()
        self._guard = allocate_lock()
        self._taken = self._abandoned = False

    def take(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        with self._guard:
            self._taken = True
            if self._abandoned:
                self._give_back()
        self._done.release()

    def wait(self, deadline: float) -> bool:
        try:
            if self._done.acquire(timeout=deadline):
                return True
        except BaseException:  # a signal's handler raised: nobody will use this turn
            if not self._abandon():
                self._give_back()
            raise
        return not self._abandon()

    def _abandon(self) -> bool:
        with self._guard:
            self._abandoned = not self._taken
            return self._abandoned

    def _give_back(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)  # closing alone would leave the lock to a forked child's copy
        os.close(self.fd)
