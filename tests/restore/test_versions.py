"""Backups of older versions are restored and upgraded on the way; the file itself and newer ones are not touched."""

from __future__ import annotations

import gzip
from pathlib import Path

import apsw
import pytest

from tests.upgrade.old import HERE, VERSIONS, process
from tiebreak.engine.schema import VERSION
from tiebreak.errors import Unavailable

from .acts import opened, restored


def old_backup(folder: Path, made: int) -> Path:
    file = folder / f"version-{made}.backup"
    file.write_bytes(gzip.decompress((HERE / f"sqlite-{made}.db.gz").read_bytes()))
    return file


@pytest.mark.parametrize("made", VERSIONS)
@pytest.mark.usefixtures("unchecked")  # the log of the fixture was made by hand
def test_a_backup_of_an_older_version_is_restored(made: int, address: str, tmp_path: Path) -> None:
    file = old_backup(tmp_path, made)
    content = file.read_bytes()
    with opened(address) as board:
        for _ in range(6):
            [hold] = board.holds.take(resources=["lock:deploy"])
            board.holds.release(resources=["lock:deploy"])
        restored(file, address, save_to=str(tmp_path / "saved"))
        assert board.tasks.claim(ref="often").epoch == 4
        assert board.tasks.claim(ref="held").epoch == 2, "its claim has ended"
        assert board.holds.take(resources=["lock:deploy"])[0].epoch == hold.epoch + 1
    assert file.read_bytes() == content
    assert [path.name for path in tmp_path.glob("version-*")] == [file.name], "nothing is left beside the file"


@pytest.mark.parametrize("made", VERSIONS)
@pytest.mark.usefixtures("unchecked")
def test_a_process_of_an_older_version_cannot_write_to_the_restored_board(
    made: int, address: str, tmp_path: Path
) -> None:
    """The way back to an older version is a backup from before the upgrade, restored by that version."""
    with opened(address) as board:
        restored(old_backup(tmp_path, made), address)
        old = process(address, made)
        assert "upgrade" in old.refused("UPDATE tasks SET epoch = 0")
        old.close()
        assert board.tasks.claim(ref="often").epoch == 4


def test_a_backup_of_a_newer_version_is_refused(address: str, tmp_path: Path) -> None:
    file = tmp_path / "newer.backup"
    with opened(address) as board:
        board.tasks.post(name="stays")
        board.backup(file)
        connection = apsw.Connection(str(file))
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        connection.close()
        last = board.events.last()
        with pytest.raises(Unavailable, match=f"written by a newer tiebreak .schema {VERSION + 1}, this one knows"):
            restored(file, address, save_to=str(tmp_path / "saved"))
        assert board.events.last() == last
