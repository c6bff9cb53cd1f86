"""A board is moved while others write: every acknowledged write is on the new board, and nothing else is."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tiebreak
from tests.postgres import server
from tests.races.crew import Crew, processes
from tiebreak import Board
from tiebreak.engine.move.moving import move
from tiebreak.errors import Unavailable

PATIENCE = 150.0
Run = Generator[None, None, Any]


@pytest.fixture
def database() -> Iterator[str]:
    """A database with nothing in it."""
    address = server().address()
    for _ in range(2):
        with psycopg.connect(address) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        if _ == 0:
            yield address


def opened(address: str, agent: str) -> Board:
    return tiebreak.open(address, agent=f"{agent}~1", project="demo")


def writer(address: str, agent: str, word: Connection) -> Run:
    """All kinds of writes, until one is refused: what was acknowledged, and the refusal."""
    board = opened(address, agent)
    yield
    acknowledged: list[tuple[str, str, int]] = []
    try:
        while True:
            for each in (_task, _hold, _message):
                acknowledged.append(each(board, agent))
            if len(acknowledged) == 30:
                word.send("warm")
    except Unavailable as exc:
        return acknowledged, exc.message


def _task(board: Board, agent: str) -> tuple[str, str, int]:
    task = board.tasks.post(name="work")
    won = board.tasks.claim(ref=task.id, lease=600)
    return ("task", task.id, board.tasks.complete(ref=task.id, epoch=won.epoch, result=agent).epoch)


def _hold(board: Board, agent: str) -> tuple[str, str, int]:
    [hold] = board.holds.take(resources=[f"lock:{agent}"])
    board.holds.release(resources=[f"lock:{agent}"], epochs=[hold.epoch])
    return ("hold", f"lock:{agent}", hold.epoch)


def _message(board: Board, agent: str) -> tuple[str, str, int]:
    return ("message", agent, board.messages.send(body="one of many").number)


def reader(address: str, word: Connection) -> Run:
    """Look at everything again and again; only the move may be in the way."""
    board = opened(address, "reader")
    yield
    looked = 0
    try:
        while True:
            board.upkeep.status()
            board.events.read(after=0, project=None, limit=10)
            looked += 1
            if looked == 10:
                word.send("warm")
    except Unavailable as exc:
        return looked, exc.message


@pytest.mark.parametrize("direction", ["to a server", "to a file"])
@pytest.mark.parametrize("meanwhile", ["post", "prune"])
def test_others_can_write_while_the_events_are_copied(
    direction: str, meanwhile: str, tmp_path: Path, database: str
) -> None:
    old, new = str(tmp_path / "board.db"), database
    if direction == "to a file":
        old, new = new, old
    done: list[str] = []
    with opened(old, "other") as other:
        for i in range(10):
            other.tasks.post(name=f"task {i}")

        def write(*_: int) -> None:
            """Called from the midst of the copying, while the history has not been copied completely."""
            if not done:
                done.append(meanwhile)
                if meanwhile == "prune":
                    assert other.upkeep.prune(older_than=0).events
                done.append(other.tasks.post(name="meanwhile").id)

        move(old, new, write)
        # By the same connection, closed meanwhile.
        with pytest.raises(Unavailable, match="moved to"):
            other.tasks.list()
    with opened(new, "judge") as board:
        assert done[1] in {task.id for task in board.tasks.list()}
        events = board.events.read(after=0, project=None, limit=1000)
        assert done[1] in {event.subject for event in events}
        assert [event.number for event in events] == sorted({event.number for event in events})
        assert len([event for event in events if event.event == "task.posted"]) == (
            2 if meanwhile == "prune" else 11
        )  # the newest is kept


@pytest.mark.parametrize("direction", ["to a server", "to a file"])
def test_writers_lose_nothing_that_they_were_told_is_done(direction: str, tmp_path: Path, database: str) -> None:
    old, new = str(tmp_path / "board.db"), database
    if direction == "to a file":
        old, new = new, old
    opened(old, "first").close()
    agents = [f"writer-{i}" for i in range(4)]
    mine, theirs = processes.Pipe(duplex=False)
    with Crew(writer, [(old, agent, theirs) for agent in agents]) as writers, Crew(reader, [(old, theirs)]) as readers:
        writers.go()
        readers.go()
        for _ in range(len(agents) + 1):
            assert mine.poll(PATIENCE)
            mine.recv()
        assert move(old, new).outcome == "moved"
        reports = writers.reports()
        for _, said in [*reports, *readers.reports()]:
            assert said == f"board {old}: moved to {new}"
    with opened(new, "judge") as board:
        check(board, dict(zip(agents, [done for done, _ in reports], strict=True)))


def check(board: Board, acknowledged: dict[str, list[tuple[str, str, int]]]) -> None:
    """Every write that was acknowledged is there; of those refused at the cut-over, none."""
    flat = [each for done in acknowledged.values() for each in done]
    completed = {(ref, epoch) for kind, ref, epoch in flat if kind == "task"}
    found = rows(board, "SELECT id, epoch, state FROM tasks")
    assert {(ref, epoch) for ref, epoch, state in found if state == "completed"} == completed
    assert len(found) - len(completed) <= len(acknowledged), "each may have had one task under way"
    numbers = sorted(number for kind, _, number in flat if kind == "message")
    assert sorted(number for (number,) in rows(board, "SELECT number FROM messages")) == numbers
    epochs = dict(rows(board, "SELECT resource, epoch FROM holds"))
    for agent, done in acknowledged.items():
        last = max(epoch for kind, _, epoch in done if kind == "hold")
        # It may have been taken once more, and refused when it was to be given back.
        assert epochs[f"lock:{agent}"] in (last, last + 1)


def rows(board: Board, sql: str) -> list[tuple[Any, ...]]:
    """What the tables themselves say."""
    address = board.engine.address
    if address.startswith("postgresql:"):
        with psycopg.connect(address) as connection:
            return connection.execute(sql.encode()).fetchall()
    import apsw

    connection_ = apsw.Connection(address)
    try:
        return connection_.execute(sql).fetchall()
    finally:
        connection_.close()
