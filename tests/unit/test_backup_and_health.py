"""Backups and `tb doctor`: a backup is complete or absent, and every planted problem is found."""

from __future__ import annotations

import collections
import gc
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import tiebreak
from tiebreak import Board, TiebreakError, Unavailable, clock
from tiebreak.clock import micros
from tiebreak.engine.sqlite import backup, health
from tiebreak.engine.sqlite.opening import allow_writing

LONG = 90.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "board"
    folder.mkdir()
    return folder / "board.db"


@pytest.fixture
def board(path: Path) -> Iterator[Board]:
    with tiebreak.open(path, agent="alice~1", project="demo") as opened:
        opened.tasks.claim(ref="work")
        yield opened


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """A folder for copies, so that what is left in it is easily seen."""
    folder = tmp_path / "copies"
    folder.mkdir()
    return folder


def pair(board: Board, count: int = 1, payload: str | None = None) -> None:
    """Two tasks at a time, in one commit: an odd number would be half a transaction."""
    board.batch([("tasks.post", {"name": "half", "payload": payload})] * 2 * count)


def halves(board: Board) -> int:
    return board.upkeep.status().pending


# ── Copies ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_made_while_a_thread_writes_is_one_moment_of_the_board(board: Board, copies: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            pair(board, payload="x" * 3000)

    pair(board, 300, "x" * 3000)
    thread = threading.Thread(target=write)
    thread.start()
    counts = []
    try:
        for number in range(5):
            board.backup(copies / f"{number}.db")
            counts.append(halves(board))
    finally:
        stop.set()
        thread.join(LONG)
    for number, most in enumerate(counts):
        with tiebreak.open(copies / f"{number}.db", agent="bob~1", project="demo") as copy:
            found = halves(copy)
            assert found % 2 == 0
            assert 600 <= found <= most
            assert copy.events.last() == found + 2, "as many events as tasks, and the claim"
            assert {what: level for level, what, _ in copy.doctor()}["integrity"] == "ok"


def test_nobody_waits_for_a_copy(path: Path, board: Board, copies: Path) -> None:
    pair(board, 500, "x" * 2000)
    written = []

    def progress(_: int, __: int) -> None:
        with tiebreak.open(path, agent="bob~1", project="demo") as bob:
            written.append(bob.tasks.post(name="meanwhile").number)
        board.tasks.post(name="and in the same process")

    board.backup(copies / "copy.db", progress)
    assert len(written) > 1
    with tiebreak.open(copies / "copy.db", agent="bob~1", project="demo") as copy:
        assert halves(copy) == 1000, "the moment at which it began"


def test_a_copy_tells_how_far_it_is(board: Board, copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "PAGES_AT_ONCE", 10)
    seen: list[tuple[int, int]] = []
    board.backup(copies / "copy.db", lambda done, total: seen.append((done, total)))
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0


def test_a_copy_goes_on_where_the_board_was(board: Board, copies: Path) -> None:
    mine = board.tasks.get(ref="work")
    board.backup(copies / "copy.db")
    with tiebreak.open(copies / "copy.db", agent="alice~1", project="demo") as copy:
        assert copy.tasks.list() == board.tasks.list()
        copy.tasks.release(ref="work", epoch=mine.epoch)
        assert copy.tasks.claim(ref="work").epoch == mine.epoch + 1
    assert board.tasks.get(ref="work") == mine


def test_a_copy_is_one_file_for_its_owner_alone(board: Board, copies: Path) -> None:
    before = os.umask(0)
    try:
        board.backup(copies / "copy.db")
    finally:
        os.umask(before)
    assert [each.name for each in copies.iterdir()] == ["copy.db"]
    assert stat.S_IMODE((copies / "copy.db").stat().st_mode) == 0o600


def a_file(target: Path) -> None:
    target.write_text("precious")


def a_folder(target: Path) -> None:
    target.mkdir()


def a_dangling_link(target: Path) -> None:
    target.symlink_to("nowhere")


@pytest.mark.parametrize("occupy", [a_file, a_folder, a_dangling_link], ids=lambda occupy: occupy.__name__)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_copy_never_overwrites(board: Board, copies: Path, occupy: Callable[[Path], None], when: str) -> None:
    target = copies / "copy.db"
    came = [False]

    def come(*_: int) -> None:
        if not came[0]:
            occupy(target)
            came[0] = True

    if when == "before":
        come()
    with pytest.raises(TiebreakError, match=r"never overwrites|exists"):
        board.backup(target, come)
    assert [each.name for each in copies.iterdir()] == ["copy.db"]
    assert occupy is not a_file or target.read_text() == "precious"
    assert occupy is not a_dangling_link or not target.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, OSError, apsw.FullError])
def test_a_copy_that_is_interrupted_leaves_nothing(
    board: Board, copies: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "PAGES_AT_ONCE", 10)
    pair(board, 100, "x" * 2000)
    steps = 0

    def progress(*_: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            raise error

    with pytest.raises((error, Unavailable)):
        board.backup(copies / "copy.db", progress)
    assert list(copies.iterdir()) == []
    board.backup(copies / "copy.db")


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_copy_that_cannot_be_made_safe_leaves_nothing(
    board: Board, copies: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, broken)
        with pytest.raises(Unavailable, match="Input/output error"):
            board.backup(copies / "copy.db")
    assert list(copies.iterdir()) == []


def test_a_copy_into_a_folder_that_does_not_exist_says_so(board: Board, copies: Path) -> None:
    with pytest.raises(Unavailable, match="missing"):
        board.backup(copies / "missing" / "copy.db")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="/proc")
