"""A board in a file is used under one name, with the log that belongs to it, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import apsw
import pytest

import tiebreak
from tiebreak import Board, Lost, Unavailable
from tiebreak.engine.move.opening import open_endpoint
from tiebreak.engine.sqlite.board_files_repair import repair
from tiebreak.engine.sqlite.engine import LOOK_AGAIN
from tiebreak.engine.sqlite.file_facts import NEWEST
from tiebreak.engine.sqlite.write_gate import LAST_EVENT_AT

from ..cli.command import Tb
from ..cli.disks import mounted_also_at

CLAIMS = 20
RACER = """
import sys, tiebreak
path, name = sys.argv[1:]
won = 0
try:
    board = tiebreak.open(path, agent=f"{name}~1", project="demo")
    for i in range(20):
        try:
            board.tasks.claim(ref=f"task-{i}")
            won += 1
        except tiebreak.Lost:
            pass
except tiebreak.Unavailable as exc:
    print(exc, file=sys.stderr)
print(won)
"""

POSTS = 30
KILLED = """
import os, signal, sys, tiebreak
path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
board = tiebreak.open(path, agent="alice~1", project="demo")
for i in range(first, first + count):
    board.tasks.post(name=f"task-{i}", key=f"task-{i}")
os.kill(os.getpid(), signal.SIGKILL)
"""
PAGE = 4096
KILLED_IN_CHECKPOINT = """
import os, signal, sys, tiebreak
board = tiebreak.open(sys.argv[1], agent="alice~1", project="demo")
writer = board.engine._writer
class Killed:
    execute = writer.execute
    def wal_checkpoint(self, mode):
        os.kill(os.getpid(), signal.SIGKILL)
board.engine._files.checkpoint(Killed(), 0)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    return tmp_path / "here" / "board.db"


@pytest.fixture
def other(path: Path) -> Path:
    """Where the second name of the board is."""
    return path.parents[1] / "there" / "board.db"


@pytest.fixture
def board(path: Path) -> Iterator[Board]:
    with opened(path) as made:
        yield made


def opened(path: Path, agent: str = "alice") -> Board:
    return tiebreak.open(path, agent=f"{agent}~1", project="demo")


def post_and_be_killed(path: Path, first: int = 0, count: int = POSTS) -> None:
    """A process posts tasks and is killed: what it posted is acknowledged, and in the log alone."""
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), str(first), str(count)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert beside(path, "wal").stat().st_size


