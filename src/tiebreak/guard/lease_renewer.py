"""A tool that runs for long: somebody keeps the session's claims and holds for as long as it runs.

A hook has ended long before its tool has. So the hook before a command leaves a keeper behind: a process that does
nothing for a while and ends when the tool is done, as nearly all are by then. Only otherwise it becomes `tb hook keep`
and renews, again and again, while the tool's mark is there and the client's process lives. There is one keeper for each
session, below a client whose process is known, and it holds nothing: when it dies, leases run out as they always do.
"""

from __future__ import annotations

import os
import time

from ..files import lock_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..processes import Identity
    from .hook_context import HookContext

FIRST = 120.0
"""Seconds before the first renewal: less than half of the shortest lease."""
PAUSE = 60.0
NAP = 1.0
"""Seconds between two looks at whether the tool is done."""
LONGEST = 86_400.0


def start_renewer(hook: HookContext) -> None:
    """Start a keeper beside this hook, unless the session has one, or nobody can tell whether it lives."""
    from ..processes import in_client, session

    if not in_client({}):
        return
    client = session()  # asked before the fork: a child of an ended hook has no client above it
    place = os.path.join(hook.state.home, "keeper")
    try:
        fd = lock_file(place)
    except OSError:
        return  # the lease then lasts as long as it lasts
    if fd is None:
        return
    if os.fork():
        os.close(fd)
        return
    try:
        _become_one(hook, client, fd)
    finally:
        os._exit(0)


def _become_one(hook: HookContext, client: Identity, fd: int) -> None:
    """In the child: let go of everything that the hook has, wait, and go on only if the tool still runs."""
    import sys

    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.chdir("/")
    if not _still_runs(hook.state.home, client, FIRST):
        return
    os.set_inheritable(fd, True)
    words = [hook.agent, hook.board.project, *(str(part) for part in client)]
    program = [sys.executable, "-m", "tiebreak", "hook", "keep", " ".join(words)]
    os.execve(sys.executable, program, dict(os.environ))  # noqa: S606  (no shell is wanted)


def _still_runs(home: str, client: Identity, seconds: float) -> bool:
    """Wait; False as soon as the tool or the client is done."""
    from ..processes import is_dead

    end = time.monotonic() + seconds
    while running(home) and not is_dead(client):
        left = end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(NAP, left))
    return False


def running(home: str) -> bool:
    """Whether a command of the session has begun and not ended, as far as its hooks tell."""
    old = time.time() - LONGEST
    try:
        with os.scandir(home) as found:
            return any(each.name.startswith("shell-") and each.stat().st_mtime > old for each in found)
    except OSError:
        return False


def keep(words: str) -> int:
    """What `tb hook keep` does: renew until the tool or the client is done."""
    from .. import board as boards
    from ..errors import TiebreakError
    from ..processes import Identity
    from .agent_state import AgentState

    agent, project, host, boot, pid, started = words.split(" ")
    client, home = Identity(host, boot, int(pid), int(started)), AgentState(agent).home
    pause = 0.0
    while _still_runs(home, client, pause):
        try:
            with boards.open(agent=agent, project=project) as board:
                board.agents.renew(lease=300.0 + PAUSE)
        except TiebreakError:
            pass  # perhaps it is there again next time
        pause = PAUSE
    return 0
