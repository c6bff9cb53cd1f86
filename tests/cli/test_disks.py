"""A disk that is full or cannot be written to: exit 3, nothing half-written, and all is well once there is space."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from .command import TB, Answer, Tb, complaint
from .disks import read_only, small_disk

PIECE = "x" * 20_000
BALLAST = 200_000


@pytest.fixture
def disk(tb: Tb) -> Iterator[Path]:
    """The board lies on a disk of 800 KiB, of which some can be freed."""
    with small_disk(tb.folder / "disk", 800) as folder:
        (folder / "ballast").write_bytes(b"\0" * BALLAST)
        tb.path = folder / "board.db"
        tb.environment["TIEBREAK_BOARD"] = str(tb.path)
        yield folder


def post(tb: Tb, name: str) -> Answer:
    return tb("post", name, "--payload", "-", stdin=json.dumps(PIECE))


def fill(tb: Tb) -> tuple[set[str], str]:
    """Post until the disk is full: the names that were acknowledged, and the one that was not."""
    posted: set[str] = set()
    for i in range(100):
        answer = post(tb, f"task-{i}")
        if answer.code:
            complaint(answer, 3)
            assert "full" in answer.err or "space" in answer.err
            return posted, f"task-{i}"
        posted.add(f"task-{i}")
    raise AssertionError("the disk is never full")


def names(tb: Tb) -> set[str]:
    return {task["name"] for task in tb.json("tasks", "--limit", "1000")}


def test_a_full_disk_takes_nothing_half_and_recovers(tb: Tb, disk: Path) -> None:
    posted, failed = fill(tb)
    assert names(tb) == posted
    complaint(post(tb, failed), 3)
    doctor = tb("doctor", "--json")
    assert (doctor.code, doctor.err) == (0, "")
    assert {finding["level"] for finding in doctor.json if finding["what"] == "integrity"} == {"ok"}
    (disk / "ballast").unlink()
    assert post(tb, failed).code == 0
    assert names(tb) == {*posted, failed}


def test_a_disk_that_the_log_filled_behind_a_reader_recovers_by_itself(tb: Tb, disk: Path) -> None:
    tb.ok("post", "first")
    reader = apsw.Connection(str(tb.path), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM events").fetchall()
    posted, failed = fill(tb)
    reader.execute("ROLLBACK")
    reader.close()
    (disk / "ballast").unlink()
    assert post(tb, failed).code == 0
    assert names(tb) == {"first", *posted, failed}


def test_a_process_that_stays_acknowledges_nothing_that_the_full_disk_did_not_take(tb: Tb, disk: Path) -> None:
    request = json.dumps({"id": 0, "method": "tasks.post", "params": {"name": "task", "payload": PIECE}}) + "\n"
    acknowledged = 0
    with tb.start("batch") as running:
        assert running.stdin
        assert running.stdout
        for _ in range(100):
            running.stdin.write(request)
            answer = running.stdout.readline()
            if '"result"' not in answer:
                break
            acknowledged += 1
        running.stdin.close()
        running.wait(60)
        assert running.stderr
        assert "Traceback" not in running.stderr.read()
    assert 0 < acknowledged < 100
    assert len(tb.json("tasks", "--limit", "1000")) == acknowledged


def test_a_board_that_could_not_be_made_for_want_of_space_is_made_later(tb: Tb, disk: Path) -> None:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    complaint(tb("post", "x"), 3)
    filler.unlink()
    assert tb.ok("post", "x")
    assert names(tb) == {"x"}


def test_a_backup_that_does_not_fit_leaves_nothing_behind(tb: Tb, disk: Path) -> None:
    for i in range(12):
        post(tb, f"task-{i}")
    before = {each.name for each in disk.iterdir()}
    said = complaint(tb("backup", str(disk / "copy.db")), 3)
    assert str(disk / "copy.db") in said
    assert {each.name for each in disk.iterdir()} == before


def test_a_file_that_may_not_grow_is_no_reason_for_a_traceback(tb: Tb) -> None:
    """A quota looks like this; unlike a full disk it can be had everywhere."""
    assert post(tb, "first").code == 0
    limit = len(PIECE) * 3 // 4

    def restrict() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [TB, "post", "second", "--payload", json.dumps(PIECE)],
        capture_output=True,
        text=True,
        cwd=tb.folder,
        env=tb.environment,
        preexec_fn=restrict,
        check=False,
    )
    complaint(Answer(done.returncode, done.stdout, done.stderr), 3)
    assert names(tb) == {"first"}
    assert post(tb, "second").code == 0
    assert names(tb) == {"first", "second"}


def test_a_board_that_cannot_be_written_to_can_still_be_read_and_doctor_says_what_is_wrong(tb: Tb) -> None:
    folder = tb.folder / "shared"
    folder.mkdir()
    tb.environment["TIEBREAK_BOARD"] = str(folder / "board.db")
    tb.ok("post", "before")
    with read_only(folder):
        assert names(tb) == {"before"}
        doctor = tb("doctor")
        assert doctor.code == 3
        assert "read-only" in doctor.out


@pytest.mark.parametrize("words", [["post", "x"], ["claim", "x"], ["hold", "lock:x"]])
def test_a_board_that_cannot_be_written_to_says_so(words: list[str], tb: Tb) -> None:
    folder = tb.folder / "shared"
    folder.mkdir()
    tb.environment["TIEBREAK_BOARD"] = str(folder / "board.db")
    tb.ok("post", "before")
    with read_only(folder):
        said = complaint(tb(*words), 3)
        assert "read-only" in said.lower() or "permission" in said.lower()
    assert names(tb) == {"before"}


def test_a_new_board_where_nothing_can_be_written(tb: Tb) -> None:
    folder = tb.folder / "shared"
    folder.mkdir()
    with read_only(folder):
        complaint(tb("--board", str(folder / "board.db"), "post", "x"), 3)
    assert list(folder.iterdir()) == []
