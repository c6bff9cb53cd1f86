"""The WAL stays short: under a busy writer, behind a long reader, and after many short-lived processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from _thread import _count
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import tiebreak
from tiebreak import Board, Unavailable
from tiebreak.engine.sqlite import backup, health, wal_checkpoint
from tiebreak.engine.sqlite import engine as sqlite
from tiebreak.engine.sqlite.opening import KEPT_WAL

from ..readers import foreign_reader

MEGABYTE = 1_000_000
LONG = 90.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc")

SHORT_LIFE = """
import sys, tiebreak
with tiebreak.open(sys.argv[1], agent="x~1", project="demo") as board:
    for i in range(10):
        board.tasks.post(name=f"task {i}", payload="x" * 2000)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "board.db")


@pytest.fixture
def board(path: str) -> Iterator[Board]:
    with tiebreak.open(path, agent="alice~1", project="demo") as opened:
        yield opened


def wal(path: str) -> int:
    try:
        return os.path.getsize(path + "-wal")
    except FileNotFoundError:
        return 0


def post(board: Board, count: int, payload: str | None = None) -> None:
    """Many tasks in one commit."""
    answers = board.batch([("tasks.post", {"name": f"task {i}", "payload": payload}) for i in range(count)])
    assert not [answer for answer in answers if isinstance(answer, Exception)]


def pages(board: Board) -> int:
    """How many pages the WAL has in use, as of the last commit."""
    return int(board.engine._checkpoints.pages)  # type: ignore[attr-defined]


