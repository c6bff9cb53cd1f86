"""A batch runs without savepoints until a call fails that has written; then all is undone and run again with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import errors as pg

from tiebreak import Board, Lost, Refused, Task, Unavailable
from tiebreak.operations import find

from .conftest import engine_of, tap


def fails_after_writing(monkeypatch: pytest.MonkeyPatch, name: str, problem: Exception) -> list[int]:
    """Let an operation do its work and fail then, every time; the list grows with each run."""
    operation, runs = find(name), []
    function = operation.function

    def failing(tx: Any, **params: Any) -> Any:
        function(tx, **params)
        runs.append(1)
        raise problem

    monkeypatch.setattr(operation, "function", failing)
    return runs


def savepoints(board: Board, calls: list[tuple[str, dict[str, Any]]]) -> tuple[list[Any], int]:
    """The answers of a batch, and how many statements were about savepoints."""
    heard: list[str] = []
    tap(board, heard.append)
    answers = board.batch(calls)
    return answers, sum("SAVEPOINT" in statement for statement in heard)


def test_a_batch_that_goes_well_needs_no_savepoint(board: Board) -> None:
    answers, count = savepoints(board, [("tasks.post", {"name": f"task {i}"}) for i in range(5)])
    assert [task.number for task in answers] == [1, 2, 3, 4, 5]
    assert count == 0
    assert [event.name for event in board.events.read()] == [f"task {i}" for i in range(5)]


def test_a_refusal_that_undoes_nothing_needs_no_savepoint(board: Board, other: Board) -> None:
    task = other.win(other.tasks.post(name="taken").id)
    calls = [("tasks.post", {"name": "a"}), ("tasks.claim", {"ref": task.id}), ("tasks.post", {"name": "b"})]
    answers, count = savepoints(board, calls)
    assert isinstance(answers[1], Lost)
    assert count == 0
    assert {each.name for each in board.tasks.list()} == {"taken", "a", "b"}


@pytest.mark.parametrize(
    ("problem", "answered"),
    [(Refused("no"), Refused), (pg.DataError("planted"), Unavailable), (ValueError("a bug"), ValueError)],
)
def test_a_call_that_fails_after_it_wrote_is_undone_alone(
    board: Board, monkeypatch: pytest.MonkeyPatch, problem: Exception, answered: type[Exception]
) -> None:
    task = board.tasks.post(name="not to be cancelled")
    fails_after_writing(monkeypatch, "tasks.cancel", problem)
    seen = board.events.last()
    calls = [("tasks.post", {"name": "a"}), ("tasks.cancel", {"ref": task.id}), ("tasks.post", {"name": "b"})]
    answers, count = savepoints(board, calls)
    assert [type(answer).__name__ for answer in answers] == ["Task", answered.__name__, "Task"]
    assert count > 0
    assert board.tasks.get(ref=task.id) == task
    assert [(event.event, event.name) for event in board.events.read(after=seen)] == [
        ("task.posted", "a"),
        ("task.posted", "b"),
    ]


def test_what_the_server_says_of_one_call_names_the_board(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_after_writing(monkeypatch, "tasks.post", pg.DataError("planted"))
    [answer] = board.batch([("tasks.post", {"name": "a"})])
    assert f"board {engine_of(board).address}: planted" in str(answer)


def test_a_refusal_in_a_batch_that_runs_twice_is_counted_once(
    board: Board, other: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = other.win(other.tasks.post(name="taken").id)
    runs = fails_after_writing(monkeypatch, "tasks.release", Refused("no"))
    mine = board.win(board.tasks.post(name="mine").id)
    board.batch([("tasks.claim", {"ref": task.id}), ("tasks.release", {"ref": mine.id})])
    board.tasks.post(name="carries it")
    assert len(runs) == 2
    assert [event.times for event in board.events.read(event="task.refused")] == [1]


def test_a_batch_that_runs_twice_keeps_its_answers_for_a_repetition(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = board.win(board.tasks.post(name="mine").id)
    fails_after_writing(monkeypatch, "tasks.release", Refused("no"))
    calls = [("tasks.post", {"name": "once"}, "the-same-call"), ("tasks.release", {"ref": task.id})]
    first, second = board.batch(calls)[0], board.batch(calls)[0]
    assert first == second
    assert len([each for each in board.tasks.list() if each.name == "once"]) == 1


# ── Round trips ──────────────────────────────────────────────────────────────────────────────────────


class Counted:
    """A connection that counts what it is asked to execute."""

    def __init__(self, connection: Any, asked: list[str]) -> None:
        self._connection, self._asked = connection, asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *rest: Any) -> Any:
        """Count and run it; hints are sent when nobody waits."""
        if "NOTIFY" not in statement:
            self._asked.append(statement)
        return self._connection.execute(statement, *rest)


def trips(board: Board, call: Callable[[], Any]) -> list[str]:
    """What a call asks the server, one after the other."""
    engine = engine_of(board)
    asked: list[str] = []
    connect = type(engine)._connect
    engine._forget_idle()
    engine._connect = lambda: Counted(connect(engine), asked)  # type: ignore[method-assign]
    call()
    return [statement for statement in asked if statement != "SELECT pg_backend_pid()"]


def done(tasks: list[Task]) -> list[dict[str, Any]]:
    return [{"number": task.number, "epoch": task.epoch, "ok": True} for task in tasks]


CALLS: dict[str, tuple[int, Callable[[Board, list[Task]], Any]]] = {
    "post": (3, lambda board, mine: board.tasks.post(name="new")),
    "claim": (3, lambda board, mine: board.tasks.claim(ref="#200")),
    "next": (3, lambda board, mine: board.tasks.next()),
    "extend": (3, lambda board, mine: board.tasks.extend(ref=mine[0].id)),
    "complete": (4, lambda board, mine: board.tasks.complete(ref=mine[0].id)),
    "a hundred next": (4, lambda board, mine: board.tasks.next(count=100)),
    "a hundred completions": (5, lambda board, mine: board.jobs.report(outcomes=done(mine))),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_takes_no_more_round_trips_than_it_needs(board: Board, what: str) -> None:
    board.batch([("tasks.post", {"name": f"task {i}"}) for i in range(250)])
    mine = board.tasks.next(count=100)
    most, call = CALLS[what]
    asked = trips(board, lambda: call(board, mine))
    assert len(asked) <= most, asked
