"""Queued handoffs: the daemon looks for them, and lets the command do the rest that anybody else would use.

Nothing of sessions runs inside the daemon: it must not wait for a command to come to life, and not end with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT

from ..user_folders import state_folder

LOOK, AGAIN = 2.0, 20.0
"""Seconds between two looks into the queue, and before what was left in it is tried again."""
log = logging.getLogger("tiebreak")


async def drain(addresses: list[str]) -> None:
    """Have the queued handoffs of a board drained, by whatever address they know it; never ends."""
    pause = LOOK
    while True:
        await asyncio.sleep(pause)
        pause = LOOK
        for address in waiting(addresses):
            if await _run(address):
                pause = AGAIN


def waiting(addresses: list[str]) -> list[str]:
    """The addresses under which handoffs of this board are queued."""
    folder = os.path.join(state_folder(), "handoffs", "queue")
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".json")]
    except OSError:
        return []
    found = {_board(os.path.join(folder, name)) for name in names}
    return [address for address in addresses if address in found]


def _board(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.load(file).get("board"))
    except (OSError, ValueError, AttributeError):
        return None  # it has just been taken, or it is for `tb drain` to put aside


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
