"""Looking after a board: copies that are whole, findings that are true, files that only their owner can read."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import tiebreak
from tiebreak.engine.sqlite.opening import allow_writing

from .command import PATIENCE, TB, Answer, Tb, complaint, ended, until, until_asleep
from .terminals import in_shell, shown, terminal

pytestmark = pytest.mark.usefixtures("counted")


def findings(tb: Tb, *words: str, code: int = 0) -> dict[str, list[dict[str, str]]]:
    answer = tb("doctor", "--json", *words)
    assert (answer.code, answer.err) == (code, "")
    found: dict[str, list[dict[str, str]]] = {}
    for each in answer.json:
        found.setdefault(each["what"], []).append(each)
    return found


def content(tb: Tb, board: Path) -> dict[str, Any]:
    words = ("--json", "--board", str(board))
    listings = (["tasks", "--all", "--limit", "1000"], ["holds"], ["events", "--limit", "1000"])
    return {name[0]: json.loads(tb.ok(*name, *words)) for name in listings}


@pytest.fixture
def lively(board: tiebreak.Board) -> tiebreak.Board:
    """A board with something of everything."""
    board.tasks.claim(ref="mine")
    board.tasks.post(name="free", payload={"a": [1, 2, 3]})
    board.holds.take(resources=["lock:x"])
    board.messages.send(later=True, body="hello", to="bob")
    return board


def test_a_copy_is_a_board_with_the_same_content(tb: Tb, lively: tiebreak.Board) -> None:
    tb.ok("backup", "copy.db")
    assert content(tb, tb.folder / "copy.db") == content(tb, tb.path)
    assert tb.ok("inbox", "--as", "bob", "--board", "copy.db")
    assert tb("complete", "mine", "--as", "me~1", "--board", "copy.db").code == 0, "and one can go on with it"


def test_a_restored_copy_is_as_durable_as_the_original(tb: Tb, lively: tiebreak.Board) -> None:
    """A rollback journal would make readers wait for writers, and waiters deaf."""
    tb.ok("backup", "copy.db")
    tb.environment["TIEBREAK_BOARD"] = str(tb.folder / "copy.db")
    tb.ok("post", "x")
    assert findings(tb)["durability"][0]["level"] == "ok"


def test_a_restored_copy_wakes_those_who_wait(tb: Tb, lively: tiebreak.Board) -> None:
    tb.ok("backup", "copy.db")
    tb.environment["TIEBREAK_BOARD"] = str(tb.folder / "copy.db")
    with tb.start("wait", "--timeout", "60s") as running:
        until_asleep(running)
        tb.ok("post", "x")
        assert ended(running).code == 0


def test_a_copy_made_while_others_write_is_one_moment_of_the_board(tb: Tb) -> None:
    """Each transaction posts two tasks: a copy with an odd number would be half a transaction."""
    pair = 2 * '{"method": "tasks.post", "params": {"name": "half"}}\n'
    with tb.start("batch") as writer:
        assert writer.stdin
        assert writer.stdout
        stop = False

        def write() -> None:
            while not stop:
                writer.stdin.write(pair)  # type: ignore[union-attr]
                writer.stdin.flush()  # type: ignore[union-attr]
                for _ in range(2):
                    writer.stdout.readline()  # type: ignore[union-attr]

        thread = threading.Thread(target=write)
        thread.start()
        try:
            until(lambda: tb.path.exists() and tb.json("status")["pending"] > 20, "somebody writes")
            for i in range(3):
                tb.ok("backup", f"copy-{i}.db")
        finally:
            stop = True
            thread.join(PATIENCE)
    counts = [tb.json("status", "--board", f"copy-{i}.db")["pending"] for i in range(3)]
    assert counts == sorted(counts)
    assert all(count > 20 and count % 2 == 0 for count in counts)
    for i in range(3):
        connection = apsw.Connection(str(tb.folder / f"copy-{i}.db"))
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) - (SELECT count(*) FROM tasks) FROM events").fetchall() == [(0,)]
        connection.close()


@pytest.mark.parametrize("target", ["file", "folder", "link", "the board itself"])
def test_a_copy_never_overwrites(target: str, tb: Tb, lively: tiebreak.Board) -> None:
    copy = tb.folder / "copy.db"
    if target == "file":
        copy.write_text("precious")
    elif target == "folder":
        copy.mkdir()
    elif target == "link":
        copy.symlink_to("elsewhere.db")
    else:
        copy = tb.path
    before = sorted(each.name for each in tb.folder.iterdir())
    complaint(tb("backup", str(copy)), 1)
    assert sorted(each.name for each in tb.folder.iterdir()) == before
    assert target != "file" or copy.read_text() == "precious"


def test_a_copy_into_a_folder_that_does_not_exist(tb: Tb, lively: tiebreak.Board) -> None:
    assert "missing/copy.db" in complaint(tb("backup", "missing/copy.db"), 3)


def test_a_copy_is_as_private_as_the_board(tb: Tb, lively: tiebreak.Board) -> None:
    tb.sh("umask 000; tb backup copy.db")
    assert stat.S_IMODE((tb.folder / "copy.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("mask", ["000", "022", "077"])
def test_nobody_else_can_read_the_board_whatever_the_umask(mask: str, tb: Tb) -> None:
    tb.environment.pop("TIEBREAK_BOARD")
    answer = tb.sh(f"umask {mask}; tb claim work --as alice && tb claim work --as bob; tb wait --timeout 1ms; true")
    assert answer.code == 0
    folder = tb.folder / "state" / "tiebreak"
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    assert set(modes) >= {"board.db", "board.db-wal", "board.db-shm", "board.db-gate", "board.db-refused"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_healthy_board_is_well_in_every_respect(tb: Tb, lively: tiebreak.Board) -> None:
    found = findings(tb)
    assert {each["level"] for group in found.values() for each in group} == {"ok"}
    assert set(found) >= {"sqlite", "integrity", "durability", "permissions", "wal", "disk", "clock", "gate", "holds"}


def test_a_board_that_nobody_has_written_to_yet_is_described_in_whole_sentences(tb: Tb, lively: tiebreak.Board) -> None:
    tb.ok("backup", "copy.db")
    tb.environment["TIEBREAK_BOARD"] = str(tb.folder / "copy.db")
    assert "an unknown process ago" not in tb("doctor").out


@pytest.mark.parametrize("file", ["board.db", "board.db-wal", "board.db-gate"])
def test_files_that_others_can_read_are_found_and_repaired(file: str, tb: Tb, lively: tiebreak.Board) -> None:
    (tb.folder / file).chmod(0o644)
    (warning,) = findings(tb)["permissions"]
    assert warning["level"] == "warn"
    assert file in warning["details"]
    assert findings(tb, "--repair")["permissions"][0]["level"] == "ok"
    assert stat.S_IMODE((tb.folder / file).stat().st_mode) == 0o600


def test_doctor_without_repair_changes_nothing(tb: Tb, lively: tiebreak.Board) -> None:
    tb.path.chmod(0o644)
    findings(tb)
    assert stat.S_IMODE(tb.path.stat().st_mode) == 0o644


def test_a_hold_of_the_dead_is_found(tb: Tb) -> None:
    in_shell(tb, "tb announce working >/dev/null; tb hold lock:orphan >/dev/null")
    (warning,) = findings(tb)["holds"]
    assert warning["level"] == "warn"
    assert "lock:orphan" in warning["details"]


def test_a_hold_of_the_dead_is_found_also_when_they_never_introduced_themselves(tb: Tb) -> None:
    in_shell(tb, "tb hold lock:orphan >/dev/null")
    assert findings(tb)["holds"][0]["level"] == "warn"


def test_a_wrong_clock_is_found(tb: Tb, lively: tiebreak.Board) -> None:
    connection = apsw.Connection(str(tb.path))
    allow_writing(connection)
    connection.execute("UPDATE board SET value = value + 3600000000 WHERE name = 'clock.offset'")
    connection.close()
    assert findings(tb)["clock"][0]["level"] == "warn"


def test_pruning_forgets_what_is_old_and_keeps_the_epochs(cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    board.tasks.claim(ref="work")
    board.tasks.complete(ref="work")
    board.tasks.post(name="open")
    assert cli("prune", "--json").json["tasks"] == 0, "nothing is a month old"
    told = cli("prune", "--older-than", "0s", "--json").json
    assert told["tasks"] == 1
    assert [task["name"] for task in cli("tasks", "--all", "--json").json] == ["open"]
    assert cli("claim", "work", "--json").json["epoch"] == 2


@pytest.fixture
def finished(board: tiebreak.Board) -> tiebreak.Board:
    """A finished task in each of two projects."""
    for project in ("demo", "other"):
        board.tasks.claim(ref="work", project=project)
        board.tasks.complete(ref="work", project=project)
    board.tasks.post(name="the newest stays", project="third")
    return board


def left(board: tiebreak.Board) -> list[str]:
    return sorted(task.project for task in board.tasks.list(project=None, states=["completed"]))


PRUNE = ("prune", "--older-than", "0s")


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ([], ["other"]),
        (["--project", "other"], ["demo"]),
        (["--every-project"], []),
        (["--project", "other", "--every-project"], []),
        (["--dry-run"], ["demo", "other"]),
        (["--dry-run", "--every-project", "--yes"], ["demo", "other"]),
    ],
    ids=" ".join,
)
def test_pruning_reaches_no_other_project_than_asked(
    words: list[str], kept: list[str], cli: Callable[..., Answer], finished: tiebreak.Board
) -> None:
    told = cli(*PRUNE, *words)
    assert told.code == 0
    assert left(finished) == kept
    where = "all projects" if "--every-project" in words else f"project {'other' if '--project' in words else 'demo'}"
    assert f" of {where}, older than 0s" in told.out
    assert told.out.startswith("would forget" if "--dry-run" in words else "forgot")


def test_a_dry_run_writes_nothing(
    cli: Callable[..., Answer], finished: tiebreak.Board, rows: Callable[[], dict[str, Any]]
) -> None:
    before = rows()
    told = cli(*PRUNE, "--dry-run", "--every-project", "--json").json
    assert rows() == before
    assert (told["tasks"], told["project"], told["dry_run"]) == (2, None, True)


@pytest.mark.parametrize("answer", ["n", "", "y"])
def test_pruning_on_a_terminal_asks_first(answer: str, tb: Tb, finished: tiebreak.Board) -> None:
    with terminal(echo=False) as screen:
        running = screen.start(tb, TB, *PRUNE)
        assert screen.read(until=b"will forget 1 tasks")
        assert screen.read(until=b"of project demo, older than 0s. Go on? [y/N] ")
        screen.type(answer + "\n")
        assert screen.read()
        assert running.wait(PATIENCE) == (0 if answer == "y" else 1)
    assert left(finished) == (["other"] if answer == "y" else ["demo", "other"])


def test_who_says_yes_is_not_asked(tb: Tb, finished: tiebreak.Board) -> None:
    assert "Go on?" not in shown(tb, *PRUNE, "--yes")
    assert left(finished) == ["other"]


def test_nobody_is_asked_about_nothing(tb: Tb, finished: tiebreak.Board) -> None:
    assert "would forget 0 tasks" in shown(tb, "prune", "--project", "third")


def test_pruning_a_large_board_leaves_others_their_turn(tb: Tb, board: tiebreak.Board) -> None:
    board.batch([("messages.send", {"body": "chatter"}) for _ in range(2500)])
    with tb.start("prune", "--older-than", "0s", "--json") as running:
        tb.ok("post", "meanwhile")
        out, _ = running.communicate(timeout=PATIENCE)
    assert json.loads(out)["messages"] >= 2499
    assert len(tb.json("tasks")) == 1


def test_a_copy_that_is_interrupted_leaves_nothing(tb: Tb, lively: tiebreak.Board) -> None:
    """The name appears when the copy is complete, so an observer never sees half a file."""
    script = (
        "import os, sys, tiebreak\n"
        "board = tiebreak.open(sys.argv[1], agent='me~1', project='demo')\n"
        "board.backup('copy.db', lambda done, of: sys.exit('copy.db' in os.listdir('.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tb.path)], cwd=tb.folder, env=tb.environment, check=False)
    assert done.returncode == 0, "the name was there before the copy was complete"
    assert [each for each in os.listdir(tb.folder) if "copy" in each] == []
