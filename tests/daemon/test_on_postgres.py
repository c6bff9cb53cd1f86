"""Several daemons serve one board on one server: nobody wins twice, everybody is woken, and one keeps house."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tiebreak
from tiebreak import Board, Lost
from tiebreak.daemon import service
from tiebreak.daemon.server import Daemon, Settings
from tiebreak.engine import connect

from ..daemons import PATIENCE, free_port
from ..log import boards
from ..postgres import server


class Crew:
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
        daemon = Daemon(connect(self.address), settings)
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
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path))
    monkeypatch.setattr(service, "HOUSE_LEASE", 1.0)
    made = Crew(tmp_path)
    yield made
    made.close()
    boards.keep(made.address)


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def housekeepers(board: Board) -> list[str]:
    return [str(hold.resource) for hold in board.holds.list(project="tiebreak")]


def test_clients_of_different_daemons_never_win_the_same_task(crew: Crew) -> None:
    boards = [crew.start(number) for number in range(3)]
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


def test_a_waiter_of_one_daemon_is_woken_by_a_client_of_another(crew: Crew) -> None:
    here, there = crew.start(0), crew.start(1)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(here.wait, after=here.events.last(), timeout=PATIENCE, event="task.posted")
        there.tasks.post(name="news")
        assert waiting.result(PATIENCE).name == "news"


def test_one_keeps_house_and_another_takes_over(crew: Crew) -> None:
    first = crew.start(0)
    until(lambda: housekeepers(first) == ["lock:maintenance"], "nobody keeps house")
    second = crew.start(1)
    crew.stop(0)
    second.tasks.claim(ref="short", lease=0.05)
    until(
        lambda: any(event.event == "task.expired" for event in second.events.read(after=0, limit=1000)),
        "nobody took over: a lapsed claim was never written down",
    )
    grants = second.events.read(after=0, event="hold.taken", project="tiebreak", limit=1000)
    assert [grant.epoch for grant in grants] == list(range(1, len(grants) + 1))
    assert len(grants) >= 2


def test_only_one_of_several_keeps_house(crew: Crew) -> None:
    boards = [crew.start(number) for number in range(3)]
    until(lambda: bool(housekeepers(boards[0])), "nobody keeps house")
    renewals = boards[0].events.read(after=0, project="tiebreak", limit=1000)
    assert {renewal.subject for renewal in renewals} == {"lock:maintenance"}
    until(lambda: len(housekeepers(boards[0])) == 1, "nobody keeps house, or two do")
