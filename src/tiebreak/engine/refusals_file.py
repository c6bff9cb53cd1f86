"""The side file of refusals: a process that ends leaves its refusals here, and the next writer logs them.

Each line is one refusal with its count, the fields separated by tabs. Processes lock the file with `flock` to append to
it or to empty it. The file is only an audit trail, so nobody waits long: a process that ends appends after 0.2 seconds
without the lock, and a writer that does not get the lock leaves the file for the next one. A file that cannot be
opened, or that belongs to somebody else, is ignored.
"""

from __future__ import annotations

import os
from time import sleep

from ..errors import Unavailable
from ..files import try_lock
from ..limits import MAX_NUMBER
from .refusal_counts import MOST_BYTES, RefusalCounts, cut_to_fit
from .side_files import opened

LARGEST_FILE = 4 * MOST_BYTES
"""The most bytes of the file: no process appends beyond that, and nothing beyond that is read."""


def append(path: str, counts: RefusalCounts) -> bool:
    """Append these refusals to the file unless it is full; False if the file cannot be opened."""
    fd = _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if fd < 0:
        return False
    lines = ("\t".join([str(count), str(at), *map(str, key)]) for key, (count, at) in counts.entries.items())
    data = ("\n".join(lines) + "\n").encode()
    try:
        for _ in range(20):
            if try_lock(fd):
                break
            sleep(0.01)
        if os.fstat(fd).st_size + len(data) <= LARGEST_FILE:
            os.write(fd, data)
    finally:
        os.close(fd)
    return True


def open_locked(path: str) -> int:
    """Open and lock the file for `parse` and `close`; -1 if it cannot be opened or another process has locked it."""
    fd = _open(path, os.O_RDWR)
    try:
        if fd < 0 or try_lock(fd):
            return fd
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return -1


def read(path: str) -> RefusalCounts:
    """The refusals in the file; none if it cannot be opened."""
    fd = _open(path, os.O_RDONLY)
    if fd < 0:
        return RefusalCounts()
    try:
        return parse(fd)
    finally:
        os.close(fd)


def parse(fd: int) -> RefusalCounts:
    """The refusals in an open file, up to `LARGEST_FILE`; a malformed line is skipped."""
    found = RefusalCounts()
    try:
        text = os.pread(fd, LARGEST_FILE, 0).decode("utf-8", "replace")
    except OSError:
        return found
    for line in text.split("\n"):
        parts = line.split("\t", 10)
        if len(parts) == 10 and all(parts[i].isdecimal() and len(parts[i]) <= 18 for i in (0, 1, 8)):
            count, at, epoch = (min(int(parts[i]), MAX_NUMBER) for i in (0, 1, 8))
            found.add(cut_to_fit((*parts[2:8], epoch, parts[9])), count, at)  # type: ignore[arg-type]
    if os.fstat(fd).st_size > LARGEST_FILE:
        found.lost += 1  # at least
    return found


def close(fd: int, *, empty: bool) -> None:
    """Close a file that `open_locked` opened, and with it release the lock; empty the file first if asked to."""
    try:
        if empty:
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _open(path: str, flags: int) -> int:
    """A descriptor, or -1 if the file cannot be opened or is not ours: that must not stop a write."""
    try:
        return opened(path, flags, path.removesuffix("-refused"))
    except (OSError, Unavailable):
        return -1
