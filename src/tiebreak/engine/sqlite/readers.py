"""A pool of connections for reading, so that a read never waits for a write of the same process."""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterator

    import apsw

MOST_READERS = 8
FOREVER = float("inf")
STEPS = 100_000
"""A read compares the time with its deadline after this many steps of SQLite's virtual machine: a few milliseconds."""


class Reader:
    """A connection for one thread at a time; a read on it is interrupted at the deadline `end`."""

    __slots__ = ("connection", "end", "lock")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.lock = allocate_lock()
        self.end = FOREVER
        connection.set_progress_handler(lambda: monotonic() > self.end, STEPS)


class ReaderPool:
    """The readers of one engine; each is made when it is first needed."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._growing = allocate_lock()
        self.readers: list[Reader] = []

    def take(self) -> Reader:
        """A reader with its lock held by the caller; waits for one if all are in use."""
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

    def locks(self) -> Iterator[LockType]:
        """All locks that together keep every thread from reading, to be taken one by one as they come."""
        yield self._growing
        yield from [reader.lock for reader in self.readers]  # from here on no reader is added

    def close(self) -> None:
        """Close all readers, each after its current read."""
        with self._growing:
            for reader in self.readers:
                with reader.lock:
                    reader.connection.close()
