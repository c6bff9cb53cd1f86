"""What the tests of the PostgreSQL engine alone have in common: boards, raw connections, and commits that stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest

import tiebreak
from tiebreak import Board
from tiebreak.clock import wall
from tiebreak.engine.postgres.engine import PostgresEngine
from tiebreak.engine.postgres.transaction import PostgresTransaction
from tiebreak.engine.refusals import Refusals
from tiebreak.operations.events import append

from ..postgres import WRITES, server

PATIENCE = 90.0
"""Seconds within which anything that is going to happen has happened, also on a busy machine."""
PROJECT = "race"
"""The project of `tests.races`, whose workers some of these tests send."""
_names = count(1)


@pytest.fixture
def address() -> str:
    """An empty board."""
    return server().empty_board()


@contextmanager
def new_database(*, owner: str = "tiebreak") -> Iterator[str]:
    """A database of its own, with nothing in it, for as long as the block."""
    name = f"own_{next(_names)}"
    with psycopg.connect(server().address(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER {owner}")
        try:
            yield server().address(name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database() -> Iterator[str]:
    """A database without a board in it."""
    with new_database() as made:
        yield made


@pytest.fixture
def raw(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection beside all boards, which may write."""
    with psycopg.connect(address, autocommit=True, options=WRITES) as connection:
        yield connection


@pytest.fixture
def board(address: str) -> Iterator[Board]:
    """The empty board, as alice sees it."""
    with open_board(address) as opened:
        yield opened


@pytest.fixture
def other(address: str) -> Iterator[Board]:
    """The same board over connections of its own, as bob sees it."""
    with open_board(address, "bob") as opened:
        yield opened


def open_board(address: str, agent: str = "alice") -> Board:
    """The board as one agent sees it."""
    return tiebreak.open(address, agent=f"{agent}~1", project=PROJECT)


def engine_of(board: Board) -> PostgresEngine:
    """The engine, as the class that it is."""
    assert isinstance(board.engine, PostgresEngine)
    return board.engine


def write_event(connection: Any, event: str = "test.written") -> None:
    """The very statement by which operations write events."""
    tx = PostgresTransaction(connection, Refusals(""), wall())
    append(tx, event, PROJECT)
    tx.write_events()


class Wire:
    """A connection of an engine with somebody listening in: sees each statement, and may hold it up."""

    def __init__(self, connection: Any, heard: Callable[[str], None], seen: Callable[[Any], None]) -> None:
        self._connection, self._heard, self._seen = connection, heard, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *rest: Any) -> Any:
        """Tell of the statement, run it, and tell of its outcome; a COMMIT that travels with events is told apart."""
        head, commits, rest_of_it = statement.rpartition("; COMMIT")
        if commits and not rest_of_it and not head.startswith("BEGIN"):
            self.execute(head)
            statement = "COMMIT"
        self._heard(statement)
        cursor = self._connection.execute(statement, *rest)
        self._seen(cursor)
        return cursor


def tap(
    board: Board,
    heard: Callable[[str], None],
    seen: Callable[[Any], None] = lambda cursor: None,
) -> None:
    """Listen in on every connection that this board's engine makes from now on."""
    engine = engine_of(board)
    connect = engine._connect
    engine._forget_idle()
    engine._connect = lambda: Wire(connect(), heard, seen)  # type: ignore[method-assign]


class Stopped:
    """A call on a board whose COMMIT waits until it is let through; everything before it has happened."""

    def __init__(self, board: Board, call: Callable[[], Any]) -> None:
        self._reached, self._go = threading.Event(), threading.Event()
        self._answer: list[Any] = []
        tap(board, self._hold_up)
        self._thread = threading.Thread(target=lambda: self._answer.append(call()), daemon=True)
        self._thread.start()
        assert self._reached.wait(PATIENCE), "it never came to its commit"

    def _hold_up(self, statement: str) -> None:
        if statement == "COMMIT":
            self._reached.set()
            assert self._go.wait(PATIENCE)

    def go(self) -> Any:
        """Let it commit; its answer."""
        self._go.set()
        self._thread.join(PATIENCE)
        assert self._answer, "the call failed"
        return self._answer[0]


def in_thread(call: Callable[[], Any]) -> Callable[[], Any]:
    """Start a call in a thread; what is returned waits for its answer, or raises what it raised."""
    outcome: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as exc:
            outcome.append((None, exc))

    def answer() -> Any:
        thread.join(PATIENCE)
        assert outcome, "it hangs"
        value, problem = outcome[0]
        if problem is not None:
            raise problem
        return value

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return answer


def until(condition: Callable[[], Any], what: str) -> Any:
    """Look again and again until there is something, and hand it out."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if found := condition():
            return found
        pause.wait(0.01)
    raise AssertionError(f"still not so: {what}")


def blocked(raw: psycopg.Connection[Any]) -> int:
    """How many connections wait for a lock right now."""
    row = raw.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
    return int(row[0]) if row else 0
