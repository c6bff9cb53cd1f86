"""The workers of a daemon (`tb serve --workers N`): starts them, restarts them, and stops them.

Each worker is a process of its own, in the process group of the daemon. It uses the board through the daemon's unix
socket, as any other worker would. So the daemon stops its workers first, while it still answers: they can report the
jobs that they finish. A worker that ends by itself is started again after one second.
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
"""Seconds between two checks whether a worker has ended."""
log = logging.getLogger("tiebreak")


def worker_command(address: str, project: str) -> list[str]:
    """The command of one worker, which runs one job at a time and stops if the daemon is killed."""
    words = ["--board", address, "--project", project, "work", "--concurrency", "1"]
    return [sys.executable, "-P", "-m", f"{__package__}.daemon_worker", str(os.getpid()), *words]


class WorkerProcesses:
    """The worker processes of one daemon."""

    def __init__(self, count: int, command: Callable[[list[str]], list[str]]) -> None:
        self._command = command
        """Makes the command of one worker from the addresses of the daemon."""
        self._words: list[str] = []
        self._count = count
        self._running: list[subprocess.Popen[bytes]] = []
        self._stopping = False

    @property
    def pids(self) -> list[int]:
        """The pids of the running workers."""
        return [each.pid for each in self._running if each.poll() is None]

    async def run(self, addresses: list[str]) -> None:
        """Start the workers, and restart those that end, until `drain` is called."""
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
        # Not the agent of the shell that started the daemon: the name of a worker identifies its process.
        theirs = ("TIEBREAK_AGENT", "TIEBREAK_SESSION")
        environment = {name: value for name, value in os.environ.items() if name not in theirs}
        made = subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)
        log.info("a worker has begun", extra={"facts": {"pid": made.pid}})
        return made

    async def drain(self) -> None:
        """Tell the workers to finish their jobs, and wait until all have ended. They limit the time themselves."""
        self._stopping = True
        self.hurry()
        while self.pids:
            await asyncio.sleep(LOOK)

    def hurry(self) -> None:
        """Tell the workers to stop. On the second call they end their jobs and release them."""
        for each in self._running:
            if each.poll() is None:
                each.send_signal(signal.SIGTERM)
