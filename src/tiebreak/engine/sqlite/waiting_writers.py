"""Which writers wait at the write gate, so that a process with many writes can let them pass.

The kernel wakes the first waiter when `flock` becomes free, but it does not give the lock to it. A process that leaves
the gate and enters it again at once is faster than a waiter that has no CPU yet: on a busy machine it did so twenty
times in a row. That is no harm between single writes. But work that was split into steps for the sake of other writers
has to know whether they have had their turn.

So a waiter locks one byte of the gate's file, far behind its end, until it is inside: the byte at the time of its
arrival. "All who wait now" are those with a byte up to the present time. Who arrives later has a later byte, so nobody
can keep the caller out. The kernel unlocks the byte of a process that dies.

The locks are those of open file descriptions, which only Linux has in a known form. Elsewhere nobody is known to wait.
They decide nothing: an error here only means that nobody is let pass.
"""

from __future__ import annotations

import fcntl
import sys
from time import monotonic, monotonic_ns, sleep

PATIENCE = 0.5
"""Seconds that waiters get. One of them may be stopped, and would keep the caller from its work for ever."""
LOOK_AGAIN = 0.0005
_KNOWN = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
_LAYOUT = "hhqqi"
"""`struct flock`: type, whence, start, length, pid."""


def wait_here(fd: int) -> None:
    """Say that the owner of this descriptor waits from now on."""
    _set(fd, fcntl.F_WRLCK, monotonic_ns(), 1)


def wait_no_longer(fd: int) -> None:
    """Say that it is inside, or that it has given up."""
    _set(fd, fcntl.F_UNLCK, 0, 0)


def let_pass(fd: int) -> None:
    """Return when all who wait now are inside, have given up or have died; after `PATIENCE` at the latest."""
    now, end = monotonic_ns(), monotonic() + PATIENCE
    while _anybody(fd, now) and monotonic() < end:
        sleep(LOOK_AGAIN)


def _set(fd: int, kind: int, start: int, length: int) -> None:
    if not _KNOWN:
        return
    from struct import pack

    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, pack(_LAYOUT, kind, 0, start, length, 0))
    except OSError:
        pass  # two arrived at the same nanosecond, or this file system has no such locks


def _anybody(fd: int, until: int) -> bool:
    if not _KNOWN:
        return False
    from struct import calcsize, pack, unpack

    try:
        found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, pack(_LAYOUT, fcntl.F_WRLCK, 0, 0, until + 1, 0))
    except OSError:
        return False
    return bool(unpack(_LAYOUT, found[: calcsize(_LAYOUT)])[0] != fcntl.F_UNLCK)
