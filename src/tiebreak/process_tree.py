"""Trees of processes: everything that a command started, also what moved out of its group and session.

A process can leave its group and its session (`setsid`), but not its ancestry: when its parent dies it is given
to the nearest ancestor that asked for orphans, a *sub-reaper*. So a process that became one and looks below itself
finds all that its commands left behind. Where there are no sub-reapers (macOS) a process that detached from a dead
parent is found by its session only.

Signals go to a process by its identity, pid and start time together, so that none ever reaches a stranger who got
the number of a process that has ended.
"""

from __future__ import annotations

import os
import signal
import time

from .process_identity import Identity, identity, is_shortage, look, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .process_identity import Process

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
LOOK_AGAIN = 0.01
"""Seconds between two looks at processes that should be ending."""
PATIENCE = 30.0
"""Seconds after which what still lives is taken to be out of reach."""


# ── Finding ──────────────────────────────────────────────────────────────────────────────────────────


def descendants(*roots: int) -> list[Identity]:
    """The living processes below these, parents before their children; not the roots themselves."""
    seen = table()
    return identities(below(seen, roots))


def below(seen: dict[int, Process], roots: Iterable[int]) -> list[Process]:
    """What lives below some processes, by a table that was read before."""
    children: dict[int, list[Process]] = {}
    for process in seen.values():
        children.setdefault(process.parent, []).append(process)
    found, line = [], list(roots)
    known = set(line)
    for pid in line:  # grows while it is walked
        for child in children.get(pid, ()):
            if child.pid not in known:
                known.add(child.pid)
                line.append(child.pid)
                if not child.dead:
                    found.append(child)
    return found


def children() -> set[int]:
    """The children of this process, the adopted ones too: a glance that costs microseconds on Linux."""
    try:
        # The main thread's: orphans come to it, and what another thread started is that one's own business.
        with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as file:
            return {int(word) for word in file.read().split()}
    except OSError:  # not a Linux, or one that was built without it
        me = os.getpid()
        return {process.pid for process in table().values() if process.parent == me}


def identities(found: Iterable[Process]) -> list[Identity]:
    """Processes of a table, as they can be named later."""
    host, boot, _, _ = identity()
    return [Identity(host, boot, process.pid, process.started) for process in found]


def childless() -> bool:
    """Whether this process has no child at all, not even a dead one; this needs no descriptor."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


# ── Ending ───────────────────────────────────────────────────────────────────────────────────────────


def send(who: Identity, number: int) -> bool:
    """Send a signal to that very process; False if it is gone."""
    try:
        return _send_by_handle(who, number) if hasattr(os, "pidfd_open") else _send_by_number(who, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it is there, under another user


def _send_by_handle(who: Identity, number: int) -> bool:
    try:
        handle = os.pidfd_open(who.pid)
    except ProcessLookupError:
        return False
    except OSError:  # an old kernel, or no descriptor left
        return _send_by_number(who, number)
    try:
        # What the handle means cannot change any more, so a look now is a look at what is signalled.
        if not _is(who):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    finally:
        os.close(handle)


def _send_by_number(who: Identity, number: int) -> bool:
    if not _is(who):
        return False
    os.kill(who.pid, number)
    return True


def _is(who: Identity) -> bool:
    process = look(who.pid)
    return process is not None and process.started == who.started and not process.dead


def signal_tree(who: Iterable[Identity], number: int) -> None:
    """Send a signal to each of these processes that still lives."""
    for each in who:
        send(each, number)


def end(find: Callable[[], list[Identity]], grace: float = 0.0) -> bool:
    """End what `find` finds, gently first, and look again until it finds nothing: also what was born meanwhile.

    False if something cannot be killed: stuck in the kernel, or somebody else's; or if nobody could look.
    """
    if grace > 0:
        signal_tree(_found(find) or (), signal.SIGTERM)
        until = time.monotonic() + grace
        while _found(find) != [] and time.monotonic() < until:
            time.sleep(LOOK_AGAIN)
    until = time.monotonic() + PATIENCE
    while (found := _found(find)) != []:
        signal_tree(found or (), signal.SIGKILL)
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_AGAIN)
    return True


def end_descendants() -> bool:
    """End everything below this process, which is a sub-reaper; False as `end` says."""
    return end(lambda: [] if childless() else descendants(os.getpid()))


def _found(find: Callable[[], list[Identity]]) -> list[Identity] | None:
    """What is found; None when this process is too short of something to look."""
    try:
        return find()
    except OSError as exc:
        if not is_shortage(exc):
            raise
        return None


# ── Ties between parents and children ────────────────────────────────────────────────────────────────


def become_subreaper() -> bool:
    """Adopt what processes below this one leave behind; False where the system cannot do that."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int, parent: int) -> bool:
    """Get this signal when the parent dies, at once if it has died already; False where that cannot be arranged."""
    if not _prctl(_PR_SET_PDEATHSIG, number):
        return False
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
    return True


def _prctl(option: int, value: int) -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False
