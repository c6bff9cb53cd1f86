"""Queued handoffs: somebody beside the daemon looks for them, and lets `tb drain` do the rest.

Nothing of sessions runs inside the daemon: it must not wait for a command to come to life, and not end with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT

from ..sessions.handoff_queue import queued_boards

LOOK, AGAIN = 2.0, 20.0
"""Seconds between two looks into the queue, and before what was left in it is tried again."""
log = logging.getLogger("tiebreak")


class HandoffDrain:
    """Drains the queued handoffs of a board that is being served."""

    pids: list[int] = []
    """Nothing that the daemon would have to wait for: what a replacement needs is in the queue until it lives."""

    async def run(self, addresses: list[str]) -> None:
        """Have them drained, by whatever address they know the board; never ends by itself."""
        pause = LOOK
        while True:
            await asyncio.sleep(pause)
            pause = LOOK
            for address in waiting(addresses):
                if await _run(address):
                    pause = AGAIN

    async def drain(self) -> None:
        """Nothing to end."""

    def hurry(self) -> None:
        """Nothing to end."""


def waiting(addresses: list[str]) -> list[str]:
    """The addresses under which handoffs of this board are queued."""
    found = queued_boards()
    return [address for address in addresses if address in found]


async def _run(address: str) -> int:
    """`tb drain`; its exit code. The address may have a password in it, so it is on no command line."""
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
