"""Opening a board: by many processes at once, with mistakes reported in one line, and without showing a password."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tiebreak
from tests.cli.command import Tb
from tests.races.crew import race
from tiebreak import Board, Unavailable
from tiebreak.engine.addresses import without_password
from tiebreak.engine.postgres.engine import PostgresEngine
from tiebreak.engine.schema import VERSION

from ..postgres import WRITES, server
from .conftest import engine_of, new_database, open_board, until

SECRET = "correct-horse"
Run = Generator[None, None, Any]


# ── At the same moment ───────────────────────────────────────────────────────────────────────────────


def opener(address: str, agent: str) -> Run:
    """Open a board that may not exist yet, and use it."""
    yield
    with open_board(address, agent) as board:
        return board.tasks.post(name=f"by {agent}").number


def test_sixteen_processes_open_a_fresh_database_and_make_one_board(database: str) -> None:
    numbers = race(opener, [(database, f"agent-{i}") for i in range(16)])
    assert sorted(numbers) == list(range(1, 17))
    with psycopg.connect(database) as raw:
        assert raw.execute("SELECT name, value FROM board").fetchall() == [("version", str(VERSION))]
        tables = raw.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'tasks'").fetchone()
        assert tables == (1,)


def test_an_opener_that_died_half_way_leaves_nothing_behind(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as half:
        half.execute("BEGIN; SELECT pg_advisory_xact_lock(29801, 0); CREATE TABLE board (name text, value text)")
        half.close()
    with open_board(database) as board:
        assert board.tasks.post(name="first").number == 1


def test_opening_again_changes_nothing(address: str) -> None:
    with open_board(address) as board:
        board.tasks.post(name="kept")
    with open_board(address) as board:
        assert board.upkeep.status().pending == 1


# ── Mistakes ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """The address of a server that asks this user for a password; the right one is in it."""
    rules = server().data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("local all guarded scram-sha-256\n" + before)
    with psycopg.connect(server().address(), autocommit=True) as raw:
        raw.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'")
        raw.execute("SELECT pg_reload_conf()")
        yield f"postgresql://guarded:{SECRET}@/postgres?host={server().folder}"
        rules.write_text(before)
        raw.execute("SELECT pg_reload_conf()")
        raw.execute("DROP ROLE guarded")


@pytest.fixture
def tb(tmp_path: Path) -> Tb:
    return Tb(tmp_path)


def one_line(tb: Tb, address: str, *codes: int) -> str:
    """What `tb` says of a board that cannot be opened: one line, and perhaps a hint, with exit code 3 (or as told)."""
    answer = tb("status", env={"TIEBREAK_BOARD": address})
    assert answer.code in (codes or (3,)), answer
    assert answer.out == ""
    lines = answer.err.splitlines()
    assert 1 <= len(lines) <= 2, answer.err
    assert "Traceback" not in answer.err
    for secret in (SECRET, "battery-staple"):
        assert secret not in answer.err
    return answer.err


def test_a_wrong_password_is_reported_in_one_line_that_does_not_show_it(tb: Tb, guarded: str) -> None:
    assert "password authentication failed" in one_line(tb, guarded.replace(SECRET, "battery-staple"))


def test_a_password_among_the_options_is_not_shown_either(tb: Tb, guarded: str) -> None:
    wrong = guarded.replace(f":{SECRET}", "") + "&password=battery-staple"
    assert "password authentication failed" in one_line(tb, wrong)


def test_a_missing_password_is_reported_in_one_line(tb: Tb, guarded: str) -> None:
    assert "no password supplied" in one_line(tb, guarded.replace(f":{SECRET}", ""))


def test_an_unknown_database_is_reported_in_one_line(tb: Tb) -> None:
    assert 'database "nowhere" does not exist' in one_line(tb, server().address("nowhere"))


def test_an_unknown_user_is_reported_in_one_line(tb: Tb) -> None:
    assert "nobody" in one_line(tb, server().address().replace("tiebreak@", "nobody@"))


def test_a_server_that_is_down_is_reported_in_one_line(tb: Tb, tmp_path: Path) -> None:
    assert "failed" in one_line(tb, f"postgresql://tiebreak:{SECRET}@/postgres?host={tmp_path}")


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:{SECRET}@localhost:port/db",
        f"postgresql://u:{SECRET}%zz@localhost/db",
        f"postgresql://u:{SECRET}@localhost/db?nonsense=1",
        f"postgresql://u:{SECRET}@[::1/db",
        f"postgresql://u@localhost/db?password={SECRET}&sslmode=perhaps",
    ],
)
def test_an_address_that_makes_no_sense_is_reported_in_one_line(tb: Tb, address: str) -> None:
    assert "board" in one_line(tb, address, 2, 3)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:secret@h/db", "postgresql://u@h/db"),
        ("postgresql://u:se@cret@h/db", "postgresql://u@h/db"),
        ("postgresql://u@h/db?password=secret", "postgresql://u@h/db"),
        ("postgresql://u@h/db?a=b&password=secret&c=d", "postgresql://u@h/db?a=b&c=d"),
        ("postgresql://u@h/db?sslpassword=secret", "postgresql://u@h/db"),
        ("postgresql://h/db", "postgresql://h/db"),
    ],
)
def test_no_address_is_shown_with_its_password(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_a_board_with_a_password_does_not_show_it(guarded: str) -> None:
    with psycopg.connect(server().address(), autocommit=True) as raw:
        raw.execute("CREATE DATABASE guarded OWNER guarded")
    try:
        with open_board(guarded.replace("/postgres?", "/guarded?")) as board:
            assert board.tasks.post(name="x").number == 1
            assert SECRET not in repr(board) + board.engine.address + str(board.doctor())
    finally:
        with psycopg.connect(server().address(), autocommit=True) as raw:
            raw.execute("DROP DATABASE guarded WITH (FORCE)")


def test_a_board_of_a_newer_version_is_refused_and_left_alone(tb: Tb, database: str) -> None:
    open_board(database).close()
    with psycopg.connect(database, autocommit=True, options=WRITES) as raw:
        raw.execute("UPDATE board SET value = '99' WHERE name = 'version'")
        assert "newer tiebreak" in one_line(tb, database)
        assert raw.execute("SELECT value FROM board WHERE name = 'version'").fetchone() == ("99",)


def test_a_database_without_rights_is_reported_in_one_line(tb: Tb, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as raw:
        raw.execute("CREATE ROLE guest LOGIN")
        try:
            told = one_line(tb, database.replace("tiebreak@", "guest@"))
            assert "permission denied" in told
            assert raw.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
        finally:
            raw.execute("DROP ROLE guest")


def test_a_read_only_board_is_reported_in_one_line(tb: Tb, database: str) -> None:
    open_board(database).close()
    with psycopg.connect(database, autocommit=True) as raw:
        raw.execute("CREATE ROLE guest LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest")
        try:
            with open_board(database.replace("tiebreak@", "guest@")) as board:
                assert board.tasks.list() == []
                with pytest.raises(Unavailable, match="permission denied"):
                    board.tasks.post(name="x")
                assert board.tasks.list() == []
        finally:
            raw.execute("DROP OWNED BY guest; DROP ROLE guest")


def test_an_address_with_the_short_scheme_is_the_same_board(address: str) -> None:
    with open_board(address) as board, open_board(address.replace("postgresql://", "postgres://"), "bob") as short:
        assert short.tasks.get(ref=board.tasks.post(name="x").id).name == "x"


def test_a_closed_board_says_so(board: Board) -> None:
    board.close()
    with pytest.raises(Unavailable, match="closed"):
        board.tasks.list()


def test_a_closed_board_leaves_no_connection(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as raw:
        board = open_board(database)
        threads = [threading.Thread(target=lambda: board.tasks.post(name="x")) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        board.engine.wait(0, 0)
        board.close()
        mine = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        until(lambda: raw.execute(mine).fetchone() == (0,), "all connections are closed")


# ── Forks ────────────────────────────────────────────────────────────────────────────────────────────


def backends(engine: PostgresEngine) -> set[int]:
    """The server's processes behind the connections that an engine keeps."""
    return {connection.info.backend_pid for connection in engine._idle}


