"""Opening a board: it is made once however many processes open it, and other programs' files are not touched."""

from __future__ import annotations

import fcntl
import gc
import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

import tiebreak
from tiebreak import Board, Invalid, Lost, Unavailable
from tiebreak.engine import connect, schema
from tiebreak.engine.move.sqlite_endpoint import SqliteEndpoint
from tiebreak.engine.sqlite import opening
from tiebreak.engine.sqlite.engine import SqliteEngine

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc")
LONG = 90.0
SIDE_FILES = ("", "-wal", "-shm", "-gate", "-refused")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "board.db"


def fds() -> int:
    """How many descriptors are open; those of what earlier tests left to the collector do not count."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def open_board(path: Path | str, agent: str = "alice~1") -> Board:
    return tiebreak.open(path, agent=agent, project="demo")


def made(path: Path, *statements: str) -> bytes:
    """A board with a task, changed by some statements, and the bytes of its file."""
    with open_board(path) as board:
        board.tasks.post(name="work")
    connection = apsw.Connection(str(path))
    for statement in ("SELECT count(*) FROM tasks", *statements):
        connection.execute(statement).fetchall()
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return path.read_bytes()


# ── What is not ours ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_newer_board_is_refused_and_not_changed(path: Path, mode: str) -> None:
    before = made(path, "PRAGMA user_version = 99", f"PRAGMA journal_mode = {mode}")
    with pytest.raises(Unavailable, match=r"newer tiebreak \(schema 99, this one knows \d+\)") as refusal:
        open_board(path)
    assert "upgrade" in refusal.value.hint
    assert str(path) in refusal.value.message
    assert path.read_bytes() == before


TABLE = "CREATE TABLE photos (id INTEGER PRIMARY KEY)"
APPLICATION = "PRAGMA application_id = 1234"
FOREIGN = {
    "with tables": [TABLE],
    "with an application id": [TABLE, APPLICATION],
    "with a version": [TABLE, f"PRAGMA user_version = {schema.VERSION}"],
    "with an application id and no tables": [APPLICATION],
    "with a newer version": [TABLE, APPLICATION, "PRAGMA user_version = 99"],
    "in WAL mode": [TABLE, "PRAGMA journal_mode = WAL"],
}


def foreign(path: Path, *statements: str) -> None:
    """A database of another program."""
    connection = sqlite3.connect(path)
    for statement in statements or [TABLE]:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("made_as", FOREIGN)
def test_a_database_of_another_program_is_refused_and_not_changed(path: Path, made_as: str) -> None:
    foreign(path, *FOREIGN[made_as])
    before = path.read_bytes()
    with pytest.raises(Unavailable, match="not a tiebreak board"):
        open_board(path)
    assert path.read_bytes() == before


@linux
@pytest.mark.parametrize("make", [foreign, Path.mkdir, lambda path: path.write_text("no database" * 100)])
def test_being_refused_leaves_no_descriptor_open(path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    with pytest.raises(Unavailable):
        open_board(path)
    before = fds()
    for _ in range(20):
        with pytest.raises(Unavailable):
            open_board(path)
    assert fds() == before


def test_a_file_that_another_program_keeps_locked_is_given_up_on(path: Path) -> None:
    made(path, "PRAGMA journal_mode = DELETE")
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Unavailable, match="busy"):
        SqliteEngine(str(path), deadline=0.1)
    other.close()
    SqliteEngine(str(path), deadline=0.1).close()


# ── Made once ────────────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_file_becomes_a_board(path: Path) -> None:
    path.touch()
    with open_board(path) as board:
        assert board.tasks.post(name="work").number == 1


def test_a_database_without_anything_in_it_becomes_a_board(path: Path) -> None:
    sqlite3.connect(path).execute("VACUUM")
    with open_board(path) as board:
        assert board.tasks.post(name="work").number == 1


def test_one_of_eight_threads_makes_it_in_the_gate(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    guarded: list[bool] = []
    migrate = opening._migrate

    def watched(connection: apsw.Connection, where: str) -> None:
        found.append(opening._version(connection, where))
        guarded.append(_in_the_gate(path))
        migrate(connection, where)

    monkeypatch.setattr(opening, "_migrate", watched)
    _together(8, lambda: open_board(path).close())
    assert found.count(0) == 1, "the others find it made"
    assert all(guarded)


def _in_the_gate(path: Path) -> bool:
    with open(f"{path}-gate", "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _together(count: int, work: Callable[[], None]) -> None:
    """The same in several threads, begun at the same moment; what one raises is raised."""
    barrier, errors = threading.Barrier(count), []

    def run() -> None:
        barrier.wait()
        try:
            work()
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert errors == []


def _open_many(folder: str, rounds: int, barrier: Any, number: int) -> None:
    for turn in range(rounds):
        barrier.wait()
        with open_board(os.path.join(folder, f"{turn}.db"), f"agent-{number}~1") as board:
            board.tasks.post(name=f"by {number}")


def test_eight_processes_make_it_together(tmp_path: Path) -> None:
    rounds, fork = 6, multiprocessing.get_context("fork")
    barrier = fork.Barrier(8)
    crew = [fork.Process(target=_open_many, args=(str(tmp_path), rounds, barrier, number)) for number in range(8)]
    for process in crew:
        process.start()
    for process in crew:
        process.join(LONG)
    assert [process.exitcode for process in crew] == [0] * 8
    for turn in range(rounds):
        with open_board(tmp_path / f"{turn}.db") as board:
            assert sorted(task.name for task in board.tasks.list()) == [f"by {number}" for number in range(8)]


def test_a_schema_that_cannot_be_applied_leaves_nothing_half_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "VERSION", schema.VERSION + 1)  # there is no such file
        with pytest.raises(Unavailable):
            open_board(path)
    connection = apsw.Connection(str(path))
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]
    connection.close()
    with open_board(path) as board:
        board.tasks.post(name="work")


def test_opening_again_changes_nothing(path: Path) -> None:
    before = made(path)
    for _ in range(3):
        with open_board(path) as board:
            board.tasks.list()
    assert path.read_bytes() == before
    assert not os.path.exists(f"{path}-wal") or os.path.getsize(f"{path}-wal") == 0


# ── Modes ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_every_file_is_for_its_owner_alone(path: Path) -> None:
    with open_board(path) as alice:
        alice.tasks.claim(ref="work")
        with open_board(path, "bob~1") as bob, pytest.raises(Lost):
            bob.tasks.claim(ref="work")
        modes = {side: stat.S_IMODE(os.stat(f"{path}{side}").st_mode) for side in SIDE_FILES}
    assert modes == dict.fromkeys(SIDE_FILES, 0o600)


# ── One board, several names ─────────────────────────────────────────────────────────────────────────────


def linked_file(path: Path) -> Path:
    link = path.with_name("link.db")
    link.symlink_to(path.name)
    return link


def linked_folder(path: Path) -> Path:
    link = path.parent / "elsewhere"
    link.symlink_to(".")
    return link / path.name


def linked_twice(path: Path) -> Path:
    second = path.with_name("second.db")
    second.symlink_to(linked_file(path))
    return second


def detour(path: Path) -> Path:
    return path.parent / ".." / path.parent.name / path.name


@pytest.mark.parametrize("name", [linked_file, linked_folder, linked_twice, detour], ids=lambda name: name.__name__)
def test_another_name_of_a_board_is_the_same_board(path: Path, name: Callable[[Path], Path]) -> None:
    other = name(path)
    with open_board(path) as alice, open_board(other, "bob~1") as bob:
        alice.tasks.claim(ref="work")
        with pytest.raises(Lost):
            bob.tasks.claim(ref="work")
        assert bob.engine.address == alice.engine.address
    assert {each.name for each in path.parent.glob("*-gate")} == {"board.db-gate"}


@pytest.mark.parametrize("name", [linked_file, linked_folder], ids=lambda name: name.__name__)
def test_another_name_of_a_board_has_the_same_gate(path: Path, name: Callable[[Path], Path]) -> None:
    made(path)
    with open(f"{path}-gate", "rb") as gate:
        other = Board(SqliteEngine(str(name(path)), deadline=0.1), agent="bob~1", project="demo")
        fcntl.flock(gate, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="busy"):
            other.tasks.post(name="work")
        other.close()


def test_a_link_to_a_board_that_does_not_exist_yet_makes_it_there(path: Path) -> None:
    with open_board(linked_file(path)) as board:
        board.tasks.post(name="work")
    assert path.is_file()
    assert not path.is_symlink()


def test_a_board_stays_where_it_was_when_the_process_goes_elsewhere(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_board("board.db") as board:
        monkeypatch.chdir(tmp_path / "elsewhere")
        board.tasks.post(name="work")
        board.backup(tmp_path / "copy.db")
        assert board.doctor()
    assert list((tmp_path / "elsewhere").iterdir()) == []


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("prefix", ["sqlite://", "sqlite:///", ""])
def test_a_board_has_an_absolute_address(path: Path, prefix: str) -> None:
    engine = connect(f"{prefix}{path}")
    assert engine.address == os.path.realpath(path)
    engine.close()
    assert path.is_file()


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost:1",
        "https://host",
        "mysql://x",
        "://",
        "SQLITE:///x",
    ],
)
def test_an_address_of_an_unknown_kind_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match="board"):
        connect(address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["", ".", "/", "sqlite:///"])
def test_a_folder_is_no_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unavailable, match="folder"):
        connect(address)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="missing"):
        open_board(tmp_path / "missing" / "board.db")


@pytest.mark.parametrize("name", ["with blank.db", "ünï.db", "per%20cent.db", "quest?ion.db", "hash#.db", ":memory:"])
def test_nothing_in_a_file_name_is_special(tmp_path: Path, name: str) -> None:
    with open_board(tmp_path / name) as board:
        board.tasks.post(name="work")
    assert (tmp_path / name).is_file()
    with open_board(f"sqlite://{tmp_path / name}") as again:
        assert [task.name for task in again.tasks.list()] == ["work"]


# ── Closing ──────────────────────────────────────────────────────────────────────────────────────────────


@linux
def test_opening_and_closing_leaves_nothing_open(path: Path) -> None:
    made(path)
    before = fds()
    for _ in range(20):
        with open_board(path) as board:
            board.tasks.post(name="work")
            board.engine.wait(0, 0.01)
            board.tasks.list()
    assert fds() == before


@linux
def test_closing_during_a_wait_leaves_nothing_open(path: Path) -> None:
    made(path)
    before = fds()
    board = open_board(path)
    waiting, errors = threading.Event(), []

    def wait() -> None:
        after = board.events.last()
        waiting.set()
        try:
            board.engine.wait(after, 3600.0)
        except Unavailable as exc:
            errors.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(LONG)
    board.close()
    thread.join(LONG)
    assert not thread.is_alive()
    assert len(errors) == 1
    assert fds() == before


def test_closing_twice_is_closing_once(path: Path) -> None:
    board = open_board(path)
    board.close()
    board.close()


@pytest.mark.parametrize(
    "call", [lambda b: b.tasks.post(name="x"), lambda b: b.tasks.list(), lambda b: b.events.last()]
)
def test_a_closed_board_says_that_it_is_closed(path: Path, call: Callable[[Board], Any]) -> None:
    board = open_board(path)
    board.tasks.list()
    board.close()
    with pytest.raises(Unavailable, match="closed"):
        call(board)


def test_a_process_that_ends_without_closing_leaves_a_good_board(path: Path) -> None:
    opened = "tiebreak.open(sys.argv[1], agent='x~1', project='demo')"
    script = f"import os, sys, tiebreak; {opened}.tasks.post(name='a'); os._exit(0)"
    for _ in range(3):
        subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=LONG)
    with open_board(path) as board:
        assert len(board.tasks.list()) == 3


def test_on_a_mac_every_connection_also_empties_the_cache_of_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, `fsync` alone does not: a board that was moved would be less durable than promised."""
    monkeypatch.setattr(opening, "sys", SimpleNamespace(platform="darwin"))
    engine = SqliteEngine(str(path))
    side = SqliteEndpoint(str(path))
    for connection in (engine._writer, engine._connect(), side._db):
        assert connection.pragma("fullfsync") == 1
    side.close()
    engine.close()
