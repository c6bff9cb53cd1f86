"""The real `tb restore`: what it refuses, what it says, and that looking changes nothing."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import psycopg
import pytest

from tests.cli.command import PATIENCE, TB, Tb, complaint
from tests.cli.terminals import terminal
from tests.conformance.engines import pooler
from tests.migrate.test_moving import contents
from tests.postgres import server
from tests.races.places import database
from tiebreak.engine.schema import CLOSED
from tiebreak.errors import Unavailable

from .acts import names, opened, restored


@pytest.fixture
def backup(tb: Tb, tmp_path: Path) -> Path:
    """A backup, and a board on which more has happened since."""
    file = tmp_path / "monday.backup"
    tb("claim", "deploy", "--as", "alice")
    tb("backup", str(file))
    tb("complete", "deploy", "--as", "alice")
    tb("hold", "lock:x", "--as", "alice")
    return file


def test_without_a_terminal_it_is_refused_unless_it_is_told_not_to_ask(tb: Tb, backup: Path, tmp_path: Path) -> None:
    before = contents(tmp_path / "board.db")
    answer = tb("restore", str(backup))
    assert "there is no terminal with a person, so nobody can be asked" in complaint(answer, 2)
    assert contents(tmp_path / "board.db") == before
    assert tb("restore", str(backup), "--yes").code == 0
    assert contents(tmp_path / "board.db") != before


def test_a_dry_run_says_what_would_change_and_changes_nothing(tb: Tb, backup: Path, tmp_path: Path) -> None:
    before, files = contents(tmp_path / "board.db"), sorted(os.listdir(tmp_path))
    would = tb("restore", str(backup), "--dry-run", "--json").json
    assert (contents(tmp_path / "board.db"), sorted(os.listdir(tmp_path))) == (before, files)
    done = tb("restore", str(backup), "--yes", "--json").json
    assert (would["outcome"], done["outcome"]) == ("would", "restored")
    assert would["changes"] == done["changes"]
    assert done["changes"]["tasks_changed"] == done["changes"]["holds_ended"] == 1
    assert (would["saved"], would["event"]) == (None, 0)
    assert contents(done["saved"]) == before, "the board as it was"


def test_a_dry_run_makes_no_board(tb: Tb, backup: Path, tmp_path: Path) -> None:
    new = tmp_path / "elsewhere" / "new.db"
    new.parent.mkdir()
    assert tb("--board", str(new), "restore", str(backup), "--dry-run").code == 0
    assert os.listdir(new.parent) == []
    assert tb("--board", str(new), "restore", str(backup), "--yes", "--epochs-above", "9").code == 0
    assert "epoch 10" in tb("--board", str(new), "claim", "deploy", "--as", "bob").out


@pytest.mark.parametrize(("word", "code"), [("n", 2), ("y", 0)])
def test_on_a_terminal_it_shows_what_would_change_and_asks(
    word: str, code: int, tb: Tb, backup: Path, tmp_path: Path
) -> None:
    before = contents(tmp_path / "board.db")
    with terminal(columns=200) as screen:
        process = screen.start(tb, TB, "restore", str(backup))
        assert screen.read(until=b"Restore it? [y/N] ")
        screen.type(f"{word}\n")
        assert process.wait(PATIENCE) == code
    assert (contents(tmp_path / "board.db") == before) == bool(code)


def _text(path: Path) -> None:
    path.write_text("no database\n" * 500)


def _empty(path: Path) -> None:
    path.touch()


def _other_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (name TEXT)")
    connection.close()


def _folder(path: Path) -> None:
    path.mkdir()


def _damaged(path: Path) -> None:
    with opened(str(path.with_suffix(".db"))) as board:
        board.batch([("tasks.post", {"name": f"task {i}", "payload": "x" * 500}) for i in range(200)])
        board.backup(path)
    with path.open("r+b") as file:
        file.seek(40 * 4096)
        file.write(b"\xa5" * 4096 * 30)


def _moved(path: Path) -> None:
    with opened(str(path.with_suffix(".db"))) as board:
        board.backup(path)
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {CLOSED}board (name TEXT, value TEXT)")
    connection.close()


def _in_use(path: Path) -> None:
    opened(str(path)).tasks.post(name="in the log")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (None, "there is no file"),
        (_text, "is not a backup: it is not a tiebreak board"),
        (_empty, "is not a backup: it is not a tiebreak board"),
        (_other_program, "is not a backup: it is not a tiebreak board"),
        (_folder, "is not a file"),
        (_damaged, "is damaged, and cannot be restored"),
        (_moved, "is a board that was moved away"),
        (_in_use, "has a log beside it"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_file_that_is_no_sound_backup_is_refused_and_nothing_is_changed(
    tb: Tb, backup: Path, tmp_path: Path, make: object, said: str
) -> None:
    bad, before = tmp_path / "bad.backup", contents(tmp_path / "board.db")
    if callable(make):
        make(bad)
    files = sorted(os.listdir(tmp_path))
    answer = tb("restore", str(bad), "--yes")
    assert said in complaint(answer, 1)
    assert contents(tmp_path / "board.db") == before
    assert sorted(os.listdir(tmp_path)) == files


def test_the_board_itself_and_a_daemon_are_refused(tb: Tb, backup: Path, tmp_path: Path) -> None:
    assert "is the board itself" in complaint(tb("restore", str(tmp_path / "board.db"), "--yes"), 1)
    for address in ("http://127.0.0.1:1", "unix:/tmp/none"):
        answer = tb("--board", address, "restore", str(backup), "--yes")
        assert f"restore: {address} is a daemon, not a board" in complaint(answer, 2)
    answer = tb("--board", "mysql://x/y", "restore", str(backup), "--yes")
    assert "does not support such addresses" in complaint(answer, 2)
    assert "at most" in complaint(tb("restore", str(backup), "--yes", "--epochs-above", "9" * 15), 1)


@pytest.mark.usefixtures("unchecked")
def test_a_damaged_board_is_not_restored_into_but_its_place_is(tb: Tb, backup: Path, tmp_path: Path) -> None:
    board = tmp_path / "board.db"
    with board.open("r+b") as file:
        file.truncate(4096)
        file.seek(200)
        file.write(b"\xa5" * 3000)
    answer = tb("restore", str(backup), "--yes")
    assert complaint(answer, 3)
    (tmp_path / "away").mkdir()
    for path in tmp_path.glob("board.db*"):
        path.rename(tmp_path / "away" / path.name)
    assert tb("restore", str(backup), "--yes").code == 0
    assert "deploy" in tb("tasks").out


def test_an_agent_that_goes_on_after_a_restore_is_told_and_writes_nothing(tb: Tb, backup: Path) -> None:
    assert tb("restore", str(backup), "--yes").code == 0
    assert "nothing was written" in complaint(tb("complete", "deploy", "--as", "alice"), 1)


def test_a_user_that_does_not_own_the_board_is_refused_and_the_owner_is_not(tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with database(server()) as address:
        with opened(address) as board:
            board.tasks.claim(ref="deploy")
            board.backup(file)
        with psycopg.connect(address, autocommit=True) as raw:
            raw.execute("CREATE ROLE restorer LOGIN")
            raw.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO restorer")
            raw.execute("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO restorer")
        try:
            before = contents(address)
            with pytest.raises(Unavailable, match="this user may not restore into") as refusal:
                restored(file, address.replace("tiebreak@", "restorer@"))
            assert refusal.value.reason == "restore-needs-owner"
            assert contents(address) == before
            for i in range(2):
                restored(file, address, save_to=str(tmp_path / f"{i}.saved"))
        finally:
            with psycopg.connect(address, autocommit=True) as raw:
                raw.execute("DROP OWNED BY restorer; DROP ROLE restorer")


def test_through_a_pooler_and_with_hostile_defaults_it_can_be_repeated(tmp_path: Path) -> None:
    file, hostile = tmp_path / "monday.backup", server().hostile_database("serializable")
    server().empty_board(hostile)
    address = pooler().address_of(hostile)
    with opened(address) as board:
        board.tasks.post(name="発射")
        board.backup(file)
        for i in range(2):
            restored(file, address, save_to=str(tmp_path / f"{i}.saved"))
        assert names(board, "pending") == ["発射"]
