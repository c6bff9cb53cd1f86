"""Behind PgBouncer in transaction mode: each transaction may run on another server connection than the last one."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import psycopg
import pytest

from tests.races import checkers
from tests.races.crew import race
from tests.races.scenarios import claimer, swimmer
from tiebreak import Board, Lost

from ..pooler import Pooler
from ..postgres import server
from .conftest import PATIENCE, engine_of, in_thread, open_board

EIGHT = [f"agent-{i}" for i in range(8)]
Run = Generator[None, None, Any]


@pytest.fixture(
    scope="module",
    params=[[], ["server_reset_query_always = 1"], ["server_lifetime = 1"]],
    ids=["plain", "resetting", "short-lived"],
)
def pooler(request: pytest.FixtureRequest) -> Iterator[Pooler]:
    """One for all tests of a kind."""
    made = Pooler(*request.param)
    yield made
    made.close()


@pytest.fixture
def pooled(pooler: Pooler) -> str:
    """An empty board, reached through the pooler."""
    server().empty_board()
    return pooler.address


def mixed(address: str, agent: str, turns: int) -> Run:
    """All sorts of calls, in an order of its own, so that no two prepare the same things in the same order."""
    board = open_board(address, agent)
    chosen = sum(map(ord, agent))
    yield
    for i in range(turns):
        match (i * chosen + i) % 5:
            case 0:
                task = board.win(board.tasks.post(name=f"{agent} {i}").id)
                board.tasks.complete(ref=task.id, epoch=task.epoch, result={"by": agent})
            case 1:
                board.messages.send(body=f"{agent} {i}")
            case 2:
                board.batch([("tasks.post", {"name": f"{agent} {i}", "kind": "knowledge"})] * 3)
            case 3:
                board.agents.heartbeat(doing=f"turn {i}")
            case 4:
                board.events.read(after=max(0, board.events.last() - 3))
    board.close()


def test_one_agent_does_everything(pooled: str) -> None:
    with open_board(pooled) as board:
        for i in range(10):
            task = board.win(board.tasks.post(name=f"task {i}", key=f"k{i}").id)
            board.tasks.extend(ref=task.id, epoch=task.epoch)
            board.tasks.complete(ref=f"k{i}", epoch=task.epoch)
            board.holds.take(resources=["file:a.py", "lock:b"], again=True)
            board.messages.send(body=f"message {i}")
        answers = board.batch([("tasks.post", {"name": "x"}), ("tasks.extend", {"ref": "#999"})])
        assert [type(answer).__name__ for answer in answers] == ["Task", "NotFound"]
        assert board.upkeep.status().completed == 10
        assert {level for level, _, _ in board.doctor()} == {"ok"}


def test_eight_processes_that_call_all_sorts_of_things_disturb_nobody(pooled: str) -> None:
    turns = 25
    race(mixed, [(pooled, agent, turns) for agent in EIGHT])
    with open_board(pooled) as board:
        kinds = [[(i * sum(map(ord, agent)) + i) % 5 for i in range(turns)] for agent in EIGHT]
        told = [kind for each in kinds for kind in each]
        status = board.upkeep.status()
        assert (status.pending, status.claimed) == (0, 0)
        assert status.completed == told.count(0) + 3 * told.count(2)
        assert status.messages == told.count(1)
        finished = board.tasks.list(states=["completed"], kind="task", limit=1000)
        assert all(task.result == {"by": task.name.split()[0]} for task in finished)


def test_eight_processes_race_and_each_task_has_one_winner(pooled: str) -> None:
    with open_board(pooled) as board:
        refs = [task.id for task in board.batch([("tasks.post", {"name": "t"}) for _ in range(40)])]
        reports = race(claimer, [(pooled, agent, refs) for agent in EIGHT])
        wins = [(ref, agent) for agent, (won, _) in zip(EIGHT, reports, strict=True) for ref in won]
        checkers.one_winner_each(wins, refs)


def test_a_pool_of_slots_is_never_overspent_behind_a_pooler(pooled: str) -> None:
    with open_board(pooled, "judge") as board:
        board.holds.take(resources=["pool:ports"], slots=3, lease=0.001)
        race(swimmer, [(pooled, agent, "pool:ports", 10) for agent in EIGHT])
        checkers.never_more_than(checkers.read_log(board), "pool:ports", 3)


def test_waiting_works_although_nothing_can_be_heard(pooled: str) -> None:
    with open_board(pooled) as board, open_board(pooled, "bob") as other:
        answers = [in_thread(lambda: board.wait(after=0, timeout=PATIENCE, event="task.posted")) for _ in range(2)]
        other.tasks.post(name="something")
        assert [answer().name for answer in answers] == ["something"] * 2


def test_waiting_for_a_claim_works(pooled: str) -> None:
    with open_board(pooled) as board, open_board(pooled, "bob") as other:
        task = board.win(board.tasks.post(name="wanted").id)
        patient = in_thread(lambda: other.win(task.id, wait=PATIENCE))
        with pytest.raises(Lost):
            other.win(task.id)
        board.tasks.release(ref=task.id, epoch=task.epoch)
        assert patient().epoch == 2


def test_events_are_in_order_behind_a_pooler(pooled: str) -> None:
    with open_board(pooled) as board:
        race(mixed, [(pooled, agent, 10) for agent in EIGHT[:4]])
        numbers = [event.number for event in checkers.read_log(board)]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == board.events.last()


def test_no_statement_is_prepared_where_another_client_may_use_its_name(pooled: str) -> None:
    """The server would run one client's statement with another one's values."""
    with open_board(pooled) as board:
        for _ in range(10):
            board.tasks.post(name="again and again")
        with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as raw:
            left = [raw.execute("SELECT statement FROM pg_prepared_statements").fetchall() for _ in range(6)]
        assert left == [[]] * 6


def test_a_direct_connection_prepares_its_statements(board: Board) -> None:
    for _ in range(5):
        board.tasks.post(name="again and again")
    asked = "SELECT name FROM pg_prepared_statements"
    names = [name for connection in engine_of(board)._idle for name in connection.execute(asked).fetchall()]
    assert names, "statements that run again and again are planned once"
