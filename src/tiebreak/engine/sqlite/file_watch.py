"""Waiting for another process to write to a SQLite board, without a daemon and without burning CPU.

SQLite has no notifications, but every commit appends to the `-wal` file, and the kernel can notify a
process of that: inotify on Linux, kqueue on macOS. Three facts shape this module.

* A notification is a hint. It may come before the commit is visible (the writer still has to sync
  and publish it), and it comes for checkpoints too. So the caller looks at the board. If it sees
  nothing new, it looks again after each of `recheck_delays()` before it waits again.
* Nothing is missed from the moment a `Watch` exists. So callers make the watch, look at the board,
  and then wait. Another program may delete the `-wal` when it closes the database, and SQLite then makes
  a new one. The watch notices that in the directory, and watches the new file before it reports the change.
* Closing any descriptor of the database or of its `-shm` drops all POSIX locks that this process has
  on it. So neither is ever opened here: inotify and `stat` take a path, and kqueue, which needs a
  descriptor, gets only the `-wal` (which SQLite never locks) and the directory.

If notifications are unavailable, used up, or do not come, `stat` at a growing interval replaces
them. Even where they work, one `stat` a second guards against a file system that sends none.
"""

from __future__ import annotations

import _thread
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_STAT_EVERY = 1.0  # seconds between two calls of `stat` where notifications work
_FIRST, _LAST, _GROWTH = 0.005, 0.25, 1.5  # pauses when polling: the first, the longest, the factor between two
_GRACE = 0.01  # seconds by which a notification may come later than the change is visible to `stat`
_MISSED_LIMIT = 2  # after this many changes without a notification, poll
# File times advance by kernel ticks (up to 10 ms), so a second write within one tick does not change them.
_TIMESTAMP_GRAIN = 0.05

_IN_MODIFY, _IN_MOVED_TO, _IN_CREATE, _IN_DELETE = 0x2, 0x80, 0x100, 0x200
_IN_DELETE_SELF, _IN_MOVE_SELF, _IN_Q_OVERFLOW = 0x400, 0x800, 0x4000
_IN_DIRECTORY = _IN_CREATE | _IN_MOVED_TO | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF
_BUFFER, _LARGEST_EVENT = 65536, 16 + 256


def recheck_delays() -> Iterator[float]:
    """Seconds to sleep before each look at the board after a wake-up: 0, 0.5 ms, 1 ms, 2 ms, … 128 ms.

    Together they are a quarter of a second. A commit is normally visible at the first or second look;
    the long delays are for a writer that waits for a slow disk between writing and publishing.
    """
    yield 0.0
    for step in range(9):
        yield 0.0005 * 2**step


