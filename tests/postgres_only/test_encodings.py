"""A database that cannot store every text is refused when it is opened, before anything is written to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import tiebreak
from tests.cli.command import Tb
from tests.postgres import server
from tiebreak import Unavailable
from tiebreak.engine.move.moving import move

NAME = "grüße 日本 😀"
TABLES = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def odd(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """An encoding, and the address of an empty database that has it."""
    name = f"odd_{request.param.lower()}"
    with psycopg.connect(server().address(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{request.param}' LOCALE 'C' TEMPLATE template0")
        try:
            yield request.param, server().address(name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def is_empty(address: str) -> bool:
    with psycopg.connect(address) as connection:
        return connection.execute(TABLES).fetchone() == (0,)


def test_a_database_in_another_encoding_is_refused_before_anything_is_written(odd: tuple[str, str]) -> None:
    encoding, address = odd
    with pytest.raises(Unavailable, match=f"has the encoding {encoding}, and a board needs UTF8") as told:
        tiebreak.open(address, agent="a~1", project="p")
    assert "CREATE DATABASE tiebreak ENCODING 'UTF8'" in told.value.hint
    assert is_empty(address)


def test_the_command_line_reports_it_in_one_line_and_a_hint(odd: tuple[str, str], tmp_path: Path) -> None:
    tb = Tb(tmp_path)
    tb.environment["TIEBREAK_BOARD"] = odd[1]
    answer = tb("post", NAME)
    assert (answer.code, answer.out) == (3, "")
    assert len(answer.err.splitlines()) == 2
    assert is_empty(odd[1])


def test_a_board_is_not_moved_to_a_database_in_another_encoding(odd: tuple[str, str], tmp_path: Path) -> None:
    here = str(tmp_path / "board.db")
    with tiebreak.open(here, agent="a~1", project="p") as board:
        board.tasks.post(name=NAME)
    with pytest.raises(Unavailable, match="a board needs UTF8"):
        move(here, odd[1], lambda done, total: None)
    assert is_empty(odd[1])
    with tiebreak.open(here, agent="a~1", project="p") as board:
        assert [task.name for task in board.tasks.list()] == [NAME]


def test_the_command_in_the_hint_makes_a_database_that_is_accepted(odd: tuple[str, str]) -> None:
    with pytest.raises(Unavailable) as told:
        tiebreak.open(odd[1], agent="a~1", project="p")
    statement = told.value.hint.partition(": ")[2]
    with psycopg.connect(server().address(), autocommit=True) as connection:
        connection.execute(statement.encode())
        try:
            with tiebreak.open(server().address("tiebreak"), agent="a~1", project="p") as board:
                board.tasks.post(name=NAME)
                assert [task.name for task in board.tasks.list()] == [NAME]
        finally:
            connection.execute("DROP DATABASE tiebreak WITH (FORCE)")
