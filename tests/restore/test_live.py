"""A board is restored while processes have it open: they go on, miss no event, and win nothing twice."""

from __future__ import annotations

import threading
from collections.abc import Generator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.log.checker import check, read
from tests.races.crew import Crew, processes
from tests.races.places import served
from tiebreak import Event
from tiebreak.errors import Refused

from .acts import names, opened, restored

PATIENCE = 100.0
RESTORES = 3
Run = Generator[None, None, Any]


def worker(address: str, agent: str, word: Connection) -> Run:
    """Win, renew and finish the same few things again and again, until the board says that it is over."""
    board = opened(address, agent)
    yield
    grants: list[tuple[str, int]] = []
    while not board.messages.search(query="over", limit=1):
        for name in ("a", "b"):
            try:
                [hold] = board.holds.take(resources=[f"lock:{name}"])
                grants.append((f"lock:{name}", hold.epoch))
                board.holds.release(resources=[f"lock:{name}"], epochs=[hold.epoch])
                task = board.tasks.claim(ref=name)
                grants.append((f"task {task.id}", task.epoch))
                board.tasks.release(ref=task.id, epoch=task.epoch)
            except Refused:
                continue  # another one has it, or a restore came between
        if len(grants) >= 8:
            word.send("warm")
    return grants


def test_no_epoch_is_granted_twice_across_restores(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        for name in ("a", "b"):
            board.tasks.post(name=name, key=name, max_attempts=100)
        board.backup(file)
        mine, theirs = zip(*(processes.Pipe(duplex=False) for _ in range(3)), strict=True)
        crew = Crew(worker, [(address, f"agent-{i}", word) for i, word in enumerate(theirs)], patience=PATIENCE)
        with crew:
            crew.go()
            for i in range(RESTORES):
                for word in mine:
                    assert word.poll(PATIENCE)
                    while word.poll():
                        word.recv()
                restored(file, address, save_to=str(tmp_path / f"{i}.saved"))
            board.messages.send(body="over")
            grants = [grant for report in crew.reports() for grant in report]
        assert len(grants) == len(set(grants)), "an epoch was granted twice"
        assert check(read(board)).grants >= len(grants)


def test_a_waiter_sees_what_the_restore_changed(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board, opened(address, "bob") as bob:
        task = board.tasks.post(name="deploy", key="deploy")
        board.backup(file)
        won = board.tasks.claim(ref=task.id)
        board.tasks.complete(ref=task.id, epoch=won.epoch)
        cursor, seen = board.events.last(), list[Event]()
        waiter = threading.Thread(
            target=lambda: seen.append(bob.wait(after=cursor, subject=task.id, state="pending", timeout=PATIENCE))
        )
        waiter.start()
        restored(file, address)
        waiter.join(PATIENCE)
        assert [(event.event, event.epoch) for event in seen] == [("task.restored", won.epoch)]
        assert seen[0].number > cursor


def test_a_waiter_for_a_hold_gets_it_when_the_restore_frees_it(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board, opened(address, "bob") as bob:
        board.backup(file)
        board.holds.take(resources=["lock:x"])
        epochs: list[int] = []
        waiter = threading.Thread(target=lambda: epochs.append(bob.take("lock:x", wait=PATIENCE)[0].epoch))
        waiter.start()
        board.wait(after=0, event="hold.queued", timeout=PATIENCE)
        restored(file, address)
        waiter.join(PATIENCE)
        assert epochs == [2]


def test_a_daemon_goes_on_and_so_do_its_waiters(tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with served(tmp_path) as daemon, opened(daemon.url) as board, opened(daemon.url, "bob") as bob:
        task = board.tasks.post(name="deploy", key="deploy")
        board.backup(file)
        won = board.tasks.claim(ref=task.id)
        cursor, seen = board.events.last(), list[Event]()
        waiter = threading.Thread(target=lambda: seen.append(bob.wait(after=cursor, timeout=PATIENCE)))
        waiter.start()
        restored(file, str(daemon.board))
        waiter.join(PATIENCE)
        assert [event.event for event in seen] == ["board.restored"]
        assert names(board, "pending") == ["deploy"]
        assert bob.tasks.claim(ref=task.id).epoch == won.epoch + 1
