"""Starts queued handoffs while a daemon serves: runs `tb drain` when the queue is not empty.

`tb drain` is a process of its own, because starting an agent can take long and can fail, and neither may disturb the
daemon.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT

from ..sessions.handoff_queue import queued_boards

LOOK, AGAIN = 2.0, 20.0
"""Seconds between two looks into the queue, and before a failed `tb drain` is tried again."""
log = logging.getLogger("tiebreak")


class HandoffDrain:
    """Drains the queued handoffs of the board that a daemon serves."""

    pids: list[int] = []
    """Always empty. The daemon need not wait: a handoff stays in the queue until its replacement runs."""

    async def run(self, addresses: list[str]) -> None:
        """Drain handoffs until cancelled. A handoff may be queued under any of the addresses of the board."""
        pause = LOOK
        while True:
            await asyncio.sleep(pause)
            pause = LOOK
            for address in waiting(addresses):
                if await _run(address):
                    pause = AGAIN

    async def drain(self) -> None:
        """Nothing to do: a handoff stays in the queue."""

    def hurry(self) -> None:
        """Nothing to do, as in `drain`."""


def waiting(addresses: list[str]) -> list[str]:
    """Those of the addresses under which handoffs are queued."""
    found = queued_boards()
    return [address for address in addresses if address in found]


async def _run(address: str) -> int:
    """Run `tb drain` and return its exit code. The address may contain a password, so it is passed by environment."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "tiebreak", "drain", "--every-project", "--json"),
        env={**os.environ, "TIEBREAK_BOARD": address, "TIEBREAK_PROJECT": "default"},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    said, _ = await process.communicate()
    log.info("drained", extra={"facts": {"code": process.returncode, "said": said.decode("utf-8", "replace")[:2000]}})
    return process.returncode or 0
