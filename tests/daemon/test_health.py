"""`/health` makes a real round trip: it fails while the board cannot be written or trusted, and recovers with it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from tiebreak.daemon import server
from tiebreak.engine.sqlite import wal_checkpoint

from ..cli.command import until
from ..cli.disks import small_disk
from ..daemons import InProcessDaemon, Reply, Serving
from ..readers import foreign_reader
from .conftest import WHO, ask, gauge, held_gate, post, result, rpc

PAGE = 4096
KILOBYTES = 1200
BALLAST = 300_000
PIECE = "x" * 20_000


def health(place: Serving | InProcessDaemon) -> Reply:
    """What it says of itself."""
    return ask(place, "GET", "/health")


def red(place: Serving | InProcessDaemon, *reasons: str) -> None:
    """It is not well, says why, and is alive all the same."""
    answer = health(place)
    assert (answer.status, answer.json["healthy"], answer.json["error"]) == (503, False, "Unavailable"), answer
    assert any(reason in answer.json["message"] for reason in reasons), answer.json
    assert answer.json["hint"]
    assert int(answer.headers["retry-after"]) > 0
    assert "Traceback" not in str(answer.body)
    assert gauge(place, "up_seconds") >= 0


def green(place: Serving | InProcessDaemon) -> float:
    """All is well; when the mark was written that it read back."""
    answer = health(place)
    assert (answer.status, answer.json["healthy"]) == (200, True), answer
    return float(answer.json["written"])


def test_each_health_check_writes_to_the_board_and_reads_it_back(served: Serving) -> None:
    assert served.process
    before = green(served)
    assert green(served) > before
    assert health(served).json["pid"] == served.process.pid
    connection = apsw.Connection(str(served.board), flags=apsw.SQLITE_OPEN_READONLY)
    [(mark,)] = connection.execute("SELECT value FROM board WHERE name = 'probe'")
    connection.close()
    assert int(mark) / 1e6 > before


def test_a_reader_that_keeps_the_write_ahead_log_long_is_named_until_it_ends(
    near: Callable[..., InProcessDaemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SHORTEN_LOG", 0.05)
    monkeypatch.setattr(wal_checkpoint, "KEPT_WAL", 0)
    daemon = near()
    with foreign_reader(daemon.board) as pid:
        post(daemon, "work")
        until(lambda: health(daemon).json["wal_kept_by"], "it is named")
        [name] = health(daemon).json["wal_kept_by"]
        assert name.startswith(f"pid {pid} (")
        assert gauge(daemon, "wal_kept_by_pid") == pid
    until(lambda: not health(daemon).json["wal_kept_by"], "it has gone")
    until(lambda: not gauge(daemon, "wal_bytes"), "the log is short again")
    assert gauge(daemon, "wal_kept_by_pid") == 0


def test_a_health_check_leaves_no_event(served: Serving) -> None:
    before = result(served, "events.last")
    green(served)
    assert result(served, "events.last") == before


# ── A full disk ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk, of which some can be freed."""
    with small_disk(tmp_path / "disk", KILOBYTES) as folder:
        (folder / "ballast").write_bytes(b"\0" * BALLAST)
        yield folder


@pytest.fixture
def on_disk(tmp_path: Path, disk: Path) -> Iterator[Serving]:
    """A daemon whose board, and nothing else of it, is on the small disk."""
    made = Serving(tmp_path)
    made.board = disk / "board.db"
    made.environment["TIEBREAK_BOARD"] = str(made.board)
    try:
        yield made.start()
    finally:
        made.close()


def fill(place: Serving, disk: Path) -> set[str]:
    """Write until there is no space for a single page more; the names that were acknowledged."""
    stored = set()
    for i in range(1000):
        answer = rpc(place, "tasks.post", name=f"task-{i}", payload=PIECE, **WHO)
        if "error" in answer:
            assert (answer["error"]["code"], "full" in answer["error"]["message"]) == (-32006, True)
            break
        stored.add(answer["result"]["name"])
    else:
        raise AssertionError("the disk is never full")
    with contextlib.suppress(OSError), open(disk / "rest", "wb", buffering=0) as rest:
        while True:
            rest.write(b"\0" * PAGE)
    return stored


def test_a_full_disk_is_unhealthy_until_space_is_freed(on_disk: Serving, disk: Path) -> None:
    green(on_disk)
    stored = fill(on_disk, disk)
    # What failed has left a few pages in the log that a small write may still use.
    until(lambda: health(on_disk).status == 503, "the last page is used up")
    red(on_disk, "the disk is full")
    red(on_disk, "the disk is full")
    names = {task["name"] for task in result(on_disk, "tasks.list", project="demo", limit=1000)}
    assert names == stored
    (disk / "ballast").unlink()
    green(on_disk)
    post(on_disk, "after")


# ── A damaged file ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def full(own: Serving) -> Serving:
    """A daemon whose board has many pages, all of them in the one file."""
    for i in range(30):
        post(own, f"task {i}", payload=PIECE)
    own.stop()
    connection = apsw.Connection(str(own.board))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return own.start()


def overwrite(board: Path, first: int, last: int) -> None:
    """Put something else where pages of the database were."""
    with board.open("r+b") as file:
        file.seek(first * PAGE)
        file.write(b"\xa5" * (last - first) * PAGE)
        os.fsync(file.fileno())


def test_a_damaged_database_is_unhealthy(full: Serving) -> None:
    green(full)
    pages = full.board.stat().st_size // PAGE
    overwrite(full.board, pages // 3, 2 * pages // 3)
    red(full, "the database is damaged")
    red(full, "the database is damaged")


def test_damage_in_a_few_pages_that_no_write_touches_is_found_too(full: Serving) -> None:
    connection = apsw.Connection(str(full.board))
    [(root,)] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages'")
    connection.close()
    green(full)
    overwrite(full.board, root - 1, root)
    red(full, "the database is damaged")


# ── A file that is not there any more ────────────────────────────────────────────────────────────────


def test_a_deleted_board_is_unhealthy_and_refuses_writes_that_would_be_lost(own: Serving) -> None:
    post(own, "x")
    os.unlink(own.board)
    red(own, "deleted")
    assert "deleted" in rpc(own, "tasks.post", name="y", **WHO)["error"]["message"]
    assert not own.board.exists()
    assert own.stop() == 0
    for side in ("-wal", "-shm", "-gate"):  # whoever leaves one of them may have moved the file by mistake
        Path(f"{own.board}{side}").unlink(missing_ok=True)
    green(own.start())


def test_a_replaced_board_is_unhealthy(own: Serving, tmp_path: Path) -> None:
    post(own, "x")
    os.rename(own.board, tmp_path / "old.db")
    own.board.write_bytes((tmp_path / "old.db").read_bytes())
    red(own, "replaced")
    os.rename(tmp_path / "old.db", own.board)
    green(own)


def test_a_locked_board_is_unhealthy_until_it_is_unlocked(near: Callable[..., InProcessDaemon]) -> None:
    place = near(deadline=0.3)
    green(place)
    with held_gate(place.board):
        red(place, "busy: held by ")
    green(place)
