"""Writers that are going to be killed. What a call has answered, and nothing else, goes into the diary."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

import tiebreak
from tests.races.checkers import Broken, Grant, grants_in, writes_in
from tests.races.scenarios import Run, open_board
from tiebreak import Board, Event

KEYS = [f"key/{i}" for i in range(3)]
LOCKS = [f"lock:{i}" for i in range(3)]


class Acknowledged:
    """A diary of answers: written with one system call each, so a killed writer leaves whole lines."""

    def __init__(self, path: str, first: Connection) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._first: Connection | None = first

    def note(self, what: str, subject: str, epoch: int = 0, agent: str = "-") -> None:
        """Write an answer down; of the first one, send word."""
        os.write(self._fd, f"{what} {subject} {epoch} {agent}\n".encode())
        if self._first is not None:
            self._first.send(what)
            self._first = None


def writer(address: str, agent: str, diary: str, seed: int, first: Connection) -> Run:
    """Post, claim, complete, hold and give back, for ever."""
    yield
    board, answered, chance = open_board(address, agent), Acknowledged(diary, first), random.Random(seed)
    while True:
        turn = chance.choice([work, work, tussle, hold])
        turn(board, agent, answered, chance)


def work(board: Board, agent: str, answered: Acknowledged, chance: random.Random) -> None:
    """A task from its beginning to its end."""
    task = board.tasks.post(name="work")
    answered.note("task.posted", task.id)
    task = board.tasks.claim(ref=task.id)
    answered.note("granted", task.id, task.epoch, agent)
    board.tasks.complete(ref=task.id, epoch=task.epoch, result=agent)
    answered.note("task.completed", task.id, task.epoch, agent)


def tussle(board: Board, agent: str, answered: Acknowledged, chance: random.Random) -> None:
    """A task that is claimed and given back by everybody; one that a dead writer left is won by its lapse."""
    try:
        task = board.tasks.claim(ref=chance.choice(KEYS), lease=0.001 if chance.random() < 0.3 else 0.05)
        answered.note("granted", task.id, task.epoch, agent)
        board.tasks.release(ref=task.id, epoch=task.epoch)
        answered.note("task.released", task.id, task.epoch, agent)
    except tiebreak.Refused:
        pass


def hold(board: Board, agent: str, answered: Acknowledged, chance: random.Random) -> None:
    """Two locks at once, for a moment."""
    wanted = chance.sample(LOCKS, 2)
    try:
        holds = board.holds.take(resources=wanted, lease=0.001 if chance.random() < 0.3 else 0.05)
        for held in holds:
            answered.note("granted", held.resource, held.epoch, agent)
        board.holds.release(resources=wanted, epochs=[held.epoch for held in holds])
        for held in holds:
            answered.note("hold.released", held.resource, held.epoch, agent)
    except tiebreak.Refused:
        pass


# ── Judging ──────────────────────────────────────────────────────────────────────────────────────────


def read_diary(path: str) -> list[tuple[str, Grant]]:
    """What a writer was told."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [_entry(*line.split()) for line in file]


def _entry(what: str, subject: str, epoch: str, agent: str) -> tuple[str, Grant]:
    return what, Grant(subject, 0, int(epoch), agent)


def granted(diary: Iterable[tuple[str, Grant]]) -> list[Grant]:
    """The grants in a diary."""
    return [grant for what, grant in diary if what == "granted"]


def nothing_lost(events: Iterable[Event], diary: Iterable[tuple[str, Grant]]) -> None:
    """Every answer that a writer got stands in the log."""
    events = list(events)
    posted = {event.subject for event in events if event.event == "task.posted"}
    grants, writes = set(grants_in(events)), writes_in(events)
    for what, grant in diary:
        if what == "task.posted":
            there = grant.subject in posted
        elif what == "granted":
            there = grant in grants
        else:
            there = (what, grant) in writes
        if not there:
            raise Broken(f"acknowledged and lost: {what} {grant}")


def still_completed(board: Board, diary: Iterable[tuple[str, Grant]]) -> None:
    """What was acknowledged as completed is completed, with its result."""
    for what, grant in diary:
        if what != "task.completed":
            continue
        task = board.tasks.get(ref=grant.subject)
        if (task.state, task.result, task.epoch) != ("completed", grant.agent, grant.epoch):
            raise Broken(f"acknowledged as completed, but {task}")


# ── Single deeds ─────────────────────────────────────────────────────────────────────────────────────


def maker(path: str) -> Run:
    """Make a board and post to it."""
    yield
    open_board(path, "maker").tasks.post(name="first")
    signal.pause()


def pruner(address: str, first: Connection) -> Run:
    """Forget everything that is finished, a little at a time; after the first time, send word."""
    board = open_board(address, "pruner")
    yield
    more = board.upkeep.prune(older_than=0.0, limit=7).more
    first.send("pruned")
    while more:
        more = board.upkeep.prune(older_than=0.0, limit=7).more
    signal.pause()


def backuper(path: str, target: str, stop_at: int, report: Connection | None = None) -> Run:
    """Copy the board, and stop for good at one step of the copy."""
    board = open_board(path, "backuper")
    steps = iter(range(10**9))

    def progress(done: int, total: int) -> None:
        if next(steps) == stop_at and report is not None:
            report.send((done, total))
            signal.pause()

    yield
    board.backup(target, progress)
    if report is not None:
        report.send("done")
    signal.pause()


def backs_up_in_place(put: Any) -> None:
    """A bug: the copy is made under its final name."""
    from tiebreak.engine.sqlite import engine as sqlite

    def backup(self: Any, target: str, progress: Any = None) -> None:
        import apsw

        copy = apsw.Connection(target)
        with copy.backup("main", self._connect(), "main") as steps:
            while not steps.done:
                steps.step(16)
                progress(steps.page_count - steps.remaining, steps.page_count)

    put(sqlite.SqliteEngine, "backup", backup)
