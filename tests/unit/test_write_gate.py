"""The write gate: everybody gets in, nobody waits for ever, and no thread or descriptor stays behind."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from _thread import _count
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tiebreak
from tiebreak import Unavailable
from tiebreak.engine.sqlite import waiting_writers
from tiebreak.engine.sqlite.write_gate import WriteGate

LONG = 90.0
"""Seconds within which anything that is going to happen has happened, also on a busy machine."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc")

WAITER = """
import os, sys
from tiebreak.engine.sqlite.write_gate import WriteGate
gate = WriteGate(sys.argv[1], 20.0)
print("ready", flush=True)
sys.stdin.readline()
gate.enter()
os.write(1, b"in\\n")
sys.stdin.readline()
gate.leave()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "board.db-gate")


def used(path: str, deadline: float = LONG) -> WriteGate:
    """A gate that was passed once already, so that it has the files that it needs."""
    gate = WriteGate(path, deadline)
    with gate:
        return gate


@pytest.fixture
def holder(path: str) -> Iterator[WriteGate]:
    """Somebody who is in the gate."""
    gate = WriteGate(path, LONG)
    gate.enter()
    yield gate
    gate.close()


def free(path: str) -> bool:
    """Whether somebody else could come in at once."""
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def soon(condition: Callable[[], bool]) -> bool:
    """Look again and again: the kernel tells nobody how its queues change."""
    end = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def queued(path: str) -> int:
    """How many wait for this file, by the kernel's own list."""
    mark = f":{os.stat(path).st_ino} "
    lines = Path("/proc/locks").read_text().splitlines()
    return sum("->" in line and "FLOCK" in line and mark in line for line in lines)


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


@linux
def test_waiting_threads_enter_in_the_order_of_their_arrival(path: str, holder: WriteGate) -> None:
    """Not to the last one, for the kernel wakes and others run; so one round in ten has to be roughly a queue."""
    orders = []
    for _ in range(10):
        orders.append(order_of_eight(path, holder))
        if sum(abs(place - number) for place, number in enumerate(orders[-1])) <= 16:  # the other way round: 32
            return
        holder.enter()
    raise AssertionError(f"{orders} are not even roughly a queue")


def order_of_eight(path: str, holder: WriteGate) -> list[int]:
    """Let eight threads come one after the other, then open the gate; the order in which they come in."""
    order: list[int] = []

    def come(number: int) -> None:
        gate = WriteGate(path, LONG)
        with gate:
            order.append(number)
        gate.close()

    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=come, args=(number,)))
        threads[-1].start()
        assert soon(lambda wanted=number + 1: queued(path) == wanted)  # type: ignore[misc]
    holder.leave()
    for thread in threads:
        thread.join(LONG)
    assert sorted(order) == list(range(8))
    return order


@linux
def test_each_of_eight_waiting_processes_gets_in(path: str, holder: WriteGate) -> None:
    command = [sys.executable, "-c", WAITER, path]
    crew = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(8)]
    try:
        for process in crew:
            assert process.stdin
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            process.stdin.write(b"go\n")
            process.stdin.flush()
        assert soon(lambda: queued(path) == 8)
        for process in crew:
            assert process.stdin
            process.stdin.write(b"go\n")
            process.stdin.flush()
        holder.leave()
        for process in crew:
            assert process.communicate(timeout=LONG)[0] == b"in\n"
        assert [process.returncode for process in crew] == [0] * 8
    finally:
        for process in crew:
            process.kill()
            process.wait()


def test_a_thread_that_enters_again_and_again_does_not_starve_the_others(path: str) -> None:
    stop, entered = threading.Event(), threading.Semaphore(0)

    def greedy() -> None:
        gate = WriteGate(path, LONG)
        while not stop.is_set():
            with gate:
                pass
        gate.close()

    def modest() -> None:
        gate = WriteGate(path, LONG)
        for _ in range(20):
            with gate:
                entered.release()
        gate.close()

    threads = [threading.Thread(target=run) for run in (greedy, *[modest] * 8)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8 * 20):
            assert entered.acquire(timeout=LONG)
    finally:
        stop.set()
        for thread in threads:
            thread.join(LONG)


