"""Several daemons serve one PostgreSQL board: no task is won twice, every waiter is woken, lapses are recorded once."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tiebreak import Board, Lost
from tiebreak.daemon.server import Daemon, Settings
from tiebreak.engine import connect
from tiebreak.process_identity import identity
from tiebreak.program.daemon_assembly import assemble_daemon

from ..daemons import PATIENCE, free_port
from ..log import boards
from ..postgres import server


class Daemons:
    """Daemons in threads, each with an engine of its own, as on machines of their own."""

    def __init__(self, folder: Path) -> None:
        self.address = server().empty_board()
        self._folder = folder
        self._sockets = Path(tempfile.mkdtemp(prefix="tb-"))
        self._running: dict[int, tuple[Daemon, threading.Thread]] = {}

    def start(self, number: int) -> Board:
        """One more daemon, and a board that asks it."""
        path = str(self._sockets / str(number))
        settings = Settings(address=f"127.0.0.1:{free_port()}", socket=path, sweep=0.05)
        daemon = assemble_daemon(connect(self.address), settings)
        ready = threading.Event()
        thread = threading.Thread(target=daemon.serve, args=(ready.set,))
        thread.start()
        assert ready.wait(PATIENCE)
        self._running[number] = (daemon, thread)
        return tiebreak.open(f"unix:{path}", agent=f"agent-{number}~1", project="demo")

    def stop(self, number: int) -> None:
        """End one of them."""
        daemon, thread = self._running.pop(number)
        daemon.stop()
        thread.join(PATIENCE)
        daemon.engine.close()

    def close(self) -> None:
        """End all of them."""
        for number in list(self._running):
            self.stop(number)
        self._sockets.rmdir()


@pytest.fixture
def daemons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path))
    made = Daemons(tmp_path)
    yield made
    made.close()
    boards.keep(made.address)


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def test_clients_of_different_daemons_never_win_the_same_task(daemons: Daemons) -> None:
    boards = [daemons.start(number) for number in range(3)]
    for i in range(60):
        boards[0].tasks.post(name=f"task {i}", key=f"task-{i}")

    def reach(board: Board) -> list[str]:
        won = []
        for i in range(60):
            with contextlib.suppress(Lost):
                won.append(board.tasks.claim(ref=f"task-{i}").name)
        return won

    with ThreadPoolExecutor(3) as threads:
        won = [name for names in threads.map(reach, boards) for name in names]
    assert sorted(won) == sorted(f"task {i}" for i in range(60))


def test_a_waiter_of_one_daemon_is_woken_by_a_client_of_another(daemons: Daemons) -> None:
    here, there = daemons.start(0), daemons.start(1)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(here.wait, after=here.events.last(), timeout=PATIENCE, event="task.posted")
        there.tasks.post(name="news")
        assert waiting.result(PATIENCE).name == "news"


def lapses(board: Board) -> list[str | None]:
    return [event.subject for event in board.events.read(after=0, event="task.expired", limit=1000)]


def test_lapses_are_recorded_once_by_the_daemons_that_still_run(daemons: Daemons) -> None:
    boards = [daemons.start(number) for number in range(3)]
    names = [f"short-{i}" for i in range(20)]
    for name in names:
        boards[0].tasks.claim(ref=name, lease=0.05)
    until(lambda: len(lapses(boards[1])) >= len(names), "nobody wrote the lapsed claims down")
    daemons.stop(0)
    daemons.stop(1)
    boards[2].tasks.claim(ref="last", lease=0.05)
    until(lambda: len(lapses(boards[2])) > len(names), "the daemon that is left wrote no lapse down")
    assert len(set(lapses(boards[2]))) == len(lapses(boards[2])) == len(names) + 1


def test_a_daemon_gives_back_what_a_dead_agent_of_its_machine_held(daemons: Daemons) -> None:
    board = daemons.start(0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        who = identity(process.pid)
        place: dict[str, Any] = {"host": who.host, "boot": who.boot, "pid": who.pid, "started": who.started}
        board.agents.announce(agent="ann~1", **place, bound=True)
        board.tasks.claim(ref="work", agent="ann~1")
        process.kill()
    until(lambda: board.tasks.get(ref="work").state == "pending", "the claim of a dead agent stayed")
    assert "has ended" in (board.events.read(event="agent.left")[-1].note or "")


def test_a_hold_does_not_stop_the_daemons_from_recording_lapses(daemons: Daemons) -> None:
    board = daemons.start(0)
    board.holds.take(resources=["lock:maintenance"], project="tiebreak", agent="stranger~1", lease=3600)
    board.tasks.claim(ref="short", lease=0.05)
    until(lambda: len(lapses(board)) == 1, "a hold of somebody else stopped the sweep")
