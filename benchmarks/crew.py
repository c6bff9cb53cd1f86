"""Boards on a PostgreSQL server, and processes that work on one at the same time."""

from __future__ import annotations

import multiprocessing
import time
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from tests.postgres import WRITES

import tiebreak

from . import boards
from .measure import percentile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.postgres import Server

    from tiebreak import Board

    Action = Callable[[Board, int], object]
    """What a process does, told which one it is."""

BATCH = 100
FORK = multiprocessing.get_context("fork")

TASKS = (
    "INSERT INTO tasks (number, id, project, kind, name, queue, priority, state, max_attempts, backoff, created_by, "
    "created_at, updated_at) SELECT n, '00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'), %(project)s, 'task', "
    "'task ' || n, 'default', 1, 'pending', 3, 1000000, %(agent)s, %(at)s, %(at)s FROM generate_series(1, %(ready)s) n"
)
_EVENTS = (
    "INSERT INTO events (number, at, event, project, subject, name, kind, state, priority, agent) SELECT "
    "nextval('events_number'), created_at, 'task.posted', project, id, name, kind, state, priority, created_by "
    "FROM tasks"
)


def database(server: Server, name: str) -> str:
    """The address of a database with nothing in it."""
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    return server.address(name)


def filled(server: Server, name: str, ready: int) -> str:
    """The address of a board with so many ready tasks, numbered from 1, as tidy as autovacuum leaves it."""
    address = database(server, name)
    with board(address) as made:
        now = int(made.upkeep.now() * 1_000_000)
    with psycopg.connect(address, autocommit=True, options=WRITES) as connection:
        connection.execute("SET synchronous_commit = off")
        values = {"project": boards.PROJECT, "agent": boards.AGENT, "at": now, "ready": ready}
        connection.execute(TASKS, values)
        connection.execute(_EVENTS)
        connection.execute("SELECT setval(pg_get_serial_sequence('tasks', 'number'), %s)", (ready,))
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    return address


def board(address: str, who: int = 0) -> Board:
    """A board for one of the processes."""
    return tiebreak.open(address, agent=f"bench~{who}", project=boards.PROJECT)


def together(address: str, processes: int, action: Action) -> float:
    """Seconds from the moment when all processes begin until the last is done."""
    start = FORK.Barrier(processes + 1)
    problems = FORK.SimpleQueue()

    def run(who: int) -> None:
        with board(address, who) as mine:
            mine.events.last()
            start.wait(60)
            try:
                action(mine, who)
            except BaseException as problem:
                problems.put(repr(problem))
                raise

    crew = [FORK.Process(target=run, args=(who,), daemon=True) for who in range(processes)]
    for each in crew:
        each.start()
    start.wait(60)
    began = time.perf_counter()
    for each in crew:
        each.join()
    took = time.perf_counter() - began
    assert problems.empty(), problems.get()
    return took


def finish(mine: Board, numbers: list[int]) -> None:
    """Complete tasks that were claimed once: one by itself, several in one transaction."""
    if len(numbers) == 1:
        mine.tasks.complete(ref=f"#{numbers[0]}", epoch=1)
        return
    for low in range(0, len(numbers), BATCH):
        some = [{"number": number, "epoch": 1, "ok": True} for number in numbers[low : low + BATCH]]
        assert all(answer["accepted"] for answer in mine.jobs.report(outcomes=some))


class Latency(NamedTuple):
    """Milliseconds of one call."""

    p50: float
    p99: float

    def __str__(self) -> str:
        return f"{self.p50:.1f} / {self.p99:.1f}"


def latency(call: Callable[[int], object], count: int) -> Latency:
    """How long calls take, one after the other."""
    took = []
    for number in range(count):
        began = time.perf_counter()
        call(number)
        took.append((time.perf_counter() - began) * 1000)
    return Latency(percentile(took, 50), percentile(took, 99))