def test_copies_leave_no_descriptor_open(board: Board, copies: Path) -> None:
    board.backup(copies / "first.db")
    gc.collect()  # what earlier tests left behind
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        board.backup(copies / f"{number}.db")
        with pytest.raises(TiebreakError):
            board.backup(copies / f"{number}.db")
    assert len(os.listdir("/proc/self/fd")) == before


# ── Findings ─────────────────────────────────────────────────────────────────────────────────────────────


def findings(board: Board, *, repair: bool = False) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for level, what, details in board.doctor(repair=repair):
        found.setdefault(what, []).append((level, details))
    return found


def finding(board: Board, what: str, *, repair: bool = False) -> tuple[str, str]:
    (only,) = findings(board, repair=repair)[what]
    return only


def test_a_healthy_board_is_well_in_every_respect(board: Board) -> None:
    found = findings(board)
    of_the_file = {"sqlite", "integrity", "durability", "permissions", "wal", "disk", "clock", "gate"}
    assert set(found) == of_the_file | {"holds", "projects"}
    assert {level for group in found.values() for level, _ in group} == {"ok"}


@pytest.mark.parametrize(
    ("version", "level"), [("3.51.2", "bad"), ("3.45.1", "bad"), ("3.51.3", "ok"), ("3.52.0", "ok"), ("4.0.0", "ok")]
)
def test_a_sqlite_that_can_corrupt_a_board_is_found(
    board: Board, monkeypatch: pytest.MonkeyPatch, version: str, level: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    assert finding(board, "sqlite")[0] == level


def test_an_index_that_misses_a_row_is_found(path: Path) -> None:
    with tiebreak.open(path, agent="alice~1", project="demo") as board:
        board.tasks.post(name="work", key="work")
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA writable_schema = ON")
    entry = connection.execute("SELECT * FROM sqlite_schema WHERE name = 'tasks_key'").fetchall()[0]
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'tasks_key'")
    connection.close()
    connection = apsw.Connection(str(path))
    allow_writing(connection)
    connection.execute("UPDATE tasks SET key = 'other'")  # unseen by the index
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", entry)
    connection.close()
    with tiebreak.open(path, agent="alice~1", project="demo") as board:
        level, details = finding(board, "integrity")
        assert level == "bad"
        assert "tasks_key" in details


def test_a_connection_that_does_not_sync_is_found(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = board.engine
    connect = engine._connect

    def careless() -> apsw.Connection:
        connection: apsw.Connection = connect()
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    monkeypatch.setattr(engine, "_connect", careless)
    level, details = finding(board, "durability")
    assert level == "bad"
    assert "synchronous 1" in details


@pytest.mark.parametrize("side", ["", "-wal", "-shm", "-gate", "-refused"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_can_read_is_found_and_repaired(path: Path, board: Board, side: str, mode: int) -> None:
    file = Path(f"{path}{side}")
    file.touch()
    file.chmod(mode)
    level, details = finding(board, "permissions")
    assert level == "warn"
    assert f"{file} " in details
    assert f"{mode:o}" in details
    assert finding(board, "permissions", repair=True)[0] == "ok"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_large_wal_is_found_and_mended(path: Path, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LARGE_WAL", 500_000)
    assert finding(board, "wal")[0] == "ok"
    pair(board, 100, "x" * 5000)
    assert finding(board, "wal")[0] == "warn"
    assert finding(board, "wal", repair=True)[0] == "ok"


def test_a_disk_that_is_nearly_full_is_found(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**12, 10**12 - 10**6, 10**6))
    level, details = finding(board, "disk")
    assert level == "warn"
    assert "1 MiB free" in details


@pytest.mark.parametrize(
    ("ahead", "level", "said"),
    [(59, "ok", "behind"), (61, "warn", "behind"), (-59, "ok", "ahead of"), (-61, "warn", "ahead of")],
)
def test_a_clock_that_is_wrong_is_found(
    board: Board, monkeypatch: pytest.MonkeyPatch, ahead: int, level: str, said: str
) -> None:
    real = clock.wall
    monkeypatch.setattr(clock, "wall", lambda: real() + micros(ahead))
    found, details = finding(board, "clock")
    assert (found, said in details) == (level, True)


def test_a_hold_of_an_agent_that_left_is_found(path: Path, board: Board) -> None:
    with tiebreak.open(path, agent="bob~1", project="demo") as bob:
        bob.agents.announce()
        bob.holds.take(resources=["lock:deploy", "lock:build"])
        bob.agents.leave()
    found = findings(board)["holds"]
    assert [level for level, _ in found] == ["warn", "warn"]
    assert all("bob" in details for _, details in found)
    assert {"lock:deploy", "lock:build"} == {details.partition(" ")[0] for _, details in found}


def test_the_process_that_entered_the_gate_last_is_named(board: Board) -> None:
    assert f"pid {os.getpid()}" in finding(board, "gate")[1]


def test_doctor_without_repair_changes_nothing(path: Path, board: Board) -> None:
    path.chmod(0o644)
    last = board.events.last()
    files = {each.name: (each.stat().st_size, each.stat().st_mode) for each in path.parent.iterdir()}
    board.doctor()
    assert {each.name: (each.stat().st_size, each.stat().st_mode) for each in path.parent.iterdir()} == files
    assert board.events.last() == last


@pytest.mark.parametrize("repair", [False, True])
def test_doctor_works_while_a_thread_writes(board: Board, repair: bool) -> None:
    stop = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            while not stop.is_set():
                pair(board, 5)
        except BaseException as exc:
            errors.append(exc)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(10):
            assert [finding for finding in board.doctor(repair=repair) if finding[0] != "ok"] == []
    finally:
        stop.set()
        thread.join(LONG)
    assert errors == []