class Watch:
    """Wakes when somebody writes to the SQLite database at `path`.

    One thread may wait while another closes the watch; two waiters need a watch each. Not for use across a
    fork: parent and child would take each other's notifications.
    """

    def __init__(self, path: str) -> None:
        # SQLite follows symbolic links before it names the -wal, so this has to do the same.
        path = os.path.realpath(path)
        self._lock = _thread.RLock()
        self._callers = 0
        self._closed = False
        self._awake, self._waker = os.pipe()
        self._source = _source(path)
        self._paths = self._source.paths if self._source else _watched_files(path)
        self._missed = 0
        self._pause = _FIRST
        self._recheck_at = 0.0
        self._remember(self._stat())

    def wait(self, timeout: float) -> bool:
        """Block until the board was written to (True), or until `timeout` seconds or `close()` (False).

        True is a hint to look, not a promise that something new is there.
        """
        if not self._enter():
            return False
        try:
            return self._wait_until(time.monotonic() + timeout)
        finally:
            self._leave()

    def fileno(self) -> int:
        """A descriptor that is readable when `drain()` has something to read; -1 when polling.

        A caller that selects on it should also look at the board from time to time: only `wait` can
        find out that the file system sends no notifications.
        """
        return -1 if self._closed or self._source is None or self._polling() else self._source.fd

    def drain(self) -> bool:
        """Read pending notifications without blocking; whether any of them concerned the board."""
        if not self._enter():
            return False
        try:
            return self._drain()
        finally:
            self._leave()

    def close(self) -> None:
        """Close all descriptors, and end a wait in another thread. Calling it twice is harmless."""
        with self._lock:
            if not self._closed:
                self._closed = True
                # The waiter's end of the pipe hangs up, which wakes it.
                os.close(self._waker)
            self._release_unused()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _enter(self) -> bool:
        with self._lock:
            self._callers += 1
        if self._closed:
            self._leave()
            return False
        return True

    def _leave(self) -> None:
        with self._lock:
            self._callers -= 1
            self._release_unused()

    def _release_unused(self) -> None:
        # A descriptor closed under a waiter could be reused by another file while it still polls it.
        if self._closed and not self._callers and self._awake >= 0:
            os.close(self._awake)
            self._awake = -1
            if self._source:
                self._source.close()

    def _wait_until(self, end: float) -> bool:
        timeout = 0.0
        while True:
            left = end - time.monotonic()
            if self._look(max(0.0, min(left, timeout))):
                return True
            if left <= 0 or self._closed:
                return False
            timeout = self._pause if self._polling() else _STAT_EVERY

    def _look(self, seconds: float) -> bool:
        notified = self._notified(seconds)
        if self._closed:
            return False
        return self._drain() if notified else self._changed_unnoticed()

    def _notified(self, seconds: float) -> bool:
        """Sleep until the source has something, the watch is closed, or the time is over."""
        poll = select.poll()
        poll.register(self._awake, select.POLLIN)
        if self._source is None:
            poll.poll(seconds * 1000)
            return False
        poll.register(self._source.fd, select.POLLIN)
        return any(fd == self._source.fd for fd, _ in poll.poll(seconds * 1000))

    def _drain(self) -> bool:
        if self._source is None:
            return self._changed_unnoticed()
        try:
            changed = self._source.drain()
        except OSError:
            # The new file could not be watched (no watches left, directory gone): rely on stat.
            self._missed, changed = _MISSED_LIMIT, True
        if changed:
            self._remember(self._stat())
        return changed

    def _changed_unnoticed(self) -> bool:
        """Whether `stat` shows a change of which no notification came."""
        now = self._stat()
        if now != self._seen:
            self._remember(now)
            self._count_missed()
            return True
        if self._polling() and time.monotonic() >= self._recheck_at:
            self._recheck_at = float("inf")
            return True
        self._pause = min(self._pause * _GROWTH, _LAST)
        return False

    def _count_missed(self) -> None:
        """Count a change without a notification, unless the notification comes in the next moment."""
        if self._source and not (self._notified(_GRACE) and self._drain()):
            self._missed += 1

    def _polling(self) -> bool:
        return self._source is None or self._missed >= _MISSED_LIMIT

    def _remember(self, seen: list[tuple[int, int, int]]) -> None:
        self._seen = seen
        self._pause = _FIRST
        # When polling, look once more after the next kernel tick: see _TIMESTAMP_GRAIN.
        self._recheck_at = time.monotonic() + _TIMESTAMP_GRAIN

    def _stat(self) -> list[tuple[int, int, int]]:
        return [_signature(path) for path in self._paths]


