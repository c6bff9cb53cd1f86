"""Keeps a vault up to date while a daemon serves: runs `tb vault DIR --follow`, and runs it again if it ends.

It is a process of its own, which uses the board through the daemon's socket as any other client does, so that writing
thousands of notes delays no request. If the daemon is killed, the process ends, and the next one continues.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio.subprocess import Process

PAUSE = 5.0
"""Seconds before a vault process that has ended is started again."""
log = logging.getLogger("tiebreak")


class VaultProcess:
    """The process that writes the vault of a daemon."""

    pids: list[int] = []
    """Always empty. The daemon need not wait: a vault is complete after any kill."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(folder)
        self._process: Process | None = None

    async def run(self, addresses: list[str]) -> None:
        """Write the vault until cancelled."""
        try:
            while True:
                code = await self._write(addresses[0])
                log.warning("the vault's writer has ended", extra={"facts": {"code": code}})
                await asyncio.sleep(PAUSE)
        finally:
            self.hurry()

    async def _write(self, address: str) -> int:
        words = ["--board", address, "vault", self._folder, "--follow", "--json"]
        environment = {name: value for name, value in os.environ.items() if name != "TIEBREAK_PROJECT"}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", f"{__package__}.tied_command", str(os.getpid()), *words),
            env={**environment, "TIEBREAK_AGENT": "vault"},
            stdin=DEVNULL,
            stdout=DEVNULL,
        )
        log.info("the vault's writer has begun", extra={"facts": {"pid": self._process.pid, "vault": self._folder}})
        return await self._process.wait()

    async def drain(self) -> None:
        """Stop the writer."""
        self.hurry()

    def hurry(self) -> None:
        """Stop the writer at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
