"""On SQLite, `next` costs the same whether it has to skip a hundred tasks or ten thousand.

The cost is counted in steps of SQLite's virtual machine, so it does not depend on how busy the computer is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import pytest
from tests.conformance.crowds import CALLS, CROWDS, FEW, MANY, statements
from tests.conformance.engines import board_file

import tiebreak
from tiebreak import Board
from tiebreak.engine.schema import SQLITE_PASS
from tiebreak.engine.sqlite.engine import SqliteEngine
from tiebreak.operations.picking import _MOST_ROUNDS


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Board:
    path = board_file(tmp_path_factory.mktemp("crowds"))
    connection = apsw.Connection(str(path))
    connection.create_scalar_function(SQLITE_PASS, lambda *_: None, 0)
    for crowd in CROWDS:
        for many in (FEW, MANY):
            for statement in statements(f"{crowd}-{many}", crowd, many):
                connection.execute(statement)
    connection.close()
    board = tiebreak.open(path, agent="alice~1", project="demo")
    for project in (f"{crowd}-{many}" for crowd in CROWDS for many in (FEW, MANY)):
        for _ in range(MANY // (100 * _MOST_ROUNDS) + 2):  # what is new is looked at once, by whoever comes first
            board.jobs.next(queues=["nobody"], project=project)
    return board


def steps(board: Board, call: Callable[[Board, str], Any], project: str) -> int:
    """What a call costs, in steps of SQLite's machine, to the nearest ten."""
    counted = [0]

    def count() -> bool:
        counted[0] += 10
        return False

    engine = board.engine
    assert isinstance(engine, SqliteEngine)
    connections = [engine._writer, *(reader.connection for reader in engine._readers.readers)]
    for connection in connections:
        connection.set_progress_handler(count, 10)
    try:
        call(board, project)
    finally:
        for connection in connections:
            connection.set_progress_handler(None, 10)
    return counted[0]


def cost(board: Board, call: Callable[[Board, str], Any], project: str) -> int:
    """The least of three calls, after some by which everything is prepared."""
    for _ in range(3):
        call(board, project)
    return min(steps(board, call, project) for _ in range(3))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("crowd", CROWDS)
def test_next_is_as_cheap_behind_ten_thousand(crowded: Board, crowd: str, name: str) -> None:
    few, many = (cost(crowded, CALLS[name], f"{crowd}-{size}") for size in (FEW, MANY))
    assert many < few * 2 + 500, f"{few} steps behind {FEW} {crowd}, {many} steps behind {MANY}"


def test_a_look_at_all_would_be_noticed(crowded: Board) -> None:
    def look(board: Board, project: str) -> Any:
        return board.tasks.list(states=["claimed"], project=project, limit=1000)

    few, many = (cost(crowded, look, f"live-claims-{size}") for size in (FEW, MANY))
    assert many > few * 2 + 500
