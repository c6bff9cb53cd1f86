"""Connections for reading, so that a read never waits for a write of the same process."""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable

    import apsw

MOST_READERS = 8
FOREVER = float("inf")
STEPS = 100_000
"""After so many steps of SQLite's machine a read looks at its deadline: some milliseconds."""


class Reader:
    """A connection on which something is read until a deadline, by one thread at a time."""

    __slots__ = ("connection", "end", "lock")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.lock = allocate_lock()
        self.end = FOREVER
        connection.set_progress_handler(lambda: monotonic() > self.end, STEPS)


class ReaderPool:
    """The readers of one engine, made as they are needed."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._growing = allocate_lock()
        self.readers: list[Reader] = []

    def take(self) -> Reader:
        """A reader that nobody else uses, with its lock held; waits for one when all are in use."""
        with self._growing:
            for reader in self.readers:
                if reader.lock.acquire(blocking=False):
                    return reader
            if len(self.readers) < MOST_READERS:
                self.readers.append(reader := Reader(self._connect()))
                reader.lock.acquire()
                return reader
        reader = self.readers[get_ident() % MOST_READERS]
        reader.lock.acquire()
        return reader

    def locks(self) -> list[LockType]:
        """All that must be held for no read to be under way."""
        return [self._growing, *[reader.lock for reader in self.readers]]

    def close(self) -> None:
        """Close them all, each when its read has ended."""
        with self._growing:
            for reader in self.readers:
                with reader.lock:
                    reader.connection.close()
