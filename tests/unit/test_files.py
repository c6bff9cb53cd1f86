"""Files that several processes share: nobody reads half of one, and nobody gets a lock that another process has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiebreak.files import lock_file, replace_file, try_lock

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
