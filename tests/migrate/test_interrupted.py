"""SIGKILL at any statement of a move: never can two boards be used, and running the move again completes it."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from tests.postgres import server
from tests.races.crew import processes
from tiebreak.engine.move import moving
from tiebreak.engine.move.postgres_endpoint import PostgresEndpoint
from tiebreak.engine.move.sqlite_endpoint import SqliteEndpoint
from tiebreak.errors import Refused, Unavailable

from .test_moving import Rows, contents, furnish, later, opened, without_moves

PATIENCE = 150.0


@pytest.fixture
def database() -> Iterator[str]:
    """A database with nothing in it."""
    address = server().address()
    _empty(address)
    yield address
    _empty(address)


def _empty(address: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


Point = tuple[str, int]
"""When to die: `("statement", n)` after the nth statement, `("before", n)` or `("after", n)` the nth commit."""
NAMED, COPIED, LEFT, OPENED = 1, 2, 3, 4
"""The commits of a move."""


def mover(old: str, new: str, deadly: Point | None, report: Any) -> None:
    """Move, and die at that point; else tell how many statements there were."""
    count = {"statement": 0, "before": 0, "after": 0}

    def passed(what: str) -> None:
        count[what] += 1
        if deadly == (what, count[what]):
            os.kill(os.getpid(), signal.SIGKILL)

    def counting(run: Any) -> Any:
        def counted(self: Any, *words: Any) -> Any:
            if words[0] == "COMMIT":
                passed("before")
            answer = run(self, *words)
            passed("after" if words[0] == "COMMIT" else "statement")
            return answer

        return counted

    for end in (SqliteEndpoint, PostgresEndpoint):
        for name in ("rows", "insert"):
            setattr(end, name, counting(getattr(end, name)))
    moving.move(old, new)
    assert count["after"] == OPENED
    report.send(count["statement"])


def run_mover(old: str, new: str, deadly: Point | None = None) -> int:
    """In a process of its own: how many statements it took, or 0 if it was killed."""
    mine, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=mover, args=(old, new, deadly, theirs))
    process.start()
    theirs.close()
    process.join(PATIENCE)
    assert process.exitcode == (-signal.SIGKILL if deadly else 0), process.exitcode
    return 0 if deadly else int(mine.recv())


def usable(address: str) -> Rows | None:
    """What is on the board; None if nobody could use it."""
    if not address.startswith("postgresql:") and not os.path.exists(address):
        return None
    try:
        return contents(address)
    except (psycopg.errors.UndefinedTable, apsw.SQLError):
        return None


def survive(old: str, new: str, deadly: Point) -> str:
    """Kill a move there, judge what is left, run it again; what that had to do."""
    before = contents(old)
    run_mover(old, new, deadly)
    left, arrived = usable(old), usable(new)
    assert left is None or arrived is None, f"both can be used after {deadly}"
    assert left in (None, before)
    for place in (old, new):
        if usable(place) is None and (place.startswith("postgresql:") or os.path.getsize(place)):
            with pytest.raises(Unavailable, match=r"arriving|moved to"):
                opened(place)
    done = moving.move(old, new)
    assert done.outcome == ("moved" if left is not None else "already" if arrived is not None else "finished")
    assert usable(old) is None
    there, expected = without_moves(contents(new)), without_moves(before)
    assert {table: len(rows) for table, rows in there.items()} == {t: len(rows) for t, rows in expected.items()}
    if done.outcome == "moved":
        assert there == later(expected, done.shift)
    return done.outcome


@pytest.mark.parametrize("direction", ["to a server", "to a file"])
def test_killed_anywhere_it_leaves_one_board_or_a_move_to_finish(direction: str, tmp_path: Path, database: str) -> None:
    path = str(tmp_path / "board.db")
    old, new = (path, database) if direction == "to a server" else (database, path)
    with opened(old) as board:
        furnish(board)
    statements = run_mover(old, new)
    moving.move(new, old)
    outcomes: dict[Point, str] = {}
    for at in random.Random(statements).sample(range(1, statements - 20), 5):
        outcomes["statement", at] = survive(old, new, ("statement", at))
        moving.move(new, old)
    for commit in (COPIED, LEFT, OPENED):
        for when in ("before", "after"):
            outcomes[when, commit] = survive(old, new, (when, commit))
            moving.move(new, old)
    assert [outcomes[point] for point in list(outcomes)[-6:]] == ["moved"] * 3 + ["finished"] * 2 + ["already"]
    with opened(old) as board:
        assert board.tasks.claim(ref="often").epoch == 4


def test_leftovers_of_an_interrupted_attempt_are_recognised_and_replaced_or_refused(tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for path in (ours, theirs):
        with opened(path) as board:
            board.tasks.post(name=os.path.basename(path))
    run_mover(ours, str(tmp_path / "new"), ("after", COPIED))
    with pytest.raises(Unavailable, match="still arriving from"):
        opened(str(tmp_path / "new"))
    with pytest.raises(Refused, match="another board"):
        moving.move(theirs, str(tmp_path / "new"))
    with opened(ours) as board:
        board.tasks.post(name="after the crash")
    assert moving.move(ours, str(tmp_path / "new")).outcome == "moved"
    with opened(str(tmp_path / "new")) as board:
        assert {task.name for task in board.tasks.list()} == {"ours", "after the crash"}
    with opened(theirs) as board:
        assert [task.name for task in board.tasks.list()] == ["theirs"]


def test_a_leftover_is_not_opened_by_a_move_that_ended_elsewhere(tmp_path: Path) -> None:
    old, given_up, new = (str(tmp_path / name) for name in ("old", "given up", "new"))
    with opened(old) as board:
        board.tasks.post(name="x")
    run_mover(old, given_up, ("after", COPIED))
    moving.move(old, new)
    with pytest.raises(Unavailable, match=r"moved to .*new"):
        moving.move(old, given_up)
    with pytest.raises(Unavailable, match="still arriving"):
        opened(given_up)
    with opened(new) as board:
        assert [task.name for task in board.tasks.list()] == ["x"]
