"""Boards that are no boards (any more): one line, exit 3, and never a byte changed in a file that is not ours."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import tiebreak

from .command import Tb, complaint

PAGE = 4096
COMMANDS = [["post", "x"], ["status"], ["next"], ["hold", "lock:x"], ["batch"]]
REQUEST = '{"method": "tasks.post", "params": {"name": "x"}}\n'


def full_board(path: Path) -> None:
    """A board of many pages, all of them in the one file."""
    with tiebreak.open(path, agent="me~1", project="demo") as board:
        board.batch([("tasks.post", {"name": f"task {i}", "payload": "x" * 500}) for i in range(200)])
    connection = apsw.Connection(str(path))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()


def overwritten(path: Path) -> None:
    full_board(path)
    with path.open("r+b") as file:
        file.seek(PAGE)
        file.write(b"\xa5" * (path.stat().st_size - PAGE))


def truncated(path: Path) -> None:
    full_board(path)
    os.truncate(path, 3 * PAGE // 2)


def cut_to_its_header(path: Path) -> None:
    full_board(path)
    os.truncate(path, 100)


def text(path: Path) -> None:
    path.write_text("once upon a time there was no database\n" * 300)


def short_text(path: Path) -> None:
    path.write_text("hello\n")


def somebody_elses(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (id INTEGER PRIMARY KEY, name TEXT)")
    connection.commit()
    connection.close()


def somebody_elses_with_a_version(path: Path) -> None:
    somebody_elses(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 1")
    connection.execute("PRAGMA application_id = 1234")
    connection.close()


def newer(path: Path) -> None:
    full_board(path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 99")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()


DAMAGES = [
    overwritten,
    truncated,
    cut_to_its_header,
    text,
    short_text,
    somebody_elses,
    somebody_elses_with_a_version,
    newer,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_what_cannot_be_used_is_said_in_one_line_and_left_alone(damage: Callable[[Path], None], tb: Tb) -> None:
    damage(tb.path)
    before = tb.path.read_bytes()
    for words in COMMANDS:
        said = complaint(tb(*words, stdin=REQUEST), 3)
        assert str(tb.path) in said
    answer = tb("status", "--json")
    assert (answer.code, answer.json["error"]) == (3, "Unavailable")
    assert tb.path.read_bytes() == before


@pytest.mark.parametrize("damage", [text, somebody_elses], ids=lambda damage: damage.__name__)
def test_nothing_is_left_beside_a_file_that_is_not_ours(damage: Callable[[Path], None], tb: Tb) -> None:
    damage(tb.path)
    tb("post", "x")
    assert [each.name for each in tb.folder.iterdir()] == [tb.path.name]


@pytest.mark.parametrize("damage", [overwritten, truncated, text, newer], ids=lambda damage: damage.__name__)
def test_a_hint_never_leads_in_a_circle(damage: Callable[[Path], None], tb: Tb) -> None:
    """`tb doctor` must tell more than the command that recommended it."""
    damage(tb.path)
    answer = tb("doctor")
    assert answer.code == 3
    assert "`tb doctor`" not in answer.err
    assert "Traceback" not in answer.err


def test_a_newer_board_says_what_to_do(tb: Tb) -> None:
    newer(tb.path)
    said = complaint(tb("status"), 3)
    assert "schema 99" in said
    assert "upgrade" in said


@pytest.mark.parametrize("table", ["tasks", "events", "holds", "tasks_key"])
def test_doctor_finds_one_damaged_page(table: str, tb: Tb) -> None:
    full_board(tb.path)
    connection = apsw.Connection(str(tb.path))
    ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
    connection.close()
    with tb.path.open("r+b") as file:
        file.seek((int(str(root)) - 1) * PAGE)
        file.write(bytes(range(256)) * (PAGE // 256))
    answer = tb("doctor", "--json")
    assert "Traceback" not in answer.err
    assert answer.code == 3
    assert isinstance(answer.json, list), "an error instead of findings"
    assert "bad" in {finding["level"] for finding in answer.json if finding["what"] == "integrity"}


def test_a_folder_that_does_not_exist(tb: Tb) -> None:
    said = complaint(tb("--board", "missing/board.db", "post", "x"), 3)
    assert "missing/board.db" in said
    assert not (tb.folder / "missing").exists()


def test_a_folder_in_the_place_of_the_board(tb: Tb) -> None:
    tb.path.mkdir()
    assert "folder" in complaint(tb("post", "x"), 3)
    assert list(tb.path.iterdir()) == []


@pytest.mark.parametrize("path", ["/dev/null", "/dev/full", "/proc/self/mem"])
def test_a_device_in_the_place_of_the_board(path: str, tb: Tb) -> None:
    if os.path.exists(path):
        complaint(tb("--board", path, "post", "x"), 3)


def test_an_empty_file_becomes_a_board(tb: Tb) -> None:
    tb.path.touch()
    assert tb.ok("post", "x")
    assert len(tb.json("tasks")) == 1


def test_a_board_that_is_deleted_under_a_running_process_does_not_swallow_its_writes(tb: Tb) -> None:
    """What is acknowledged has to be there for the next one who looks; so such a write must be refused."""
    with tb.start("batch") as running:
        assert running.stdin
        assert running.stdout
        running.stdin.write(REQUEST)
        assert "result" in running.stdout.readline()
        for each in tb.folder.glob("board.db*"):
            each.unlink()
        running.stdin.write(REQUEST)
        acknowledged = "result" in running.stdout.readline()
        running.stdin.close()
        code = running.wait(60)
        assert running.stderr
        assert "Traceback" not in running.stderr.read()
    assert len(tb.json("tasks")) == int(acknowledged)
    assert acknowledged or code == 3


def test_two_boards_under_one_path_cannot_give_the_same_thing_twice(tb: Tb) -> None:
    """A board that was replaced while somebody had it open: both would believe to hold the lock."""
    take = {"method": "holds.take", "params": {"resources": ["lock:deploy"], "agent": "old~1"}}
    with tb.start("batch") as running:
        assert running.stdin
        assert running.stdout
        running.stdin.write('{"method": "events.last"}\n')
        running.stdout.readline()
        for each in tb.folder.glob("board.db*"):
            each.unlink()
        tb.ok("hold", "lock:deploy", "--as", "new")
        running.stdin.write(json.dumps(take) + "\n")
        answer = running.stdout.readline()
        assert '"result"' not in answer
