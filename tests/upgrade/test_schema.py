"""The steps of the schema: a published one never changes, and every table keeps processes of older versions out."""

from __future__ import annotations

import itertools
import re
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import tiebreak
from tests.postgres import WRITES, server
from tests.races.places import database
from tiebreak import Unavailable
from tiebreak.engine import schema
from tiebreak.engine.postgres import opening

from .old import STATEMENTS, VERSIONS, OldBoard, old_database, old_file, process

LONG = 90.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A new board in a file."""
    made = tmp_path / "board.db"
    tiebreak.open(made).close()
    return made


@pytest.fixture
def empty() -> Iterator[str]:
    """A database without a board in it."""
    with database(server()) as made:
        yield made


@pytest.fixture
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldBoard]:
    """A board on PostgreSQL of the version before this one, or of the one that the test names."""
    with old_database(tmp_path, getattr(request, "param", VERSIONS[-1])) as made:
        yield made


of_each_version = pytest.mark.parametrize("old", VERSIONS, indirect=True)


def in_file(connection: apsw.Connection) -> dict[str, str]:
    """What a file is made of: each table, index and trigger without comments and blanks."""
    made = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    return {str(name): re.sub(r"--[^\n]*|\s+", "", str(sql)) for name, sql in made}


_COLUMNS = (
    "SELECT table_name, ordinal_position, column_name, data_type, collation_name, is_nullable, column_default, "
    "is_identity FROM information_schema.columns WHERE table_schema = 'public'"
)
_OTHERS = (
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "SELECT relname, reloptions::text FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE connamespace = 'public'::regnamespace",
)


def in_database(connection: Any) -> list[list[Any]]:
    """What a database is made of."""
    return [sorted(connection.execute(query).fetchall(), key=repr) for query in (_COLUMNS, *_OTHERS)]


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────────


def test_each_engine_has_a_file_for_every_step() -> None:
    steps = [f"{engine}-{step}.sql" for engine in ("postgres", "sqlite") for step in range(1, schema.VERSION + 1)]
    assert sorted(each.name for each in Path(schema.__file__).parent.glob("*.sql")) == steps
    for engine in ("postgres", "sqlite"):
        assert len(list(schema.steps(engine, 0))) == schema.VERSION
        assert list(schema.steps(engine, 1)) == list(schema.steps(engine, 0))[1:]
        assert list(schema.steps(engine, schema.VERSION)) == []


@pytest.mark.parametrize("made", VERSIONS)
def test_the_steps_for_sqlite_make_what_they_made_when_they_were_published(made: int, tmp_path: Path) -> None:
    fresh = apsw.Connection(":memory:")
    for number, step in enumerate(itertools.islice(schema.steps("sqlite", 0), made), 1):
        fresh.create_scalar_function(schema.sqlite_pass(number), lambda *_: None)
        fresh.execute(step)
    with old_file(tmp_path, made) as published:
        assert in_file(fresh) == in_file(apsw.Connection(published.address))


@of_each_version
def test_the_steps_for_postgres_make_what_they_made_when_they_were_published(old: OldBoard, empty: str) -> None:
    with psycopg.connect(empty) as fresh, psycopg.connect(old.address) as published:
        for number, step in enumerate(itertools.islice(schema.steps("postgres", 0), old.made), 1):
            fresh.execute(schema.postgres_pass(number).encode())
            fresh.execute(step.encode())
        assert in_database(fresh) == in_database(published)


@pytest.mark.parametrize("made", VERSIONS)
def test_an_upgraded_file_is_made_of_the_same_as_a_new_one(made: int, path: Path, tmp_path: Path) -> None:
    with old_file(tmp_path, made) as upgraded:
        upgraded.open().close()
        assert in_file(apsw.Connection(str(path))) == in_file(apsw.Connection(upgraded.address))
        for table in (*schema.TABLES, "board"):
            assert upgraded.columns(table) == process(str(path), made).columns(table) != []


@of_each_version
def test_an_upgraded_database_is_made_of_the_same_as_a_new_one(old: OldBoard, empty: str) -> None:
    for address in (empty, old.address):
        tiebreak.open(address).close()
    with psycopg.connect(empty) as new, psycopg.connect(old.address) as upgraded:
        assert in_database(new) == in_database(upgraded)


# ── Triggers ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_table_of_a_file_refuses_every_kind_of_write_by_an_older_version(path: Path) -> None:
    connection = apsw.Connection(str(path))
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'messages_words*'"
    tables = {str(name) for (name,) in connection.execute(query).fetchall()}
    assert tables == {*schema.TABLES, "board"}
    for table in tables:
        [(column, *_)] = connection.execute(f"SELECT name FROM pragma_table_info('{table}') LIMIT 1").fetchall()
        for sql in (
            f"INSERT INTO {table} DEFAULT VALUES",
            f"UPDATE {table} SET {column} = 0 WHERE FALSE",
            f"DELETE FROM {table} WHERE FALSE",
        ):
            with pytest.raises(apsw.SQLError, match=f"no such function: {schema.SQLITE_PASS}"):
                connection.execute(sql)
    connection.close()


def test_every_table_of_a_database_refuses_every_kind_of_write_by_an_older_version(empty: str) -> None:
    tiebreak.open(empty).close()
    connection: Any
    with psycopg.connect(empty, autocommit=True) as connection:
        tables = {name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}
        assert tables == {*schema.TABLES, "board"}
        for table in tables:
            column = connection.execute(f"SELECT * FROM {table}".encode()).description[0].name
            for sql in (
                f"INSERT INTO {table} DEFAULT VALUES",
                f"UPDATE {table} SET {column} = {column} WHERE FALSE",
                f"DELETE FROM {table} WHERE FALSE",
            ):
                with pytest.raises(psycopg.errors.RaiseException, match=f"upgraded to schema {schema.VERSION}"):
                    connection.execute(sql.encode())


def test_a_transaction_that_names_another_schema_is_refused(empty: str) -> None:
    tiebreak.open(empty).close()
    with (
        psycopg.connect(empty, options=f"-ctiebreak.schema={schema.VERSION - 1}") as connection,
        pytest.raises(psycopg.Error, match="schema"),
    ):
        connection.execute("DELETE FROM tasks")


def test_other_programs_may_read_vacuum_and_copy_a_file(path: Path, tmp_path: Path) -> None:
    with tiebreak.open(path, agent="alice~1", project="demo") as board:
        board.tasks.claim(ref="work")
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM tasks").fetchall() == [("work",)]
    assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with pytest.raises(sqlite3.OperationalError, match="please_upgrade_tiebreak"):
        other.execute("DELETE FROM tasks")
    other.execute("VACUUM")
    copy = sqlite3.connect(tmp_path / "copy.db")
    other.backup(copy)
    dump = [line for line in other.iterdump() if "messages_words" not in line]
    assert any(line.startswith('INSERT INTO "tasks"') for line in dump)
    other.close()
    copy.close()
    for each in (path, tmp_path / "copy.db"):
        with tiebreak.open(each, agent="alice~1", project="demo") as board:
            assert board.tasks.complete(ref="work", epoch=1).state == "completed"


def test_a_transaction_of_the_old_version_that_has_only_read_is_refused_when_it_writes(tmp_path: Path) -> None:
    with old_file(tmp_path, VERSIONS[-1]) as old:
        old.run("BEGIN")
        old.run("SELECT number FROM tasks")
        old.open().close()
        assert old.refused(STATEMENTS["claim"]) != ""
        old.run("ROLLBACK")
        assert old.refused(STATEMENTS["claim"]) == old.refusal


def test_this_version_says_what_to_do_when_a_newer_one_upgrades_the_file(path: Path) -> None:
    with tiebreak.open(path, agent="alice~1", project="demo") as board:
        board.tasks.post(name="before")
        newer = apsw.Connection(str(path))
        newer.execute("DROP TRIGGER tasks_insert_pass")
        newer.execute(
            "CREATE TRIGGER tasks_insert_pass AFTER INSERT ON tasks WHEN 0 "
            "BEGIN SELECT this_board_has_schema_99_please_upgrade_tiebreak(); END"
        )
        newer.close()
        with pytest.raises(Unavailable, match="upgraded by a newer tiebreak") as refusal:
            board.tasks.post(name="after")
        assert refusal.value.hint == "upgrade tiebreak on this machine"
        assert [task.name for task in board.tasks.list()] == ["before"]


def test_this_version_says_what_to_do_when_a_newer_one_upgrades_the_database(empty: str) -> None:
    with tiebreak.open(empty, agent="alice~1", project="demo") as board:
        board.tasks.post(name="before")
        with psycopg.connect(empty) as newer:
            shipped = newer.execute(
                "SELECT pg_get_functiondef('refuse_older_tiebreak'::regproc), pg_get_triggerdef(oid) FROM pg_trigger "
                "WHERE tgrelid = 'tasks'::regclass AND tgname LIKE 'schema%'"
            ).fetchone()
            assert shipped
            newer.execute(shipped[0].replace(f"schema {schema.VERSION}", "schema 99"))
            newer.execute(f"DROP TRIGGER schema_{schema.VERSION} ON tasks")
            newer.execute(shipped[1].replace(f"'{schema.VERSION}'", "'99'"))
        with pytest.raises(Unavailable, match="upgraded to schema 99; upgrade tiebreak on this machine"):
            board.tasks.post(name="after")
        assert [task.name for task in board.tasks.list()] == ["before"]


# ── Upgrading on a server ────────────────────────────────────────────────────────────────────────────


def upgrading(address: str) -> threading.Thread:
    """An upgrade in a thread of its own."""
    thread = threading.Thread(target=lambda: tiebreak.open(address).close())
    thread.start()
    return thread


def waits(raw: Any) -> None:
    """Come back when somebody waits for a lock."""
    while not raw.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
        pass


def test_an_upgrade_waits_for_a_transaction_that_has_written(old: OldBoard, empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as raw:
        old.run("BEGIN")
        old.run(STATEMENTS["claim"])
        thread = upgrading(old.address)
        waits(raw)
        assert old.refused(STATEMENTS["event"]) == ""
        old.run("COMMIT")
        thread.join(LONG)
    assert old.version() == schema.VERSION
    assert old.run("SELECT epoch FROM tasks WHERE key = 'often'") == [(4,)]


def test_an_upgrade_gives_way_to_a_transaction_that_would_be_in_a_deadlock_with_it(old: OldBoard, empty: str) -> None:
    """It wrote to one of the last tables and now needs one of the first, which the upgrade has locked by then."""
    with psycopg.connect(empty, autocommit=True) as raw:
        old.run("BEGIN")
        old.run(STATEMENTS["event"])
        thread = upgrading(old.address)
        waits(raw)
        assert old.refused(STATEMENTS["claim"]) == ""
        old.run("COMMIT")
        thread.join(LONG)
    assert old.version() == schema.VERSION


def test_an_upgrade_gives_way_to_a_transaction_that_has_only_read_so_far(old: OldBoard, empty: str) -> None:
    """A step changes tables, and waits for their readers. A reader that goes on to write must not wait for the step."""
    with psycopg.connect(empty, autocommit=True) as raw:
        old.run("BEGIN")
        old.run("SELECT count(*) FROM tasks")
        thread = upgrading(old.address)
        waits(raw)
        assert old.refused(STATEMENTS["claim"]) == ""
        old.run("COMMIT")
        thread.join(LONG)
    assert old.version() == schema.VERSION
    assert old.run("SELECT epoch FROM tasks WHERE key = 'often'") == [(4,)]


@pytest.mark.parametrize("use", ["SELECT count(*) FROM tasks", STATEMENTS["event"]], ids=["read", "written"])
def test_an_upgrade_gives_up_on_a_board_that_is_never_free(
    use: str, old: OldBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "DEADLINE", 0.5)
    old.run("BEGIN")
    old.run(use)
    with pytest.raises(Unavailable, match="in use for too long"):
        tiebreak.open(old.address)
    old.run("COMMIT")
    assert old.version() == old.made
    tiebreak.open(old.address).close()
    assert old.version() == schema.VERSION


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_database_s_isolation_level_does_not_matter(old: OldBoard, level: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(old.address)["dbname"]
    old.run(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
    threads = [upgrading(old.address) for _ in range(4)]
    for thread in threads:
        thread.join(LONG)
    assert old.version() == schema.VERSION


def test_a_user_who_may_not_upgrade_learns_who_may(old: OldBoard) -> None:
    last = old.last("tasks")
    old.run("CREATE ROLE worker LOGIN")
    old.run("GRANT ALL ON ALL TABLES IN SCHEMA public TO worker")
    old.run("REVOKE TRIGGER ON ALL TABLES IN SCHEMA public FROM worker")
    theirs = old.address.replace("tiebreak@", "worker@")
    try:
        with pytest.raises(Unavailable, match=f"has schema {old.made}, and this user may not upgrade") as refusal:
            tiebreak.open(theirs)
        assert "owner" in refusal.value.hint
        assert old.version() == old.made
        tiebreak.open(old.address).close()
        old.run("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO worker")
        old.run("GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO worker")
        with tiebreak.open(theirs, agent="bob~1", project="demo") as board:
            assert board.tasks.post(name="mine").number == old.last("tasks") == last + 1
    finally:
        old.run("DROP OWNED BY worker")
        old.run("DROP ROLE worker")


def test_an_upgrade_works_in_the_schema_where_the_tables_are(old: OldBoard) -> None:
    last = old.last("tasks")
    old.run("CREATE SCHEMA first")
    with tiebreak.open(old.address + "&options=-csearch_path%3Dfirst,public", agent="a~1", project="demo") as board:
        assert board.tasks.post(name="new").number == old.last("tasks") == last + 1
    found = old.run(
        "SELECT nspname FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace "
        "WHERE proname IN ('refuse_older_tiebreak', 'stir_group')"
    )
    assert found == [("public",)] * 2


def test_a_connection_may_be_told_the_schema_by_its_options(old: OldBoard) -> None:
    tiebreak.open(old.address).close()
    with psycopg.connect(old.address, options=WRITES) as raw:
        raw.execute("DELETE FROM cursors")
