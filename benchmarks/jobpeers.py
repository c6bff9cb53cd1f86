"""Other Python job queues, each worked by processes of its own in the environment of `peers`.

`python jobpeers.py PEER ACTION PLACE NUMBER COUNT` runs there. `enqueue` puts COUNT jobs into the queue; `work` runs
jobs until it is ended. A job adds one to the count of its process, which stands at position NUMBER of a shared file: so
what is measured is the time from the first job that ran to the last, whatever the peer does to start and to stop.

All run as their documentation shows them, with one job at a time for a worker process, except dramatiq, whose workers
are threads (8 by default).

What each one promises (`DURABLE`): huey keeps its queue in SQLite with `synchronous` off, and a job is gone from it
before it runs. The three on Redis run here without persistence, as Redis comes: a crash of the server loses everything.
celery acknowledges a job before it runs unless told otherwise; rq and dramatiq keep it until it has run. None of them
fences: a worker that was given up for dead can still report.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
import time
from typing import Any

PEERS = ("huey", "rq", "celery", "dramatiq")
DURABLE = {
    "huey": "SQLite, never synced; taken off before it runs",
    "rq": "Redis in memory; kept until it has run",
    "celery": "Redis in memory; acknowledged before it runs",
    "dramatiq": "Redis in memory; kept until it has run",
    "procrastinate": "PostgreSQL, synced; each completion committed",
    "pgqueuer": "PostgreSQL, synced; completions up to 0.1 s late",
}
NEEDED = ("huey", "rq", "celery[redis]", "dramatiq[redis]")


class Counts:
    """How many jobs each process has run: numbers in a file that all of them have in memory."""

    def __init__(self, path: str, processes: int) -> None:
        if not os.path.exists(path):
            with open(path, "wb") as file:
                file.write(bytes(8 * processes))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8 * processes)
        self._adding = threading.Lock()

    def add(self, number: int) -> None:
        """One more job by this process."""
        at = 8 * number
        with self._adding:
            (count,) = struct.unpack_from("q", self._map, at)
            struct.pack_into("q", self._map, at, count + 1)

    def total(self) -> int:
        """Those of all processes."""
        return sum(struct.unpack(f"{len(self._map) // 8}q", self._map[:]))

    def seconds(self, jobs: int, patience: float) -> float:
        """How long it takes from the first job to the last; to be called before the first."""
        end = time.perf_counter() + patience
        while (first := self.total()) == 0 and time.perf_counter() < end:
            time.sleep(0.0005)
        began = time.perf_counter()
        while self.total() < jobs and time.perf_counter() < end:
            time.sleep(0.002)
        if self.total() < jobs:
            raise RuntimeError(f"{self.total()} of {jobs} jobs have run")
        return (time.perf_counter() - began) * jobs / max(1, jobs - first)


# ── Inside the environment ───────────────────────────────────────────────────────────────────────────

_counts: Counts | None = None
_number = 0


def nothing() -> None:
    """The job."""
    assert _counts is not None
    _counts.add(_number)


def huey(action: str, place: str, count: int) -> None:
    """A consumer's inner loop: take a job off the queue and run it."""
    from huey import SqliteHuey

    queue = SqliteHuey(filename=f"{place}/huey.db")
    task = queue.task(name="nothing")(nothing)
    if action == "enqueue":
        for _ in range(count):
            task()
        return
    while (job := queue.dequeue()) is not None:
        queue.execute(job)


def rq(action: str, place: str, count: int) -> None:
    """A worker that runs jobs in its own process; the usual one forks for each and is slower."""
    from redis import Redis
    from rq import Queue, SimpleWorker

    connection = Redis(unix_socket_path=f"{place}/redis.sock")
    queue = Queue(connection=connection)
    if action == "enqueue":
        for _ in range(count):
            queue.enqueue("jobpeers.nothing", result_ttl=0)
        return
    SimpleWorker([queue], connection=connection).work(burst=True, logging_level="ERROR")


def celery(action: str, place: str, count: int) -> None:
    """A worker with the pool `solo`."""
    from celery import Celery

    app = Celery("peers", broker=f"redis+socket://{place}/redis.sock", set_as_current=False)
    app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)
    task = app.task(name="nothing", ignore_result=True)(nothing)
    if action == "enqueue":
        with app.producer_or_acquire() as producer:
            for _ in range(count):
                task.apply_async(producer=producer)
        return
    app.worker_main(["worker", "--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat", "-lERROR"])


def dramatiq(action: str, place: str, count: int) -> None:
    """A worker with its threads."""
    import dramatiq as peer
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=f"unix://{place}/redis.sock", middleware=[])
    actor = peer.actor(broker=broker, actor_name="nothing")(nothing)
    if action == "enqueue":
        for _ in range(count):
            actor.send()
        return
    worker = peer.Worker(broker, worker_threads=8)
    worker.start()
    while True:
        time.sleep(1)


def main(peer: str, action: str, place: str, number: str, count: str) -> None:
    """Work as one process."""
    global _counts, _number
    import jobpeers  # rq finds the job by this name

    _counts = jobpeers._counts = Counts(f"{place}/{peer}.counts", int(os.environ["PROCESSES"]))
    _number = jobpeers._number = int(number)
    works: dict[str, Any] = {"huey": huey, "rq": rq, "celery": celery, "dramatiq": dramatiq}
    print("ready", flush=True)
    sys.stdin.readline()
    works[peer](action, place, int(count))
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