def soon(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def settled(board: Board) -> None:
    """No checkpoint is going on in the background."""
    lock = board.engine._checkpoints.running  # type: ignore[attr-defined]
    assert lock.acquire(timeout=LONG)
    lock.release()


def descriptors(path: str) -> list[str]:
    """What this process has open of the board."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith(path):
            found.append(target)
    return sorted(found)


def test_the_wal_stays_bounded_under_a_busy_writer(path: str, board: Board) -> None:
    longest, anew, before = 0, 0, 0
    for turn in range(40):
        post(board, 250)
        board.tasks.claim_many(refs=[f"#{250 * turn + i + 1}" for i in range(250)])
        longest = max(longest, wal(path))
        anew += pages(board) < before
        before = pages(board)
    assert board.upkeep.status().claimed == 10_000
    assert longest < 40 * MEGABYTE
    assert anew > 0, "it never started anew"


def test_the_wal_stays_bounded_under_many_small_writes(
    path: str, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_checkpoint, "CHECKPOINT_PAGES", 50)
    monkeypatch.setattr(wal_checkpoint, "CHECKPOINT_PAGES_AT_ANY_COST", 400)  # where the thread gets no time to run
    board.engine._checkpoints._copy_at = 50  # type: ignore[attr-defined]
    longest = 0
    for turn in range(300):
        board.tasks.post(name=f"task {turn}")
        longest = max(longest, pages(board))
    assert longest < 500


def test_several_writers_do_not_leave_the_wal_to_each_other(path: str) -> None:
    boards = [tiebreak.open(path, agent=f"agent-{i}~1", project="demo") for i in range(4)]
    longest = 0
    for turn in range(48):
        post(boards[turn % 4], 100, "x" * 1000)
        longest = max(longest, wal(path))
    for each in boards:
        each.close()
    assert longest < 40 * MEGABYTE
    assert wal(path) < MEGABYTE


def test_the_wal_is_reset_when_nobody_reads(path: str, board: Board) -> None:
    while pages(board) <= wal_checkpoint.CHECKPOINT_PAGES:
        post(board, 200, "x" * 1000)
    reached, size = pages(board), wal(path)
    settled(board)
    for _ in range(3):
        board.tasks.post(name="and on")
    assert pages(board) < reached / 10
    assert wal(path) <= size + MEGABYTE


class Reader:
    """Somebody who looks at one moment of the board for a long time."""

    def __init__(self, path: str) -> None:
        self._connection = apsw.Connection(path)
        self._connection.execute("BEGIN")
        self.first = self.count()

    def count(self) -> int:
        ((found,),) = self._connection.execute("SELECT count(*) FROM tasks")
        return int(str(found))

    def end(self) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


def test_a_long_reader_neither_breaks_writers_nor_is_broken(path: str, board: Board) -> None:
    post(board, 10)
    reader = Reader(path)
    while pages(board) <= 3 * wal_checkpoint.CHECKPOINT_PAGES:
        post(board, 200, "x" * 1000)
    assert reader.count() == reader.first == 10
    reader.end()
    reached = pages(board)
    for _ in range(20):
        post(board, 200, "x" * 1000)
        settled(board)
        if pages(board) < reached / 4:
            break
    assert pages(board) < reached / 4, "it never started anew"
    board.close()
    assert wal(path) < MEGABYTE


def grown(path: str, board: Board) -> None:
    """Let the WAL grow behind a reader who then leaves, and write nothing more."""
    post(board, 10)
    reader = Reader(path)
    while wal(path) <= 2 * KEPT_WAL:
        post(board, 200, "x" * 5000)
        settled(board)
    reader.end()


def test_an_idle_process_shortens_a_wal_that_a_reader_let_grow(
    path: str, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_checkpoint, "SHORTEN_AGAIN", 0.05)
    grown(path, board)
    assert soon(lambda: wal(path) <= KEPT_WAL), "nothing was written, and the log stayed as large as it was"


def test_a_command_that_only_reads_shortens_a_wal_that_a_reader_let_grow(path: str, board: Board) -> None:
    grown(path, board)
    with tiebreak.open(path, agent="bob~1", project="demo") as other:
        other.tasks.list(limit=1)
    assert wal(path) <= KEPT_WAL


def test_a_long_reader_does_not_make_every_commit_copy_the_whole_wal(
    path: str, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_checkpoint, "CHECKPOINT_PAGES", 100)
    monkeypatch.setattr(wal_checkpoint, "CHECKPOINT_PAGES_AT_ANY_COST", 10_000)
    engine: Any = board.engine._checkpoints  # type: ignore[attr-defined]
    engine._copy_at = 100
    tried = 0
    checkpoint = engine._checkpoint

    def counting(connection: apsw.Connection) -> None:
        nonlocal tried
        tried += 1
        checkpoint(connection)

    monkeypatch.setattr(engine, "_checkpoint", counting)
    reader = Reader(path)
    commits = 0
    while pages(board) < 2000:
        board.tasks.post(name="work", payload="x" * 10_000)
        settled(board)
        commits += 1
    reader.end()
    assert commits > 100
    assert tried <= 3 * 2000 / 100 + 3


def test_closing_works_while_another_process_reads(path: str) -> None:
    board = tiebreak.open(path, agent="alice~1", project="demo")
    post(board, 500)
    reader = Reader(path)
    board.close()
    assert reader.count() == 500
    reader.end()
    with tiebreak.open(path, agent="alice~1", project="demo") as again:
        assert again.upkeep.status().pending == 500


def test_forty_short_lives_leave_a_short_wal(path: str) -> None:
    longest = 0
    for turn in range(40):
        with tiebreak.open(path, agent="alice~1", project="demo") as board:
            post(board, 10, "x" * 2000)
            board.tasks.post(name=f"task {turn}")
        longest = max(longest, wal(path))
    assert longest < MEGABYTE


def test_short_processes_leave_a_short_wal(path: str) -> None:
    longest = 0
    for _ in range(8):
        subprocess.run([sys.executable, "-c", SHORT_LIFE, path], check=True, timeout=LONG)
        longest = max(longest, wal(path))
    assert longest < MEGABYTE


@linux
def test_checkpoints_leave_no_thread_and_no_connection_behind(
    path: str, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_checkpoint, "CHECKPOINT_PAGES", 20)
    engine: Any = board.engine._checkpoints  # type: ignore[attr-defined]
    engine._copy_at = 20
    started = 0
    copy = engine._copy

    def counting() -> None:
        nonlocal started
        started += 1
        copy()

    monkeypatch.setattr(engine, "_copy", counting)
    while not started:  # SQLite keeps the first one's descriptor, for the next one: closing it would drop locks
        board.tasks.post(name="first")
        settled(board)
    before, threads = descriptors(path), _count()
    for turn in range(200):
        board.tasks.post(name=f"task {turn}")
        settled(board)
    assert started > 5
    assert soon(lambda: _count() <= threads)
    assert descriptors(path) == before


@linux
def test_closing_leaves_no_connection_behind(path: str) -> None:
    with tiebreak.open(path, agent="alice~1", project="demo") as board:
        while pages(board) <= wal_checkpoint.CHECKPOINT_PAGES:
            post(board, 500, "x" * 500)  # the last of them starts a checkpoint
    assert descriptors(path) == []


def test_a_checkpoint_that_fails_is_tried_again(path: str, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "CHECKPOINT_PAGES", 50)
    engine: Any = board.engine._checkpoints  # type: ignore[attr-defined]
    engine._copy_at = 50
    connect = engine._connect
    failures: list[int] = []

    def failing() -> apsw.Connection:
        if len(failures) < 3:
            failures.append(1)
            raise apsw.CantOpenError("too many open files")
        return connect()

    monkeypatch.setattr(engine, "_connect", failing)
    for turn in range(300):
        board.tasks.post(name=f"task {turn}")
        settled(board)
    assert len(failures) == 3
    assert pages(board) < 300


def test_writers_do_not_wait_for_a_checkpoint_in_the_background(
    path: str, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = board.engine._checkpoints  # type: ignore[attr-defined]
    started, go_on = threading.Event(), threading.Event()
    checkpoint = engine._checkpoint

    def slow(connection: apsw.Connection) -> None:
        started.set()
        assert go_on.wait(LONG)
        checkpoint(connection)

    monkeypatch.setattr(engine, "_checkpoint", slow)
    while not started.is_set():
        post(board, 200, "x" * 1000)
        started.wait(0.01)
    try:
        assert board.tasks.post(name="meanwhile").number > 0
    finally:
        go_on.set()


def test_every_connection_syncs_every_commit(path: str, board: Board) -> None:
    """Less would let a power cut take back what was acknowledged."""
    engine: Any = board.engine
    for connection in (engine._writer, engine._connect()):
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("journal_mode") == "wal"


# ── Readers that stay ────────────────────────────────────────────────────────────────────────────────────


def grow(board: Board, path: str) -> None:
    """Write until the log is larger than what it keeps."""
    while wal(path) <= 2 * KEPT_WAL:
        post(board, 200, "x" * 8000)


def test_the_log_shrinks_with_the_next_writes_after_a_foreign_reader_has_gone(
    path: str, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_checkpoint, "CHECKPOINT_AGAIN", 0.01)
    with foreign_reader(path):
        grow(board, path)
    assert soon(lambda: board.tasks.post(name="more") is not None and wal(path) <= KEPT_WAL)


def test_the_log_shrinks_without_any_write_where_a_process_looks_after_it(path: str, board: Board) -> None:
    engine: Any = board.engine
    with foreign_reader(path):
        grow(board, path)
        engine.shorten_log()
        assert wal(path) > KEPT_WAL
    engine.shorten_log()
    assert wal(path) == 0
    assert len(board.tasks.list(limit=1000)) == 1000


@linux
def test_doctor_names_the_reader_that_keeps_the_log(path: str, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LARGE_WAL", 0)
    board.tasks.post(name="work")

    def finding() -> tuple[str, str, str]:
        return next(each for each in board.doctor() if each[1] == "wal")

    with foreign_reader(path) as pid:
        assert f"pid {pid} (" in finding()[2]
    assert "pid" not in finding()[2]


def test_a_read_of_ours_ends_by_its_deadline(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "READ_DEADLINE", 0.05)
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    engine: Any = board.engine
    with pytest.raises(Unavailable, match="a read took longer"):
        engine._read(lambda tx: tx.all(endless))
    board.tasks.post(name="work")
    assert len(board.tasks.list()) == 1


def test_a_backup_ends_by_its_deadline(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "LONGEST_BACKUP", -1.0)
    with pytest.raises(Unavailable, match="takes longer"):
        board.backup(tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))