def copy_log(path: Path) -> None:
    """Put all of the log into the file and empty it, as a process that ends does after many writes."""
    with opened(path) as board:
        board.engine._checkpoints.empty()  # type: ignore[attr-defined]
    assert beside(path, "wal").stat().st_size == 0


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, but the index of the log: SQLite makes that anew as it likes."""
    return {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.endswith("-shm")}


def count(path: Path) -> int:
    with opened(path) as board:
        return len(board.tasks.list(limit=1000))


def beside(path: Path, suffix: str) -> Path:
    return Path(f"{path}-{suffix}")


def hard_link(path: Path, other: Path) -> Any:
    os.link(path, other)
    return nullcontext()


def mount(path: Path, other: Path) -> Any:
    other.touch()
    return mounted_also_at(other, path)


SECOND_NAMES = [hard_link, mount]


# ── A second name ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SECOND_NAMES)
def test_processes_that_use_two_names_of_a_file_win_each_task_once(
    name: Callable[[Path, Path], Any], path: Path, other: Path
) -> None:
    opened(path).close()
    with name(path, other):
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACER, str(place), f"racer-{i}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for i, place in enumerate([path, other] * 3)
        ]
        ends = [racer.communicate(timeout=60) for racer in racers]
    assert sum(int(out) for out, _ in ends) == CLAIMS
    assert [int(out) for out, _ in ends[1::2]] == [0, 0, 0]
    assert all("second name" in err for _, err in ends[1::2])


@pytest.mark.parametrize("name", SECOND_NAMES)
def test_a_second_name_is_refused_with_the_first_and_nothing_is_put_beside_it(
    name: Callable[[Path, Path], Any], path: Path, other: Path, board: Board
) -> None:
    board.tasks.post(name="work")
    with name(path, other):
        with pytest.raises(Unavailable, match=str(path)):
            opened(other)
        assert [each.name for each in other.parent.iterdir()] == ["board.db"]
        assert board.tasks.post(name="more").number == 2


@pytest.mark.parametrize("name", SECOND_NAMES)
def test_a_second_name_is_not_repaired_while_the_first_exists(
    name: Callable[[Path, Path], Any], path: Path, other: Path
) -> None:
    opened(path).close()
    with name(path, other), pytest.raises(Unavailable, match=r"second name|mounted"):
        repair(str(other))
    other.unlink()
    opened(path).close()


def test_a_daemon_is_refused_a_second_name(path: Path, other: Path, tmp_path: Path) -> None:
    opened(path).close()
    os.link(path, other)
    answer = Tb(tmp_path)("--board", str(other), "serve", "--addr", "none")
    assert answer.code == 3
    assert "second name" in answer.err


def test_a_folder_that_is_mounted_elsewhere_keeps_working(path: Path, other: Path, board: Board) -> None:
    with mounted_also_at(other.parent, path.parent), opened(other, "bob") as bob:
        board.tasks.claim(ref="work")
        with pytest.raises(Lost):
            bob.tasks.claim(ref="work")
        bob.tasks.claim(ref="more")
    with pytest.raises(Lost):
        board.tasks.claim(ref="more")


# ── A copy, and a board that was renamed ─────────────────────────────────────────────────────────────────


def test_a_copy_is_a_new_board(path: Path, other: Path) -> None:
    with opened(path) as alice:
        alice.tasks.post(name="work", key="work")
        alice.backup(other)
    with opened(path) as alice, opened(other, "bob") as bob:
        alice.tasks.claim(ref="work")
        bob.tasks.claim(ref="work")
        assert alice.tasks.get(ref="work").holder == "alice"


def test_a_copy_of_the_whole_folder_is_a_new_board(path: Path, other: Path) -> None:
    with opened(path) as alice:
        alice.tasks.post(name="work", key="work")
    other.parent.rmdir()
    shutil.copytree(path.parent, other.parent)
    with opened(path) as alice, opened(other, "bob") as bob:
        alice.tasks.claim(ref="work")
        bob.tasks.claim(ref="work")
    os.link(other, other.parent / "second.db")
    with pytest.raises(Unavailable, match=str(other)):
        opened(other.parent / "second.db")


def test_a_copy_does_not_get_the_log_of_the_file_that_was_there_before(path: Path, other: Path) -> None:
    with opened(other) as bob:
        bob.tasks.post(name="other work")
        bob.backup(path.parent / "copy.db")
    alice = opened(path)
    alice.tasks.post(name="work")
    alice.engine._closed = True  # type: ignore[attr-defined]  # as if killed: its log stays
    os.replace(path.parent / "copy.db", path)
    with pytest.raises(Unavailable, match="belongs to another file"):
        opened(path)
    alice.engine._closed = False  # type: ignore[attr-defined]
    alice.close()


def test_a_board_that_was_renamed_alone_names_its_repair_which_loses_nothing(path: Path, other: Path) -> None:
    tb = Tb(path.parent)
    tb.environment["TIEBREAK_BOARD"] = str(path)
    tb.ok("post", "work")
    path.rename(other)
    tb.environment["TIEBREAK_BOARD"] = str(other)
    refused = tb("tasks")
    assert refused.code == 3
    assert "tb doctor --repair" in refused.err
    assert tb("doctor").code == 3
    assert "ok  place" in tb.ok("doctor", "--repair")
    assert [task["name"] for task in tb.json("tasks")] == ["work"]


def test_a_board_that_was_renamed_with_all_that_is_beside_it_just_works(path: Path, other: Path) -> None:
    with opened(path) as alice:
        alice.tasks.post(name="work")
    for each in list(path.parent.iterdir()):
        each.rename(other.parent / each.name.replace("board", "renamed"))
    with opened(other.parent / "renamed.db") as alice:
        assert len(alice.tasks.list()) == 1


@pytest.mark.parametrize("command", ["status", "post", "doctor"])
@pytest.mark.parametrize("left", ["missing", "empty"])
def test_the_old_name_of_a_renamed_board_keeps_its_log(left: str, command: str, path: Path, other: Path) -> None:
    post_and_be_killed(path)
    path.rename(other)
    if left == "empty":
        path.touch()
    before = contents(path.parent)
    tb = Tb(path.parent)
    tb.environment["TIEBREAK_BOARD"] = str(path)
    refused = tb(command, *["--repair"] * (command == "doctor"), *["more"] * (command == "post"))
    assert refused.code == 3
    assert f"the file is {left}" in refused.out + refused.err
    assert "tb --board NEW-NAME doctor --repair" in refused.out + refused.err
    assert contents(path.parent) == before
    repair(str(other))
    assert count(other) == POSTS


def test_no_other_board_is_moved_to_the_old_name_of_a_renamed_one(path: Path, other: Path) -> None:
    post_and_be_killed(path)
    path.rename(other)
    path.touch()
    before = contents(path.parent)
    with pytest.raises(Unavailable, match="the file is empty"):
        open_endpoint(str(path))
    assert contents(path.parent) == before


def test_a_gate_alone_keeps_a_new_board_from_taking_the_place(path: Path, other: Path) -> None:
    post_and_be_killed(path)
    copy_log(path)
    path.rename(other)
    beside(path, "wal").unlink()
    with pytest.raises(Unavailable, match="the file is missing") as refused:
        opened(path)
    assert str(beside(path, "gate")) in refused.value.hint
    beside(path, "gate").unlink()
    assert count(path) == 0


def test_a_renamed_board_whose_log_is_gone_is_not_repaired_in_silence(path: Path, other: Path) -> None:
    post_and_be_killed(path)
    path.rename(other)
    beside(path, "wal").unlink()
    with pytest.raises(Unavailable, match=f"the last {POSTS} events .* are missing") as refused:
        repair(str(other))
    assert str(beside(path, "gate")) in refused.value.hint
    beside(path, "gate").unlink()
    repair(str(other))
    assert count(other) == 0


def test_a_renamed_board_does_not_take_its_log_from_a_file_that_is_there_now(path: Path, other: Path) -> None:
    post_and_be_killed(path)
    path.rename(other)
    shutil.copy(other, path)
    before = contents(path.parent)
    with pytest.raises(Unavailable, match=f"another file is at {path}"):
        repair(str(other))
    assert contents(path.parent) == before
    path.unlink()
    repair(str(other))
    assert count(other) == POSTS


def test_the_log_of_a_board_that_was_renamed_under_an_open_process_is_left_to_it(path: Path, other: Path) -> None:
    with opened(path) as alice:
        alice.tasks.post(name="work")
        path.rename(other)
        with pytest.raises(Unavailable, match="others have the board open"):
            repair(str(other))
        assert beside(path, "wal").exists()


def test_a_gate_with_nonsense_in_it_names_its_repair(path: Path) -> None:
    tb = Tb(path.parent)
    tb.environment["TIEBREAK_BOARD"] = str(path)
    tb.ok("post", "work")
    with beside(path, "gate").open("r+b") as gate:
        gate.seek(LAST_EVENT_AT)
        gate.write(b"nonsense            ")
    beside(path, "shm").unlink()
    refused = tb("tasks")
    assert refused.code == 3
    assert "Traceback" not in refused.err
    assert "board.db-gate does not belong to it" in refused.err
    tb.ok("doctor", "--repair")
    assert [task["name"] for task in tb.json("tasks")] == ["work"]


# ── A file that is overwritten, and a restored backup ────────────────────────────────────────────────────


def by_backup(path: Path, copy: Path) -> None:
    with opened(path) as alice:
        alice.backup(copy)


def by_cp(path: Path, copy: Path) -> None:
    copy_log(path)
    shutil.copyfile(path, copy)


COPIES = [by_backup, by_cp]


def overwrite(path: Path, copy: Path) -> None:
    """As `cp` does: the file stays the same, with other contents."""
    inode = path.stat().st_ino
    shutil.copyfile(copy, path)
    assert path.stat().st_ino == inode
    time.sleep(2 * LOOK_AGAIN)


@pytest.mark.parametrize("copied", COPIES)
def test_an_older_copy_does_not_get_the_log_of_a_killed_process(
    copied: Callable[[Path, Path], None], path: Path, other: Path
) -> None:
    post_and_be_killed(path)
    copied(path, other)
    post_and_be_killed(path, POSTS)
    copy_log(path)
    post_and_be_killed(path, 2 * POSTS)
    overwrite(path, other)
    before = contents(path.parent)
    tb = Tb(path.parent)
    tb.environment["TIEBREAK_BOARD"] = str(path)
    for command in (("post", "more"), ("doctor", "--repair")):
        refused = tb(*command)
        assert refused.code == 3
        assert "belongs to another file" in refused.out + refused.err
        assert "for a new board, first move" in refused.out + refused.err
    assert {**contents(path.parent), "board.db-gate": b""} == {**before, "board.db-gate": b""}
    for suffix in ("wal", "shm", "gate"):
        beside(path, suffix).unlink()
    assert count(path) == POSTS


@pytest.mark.parametrize("copied", COPIES)
def test_an_older_copy_in_place_of_a_clean_board_is_missed(
    copied: Callable[[Path, Path], None], path: Path, other: Path
) -> None:
    tb = Tb(path.parent)
    tb.environment["TIEBREAK_BOARD"] = str(path)
    tb.ok("post", "kept")
    copied(path, other)
    for i in range(5):
        tb.ok("post", f"lost {i}")
    copy_log(path)
    overwrite(path, other)
    refused = tb("post", "more")
    assert refused.code == 3
    assert "the last 5 events that were committed are missing" in refused.err
    assert "tb doctor --repair" in refused.err
    tb.ok("doctor", "--repair")
    assert [task["name"] for task in tb.json("tasks")] == ["kept"]


@pytest.mark.parametrize("copied", COPIES)
def test_a_file_that_is_overwritten_under_an_open_process_gets_no_more_writes(
    copied: Callable[[Path, Path], None], path: Path, other: Path, board: Board
) -> None:
    board.tasks.post(name="work")
    copied(path, other)
    board.tasks.post(name="more")
    board.engine._checkpoints.empty()  # type: ignore[attr-defined]
    board.tasks.post(name="in the log")
    overwrite(path, other)
    log = beside(path, "wal").read_bytes()
    for call in (lambda: board.tasks.post(name="lost"), board.tasks.list):
        with pytest.raises(Unavailable, match="belongs to another file"):
            call()
    board.engine._checkpoints.pages = 1000  # type: ignore[attr-defined]  # so many that it would empty the log
    board.close()
    assert beside(path, "wal").read_bytes() == log
    assert path.read_bytes() == other.read_bytes()


def test_a_checkpoint_of_another_process_is_no_overwriting(path: Path, board: Board) -> None:
    for i in range(3):
        board.tasks.post(name="work")
        with opened(path, "bob") as bob:
            bob.tasks.post(name="more")
            bob.engine._checkpoints.empty()  # type: ignore[attr-defined]
        foreign = apsw.Connection(str(path))
        foreign.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        foreign.close()
        time.sleep(2 * LOOK_AGAIN)
        assert len(board.tasks.list()) == 2 * i + 2


def test_a_process_that_is_killed_in_a_checkpoint_has_overwritten_nothing(path: Path) -> None:
    """It leaves a file in which events seem to be missing, without its log, as in one that was overwritten."""
    opened(path).close()
    oldest = path.read_bytes()
    post_and_be_killed(path)
    copy_log(path)
    post_and_be_killed(path, POSTS)
    killed = subprocess.run([sys.executable, "-c", KILLED_IN_CHECKPOINT, str(path)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    file, log = bytearray(path.read_bytes()), beside(path, "wal").read_bytes()
    for frame in range(32, len(log), 24 + PAGE):  # whatever is in the log may be anything in the file
        at = PAGE * (int.from_bytes(log[frame : frame + 4], "big") - 1)
        file[at : at + PAGE] = oldest[at : at + PAGE] or file[at : at + PAGE]
    path.write_bytes(file)
    assert newest(f"file:{path}?immutable=1") < POSTS
    assert count(path) == 2 * POSTS


def test_a_backup_does_not_get_the_log_of_a_process_that_was_killed_in_a_checkpoint(path: Path, other: Path) -> None:
    post_and_be_killed(path)
    by_backup(path, other)
    copy_log(path)
    post_and_be_killed(path, POSTS)
    killed = subprocess.run([sys.executable, "-c", KILLED_IN_CHECKPOINT, str(path)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    overwrite(path, other)
    with pytest.raises(Unavailable, match="belongs to another file"):
        opened(path)


def newest(uri: str) -> int:
    [(number,)] = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI).execute(NEWEST)
    return int(str(number))


@pytest.mark.parametrize("copied", COPIES)
def test_a_backup_is_restored_by_copying_it_even_if_it_gets_the_same_inode_number(
    copied: Callable[[Path, Path], None], path: Path, other: Path
) -> None:
    tb = Tb(path.parent)
    tb.environment["TIEBREAK_BOARD"] = str(path)
    tb.ok("post", "work")
    copied(path, other)
    for suffix in ("wal", "shm", "gate"):
        beside(path, suffix).unlink()
    overwrite(path, other)  # as if the file had been deleted, and its number used again
    assert [task["name"] for task in tb.json("tasks")] == ["work"]
    tb.ok("post", "more")


def test_a_file_that_is_mounted_alone_at_the_path_it_has_elsewhere_is_refused(path: Path, other: Path) -> None:
    """As in a container: the same path, the same file, and no gate beside it."""
    post_and_be_killed(path)
    copy_log(path)
    with mounted_also_at(path, path):
        for suffix in ("wal", "shm", "gate"):
            beside(path, suffix).unlink()
        with pytest.raises(Unavailable, match="does not belong to it, or is missing"):
            opened(path)
        assert [each.name for each in path.parent.iterdir()] == ["board.db"]


# ── Files that go away under an open process ─────────────────────────────────────────────────────────────


def deleted(file: Path) -> None:
    file.unlink()
    time.sleep(2 * LOOK_AGAIN)


def replaced(file: Path) -> None:
    shutil.copy(file, f"{file}.new")
    os.replace(f"{file}.new", file)
    time.sleep(2 * LOOK_AGAIN)


@pytest.mark.parametrize("suffix", ["wal", "shm"])
@pytest.mark.parametrize("change", [deleted, replaced])
def test_without_its_log_nobody_goes_on_and_nothing_acknowledged_is_lost(
    change: Callable[[Path], None], suffix: str, path: Path, board: Board
) -> None:
    for i in range(CLAIMS):
        board.tasks.claim(ref=f"task-{i}")
    change(beside(path, suffix))
    racer = subprocess.run(
        [sys.executable, "-c", RACER, str(path), "bob"], capture_output=True, text=True, check=False, timeout=60
    )
    assert racer.stdout == "0\n"
    assert "others have the board open" in racer.stderr
    for call in (lambda: board.tasks.claim(ref="more"), board.tasks.list, lambda: list(board.follow(timeout=0))):
        with pytest.raises(Unavailable, match=f"board.db-{suffix} was"):
            call()
    board.close()
    with opened(path, "carol") as carol:
        held = [task for task in carol.tasks.list() if task.holder == "alice"]
    assert len(held) == CLAIMS


def test_a_write_whose_log_goes_away_before_its_commit_is_not_acknowledged(path: Path, board: Board) -> None:
    engine: Any = board.engine

    def post_and_delete(tx: Any) -> None:
        tx.all("INSERT INTO board VALUES ('a', 'b')")
        beside(path, "wal").unlink()

    with pytest.raises(Unavailable, match="was deleted"):
        engine._write(post_and_delete)


def test_a_commit_is_acknowledged_although_its_number_cannot_be_remembered(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk that copies what it changes."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(board.engine._files, "committed", full)  # type: ignore[attr-defined]
    assert board.tasks.post(name="work").number == 1


@pytest.mark.parametrize("change", [deleted, replaced])
def test_readers_and_followers_notice_that_the_file_is_gone(
    change: Callable[[Path], None], path: Path, board: Board
) -> None:
    board.tasks.claim(ref="work")
    with opened(path, "bob") as bob:
        bob.tasks.claim(ref="taken")
        bob.holds.take(resources=["lock:taken"])
    change(path)
    calls: list[Callable[[], object]] = [
        lambda: board.tasks.claim(ref="taken"),
        lambda: board.holds.take(resources=["lock:taken"]),
        lambda: board.tasks.get(ref="work"),
        lambda: board.tasks.check(ref="work", epoch=1),
        lambda: board.tasks.claim(ref="more"),
        board.holds.list,
        lambda: list(board.follow(timeout=1)),
        lambda: board.next(wait=1),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match="while this process had it open"):
            call()


# ── A log that is missing when the board is opened ───────────────────────────────────────────────────────


def test_a_log_that_was_deleted_with_commits_in_it_is_missed(path: Path, tmp_path: Path) -> None:
    tb = Tb(tmp_path)
    tb.environment["TIEBREAK_BOARD"] = str(path)
    tb.ok("post", "kept")
    with opened(path) as alice:
        alice.engine._checkpoints.empty()  # type: ignore[attr-defined]
    tb.ok("post", "lost")
    beside(path, "wal").unlink()
    refused = tb("tasks")
    assert refused.code == 3
    assert "missing" in refused.err
    tb.ok("doctor", "--repair")
    assert [task["name"] for task in tb.json("tasks")] == ["kept"]


def test_a_log_that_another_program_has_put_into_the_file_is_not_missed(path: Path) -> None:
    with opened(path) as alice:
        alice.tasks.post(name="work")
    foreign = apsw.Connection(str(path))
    foreign.execute("SELECT count(*) FROM tasks").fetchall()
    foreign.close()
    assert not beside(path, "wal").exists(), "SQLite removes it when the last one closes"
    with opened(path) as alice:
        assert len(alice.tasks.list()) == 1


# ── The files beside it are ours ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("suffix", ["gate", "wal", "shm"])
def test_no_link_beside_a_board_is_followed(suffix: str, path: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("dear")
    beside(path, suffix).symlink_to(precious)
    with pytest.raises(Unavailable, match=r"symbolic link|not a regular file"):
        opened(path)
    assert precious.read_text() == "dear"


def test_refusals_are_not_written_through_a_link(path: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("dear")
    beside(path, "refused").symlink_to(precious)
    with opened(path) as alice, opened(path, "bob") as bob:
        alice.tasks.claim(ref="work")
        with pytest.raises(Lost):
            bob.tasks.claim(ref="work")
    assert precious.read_text() == "dear"


def test_a_daemon_does_not_sign_through_a_link(path: Path, tmp_path: Path) -> None:
    opened(path).close()
    precious = tmp_path / "precious"
    precious.write_text("dear")
    beside(path, "daemon").symlink_to(precious)
    answer = Tb(tmp_path)("--board", str(path), "serve", "--addr", "none")
    assert answer.code == 3
    assert "symbolic link" in answer.err
    assert precious.read_text() == "dear"


@pytest.mark.parametrize("suffix", ["gate", "wal"])
def test_a_file_beside_a_board_that_somebody_else_owns_is_refused(suffix: str, path: Path) -> None:
    if os.geteuid() != 0:
        pytest.fail("only root can give files away: run the tests as root")
    with opened(path):
        pass
    os.chown(beside(path, suffix), 12345, 12345)
    with pytest.raises(Unavailable, match="owned by another user"):
        opened(path)


def test_a_gate_that_others_can_write_to_is_refused(path: Path) -> None:
    opened(path).close()
    beside(path, "gate").chmod(0o622)
    with pytest.raises(Unavailable, match="writable by others"):
        opened(path)
