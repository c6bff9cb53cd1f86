"""The queue of writers before a SQLite board: stuck, interrupted, impatient and greedy ones."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import signal
import threading
import time
from _thread import _count as threading_count
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from tiebreak import Board, Unavailable
from tiebreak.engine.sqlite.engine import SqliteEngine
from tiebreak.engine.sqlite.write_gate import WriteGate

from . import loners
from .crew import PROJECT, Crew, processes, race
from .scenarios import Run, open_board


def impatient(path: str, deadline: float = 1.0) -> Board:
    """A board whose writes give up early."""
    return Board(SqliteEngine(path, deadline=deadline), agent="impatient~1", project=PROJECT)


@pytest.fixture
def stuck(path: str) -> Iterator[int]:
    """The pid of a process that is stopped in the middle of a write."""
    process = loners.start_stuck(path)
    try:
        yield process.pid
    finally:
        loners.wake(process)


def test_a_stuck_writer_is_named_when_the_deadline_is_over(path: str, stuck: int) -> None:
    with impatient(path) as board:
        begin = time.monotonic()
        with pytest.raises(Unavailable, match=rf"busy: held by pid {stuck} for \d+\.\d s; gave up after 1 s"):
            board.tasks.post(name="too late")
        assert time.monotonic() - begin >= 1.0
        assert board.tasks.list() == []  # reading needs no queue


def test_writers_go_on_where_a_stuck_one_is_woken(path: str, stuck: int) -> None:
    with impatient(path) as board:
        with pytest.raises(Unavailable):
            board.tasks.post(name="too late")
        os.kill(stuck, signal.SIGCONT)
    with impatient(path, deadline=60.0) as board:
        board.tasks.post(name="afterwards")
        assert [task.name for task in board.tasks.list()] == ["afterwards", "by the stuck one"]


def test_the_stuck_one_is_named_although_the_one_before_had_a_longer_name(path: str) -> None:
    with open(path + "-gate", "wb") as gate:
        gate.write(b"%d %d\n" % (4_194_304_000, 10**19))
    with impatient(path, deadline=0.2) as board:
        process = loners.start_stuck(path)
        try:
            with pytest.raises(Unavailable, match=f"busy: held by pid {process.pid} for"):
                board.tasks.post(name="too late")
        finally:
            loners.wake(process)


class Interrupted(Exception):
    """Raised by a signal handler."""


def interrupted(path: str, stuck: int) -> Run:
    """Leave the queue by an exception, as Ctrl-C or an alarm would raise it, and go on living."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    board = impatient(path, deadline=120.0)
    signal.signal(signal.SIGALRM, interrupt)
    yield
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        board.tasks.post(name="never")
    except Interrupted:
        waiting = threading_count()
        os.kill(stuck, signal.SIGCONT)
        while waiting and threading_count() == waiting:  # until the place in the queue has come up
            time.sleep(0.001)
        return impatient(path, deadline=60.0).tasks.post(name="afterwards").name
    return "was not interrupted"


def test_a_waiter_that_is_interrupted_leaves_the_queue(path: str, stuck: int) -> None:
    assert race(interrupted, [(path, stuck)]) == ["afterwards"]


def forked_while_waiting(path: str) -> Run:
    """Give up waiting after a fork: the child has a copy of the place in the queue."""
    holder, waiter = WriteGate(path, 1.0), WriteGate(path, 0.3)
    holder.enter()
    mine, theirs = processes.Pipe()
    children = []

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            _until_closed(mine, theirs)
        children.append(pid)

    timer = threading.Timer(0.1, fork)
    timer.start()
    yield
    with contextlib.suppress(Unavailable):
        waiter.enter()
    timer.join()
    waiting = threading_count()
    holder.leave()
    while waiting and threading_count() == waiting:  # until the place in the queue has come up
        time.sleep(0.001)
    try:
        WriteGate(path, 60.0).enter()
    finally:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)


def _until_closed(mine: Connection, theirs: Connection) -> None:
    mine.close()
    with contextlib.suppress(EOFError):
        theirs.recv()
    os._exit(0)


def test_a_fork_does_not_keep_the_place_of_a_waiter_that_gave_up(path: str) -> None:
    race(forked_while_waiting, [(path + "-gate",)])


def test_a_process_stuck_while_it_leaves_its_refusals_does_not_stop_writers(path: str) -> None:
    with open_board(path) as board, open(path + "-refused", "ab") as side:
        side.write(b"1\t1\ttask.refused\trace\tsubject\tname\ttask\tagent~1\t1\tnote\n")
        side.flush()
        fcntl.flock(side, fcntl.LOCK_EX)
        done = threading.Event()

        def write() -> None:
            board.tasks.post(name="meanwhile")
            done.set()

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        stopped = not done.wait(60.0)
        fcntl.flock(side, fcntl.LOCK_UN)
        thread.join()
        assert not stopped


def greedy(path: str, agent: str, crew: int, seconds: float) -> Run:
    """Win one's own lock as often as possible, for a while and until everybody in the crew has won."""
    board = open_board(path, agent)
    yield
    end, won = time.monotonic() + seconds, 0
    while time.monotonic() < end or _have_won(path) < crew:
        board.holds.take(resources=[f"lock:{agent}"])
        board.holds.release(resources=[f"lock:{agent}"])
        won += 1
        if won == 1:
            open(f"{path}.{agent}.won", "x").close()
    return won


def _have_won(path: str) -> int:
    return len(glob.glob(f"{path}.*.won"))


def test_none_of_sixteen_writers_starves(path: str) -> None:
    """One that starves gives up when its deadline is over, because the others go on for as long as it has not won."""
    won = race(greedy, [(path, f"agent-{i}", 16, 3.0) for i in range(16)])
    assert len(won) == 16
    assert min(won) > 0


def test_a_writer_that_dies_in_the_gate_lets_the_next_one_in(path: str, stuck: int) -> None:
    with Crew(greedy, [(path, "waiting", 0, 0.0)]) as crew, open_board(path) as board:
        crew.go()
        os.kill(stuck, signal.SIGKILL)
        board.tasks.post(name="next")
        assert [task.name for task in board.tasks.list()] == ["next"]


def test_a_child_of_the_one_that_died_does_not_keep_the_gate_closed(path: str) -> None:
    process = loners.start_stuck(path, parent=True)
    try:
        process.kill()
        process.wait()
        with impatient(path, deadline=60.0) as board:
            board.tasks.post(name="next")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
