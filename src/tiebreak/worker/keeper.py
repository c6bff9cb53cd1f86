"""The keeper: a worker's parent, which does nothing but outlive it.

A worker that is killed with SIGKILL cannot clean up. Its children are then given to the keeper, a sub-reaper, which
kills them and tells the board that this worker is dead, so that its jobs go back at once. If the keeper is
killed, the worker notices (their pipe ends), ends its jobs and itself; each job has then used an attempt, because it
may have killed the keeper. The worker has a session of its own, so that no signal to a process group kills both. If
both are killed all the same, another worker cleans up after them (`leftovers`).
"""

from __future__ import annotations

import os
import signal

from .. import process_tree as trees
from ..process_identity import Identity, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ABANDONED = signal.SIGUSR1
"""What a daemon's worker gets when the daemon dies. A parent dies once for each of its threads, so this may come
several times, and must not be taken for somebody in a hurry."""


def keep(work: Callable[[int], int], buried: Callable[[Identity], None]) -> int:
    """Run `work` in a child, given the descriptor that ends with this process; its exit code.

    `buried` is called when the child did not end as it should, and nothing of it is left.
    """
    trees.become_subreaper()
    ours, theirs = os.pipe()
    # A signal now would find no handler, or the parent's in the child: it waits until each is ready for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    child = os.fork()
    if child == 0:
        os.close(theirs)
        os.setsid()
        os._exit(_guarded(work, ours))
    os.close(ours)
    who = identity(child)
    for number in FORWARDED:
        signal.signal(number, lambda number, _: _pass_on(child, number))
    signal.signal(ABANDONED, _once(lambda: _pass_on(child, signal.SIGTERM)))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    code = _wait(child)
    if trees.end_descendants() and code != 0:
        buried(who)
    return code if code >= 0 else 128 - code


def _guarded(work: Callable[[int], int], ours: int) -> int:
    import sys

    try:
        return work(ours)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 70
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # nobody is left to be told


def _once(then: Callable[[], None]) -> Callable[[int, object], None]:
    """A handler that heeds the first signal only."""
    heeded: list[int] = []

    def handler(number: int, _: object) -> None:
        if not heeded:
            heeded.append(number)
            then()

    return handler


def _pass_on(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        pass


def _wait(child: int) -> int:
    """Until the child ends; orphans that come to this process meanwhile are buried too."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return os.waitstatus_to_exitcode(status)