@pytest.mark.usefixtures("holder")
def test_a_waiter_that_times_out_learns_which_process_is_inside_and_for_how_long(path: str) -> None:
    waiter = WriteGate(path, 0.1)
    begin = time.monotonic()
    said = rf"busy: held by pid {os.getpid()} for \d+\.\d s; gave up after 0\.1 s"
    with pytest.raises(Unavailable, match=said) as refusal:
        waiter.enter()
    assert time.monotonic() - begin >= 0.1
    assert "nothing was written" in refusal.value.hint
    assert re.fullmatch(rf"pid {os.getpid()} for \d+\.\d s", waiter.last_entry())
    waiter.close()


@pytest.mark.parametrize("content", [b"", b"garbage\n", b"12 \n", b"\xff\xfe 12\n", b"0x12 12\n"])
def test_an_unreadable_name_plate_is_no_error(path: str, content: bytes) -> None:
    gate = used(path)
    Path(path).write_bytes(content)
    assert gate.last_entry() == "an unknown process"
    gate.close()


@linux
def test_a_waiter_that_timed_out_never_keeps_the_gate(path: str, holder: WriteGate) -> None:
    waiters = [WriteGate(path, 0.05) for _ in range(5)]
    for waiter in waiters:
        with pytest.raises(Unavailable):
            waiter.enter()
    assert not free(path)
    holder.leave()
    assert soon(lambda: queued(path) == 0 and free(path))
    for waiter in waiters:
        waiter.close()


def test_giving_up_does_not_unlock_the_gate_under_its_holder(path: str, holder: WriteGate) -> None:
    waiter = WriteGate(path, 0.05)
    with pytest.raises(Unavailable):
        waiter.enter()
    waiter.close()
    assert not free(path)
    holder.leave()


def test_a_gate_can_be_used_again_after_a_timeout(path: str, holder: WriteGate) -> None:
    waiter = WriteGate(path, 0.05)
    with pytest.raises(Unavailable):
        waiter.enter()
    holder.leave()
    waiter.deadline = LONG
    for gate in (waiter, holder, waiter):
        with gate:
            assert not free(path)
        assert soon(lambda: free(path))  # the turn that was given up passes through for a moment
    waiter.close()


def test_an_exception_inside_opens_the_gate(path: str) -> None:
    gate = WriteGate(path, LONG)
    with pytest.raises(ZeroDivisionError), gate:
        raise ZeroDivisionError
    assert free(path)
    gate.close()


