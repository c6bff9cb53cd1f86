"""How long operations take, alone and many at a time, on SQLite and PostgreSQL, with and without a daemon in front."""

from __future__ import annotations

import json
import time
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from tests.postgres import Server

from . import boards
from .crew import board, database, together
from .load import drive, request
from .measure import Settings, folder, progress
from .servers import server as serving

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tiebreak import Board

WRITES = ("post", "next", "extend", "complete")
READS = ("list", "wait")
TOGETHER = 64


class Batched(NamedTuple):
    """The cost of a transaction with any number of operations in it."""

    once: float
    each: float

    def cost(self, count: int) -> float:
        """Seconds for so many."""
        return self.once + self.each * count


class Measured(NamedTuple):
    """Seconds, all from this run."""

    sqlite: dict[str, list[float]]
    contention: float
    """What a write on SQLite takes longer when 16 processes write."""
    daemon: Batched
    daemon_read: float
    postgres: dict[str, list[float]]
    parallel: float
    """How much more 16 processes get done on PostgreSQL than one."""
    postgres_daemon: Batched
    postgres_batch: Batched


def _calls(mine: Board) -> dict[str, Callable[[], object]]:
    """The operations of the simulation; those that need a claim are given one by `next`."""
    held: list[str] = []

    def claim() -> None:
        held.extend(task.id for task in mine.tasks.next())

    return {
        "post": lambda: mine.tasks.post(name="work"),
        "next": claim,
        "extend": lambda: mine.tasks.extend(ref=held[-1]),
        "complete": lambda: mine.tasks.complete(ref=held.pop()),
        "list": lambda: mine.tasks.list(states=["pending"], limit=50),
        "wait": lambda: mine.events.read(after=10, limit=10),
    }


def _service(mine: Board, count: int) -> dict[str, list[float]]:
    """How long each operation takes, one after the other, on a board with some tasks."""
    calls = _calls(mine)
    for _ in range(50):
        calls["post"]()
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(count):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            took[name].append(time.perf_counter() - began)
    return took


def _cycles(address: str, processes: int, count: int) -> float:
    """Writes per second by so many processes, each in a project of its own."""

    def work(mine: Board, who: int) -> None:
        mine._project = f"project-{who}"
        calls = _calls(mine)
        for _ in range(count // processes):
            for name in WRITES:
                calls[name]()

    return count // processes * processes * len(WRITES) / together(address, processes, work)


def _split(one: float, many: float, count: int) -> Batched:
    """The two parts of a cost, from seconds for one and for many in a transaction."""
    each = max(0.0, (many - one) / (count - 1))
    return Batched(max(0.0, one - each), each)


def _through_daemon(address: str, place: str, count: int, method: str, params: Mapping[str, object]) -> Batched:
    """Requests one at a time, and 64 at a time."""
    full = {"agent": boards.AGENT, "project": boards.PROJECT, **params}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": full}
    with serving("daemon", place, address) as daemon:
        asked = request("/rpc", json.dumps(message).encode(), daemon.token, daemon.port)
        drive(daemon.port, [asked] * TOGETHER, TOGETHER)
        one = mean(drive(daemon.port, [asked] * (count // 8), 1).latencies)
        many = TOGETHER / drive(daemon.port, [asked] * count, TOGETHER).rate
    return _split(one, many, TOGETHER)


def _batches(address: str, count: int) -> Batched:
    """Posts in transactions of one and of 64, by one process."""
    with board(address) as mine:

        def seconds(size: int) -> float:
            began = time.perf_counter()
            for _ in range(count // size):
                mine.batch([("tasks.post", {"name": "work"})] * size)
            return (time.perf_counter() - began) / (count // size)

        seconds(1)
        return _split(seconds(1), seconds(TOGETHER), TOGETHER)


def measure(settings: Settings) -> Measured:
    """Everything that the simulation needs to know."""
    count, some = settings.size(400, 20), settings.size(3200, 128)
    post, listing = {"name": "work"}, {"agent": None, "states": ["pending"], "limit": 50}
    with folder() as place:
        progress("SQLite …")
        path = f"{place}/board.db"
        with board(path) as mine:
            sqlite = _service(mine, count)
        alone, crowd = (1 / _cycles(path, processes, count) for processes in (1, 16))
        daemon = _through_daemon(f"{place}/served.db", place, some, "tasks.post", post)
        reads = _through_daemon(f"{place}/served.db", place, some, "tasks.list", listing)
        progress("PostgreSQL …")
        server = Server()
        try:
            address = database(server, "scale")
            with board(address) as mine:
                postgres = _service(mine, count)
            parallel = _cycles(address, 16, count * 2) / _cycles(address, 1, count)
            batched = _batches(address, some // 2)
            served = _through_daemon(database(server, "served"), place, some // 2, "tasks.post", post)
        finally:
            server.close()
    return Measured(sqlite, max(0.0, crowd - alone), daemon, reads.each, postgres, parallel, served, batched)
