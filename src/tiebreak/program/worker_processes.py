"""The workers of a daemon: as many as the operator wants, each a process of its own in the daemon's process group.

They reach the board by the daemon's own socket, as any other worker would. So they are told to stop first, while it
still answers: what they finish, they can report. One that ends by itself is started again, a second later.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PAUSE = 1.0
"""Seconds before a worker that has ended is started again."""
LOOK = 0.1
log = logging.getLogger("tiebreak")


def worker_command(address: str, project: str) -> list[str]:
    """What runs one worker, with one job at a time; told to stop also if the daemon is killed."""
    words = ["--board", address, "--project", project, "work", "--concurrency", "1"]
    return [sys.executable, "-P", "-m", f"{__package__}.daemon_worker", str(os.getpid()), *words]


class WorkerProcesses:
    """Workers under way."""

    def __init__(self, count: int, command: Callable[[list[str]], list[str]]) -> None:
        self._command = command
        """What runs one worker, given the addresses of the daemon."""
        self._words: list[str] = []
        self._count = count
        self._running: list[subprocess.Popen[bytes]] = []
        self._stopping = False

    @property
    def pids(self) -> list[int]:
        """Those that run."""
        return [each.pid for each in self._running if each.poll() is None]

    async def run(self, addresses: list[str]) -> None:
        """Start them, and start again those that end; ends when they are told to stop."""
        self._words = self._command(addresses)
        for _ in range(self._count):
            self._running.append(self._start())
        while not self._stopping:
            await asyncio.sleep(LOOK)
            for each in [each for each in self._running if each.poll() is not None and not self._stopping]:
                log.warning("a worker has ended", extra={"facts": {"pid": each.pid, "code": each.returncode}})
                await asyncio.sleep(PAUSE)
                self._running.remove(each)
                if not self._stopping:
                    self._running.append(self._start())

    def _start(self) -> subprocess.Popen[bytes]:
        # Not the agent of whoever started the daemon: a worker's name tells which process it is.
        theirs = ("TIEBREAK_AGENT", "TIEBREAK_SESSION")
        environment = {name: value for name, value in os.environ.items() if name not in theirs}
        made = subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)
        log.info("a worker has begun", extra={"facts": {"pid": made.pid}})
        return made

    async def drain(self) -> None:
        """Let them finish what they run, and come back when they have ended; they have a time-out of their own."""
        self._stopping = True
        self.hurry()
        while self.pids:
            await asyncio.sleep(LOOK)

    def hurry(self) -> None:
        """Tell them to stop. The second time they end their jobs and give them back."""
        for each in self._running:
            if each.poll() is None:
                each.send_signal(signal.SIGTERM)
