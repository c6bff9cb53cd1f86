"""A board that moves takes everything with it, and leaves behind nothing that could be used by mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import tiebreak
from tests.cli.command import Answer, clean_environment, measured
from tests.daemons import serving
from tests.postgres import WRITES, server
from tiebreak import Board
from tiebreak.engine.move.moving import Moved, move
from tiebreak.engine.schema import CLOSED, TABLES
from tiebreak.engine.sqlite.opening import allow_writing, run_steps
from tiebreak.errors import Fenced, Refused, Unavailable

PATIENCE = 60.0
Rows = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def database() -> Iterator[str]:
    """The address of a database with nothing in it, not even an empty board."""
    address = server().address()

    def empty() -> None:
        with psycopg.connect(address) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    empty()
    yield address
    empty()


@pytest.fixture
def tb(tmp_path: Path) -> Callable[..., Answer]:
    """The real command."""
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}

    def run(*words: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "tiebreak", *words],
            capture_output=True,
            text=True,
            env={**clean_environment(tmp_path), **measured(), **kept},
            cwd=tmp_path,
            timeout=PATIENCE,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


def opened(address: Path | str, agent: str = "alice") -> Board:
    return tiebreak.open(address, agent=f"{agent}~1", project="demo")


def furnish(board: Board) -> None:
    """Something in every table: live, lapsed, free, finished, blocked and forgotten."""
    forgotten = board.tasks.claim(ref="forgotten")
    board.tasks.complete(ref=forgotten.id, epoch=forgotten.epoch)
    board.tasks.post(name="deploy", key="deploy")
    board.upkeep.prune(older_than=0)
    done = board.tasks.claim(ref="build")
    board.tasks.complete(ref=done.id, epoch=done.epoch, result={"nothing": None, "umlaut": "ä\n\t\\N"})
    board.tasks.post(name="later", after=["deploy", "build"], tags=["x", "y"], payload={"a": [1, "\\."]})
    for _ in range(3):
        again = board.tasks.claim(ref="often")
        board.tasks.release(ref=again.id, epoch=again.epoch)
    board.tasks.claim(ref="held", lease=600)
    board.jobs.submit(command=["make", "test"], env={"A": "ä"}, limit="g=2", queue="ci", unique_for=60, key="job")
    [job] = board.jobs.next(queues=["ci"], lease=600)
    board.jobs.append(ref=job.id, epoch=job.epoch, chunks=[{"start": 0, "text": "ä\n\t\\N"}])
    board.jobs.progress(ref=job.id, percent=40)
    board.queues.pause(queue="mail", reason="broken")
    board.projects.alias(name="another-name")
    board.schedules.add(
        name="daily", expression="@daily", zone="Europe/Berlin", command="make", options={"env": {"A": "ä"}}
    )
    board.call("tasks.post", {"name": "once"}, once="a-key-of-its-own")
    for _ in range(2):
        [hold] = board.holds.take(resources=["lock:deploy"], note="for a while")
        board.holds.release(resources=["lock:deploy"], epochs=[hold.epoch])
    board.holds.take(resources=["pool:ports"], slots=3)
    board.holds.take(resources=["file:src/**"])
    first = board.messages.send(later=True, body="hello\tworld", to="bob", ack_requested=True)
    board.messages.send(body="and again", reply_to=first.number)
    board.agents.announce(doing="testing")
    process: dict[str, Any] = {"host": "here", "boot": "1.1", "pid": 7, "started": 70}
    board.sessions.begin(session="lead~spawn-1", role="coordinator", command=["agent", "--x"], **process)
    board.sessions.adopt(session="lead~spawn-1", child=8, child_started=80, **process)
    board.sessions.end(session="lead~spawn-1", note="over", code=3)
    with opened(board.engine.address, "bob") as bob:
        bob.messages.ack(number=first.number)
        bob.messages.mark(upto=first.number)
        bob.waits.enter(resources=["file:src/a.py"], note="after you")
    leave_work_for_later(board)


def leave_work_for_later(board: Board) -> None:
    """What operations leave for a later one: deferred work, and one of two limited jobs that `next` reconsiders."""
    for key in ("seen", "unseen"):
        board.jobs.submit(command=["make", key], limit="h=1", queue="later", key=key)
    statements = [
        "DELETE FROM stirred",
        "INSERT INTO stirred (project, limit_group, task, rank) "
        "SELECT project, limit_group, number, 9 FROM tasks WHERE key = 'unseen'",
        "INSERT INTO chores (project, chore, subject, passed) VALUES ('demo', 'resume', 'later', 3)",
    ]
    if board.engine.address.startswith("postgresql:"):
        with psycopg.connect(board.engine.address, options=WRITES) as server_:
            for each in statements:
                server_.execute(each.encode())
        return
    file = apsw.Connection(board.engine.address)
    allow_writing(file)
    for each in statements:
        file.execute(each)
    file.close()


def contents(address: Path | str) -> Rows:
    """Every row of every table, each as a dictionary of its columns."""
    if str(address).startswith("postgresql:"):
        with psycopg.connect(str(address)) as connection:
            return {table: sorted(connection.execute(_rows_of(table)).fetchall(), key=repr) for table in TABLES}
    connection_ = apsw.Connection(str(address))
    try:
        return {table: sorted(connection_.execute(_rows_of(table)).fetchall(), key=repr) for table in TABLES}
    finally:
        connection_.close()


def _rows_of(table: str) -> str:
    return f"SELECT {', '.join(COLUMNS[table])} FROM {table}"


def _columns() -> dict[str, list[str]]:
    connection = apsw.Connection(":memory:")
    run_steps(connection, 0)
    return {
        str(table): [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        if not str(table).startswith("messages_words")
    }


COLUMNS = _columns()
TIMES = {
    *("at", "until", "created_at", "updated_at", "claimed_at", "finished_at", "ready_at", "taken_at", "sent_at"),
    *("acked_at", "joined_at", "seen_at", "left_at", "paused_at", "removed_at", "alive_at", "ended_at", "since_at"),
    "look_at",
}


def later(rows: Rows, seconds: float) -> Rows:
    """What the rows are by a clock that is so much ahead."""
    by = round(seconds * 1_000_000)
    return {
        table: sorted(
            (
                tuple(v + by if c in TIMES and v else v for c, v in zip(COLUMNS[table], row, strict=True))
                for row in found
            ),
            key=repr,
        )
        for table, found in rows.items()
    }


def without_moves(rows: Rows) -> Rows:
    at = COLUMNS["events"].index("event")
    return {**rows, "events": [row for row in rows["events"] if row[at] != "board.moved"]}


def move_files(old: Path | str, new: Path | str) -> Moved:
    return move(str(old), str(new))


def test_no_table_and_no_column_is_left_out_of_a_move() -> None:
    assert {*TABLES, "board"} == set(COLUMNS)
    times = {column for columns in COLUMNS.values() for column in columns if column == "at" or column.endswith("_at")}
    assert {*times, "until"} == TIMES


def test_there_and_back_again_every_row_is_the_same(tmp_path: Path, database: str) -> None:
    with opened(tmp_path / "board.db") as board:
        furnish(board)
    before = contents(tmp_path / "board.db")
    assert all(before.values()), "a table with nothing in it shows nothing"
    there = move_files(tmp_path / "board.db", database)
    moved = contents(database)
    assert without_moves(moved) == later(before, there.shift)
    back = move_files(database, tmp_path / "back.db")
    assert without_moves(contents(tmp_path / "back.db")) == later(before, there.shift + back.shift)
    assert there.rows == {table: len(rows) for table, rows in before.items()}


@pytest.mark.parametrize("direction", ["to a server", "to a file"])
def test_no_number_is_given_twice_and_epochs_go_on(direction: str, tmp_path: Path, database: str) -> None:
    old, new = (tmp_path / "board.db", database) if direction == "to a server" else (database, tmp_path / "board.db")
    with opened(old) as board:
        furnish(board)
        last = board.events.last()
        task = max(board.tasks.list(), key=lambda t: t.number).number
        message = max(m.number for m in board.messages.search(query="again"))
    move_files(old, new)
    with opened(new) as board:
        assert board.tasks.claim(ref="often").epoch == 4
        assert board.holds.take(resources=["lock:deploy"])[0].epoch == 3
        assert board.tasks.post(name="new").number > task
        assert board.messages.send(body="new").number > message
        found = board.events.read(after=last, project=None)
        assert found[0].number > last
        assert found[0].event == "board.moved"
        assert board.call("tasks.post", {"name": "once"}, once="a-key-of-its-own").number <= task
        assert [m.body for m in board.messages.search(query="world")] == ["hello\tworld"]


def test_a_reader_that_continues_after_a_rolled_back_number_misses_nothing(tmp_path: Path, database: str) -> None:
    """On a server a transaction that fails takes its numbers with it; a file would give them again."""
    with opened(database) as board:
        board.tasks.post(name="first")
        with psycopg.connect(database) as connection:
            connection.execute("SELECT events_next() FROM generate_series(1, 5)")
            connection.rollback()
        cursor = connection_number(database)
    move_files(database, tmp_path / "board.db")
    with opened(tmp_path / "board.db") as board:
        task = board.tasks.post(name="after")
        seen = [event.subject for event in board.events.read(after=cursor, project=None)]
    assert task.id in seen


def connection_number(database: str) -> int:
    with psycopg.connect(database) as connection:
        [row] = connection.execute("SELECT last_value FROM events_number").fetchall()
        return int(row[0])


def test_a_lease_keeps_what_it_has_left_by_a_clock_that_differs(tmp_path: Path, database: str) -> None:
    path = tmp_path / "board.db"
    with opened(path) as board:
        board.upkeep.now()
    hour = 3600 * 1_000_000
    connection = apsw.Connection(str(path))
    allow_writing(connection)
    connection.execute("UPDATE board SET value = value + ? WHERE name = 'clock.offset'", (hour,))
    connection.close()
    with opened(path) as board:
        board.tasks.claim(ref="held", lease=600)
    done = move_files(path, database)
    assert done.shift == pytest.approx(-3600, abs=30)
    with opened(database) as board:
        left = (board.tasks.get(ref="held").until or 0.0) - board.upkeep.now()
        events = board.events.read(project=None)
        assert 500 < left <= 601
        assert [event.at for event in events] == sorted(event.at for event in events)
        assert events[-1].at <= board.upkeep.now()


def test_a_claim_is_completed_where_the_board_is_and_refused_where_it_was(tmp_path: Path, database: str) -> None:
    old = opened(tmp_path / "board.db")
    task = old.tasks.claim(ref="work", lease=600)
    move_files(tmp_path / "board.db", database)
    with pytest.raises(Unavailable, match="moved to postgresql:"):
        old.tasks.complete(ref=task.id, epoch=task.epoch)
    with opened(database) as new:
        with pytest.raises(Fenced):
            new.tasks.complete(ref=task.id, epoch=task.epoch + 1)
        assert new.tasks.complete(ref=task.id, epoch=task.epoch).state == "completed"
    old.close()


CALLS: dict[str, Callable[[Board], Any]] = {
    "post": lambda board: board.tasks.post(name="x"),
    "claim": lambda board: board.tasks.claim(ref="held"),
    "next": lambda board: board.tasks.next(),
    "list": lambda board: board.tasks.list(),
    "take": lambda board: board.holds.take(resources=["lock:x"]),
    "send": lambda board: board.messages.send(body="x"),
    "heartbeat": lambda board: board.agents.heartbeat(),
    "events": lambda board: board.events.read(after=0),
    "wait": lambda board: board.engine.wait(10_000, PATIENCE),
    "status": lambda board: board.upkeep.status(),
    "probe": lambda board: board.upkeep.probe(),
    "prune": lambda board: board.upkeep.prune(),
}


def batched(board: Board) -> str:
    """What a batch is told, be it as a whole or each call of it."""
    try:
        [answer] = {str(answer) for answer in board.batch([("tasks.post", {"name": "x"}), ("tasks.list", {})])}
    except Unavailable as exc:
        return exc.message
    return answer


@pytest.mark.parametrize("direction", ["from a file", "from a server"])
def test_a_process_with_the_old_board_open_can_neither_read_nor_write_it(
    direction: str, tmp_path: Path, database: str
) -> None:
    old, new = (tmp_path / "board.db", database) if direction == "from a file" else (database, tmp_path / "board.db")
    board = opened(old)
    furnish(board)
    move_files(old, new)
    for name, call in CALLS.items():
        with pytest.raises(Unavailable, match="moved to") as told:
            call(board)
        assert str(new) in told.value.hint, name
    assert "moved to" in batched(board)
    board.close()
    with pytest.raises(Unavailable, match="moved to"), opened(old) as again:
        again.tasks.list()


def test_the_way_back_to_where_it_came_from_replaces_what_was_left_there(tmp_path: Path, database: str) -> None:
    path = tmp_path / "board.db"
    always_open = opened(path)
    furnish(always_open)
    move_files(path, database)
    with opened(database) as board:
        board.tasks.post(name="on the server", key="server")
    on_server = contents(database)
    back = move_files(database, path)
    assert contents(path)["tasks"] == later(on_server, back.shift)["tasks"]
    assert always_open.tasks.get(ref="server").state == "pending"
    always_open.close()
    with pytest.raises(Unavailable, match="moved to"):
        opened(database)
    with opened(path, "bob"), opened(path, "carol") as carol:  # the file has its place still
        assert carol.tasks.get(ref="server").state == "pending"
    move_files(path, database)
    with opened(database) as board:
        assert board.tasks.get(ref="server").state == "pending"


def test_a_board_that_moved_elsewhere_is_not_replaced(tmp_path: Path, database: str) -> None:
    for name in ("ours", "theirs"):
        with opened(tmp_path / name) as board:
            board.tasks.post(name=name)
    move_files(tmp_path / "ours", database)
    move_files(tmp_path / "theirs", tmp_path / "their new")
    with pytest.raises(Refused, match="not where"):
        move_files(database, tmp_path / "theirs")
    assert move_files(database, tmp_path / "ours").outcome == "moved"


def test_a_board_in_use_is_never_overwritten(tmp_path: Path, database: str) -> None:
    with opened(tmp_path / "board.db") as board:
        furnish(board)
    with opened(database) as occupied:
        occupied.tasks.post(name="not yours")
    before, there = contents(tmp_path / "board.db"), contents(database)
    with pytest.raises(Refused, match="is in use"):
        move_files(tmp_path / "board.db", database)
    assert contents(tmp_path / "board.db") == before
    assert contents(database) == there
    with opened(tmp_path / "board.db") as board:
        board.tasks.post(name="still here")


def test_somebody_elses_database_is_not_touched(tmp_path: Path) -> None:
    with opened(tmp_path / "board.db") as board:
        board.tasks.post(name="x")
    other = apsw.Connection(str(tmp_path / "other.db"))
    other.execute("CREATE TABLE precious (x); INSERT INTO precious VALUES (1)")
    with pytest.raises(Refused, match="not a tiebreak board"):
        move_files(tmp_path / "board.db", tmp_path / "other.db")
    assert other.execute("SELECT x FROM precious").fetchall() == [(1,)]
    other.close()


def test_an_empty_board_that_somebody_has_open_becomes_the_new_one(tmp_path: Path) -> None:
    address = server().empty_board()
    waiting = opened(address)
    assert waiting.tasks.list() == []
    with opened(tmp_path / "board.db") as board:
        board.tasks.post(name="x")
    move_files(tmp_path / "board.db", address)
    assert [task.name for task in waiting.tasks.list()] == ["x"]
    waiting.close()


def test_moving_a_moved_board_again_changes_nothing(tmp_path: Path, database: str) -> None:
    with opened(tmp_path / "board.db") as board:
        board.tasks.post(name="x")
    move_files(tmp_path / "board.db", database)
    before = contents(database)
    assert move_files(tmp_path / "board.db", database).outcome == "already"
    assert contents(database) == before
    with pytest.raises(Unavailable, match="moved to"):
        move_files(tmp_path / "board.db", tmp_path / "elsewhere.db")


def test_the_old_rows_can_still_be_looked_at(tmp_path: Path, database: str) -> None:
    with opened(tmp_path / "board.db") as board:
        board.tasks.post(name="x")
    move_files(tmp_path / "board.db", database)
    connection = apsw.Connection(str(tmp_path / "board.db"))
    assert connection.execute(f"SELECT name FROM {CLOSED}tasks").fetchall() == [("x",)]
    left = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    assert {str(name) for (name,) in left if "messages_words" not in str(name)} == {
        f"{CLOSED}{name}" for name in COLUMNS
    }
    connection.close()


# ── The command ──────────────────────────────────────────────────────────────────────────────────────


def test_the_command_moves_and_says_where_to_go(tb: Callable[..., Answer], tmp_path: Path, database: str) -> None:
    secret = database.replace("tiebreak@", "tiebreak:pssst@")
    tb("post", "work")
    looked = tb("migrate", "--to", secret, "--dry-run", "--json")
    assert json.loads(looked.out)["rows"]["tasks"] == 1
    assert tb("tasks", "--json").code == 0
    moved = tb("migrate", "--to", secret, "--json")
    assert moved.code == 0, moved
    assert json.loads(moved.out)["outcome"] == "moved"
    after = tb("tasks")
    assert after.code == 3
    assert f"moved to {database}" in after.err
    again = tb("migrate", "--to", secret)
    assert (again.code, "already" in again.out) == (0, True)
    assert "work" in tb("--board", secret, "tasks").out
    back = tb("--board", secret, "migrate", "--to", "board.db")
    assert back.code == 0, back
    assert "work" in tb("tasks").out
    assert "pssst" not in repr([looked, moved, after, again, back])


@pytest.mark.parametrize("form", ["tiebreak:pssst@", "tiebreak@", "tiebreak:pss@st@"])
def test_a_password_is_never_shown_nor_kept_however_it_is_given(form: str, tmp_path: Path, database: str) -> None:
    secret = database.replace("tiebreak@", form) + ("&password=pss@st&sslmode=disable" if form == "tiebreak@" else "")
    with opened(tmp_path / "board.db") as board:
        done = move_files(tmp_path / "board.db", secret)
        with pytest.raises(Unavailable, match="moved to") as told:
            board.tasks.list()
    kept = (tmp_path / "board.db").read_bytes() + (tmp_path / "board.db-wal").read_bytes()
    assert "pss" not in repr([done, told.value.to_dict()])
    assert b"pss" not in kept


def test_the_command_refuses_what_it_cannot_move(tb: Callable[..., Answer], tmp_path: Path, database: str) -> None:
    tb("post", "work")
    wrong = {
        ("migrate",): 2,
        ("--board", "http://127.0.0.1:1", "migrate", "--to", "x.db"): 2,
        ("migrate", "--to", "unix:/tmp/x"): 2,
        ("migrate", "--to", "mysql://x"): 2,
        ("migrate", "--to", "board.db"): 1,
        ("--board", "nowhere.db", "migrate", "--to", "x.db"): 1,
        ("migrate", "--to", database.replace("/postgres?", "/no-such-database?")): 3,
        ("migrate", "--to", "no/such/folder/x.db"): 3,
    }
    for words, code in wrong.items():
        answer = tb(*words)
        assert (answer.code, answer.out) == (code, ""), (words, answer)
        assert "Traceback" not in answer.err
    assert "work" in tb("tasks").out
    assert not (tmp_path / "x.db").exists()
    assert not (tmp_path / "nowhere.db").exists()


def test_a_board_that_a_daemon_serves_stays_where_it_is(
    tb: Callable[..., Answer], tmp_path: Path, database: str
) -> None:
    with serving(tmp_path) as daemon:
        answer = tb("migrate", "--to", database)
        assert answer.code == 1
        assert daemon.process
        assert f"pid {daemon.process.pid}" in answer.err


def test_a_copy_of_a_board_on_a_server_is_a_board_in_a_file(tmp_path: Path, database: str) -> None:
    with opened(database) as board:
        furnish(board)
        board.backup(tmp_path / "copy.db")
        with pytest.raises(Refused, match="never overwrites"):
            board.backup(tmp_path / "copy.db")
    assert contents(tmp_path / "copy.db") == contents(database)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db"]
    with opened(tmp_path / "copy.db") as board:
        assert board.tasks.claim(ref="often").epoch == 4
        assert [m.body for m in board.messages.search(query="world")] == ["hello\tworld"]
