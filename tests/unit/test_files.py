"""Files that several processes share: nobody reads half of one, and nobody gets a lock that another process has."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak.files import create_file, lock_file, replace_file, try_lock
from tiebreak.remote import RemoteEngine

HOLD = "import sys; from tiebreak.files import lock_file; lock_file(sys.argv[1]); print('locked', flush=True); input()"


def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    path.write_text("old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(str(path), b"new", durable=True)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["state"]


def test_a_reader_that_has_the_old_file_open_still_reads_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("old")
    with path.open() as reader:
        replace_file(str(path), b"new")
        assert reader.read() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize(("mode", "wanted"), [(0o600, 0o600), (0o755, 0o755), (None, 0o640)])
def test_a_replaced_file_has_the_permissions_that_were_asked_for(tmp_path: Path, mode: int | None, wanted: int) -> None:
    path = tmp_path / "state"
    path.write_text("old")
    path.chmod(0o640)
    old = os.umask(0o077)
    try:
        replace_file(str(path), b"new", mode=mode)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == wanted


def test_a_lock_of_another_process_is_not_won_before_that_process_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    words = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        assert lock_file(path) is None
        assert lock_file(path, wait=0.05) is None
        other.kill()
    fd = lock_file(path)
    assert fd is not None
    os.close(fd)


def test_readers_share_a_lock_that_writers_have_to_wait_for(tmp_path: Path) -> None:
    one, two, three = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(3))
    assert try_lock(one, shared=True)
    assert try_lock(two, shared=True)
    assert not try_lock(three)
    for fd in (one, two, three):
        os.close(fd)


# ── New files ────────────────────────────────────────────────────────────────────────────────────────────


def write(text: str) -> Callable[[str], None]:
    def fill(path: str) -> None:
        Path(path).write_text(text)

    return fill


@pytest.fixture
def synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, list[str]]]:
    """What was waited for: whether it was a folder, and the names that were there by then."""
    found: list[tuple[bool, list[str]]] = []

    def sync(fd: int) -> None:
        names = [name for name in os.listdir(tmp_path) if ".partial-" not in name]
        found.append((stat.S_ISDIR(os.fstat(fd).st_mode), names))

    monkeypatch.setattr(os, "fsync", sync)
    return found


def test_a_new_file_has_its_name_when_it_is_on_the_disk_and_the_name_is_there_too(
    tmp_path: Path, synced: list[tuple[bool, list[str]]]
) -> None:
    create_file(str(tmp_path / "copy"), write("all of it"))
    assert synced == [(False, []), (True, ["copy"])]
    assert (tmp_path / "copy").read_text() == "all of it"
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600


def test_a_copy_from_a_daemon_is_as_durable_as_one_of_a_file(
    tmp_path: Path, synced: list[tuple[bool, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemoteEngine, "_exchange", lambda *given: given[-1].write(b"a board"))
    RemoteEngine("unix:/nowhere").backup(str(tmp_path / "copy"))
    assert synced == [(False, []), (True, ["copy"])]
    assert (tmp_path / "copy").read_bytes() == b"a board"


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_new_file_never_overwrites(tmp_path: Path, when: str) -> None:
    path = tmp_path / "copy"

    def fill(partial: str) -> None:
        assert when == "meanwhile"
        path.write_text("precious")

    if when == "before":
        path.write_text("precious")
    with pytest.raises(FileExistsError):
        create_file(str(path), fill)
    assert path.read_text() == "precious"
    assert os.listdir(tmp_path) == ["copy"]


def test_a_new_file_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    def fill(partial: str) -> None:
        Path(partial).write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_file(str(tmp_path / "copy"), fill)
    assert os.listdir(tmp_path) == []


def test_a_second_copy_of_this_process_does_not_disturb_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "copy")

    def fill(partial: str) -> None:
        create_file(path, write("second"))
        Path(partial).write_text("first")

    with pytest.raises(FileExistsError):
        create_file(path, fill)
    assert Path(path).read_text() == "second"
    assert os.listdir(tmp_path) == ["copy"]