@linux
def test_three_hundred_contended_entries_leave_nothing_behind(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    contended = 0
    queue = WriteGate._queue

    def counting(self: WriteGate) -> int:
        nonlocal contended
        contended += 1
        return queue(self)

    first, second = used(path), used(path)
    monkeypatch.setattr(WriteGate, "_queue", counting)
    before = fds()
    turns = threading.Semaphore(0)

    def follow() -> None:
        for _ in range(300):
            turns.acquire()
            with second:
                pass
            done.release()

    done = threading.Semaphore(0)
    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    for number in range(300):
        with first:
            turns.release()
            assert soon(lambda wanted=number: contended > wanted)  # type: ignore[misc]
        assert done.acquire(timeout=LONG)
    thread.join(LONG)
    assert contended == 300
    assert soon(lambda: fds() <= before)
    first.close()
    second.close()


@linux
def test_giving_up_again_and_again_leaves_nothing_behind(path: str, holder: WriteGate) -> None:
    holder.leave()
    waiter = used(path, 0.001)
    holder.enter()
    before, threads = fds(), _count()
    for _ in range(50):
        with pytest.raises(Unavailable):
            waiter.enter()
    holder.leave()
    assert soon(lambda: fds() <= before and _count() <= threads)
    waiter.close()


def test_the_file_of_the_gate_is_never_replaced(tmp_path: Path) -> None:
    board = tmp_path / "board.db"
    with tiebreak.open(board, agent="alice~1", project="demo") as first:
        first.tasks.post(name="one")
        made = os.stat(f"{board}-gate").st_ino
    with tiebreak.open(board, agent="alice~1", project="demo") as second:
        second.tasks.post(name="two")
        second.doctor(repair=True)
        while second.upkeep.prune(older_than=0.0).more:
            pass
    assert os.stat(f"{board}-gate").st_ino == made


def test_a_gate_that_cannot_be_written_to_is_unlocked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk or a broken one: the name on the plate is a courtesy, the lock behind it stops everybody."""
    board = tmp_path / "board.db"

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with tiebreak.open(board, agent="alice~1", project="demo") as alice:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with contextlib.suppress(Unavailable):
                alice.tasks.post(name="with or without")
        assert free(f"{board}-gate")


@linux
def test_a_closed_board_writes_to_no_other_file(tmp_path: Path) -> None:
    """A descriptor that was given back belongs to the next file that is opened."""
    board = tiebreak.open(tmp_path / "board.db", agent="alice~1", project="demo")
    board.tasks.post(name="work")
    board.close()
    files = [open(tmp_path / f"precious {i}", "w+b", buffering=0) for i in range(20)]  # noqa: SIM115
    try:
        for file in files:
            file.write(b"precious")
        with pytest.raises(Unavailable):
            board.tasks.post(name="late")
        with contextlib.suppress(Unavailable):
            board.doctor()
        assert {Path(str(file.name)).read_bytes() for file in files} == {b"precious"}
    finally:
        for file in files:
            file.close()


# ── Letting those who wait pass ──────────────────────────────────────────────────────────────────────


def wait_in_thread(path: str) -> threading.Thread:
    """Somebody who enters as soon as it is possible, and leaves at once."""

    def come() -> None:
        gate = WriteGate(path, LONG)
        with gate:
            pass
        gate.close()

    thread = threading.Thread(target=come)
    thread.start()
    return thread


@linux
def test_whoever_lets_others_pass_returns_when_they_have_entered(
    path: str, holder: WriteGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_writers, "PATIENCE", LONG)
    threads = [wait_in_thread(path) for _ in range(3)]
    assert soon(lambda: queued(path) == 3)
    holder.leave()
    holder.let_waiters_pass()
    assert queued(path) == 0
    for thread in threads:
        thread.join(LONG)


@linux
def test_those_who_come_later_are_not_waited_for(path: str, holder: WriteGate) -> None:
    before = time.monotonic_ns()
    thread = wait_in_thread(path)
    assert soon(lambda: queued(path) == 1)
    assert not waiting_writers._anybody(holder._fd, before)
    assert waiting_writers._anybody(holder._fd, time.monotonic_ns())
    holder.leave()
    thread.join(LONG)


def test_a_waiter_that_gave_up_is_not_waited_for(path: str, holder: WriteGate, monkeypatch: pytest.MonkeyPatch) -> None:
    waiter = WriteGate(path, 0.05)
    with pytest.raises(Unavailable):
        waiter.enter()
    monkeypatch.setattr(waiting_writers, "sleep", None)  # called only if somebody waits
    holder.let_waiters_pass()
    holder.leave()
    waiter.close()


@linux
def test_a_stopped_waiter_does_not_keep_anybody_from_the_gate(
    path: str, holder: WriteGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_writers, "PATIENCE", 0.05)
    process = subprocess.Popen(
        [sys.executable, "-c", WAITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        assert soon(lambda: queued(path) == 1)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        holder.leave()
        holder.let_waiters_pass()
        with holder:
            pass
        process.send_signal(signal.SIGCONT)
        assert process.communicate("go\n", timeout=LONG)[0] == "in\n"
    finally:
        process.kill()
        process.wait()


@linux
@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOLCK])
def test_a_file_system_without_such_locks_still_has_a_gate(
    path: str, holder: WriteGate, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def without(*_: object) -> bytes:
        raise OSError(error, "")

    monkeypatch.setattr(fcntl, "fcntl", without)
    thread = wait_in_thread(path)
    assert soon(lambda: queued(path) == 1)
    holder.leave()
    holder.let_waiters_pass()
    thread.join(LONG)
    assert not thread.is_alive()
