"""A place in the wait queue, as the waiter sees it."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep

import pytest

import tiebreak
from tiebreak import Lost


def test_a_path_in_a_subfolder_is_waited_for_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    path = tmp_path / "board.db"
    with (
        tiebreak.open(path, agent="alice~1", project="demo") as alice,
        tiebreak.open(path, agent="bob~1", project="demo") as bob,
        ThreadPoolExecutor(1) as threads,
    ):
        alice.take("a.py")
        waiting = threads.submit(bob.take, "a.py", wait=100)
        end = monotonic() + 60
        while not alice.waits.list():
            assert monotonic() < end
            sleep(0.01)
        assert alice.waits.list()[0].resources == ["file:sub/a.py"]
        alice.holds.release(resources=["file:sub/a.py"])
        assert waiting.result(60)[0].resource == "file:sub/a.py"


def test_a_waiter_that_left_does_not_enter_again(tmp_path: Path) -> None:
    with (
        tiebreak.open(tmp_path / "board.db", agent="alice~1", project="demo") as alice,
        tiebreak.open(tmp_path / "board.db", agent="bob~1", project="demo") as bob,
    ):
        alice.take("lock:x")
        line = bob.in_line("lock:x")
        assert line.keep()
        line.leave()
        assert not line.keep()
        with pytest.raises(Lost):
            bob.hold("lock:x", wait=0.01, line=line)
        assert alice.waits.list() == []
