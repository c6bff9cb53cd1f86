"""The workers of a daemon: the right number run, those that end are restarted, and they stop before the daemon."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tiebreak.program import worker_processes
from tiebreak.program.worker_processes import WorkerProcesses

PATIENCE = 60.0
# Writes down that it has begun and each SIGTERM; ends with the one that its argument says.
WORKER = """
import os, signal, sys
folder, enough = sys.argv[1], int(sys.argv[2])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.close(os.open(f"{folder}/{os.getpid()}.begun", os.O_CREAT))
for _ in range(enough):
    signal.sigwait([signal.SIGTERM])
    with open(f"{folder}/{os.getpid()}.told", "a") as file:
        file.write("x")
"""


def workers_of(count: int, folder: Path, enough: int = 1) -> WorkerProcesses:
    """Workers that end with the so many-th word to stop."""
    return WorkerProcesses(count, lambda _: [sys.executable, "-c", WORKER, str(folder), str(enough)])


async def until(happened: Callable[[], object], what: str) -> None:
    """Look again and again."""
    async with asyncio.timeout(PATIENCE):
        while not happened():
            await asyncio.sleep(0.02)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """In an event loop."""
    asyncio.run(test())  # type: ignore[arg-type]


def test_workers_start_in_the_daemons_process_group_and_end_when_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        made = workers_of(3, tmp_path)
        keeping = asyncio.ensure_future(made.run([]))
        await until(lambda: len(list(tmp_path.glob("*.begun"))) == 3, "three have begun")
        assert {os.getpgid(pid) for pid in made.pids} == {os.getpgrp()}
        await asyncio.wait_for(made.drain(), PATIENCE)
        await asyncio.wait_for(keeping, PATIENCE)
        assert made.pids == []
        assert len(list(tmp_path.glob("*.begun"))) == len(list(tmp_path.glob("*.told"))) == 3

    run(scenario)


def test_a_killed_worker_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "PAUSE", 0.0)

    async def scenario() -> None:
        made = workers_of(2, tmp_path)
        keeping = asyncio.ensure_future(made.run([]))
        await until(lambda: len(list(tmp_path.glob("*.begun"))) == 2, "two have begun")
        victim = made.pids[0]
        os.kill(victim, signal.SIGKILL)
        await until(lambda: len(list(tmp_path.glob("*.begun"))) == 3, "another one has begun")
        assert len(made.pids) == 2
        assert victim not in made.pids
        await asyncio.wait_for(made.drain(), PATIENCE)
        await asyncio.wait_for(keeping, PATIENCE)
        assert len(list(tmp_path.glob("*.begun"))) == 3, "nobody is started while they are told to stop"

    run(scenario)


def test_draining_waits_for_a_busy_worker_until_it_is_hurried(tmp_path: Path) -> None:
    async def scenario() -> None:
        made = workers_of(1, tmp_path, enough=2)
        keeping = asyncio.ensure_future(made.run([]))
        await until(lambda: list(tmp_path.glob("*.begun")), "it has begun")
        draining = asyncio.ensure_future(made.drain())
        await until(lambda: list(tmp_path.glob("*.told")), "it was told")
        assert not draining.done()
        made.hurry()
        await asyncio.wait_for(draining, PATIENCE)
        await asyncio.wait_for(keeping, PATIENCE)
        assert [file.read_text() for file in tmp_path.glob("*.told")] == ["xx"]

    run(scenario)