def forker(address: str) -> Run:
    """Use a board, fork, use it in both; what became of the connections."""
    board = open_board(address, "parent")
    board.tasks.post(name="before")
    board.engine.wait(0, 0)
    yield
    before = backends(engine_of(board))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        board.tasks.post(name="by the child")
        mine = backends(engine_of(board))
        board.close()
        os.write(write, " ".join(map(str, mine)).encode())
        os._exit(0)
    board.tasks.post(name="by the parent")
    os.waitpid(child, 0)
    board.tasks.post(name="after the child")
    theirs = {int(pid) for pid in os.read(read, 1000).split()}
    return before, theirs, backends(engine_of(board)), [task.name for task in board.tasks.list()]


def test_a_forked_child_has_connections_of_its_own(address: str) -> None:
    open_board(address).close()
    [(before, childs, after, names)] = race(forker, [(address,)])
    assert before
    assert childs
    assert not before & childs
    assert before <= after
    assert sorted(names) == ["after the child", "before", "by the child", "by the parent"]


def test_one_database_is_one_board_and_no_other(database: str, address: str) -> None:
    with open_board(database) as one, open_board(address) as another, new_database() as third:
        one.tasks.post(name="here")
        assert another.tasks.list() == []
        assert tiebreak.open(third, agent="a~1", project="race").tasks.list() == []
        assert [one.events.last(), another.events.last()] == [1, 0]
