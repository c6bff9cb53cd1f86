"""No promise depends on the defaults of a server, a database, a role or a pooler: every transaction states its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.races import checkers
from tests.races.crew import race
from tests.races.scenarios import claimer, globs_against_files, swimmer
from tiebreak import Board, Lost
from tiebreak.engine.postgres import transaction_settings
from tiebreak.engine.schema import POSTGRES_PASS

from ..conformance.engines import pooler
from ..postgres import WRITES, server
from .conftest import Stopped, blocked, engine_of, in_thread, new_database, open_board, until

LEVELS = ["read uncommitted", "read committed", "repeatable read", "serializable"]
EIGHT = [f"agent-{i}" for i in range(8)]


@pytest.fixture(params=LEVELS)
def hostile(request: pytest.FixtureRequest) -> str:
    """An empty board in a hostile database, reached directly."""
    return server().empty_board(server().hostile_database(request.param))


@pytest.fixture(params=["directly", "pooled"])
def place(request: pytest.FixtureRequest, hostile: str) -> str:
    """The same, directly or behind a pooler."""
    return hostile if request.param == "directly" else pooler().address_of(hostile.split("@/")[1].partition("?")[0])


@pytest.fixture
def watching(hostile: str) -> Iterator[psycopg.Connection[Any]]:
    ours = r"-c default_transaction_isolation=read\ committed -c statement_timeout=0"
    with psycopg.connect(hostile, autocommit=True, options=ours) as connection:
        yield connection


def test_a_glob_and_a_file_below_it_have_one_winner(place: str) -> None:
    globs_against_files(place, EIGHT, 8)


def test_each_task_has_one_winner_and_pools_are_not_overspent(place: str) -> None:
    with open_board(place, "judge") as board:
        refs = [task.id for task in board.batch([("tasks.post", {"name": "t"}) for _ in range(16)])]
        reports = race(claimer, [(place, agent, refs) for agent in EIGHT])
        wins = [(ref, agent) for agent, (won, _) in zip(EIGHT, reports, strict=True) for ref in won]
        checkers.one_winner_each(wins, refs)
        board.holds.take(resources=["pool:ports"], slots=2, lease=0.001)
        race(swimmer, [(place, agent, "pool:ports", 4) for agent in EIGHT])
        checkers.never_more_than(checkers.read_log(board), "pool:ports", 2)


def test_a_glob_sees_what_was_granted_while_it_waited(hostile: str, watching: psycopg.Connection[Any]) -> None:
    """With a snapshot from before it waited it would see nothing. The wait is longer than the database's time-outs."""
    with open_board(hostile) as board, open_board(hostile, "bob") as other:
        slow = Stopped(other, lambda: other.holds.take(resources=["file:src/a.py"]))
        glob = in_thread(lambda: board.holds.take(resources=["file:src/*.py"]))
        until(lambda: blocked(watching), "the glob waits for the file")
        watching.execute("SELECT pg_sleep(0.4)")
        slow.go()
        with pytest.raises(Lost):
            glob()


def test_the_check_above_notices_a_level_that_is_taken_over(
    monkeypatch: pytest.MonkeyPatch, watching: psycopg.Connection[Any], hostile: str, request: pytest.FixtureRequest
) -> None:
    def begin(self: Any, connection: Any, scopes: Any, _: Any = ()) -> tuple[Any, ...]:
        ours = f"{self._settings}{POSTGRES_PASS}; {transaction_settings.locks(scopes)}"
        begun = connection.execute(
            f"BEGIN READ WRITE; {ours}"
            f"SELECT {transaction_settings.CLOCK}, NULL, {transaction_settings._XID_AND_LAST_NUMBER}"
        )
        begun.set_result(-1)
        return tuple(begun.fetchone())

    monkeypatch.setattr(transaction_settings.TransactionSettings, "writing", begin)
    with open_board(hostile) as board, open_board(hostile, "bob") as other:
        slow = Stopped(other, lambda: other.holds.take(resources=["file:src/a.py"]))
        glob = in_thread(lambda: board.holds.take(resources=["file:src/*.py"]))
        until(lambda: blocked(watching), "the glob waits for the file")
        slow.go()
        if "repeatable" in hostile:
            assert glob()[0].holder == "alice", "both hold the same file"
        else:  # the first two levels are ours; at the last the server undoes one of them, which runs again
            with pytest.raises(Lost):
                glob()


def settings_of(board: Board) -> dict[str, str]:
    """What a transaction of this board runs with."""
    connection = engine_of(board)._connect()
    with connection:
        engine_of(board).settings.writing(connection, ())
        rows = connection.execute("SELECT name, setting FROM pg_settings").fetchall()
        connection.execute("ROLLBACK")
    return dict(rows)


def test_a_transaction_runs_with_our_settings(hostile: str) -> None:
    with open_board(hostile) as board:
        found = settings_of(board)
    assert found["transaction_isolation"] == "read committed"
    assert found["transaction_read_only"] == "off"
    assert found["synchronous_commit"] == "on"
    assert found["search_path"] == "odd, pg_temp"
    assert (found["statement_timeout"], found["lock_timeout"]) == ("30000", "0")
    assert found["idle_in_transaction_session_timeout"] == str(transaction_settings.IDLE_LIMIT)
    assert found["client_encoding"] == "UTF8"


@pytest.mark.parametrize(
    ("given", "kept"), [("off", "on"), ("local", "on"), ("remote_write", "on"), ("remote_apply", "remote_apply")]
)
def test_a_commit_is_made_as_durable_as_ours_or_more(given: str, kept: str) -> None:
    with new_database() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = {given}")
        with open_board(address) as board:
            assert settings_of(board)["synchronous_commit"] == kept


def test_a_board_is_not_lost_when_another_schema_comes_first_later() -> None:
    with new_database() as address, open_board(address) as board:
        task = board.tasks.post(name="here", key="k")
        with psycopg.connect(address, autocommit=True, options=WRITES) as connection:
            connection.execute("CREATE SCHEMA decoy; CREATE TABLE decoy.tasks (LIKE public.tasks)")
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET search_path = decoy, public")
        engine_of(board)._forget_idle()
        assert board.tasks.claim(ref="k").id == task.id
        assert board.events.read()[-1].event == "task.claimed"


def test_words_in_any_script_pass_whatever_the_database_takes_for_its_clients(hostile: str) -> None:
    with open_board(hostile) as board:
        assert board.tasks.post(name="任务 ✓ ąß").name == "任务 ✓ ąß"
        assert board.tasks.list()[0].name == "任务 ✓ ąß"
