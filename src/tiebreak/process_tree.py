"""Process trees: find and end every process that a command started, even one that left its group and session.

A process can leave its group and its session (`setsid`), but not its ancestry. When its parent dies, the kernel makes
it a child of the nearest ancestor that is a *sub-reaper*. So a process that has become a sub-reaper finds all that its
commands left behind among its own descendants. On systems without sub-reapers (macOS), a process whose parent has died
is found only by its session.

Signals are sent by identity, that is, by pid and start time together. So a signal never reaches another process that
got the pid of one that has ended.
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
"""Seconds between two checks of processes that should be ending."""
PATIENCE = 30.0
"""Seconds after which a process that still lives counts as impossible to kill."""


# ── Finding ──────────────────────────────────────────────────────────────────────────────────────────


def descendants(*roots: int) -> list[Identity]:
    """The living descendants of these processes, parents before their children, without the roots."""
    seen = table()
    return identities(below(seen, roots))


def below(seen: dict[int, Process], roots: Iterable[int]) -> list[Process]:
    """The living descendants of these processes in a table that was read before."""
    children: dict[int, list[Process]] = {}
    for process in seen.values():
        children.setdefault(process.parent, []).append(process)
    found, queue = [], list(roots)
    known = set(queue)
    for pid in queue:  # grows while it is walked
        for child in children.get(pid, ()):
            if child.pid not in known:
                known.add(child.pid)
                queue.append(child.pid)
                if not child.dead:
                    found.append(child)
    return found


def children() -> set[int]:
    """The pids of this process's children, including adopted ones; takes microseconds on Linux."""
    try:
        # Only those of the main thread: orphans become its children, and other threads look after their own.
        with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as file:
            return {int(word) for word in file.read().split()}
    except OSError:  # not Linux, or a kernel without this file
        me = os.getpid()
        return {process.pid for process in table().values() if process.parent == me}


def identities(found: Iterable[Process]) -> list[Identity]:
    """The identities of processes in a table."""
    host, boot, _, _ = identity()
    return [Identity(host, boot, process.pid, process.started) for process in found]


def childless() -> bool:
    """Whether this process has no child, not even a zombie; needs no descriptor."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


# ── Ending ───────────────────────────────────────────────────────────────────────────────────────────


def send(who: Identity, number: int) -> bool:
    """Send a signal to that very process; False if it has ended."""
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
        # The handle always refers to the same process, so this checks the process that gets the signal.
        if not _still_lives(who):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    finally:
        os.close(handle)


def _send_by_number(who: Identity, number: int) -> bool:
    if not _still_lives(who):
        return False
    os.kill(who.pid, number)
    return True


def _still_lives(who: Identity) -> bool:
    process = look(who.pid)
    return process is not None and process.started == who.started and not process.dead


def signal_tree(who: Iterable[Identity], number: int) -> None:
    """Send a signal to each of these processes that still lives."""
    for each in who:
        send(each, number)


def end(find: Callable[[], list[Identity]], grace: float = 0.0) -> bool:
    """End the processes that `find` returns: SIGTERM first if there is a `grace`, then SIGKILL until it returns none.

    So processes that were started meanwhile are ended too. False if a process cannot be killed, because it is stuck in
    the kernel or belongs to another user, or if `find` fails for lack of descriptors or memory.
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
    """End all descendants of this process, which is a sub-reaper; False like `end`."""
    return end(lambda: [] if childless() else descendants(os.getpid()))


def _found(find: Callable[[], list[Identity]]) -> list[Identity] | None:
    """What `find` returns; None if this process has no descriptors or memory left to look."""
    try:
        return find()
    except OSError as exc:
        if not is_shortage(exc):
            raise
        return None


def exit_code(code: int) -> int:
    """The exit code by which a shell tells how a process ended; `code` is -N for a process that signal N killed."""
    return code if code >= 0 else 128 - code


# ── Ties between parents and children ────────────────────────────────────────────────────────────────


def become_subreaper() -> bool:
    """Become the parent of descendants whose parent dies; False if the system does not support that."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int, parent: int) -> bool:
    """Let this process get a signal when its parent dies, or now if it has died; False if that is not supported."""
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
