"""Returns the jobs of dead workers while a daemon serves, so that they do not wait for another worker or their leases.

A worker's keeper does that when the worker is killed. If both are killed, the processes of the jobs may still run. The
daemon ends those of its own user on its own machine, as another worker would (`worker.leftover_processes`), and gives
the jobs back only when certainly none of them is left.
"""

from __future__ import annotations

import asyncio

from ..board import open as open_board
from ..errors import TiebreakError
from ..worker.board_watcher import return_jobs_of_dead_workers

LOOK = 5.0
"""Seconds between two looks for dead workers."""


class DeadWorkers:
    """Looks for dead workers on the machine of a daemon."""

    pids: list[int] = []
    """Always empty: it has no processes."""

    async def run(self, addresses: list[str]) -> None:
        """Return the jobs of dead workers until cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                await asyncio.to_thread(_return_jobs, addresses[0])
            except (TiebreakError, OSError, MemoryError):
                pass  # tried again; if it never works, the leases run out

    async def drain(self) -> None:
        """Nothing to do: whoever comes next looks again."""

    def hurry(self) -> None:
        """Nothing to do, as in `drain`."""


def _return_jobs(address: str) -> None:
    with open_board(address, agent="daemon", project="default") as board:
        return_jobs_of_dead_workers(board, every_project=True)
