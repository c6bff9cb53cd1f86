"""Two other queues on PostgreSQL, each worked by processes of its own in an environment of its own.

`python peers.py PEER ACTION ADDRESS COUNT` runs there: it says `ready`, waits for a line, does its work and says how
many jobs that were. A job does nothing. Both run as their documentation shows them: one job after the other
(`work_one`), and with what makes them fast (`work`), which is jobs in batches of 100 for pgqueuer (asyncpg and uvloop)
and 10 at the same time for procrastinate, which has no batches. A worker ends when the queue is empty.

Durability: both keep their jobs in logged tables and commit before they answer. pgqueuer collects completions, as many
as a batch has or for 0.1 s, before it writes them, so after a crash finished jobs run again; procrastinate writes each
one. Fencing: neither has any. Both finish a job by its number alone, so a worker that was given up for dead can still
finish the job that another one is working on.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import Any

PEERS = ("procrastinate", "pgqueuer")
NEEDED = ("procrastinate", "pgqueuer", "asyncpg", "uvloop", "psycopg[binary,pool]")
BATCH = 100
AT_ONCE = 10


# ── Asked from outside ───────────────────────────────────────────────────────────────────────────────


def environment(build: str, name: str = "peers", needed: tuple[str, ...] = NEEDED) -> str:
    """The Python of an environment with the peers in it; made when it is not there."""
    python = os.path.join(build, name, "bin", "python")
    made = os.path.join(build, name, "complete")
    if not os.path.exists(made):
        subprocess.run([sys.executable, "-m", "venv", "--clear", os.path.join(build, name)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed], check=True)
        open(made, "w", encoding="ascii").close()
    return python


def versions(python: str, names: tuple[str, ...] = PEERS) -> str:
    """Which ones are compared."""
    code = f"from importlib.metadata import version as v; print(', '.join(f'{{n}} {{v(n)}}' for n in {names}))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def rate(python: str, peer: str, action: str, address: str, jobs: int, processes: int = 1) -> float:
    """Jobs per second of so many processes that begin at the same moment, until the last is done."""
    command = [python, os.path.abspath(__file__), peer, action, address, str(jobs // processes)]
    pipe = subprocess.PIPE
    crew = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(processes)]
    try:
        for each in crew:
            assert _line(each) == "ready", f"{peer} does not start"
        began = time.perf_counter()
        for each in crew:
            assert each.stdin
            each.stdin.write("go\n")
            each.stdin.flush()
        done = sum(int(_line(each)) for each in crew)
        took = time.perf_counter() - began
    finally:
        for each in crew:
            each.communicate()
    assert action == "install" or done == jobs, f"{peer}: {done} of {jobs} jobs"
    return jobs / took


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


# ── Inside the environment ───────────────────────────────────────────────────────────────────────────


def _go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


async def procrastinate(action: str, address: str, count: int) -> int:
    """One process of procrastinate."""
    import procrastinate as peer

    app = peer.App(connector=peer.PsycopgConnector(conninfo=address, min_size=2, max_size=AT_ONCE + 2))
    done = 0

    @app.task(name="nothing")
    async def nothing() -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        _go()
        if action == "install":
            await app.schema_manager.apply_schema_async()
        elif action == "post":
            done = len([await nothing.defer_async() for _ in range(count)])
        elif action == "post_many":
            done = sum([len(await nothing.batch_defer_async(*[{}] * BATCH)) for _ in range(count // BATCH)])
        else:
            at_once = 1 if action == "work_one" else AT_ONCE
            await app.run_worker_async(wait=False, concurrency=at_once, install_signal_handlers=False)
    return done


async def pgqueuer(action: str, address: str, count: int) -> int:
    """One process of pgqueuer."""
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.types import QueueExecutionMode

    connection = await asyncpg.connect(address)
    queue = PgQueuer(AsyncpgDriver(connection))
    done = 0

    @queue.entrypoint("nothing")
    async def nothing(job: Any) -> None:
        nonlocal done
        done += 1

    queries = queue.qm.queries
    _go()
    if action == "install":
        await queries.install()
    elif action == "post":
        done = sum([len(await queries.enqueue("nothing", None)) for _ in range(count)])
    elif action == "post_many":
        calls = (["nothing"] * BATCH, [None] * BATCH, [0] * BATCH)
        done = sum([len(await queries.enqueue(*calls)) for _ in range(count // BATCH)])
    else:
        await queue.qm.run(batch_size=1 if action == "work_one" else BATCH, mode=QueueExecutionMode.drain)
    return done


def main(peer: str, action: str, address: str, count: str) -> None:
    """Work as one process, and tell how many jobs it did."""
    import logging

    import uvloop

    logging.disable(logging.WARNING)
    work = {"procrastinate": procrastinate, "pgqueuer": pgqueuer}[peer]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(work(action, address, int(count))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