class _Inotify:
    """Linux. Watches both files for writes, and their directory for files that are created or removed."""

    def __init__(self, path: str) -> None:
        import ctypes

        self._ctypes = ctypes
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.paths = _watched_files(path)
        self._directory = os.path.dirname(path)
        self._names = {os.fsencode(os.path.basename(each)) for each in self.paths}
        self._watches: dict[str, int] = {}
        self.fd = self._call(self._libc.inotify_init1, os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._arm()
        except OSError:
            self.close()
            raise

    def drain(self) -> bool:
        """Read pending notifications; watch replaced files again; whether any concerned the board."""
        changed = rearm = False
        for watch, mask, name in self._events():
            if self._concerns_file(watch, mask, name) or mask & _IN_Q_OVERFLOW:
                changed = rearm = True
            elif mask & _IN_MODIFY and watch in self._watches.values():
                changed = True
        if rearm:
            self._arm()
        return changed

    def close(self) -> None:
        """Closing the queue removes its watches."""
        os.close(self.fd)

    def _concerns_file(self, watch: int, mask: int, name: bytes) -> bool:
        return watch == self._watches[self._directory] and (not name or name in self._names)

    def _events(self) -> Iterator[tuple[int, int, bytes]]:
        from struct import unpack_from

        for data in self._reads():
            at = 0
            while at < len(data):
                watch, mask, _, length = unpack_from("iIII", data, at)
                at += 16 + length
                yield watch, mask, data[at - length : at].rstrip(b"\0")

    def _reads(self) -> Iterator[bytes]:
        full = _BUFFER
        while full > _BUFFER - _LARGEST_EVENT:
            try:
                data = os.read(self.fd, _BUFFER)
            except BlockingIOError:
                return
            full = len(data)
            yield data

    def _arm(self) -> None:
        # The directory comes first, so that a file that is created from now on is noticed.
        self._add(self._directory, _IN_DIRECTORY)
        for path in self.paths:
            try:
                self._add(path, _IN_MODIFY)
            except FileNotFoundError:
                self._forget(path)

    def _add(self, path: str, mask: int) -> None:
        watch = self._call(self._libc.inotify_add_watch, self.fd, os.fsencode(path), mask)
        if self._watches.get(path) != watch:
            self._forget(path)
            self._watches[path] = watch

    def _forget(self, path: str) -> None:
        watch = self._watches.pop(path, None)
        if watch is not None:
            # Fails when the kernel removed it together with the file; either way it is gone.
            self._libc.inotify_rm_watch(self.fd, watch)

    def _call(self, function: Callable[..., int], *arguments: Any) -> int:
        result = function(*arguments)
        if result < 0:
            code = self._ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result


class _Kqueue:
    """macOS and the BSDs. Has descriptors of the `-wal` and of the directory, and no others."""

    def __init__(self, path: str, api: Any = select) -> None:
        self._api = api
        self._wal = path + "-wal"
        self.paths = (self._wal,)
        self._files: dict[str, int] = {}
        self._queue = api.kqueue()
        self.fd: int = self._queue.fileno()
        try:
            self._follow(os.path.dirname(path))
            self._follow_wal()
        except OSError:
            self.close()
            raise

    def drain(self) -> bool:
        """Read pending notifications; follow a replaced `-wal`; whether any concerned the board."""
        wal = self._files.get(self._wal)
        changed = any(event.ident == wal for event in self._queue.control(None, 64, 0))
        return self._follow_wal() or changed

    def close(self) -> None:
        """Close the queue and both descriptors."""
        self._queue.close()
        for path in list(self._files):
            self._forget(path)

    def _follow_wal(self) -> bool:
        """Watch the file that has the name now; whether that is another one than before."""
        held = self._files.get(self._wal)
        before = None if held is None else os.fstat(held).st_ino
        try:
            if os.stat(self._wal).st_ino == before:
                return False
            self._follow(self._wal)
        except FileNotFoundError:
            self._forget(self._wal)
            return before is not None
        return True

    def _follow(self, path: str) -> None:
        file = os.open(path, getattr(os, "O_EVTONLY", os.O_RDONLY))
        self._forget(path)
        self._files[path] = file
        api = self._api
        notes = api.KQ_NOTE_WRITE | api.KQ_NOTE_EXTEND | api.KQ_NOTE_DELETE | api.KQ_NOTE_RENAME
        flags = api.KQ_EV_ADD | api.KQ_EV_CLEAR
        self._queue.control([api.kevent(file, api.KQ_FILTER_VNODE, flags, notes)], 0, 0)

    def _forget(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is not None:
            os.close(file)


def _source(path: str) -> _Inotify | _Kqueue | None:
    """The source of notifications on this machine; None if there is none, or no watch is left."""
    try:
        return _Kqueue(path) if hasattr(select, "kqueue") else _Inotify(path)
    except (OSError, ImportError, AttributeError):
        return None


def _watched_files(path: str) -> tuple[str, ...]:
    return path + "-wal", path


def _signature(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
