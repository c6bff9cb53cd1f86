"""Renews a session's claims and holds while a long shell command runs.

The hook before a command ends long before the command does. So it leaves a background process, the renewer. At first
the renewer only waits: nearly all commands end within two minutes, and it ends with them. Otherwise it starts this
module anew and renews the leases as long as the command runs and the client's process is alive. There is at most one
renewer for each session, and only where the client's process is known. If it dies, the leases run out as usual.

Run as `python -m tiebreak.guard.lease_renewer AGENT PROJECT CLIENT…`, where four words identify the client's process.
"""

from __future__ import annotations

import os
import sys
import time

from ..files import lock_file
from ..limits import CLAIM_LEASE, DAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..process_identity import Identity
    from .hook_context import HookContext

FIRST = 120.0
"""Seconds before the first renewal: less than half of the shortest lease."""
PAUSE = 60.0
"""Seconds between two renewals."""
LOOK = 1.0
"""Seconds between two checks whether the command still runs."""
LONGEST = DAY
"""Seconds after which a command without an end counts as over."""


def start_renewer(hook: HookContext) -> None:
    """Start a renewer, unless the session has one or the client's process is not known."""
    from ..agent_names import in_client, session

    if not in_client({}):
        return
    client = session()  # before the fork: when the hook has ended, the child has another parent
    path = os.path.join(hook.state.home, "keeper")
    try:
        fd = lock_file(path)
    except OSError:
        return  # without a renewer the leases run out as usual
    if fd is None:
        return
    if os.fork():
        os.close(fd)
        return
    try:
        _wait_and_renew(hook, client, fd)
    finally:
        os._exit(0)


def _wait_and_renew(hook: HookContext, client: Identity, fd: int) -> None:
    """In the child: detach from the hook, wait, and run `keep` in a new program if the command still runs."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.chdir("/")
    if not _still_runs(hook.state.home, client, FIRST):
        return
    os.set_inheritable(fd, True)
    words = [hook.agent, hook.board.project_names, *(str(part) for part in client)]
    program = [sys.executable, "-m", f"{__package__}.lease_renewer", *words]
    os.execve(sys.executable, program, dict(os.environ))  # noqa: S606  (no shell is wanted)


def _still_runs(home: str, client: Identity, seconds: float) -> bool:
    """Wait that long; False as soon as the command or the client has ended."""
    from ..process_identity import is_dead

    end = time.monotonic() + seconds
    while running(home) and not is_dead(client):
        left = end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(LOOK, left))
    return False


def running(home: str) -> bool:
    """Whether a shell command of the session runs, as its hooks say."""
    old = time.time() - LONGEST
    try:
        with os.scandir(home) as found:
            return any(each.name.startswith("shell-") and each.stat().st_mtime > old for each in found)
    except OSError:
        return False


def keep(words: list[str]) -> None:
    """Renew until the command or the client has ended."""
    from .. import board as boards
    from ..errors import TiebreakError
    from ..process_identity import Identity
    from .agent_state import AgentState

    agent, project, host, boot, pid, started = words
    client, home = Identity(host, boot, int(pid), int(started)), AgentState(agent).home
    pause = 0.0
    while _still_runs(home, client, pause):
        try:
            with boards.open(agent=agent, project=project) as board:
                board.agents.renew(lease=CLAIM_LEASE + PAUSE)
        except TiebreakError:
            pass  # tried again after the pause
        pause = PAUSE


if __name__ == "__main__":
    keep(sys.argv[1:])
