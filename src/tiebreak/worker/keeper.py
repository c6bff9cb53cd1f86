"""The keeper: a worker's parent process, which cleans up if the worker is killed.

A worker that gets SIGKILL cannot clean up. The kernel then hands its children to the keeper, which is a subreaper. The
keeper kills them and tells the board that the worker is dead, so that its jobs are given back at once.

If the keeper is killed, the worker notices (the pipe between them ends), and ends its jobs and itself. Each job has
then used an attempt, because it may have killed the keeper. The worker has a process session of its own, so a signal to
a process group never kills both. If both are killed all the same, another worker cleans up (`leftover_processes`).
"""

from __future__ import annotations

import os
import signal

from .. import process_tree
from ..process_identity import Identity, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ABANDONED = signal.SIGUSR1
"""The signal that a daemon's worker gets when the daemon dies. The kernel sends it once for each thread of the daemon,
so it may come several times; unlike a second SIGTERM, that does not mean "stop faster"."""


def keep(work: Callable[[int], int], after_crash: Callable[[Identity], None]) -> int:
    """Run `work` in a child process and return its exit code.

    `work` gets a descriptor that reports end of file when this process dies. `after_crash` is called with the child's
    identity when the child has crashed and no process of it is left.
    """
    process_tree.become_subreaper()
    read_end, write_end = os.pipe()  # this process alone has the write end, so it is closed when this process dies
    # Signals wait until both processes have their own handlers.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.setsid()
        os._exit(_exit_code(work, read_end))
    os.close(read_end)
    who = identity(child)
    for number in FORWARDED:
        signal.signal(number, lambda number, _: _pass_on(child, number))
    signal.signal(ABANDONED, _once(lambda: _pass_on(child, signal.SIGTERM)))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    code = _wait(child)
    if process_tree.end_descendants() and code != 0:
        after_crash(who)
    return process_tree.exit_code(code)


def _exit_code(work: Callable[[int], int], keeper: int) -> int:
    import sys

    try:
        return work(keeper)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 70
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # nobody reads it any more


def _once(then: Callable[[], None]) -> Callable[[int, object], None]:
    """A signal handler that acts on the first signal only."""
    handled: list[int] = []

    def handler(number: int, _: object) -> None:
        if not handled:
            handled.append(number)
            then()

    return handler


def _pass_on(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        pass


def _wait(child: int) -> int:
    """Wait until the child ends, and reap the orphans that this process adopts meanwhile."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return os.waitstatus_to_exitcode(status)
