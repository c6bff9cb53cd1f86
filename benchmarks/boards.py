"""Boards full of tasks, loaded by SQL: posting a million tasks one by one would take longer than the benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

import tiebreak
from tiebreak.engine.sqlite.opening import allow_writing

if TYPE_CHECKING:
    from tiebreak import Board

PROJECT = "bench"
AGENT = "bench~one"

_NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT :low UNION ALL SELECT n + 1 FROM numbers WHERE n < :high) "
# The same rows that tasks.post writes. One in a hundred is of another kind, one in another queue, one has a tag; those
# are less urgent than the rest, which is the worst case for a search that has to pass over the others.
_TASKS = (
    _NUMBERS
    + "INSERT INTO tasks (number, id, project, kind, name, queue, priority, state, max_attempts, backoff, tags, "
    "created_by, created_at, updated_at) SELECT n, "
    "printf('%08x-%04x-7%03x-8000-%012x', :at >> 28, (:at >> 12) & 65535, n >> 20, n), "
    ":project, iif(n % 100 = 0, 'rare', 'task'), 'task ' || n, iif(n % 100 = 1, 'rare', 'default'), "
    "n % 100 > 2, 'pending', 3, 1000000, iif(n % 100 = 2, ' rare ', ''), :agent, :at, :at FROM numbers"
)
_EVENTS = (
    "INSERT INTO events (at, event, project, subject, name, kind, state, priority, agent) "
    "SELECT :at, 'task.posted', project, id, name, kind, state, priority, created_by FROM tasks "
    "WHERE number BETWEEN :low AND :high"
)
AT_ONCE = 50_000


def common(number: int) -> bool:
    """Whether a task is like most others: no rare kind, queue or tag."""
    return number % 100 > 2


def board(path: str, ready: int) -> Board:
    """A new board with so many ready tasks, numbered from 1."""
    made = tiebreak.open(path, agent=AGENT, project=PROJECT)
    made.events.last()
    now = int(made.upkeep.status().now * 1_000_000)
    loader = apsw.Connection(path)
    allow_writing(loader)
    loader.execute("PRAGMA synchronous = OFF")
    for low in range(1, ready + 1, AT_ONCE):
        values = {"low": low, "high": min(ready, low + AT_ONCE - 1), "at": now, "project": PROJECT, "agent": AGENT}
        with loader:
            loader.execute(_TASKS, values)
            loader.execute(_EVENTS, values)
    loader.execute("PRAGMA synchronous = FULL")
    loader.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    loader.close()
    return made


def raw(path: str) -> apsw.Connection:
    """A bare connection to a board's file, as durable as the board itself, with SQLite's own checkpoints."""
    connection = apsw.Connection(path)
    allow_writing(connection)
    connection.set_busy_timeout(5000)
    connection.execute("PRAGMA synchronous = FULL")
    return connection
