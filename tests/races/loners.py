"""Processes that a test starts one at a time, as its own children: `python -m tests.races.loners NAME ARGS`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import tiebreak
from tiebreak.clock import wall

from .crew import PROJECT
from .scenarios import open_board

ROOT = Path(__file__).parents[2]


def start(loner: Callable[..., None], *args: object) -> subprocess.Popen[str]:
    """Start one; the caller waits for it."""
    command = [sys.executable, "-m", __name__, loner.__name__, *map(str, args)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=pipe, stderr=pipe, start_new_session=True)


def outcome(process: subprocess.Popen[str], patience: float = 120.0) -> tuple[int | None, str, str]:
    """Its exit code (None: it hung), what it printed, and what it complained about."""
    code: int | None = None
    try:
        process.communicate(timeout=patience)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # and the children it forked
    out, errors = process.communicate()
    return code, out, errors


def start_stuck(path: str, *, parent: bool = False) -> subprocess.Popen[str]:
    """A writer that is stopped in the middle of its write, when this returns."""
    open_board(path).close()
    process = start(stuck_parent if parent else stuck, path)
    seen = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    if seen is None or seen.si_code != os.CLD_STOPPED:
        os.killpg(process.pid, signal.SIGKILL)
        raise RuntimeError(process.communicate()[1])
    return process


def wake(process: subprocess.Popen[str]) -> None:
    """Let it go on and end, unless it is dead already."""
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=120)


def stuck(path: str, fork: bool = False) -> None:
    """Stop in the middle of a write: the clock is read inside the transaction."""
    armed = False

    def clock() -> int:
        if armed:
            os.kill(os.getpid(), signal.SIGSTOP)
        return wall()

    board = tiebreak.open(path, agent="stuck~1", project=PROJECT, clock=clock)
    if fork:
        board.tasks.post(name="before the fork")
        if os.fork() == 0:
            signal.pause()
    armed = True
    board.tasks.post(name="by the stuck one")


def stuck_parent(path: str) -> None:
    """The same with a child that was forked from it, lives on and has nothing to do with the board."""
    stuck(path, fork=True)


def forks(path: str, children: str) -> None:
    """Fork while two threads write, let each child use the same board and end as a program ends."""
    board = open_board(path, "parent")
    board.tasks.post(name="before")
    stop = threading.Event()
    posted = [0, 0]

    def write(i: int) -> None:
        while not stop.is_set():
            board.tasks.post(name=f"by thread {i}")
            posted[i] += 1

    threads = [threading.Thread(target=write, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    pids = []
    for _ in range(int(children)):
        pid = os.fork()
        if pid == 0:
            for _ in range(5):
                board.tasks.post(name="by child")
            assert board.tasks.list(limit=1)
            sys.exit(0)
        pids.append(pid)
        board.tasks.post(name="between")
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    stop.set()
    for thread in threads:
        thread.join()
    board.tasks.post(name="after")
    board.close()
    assert codes == [0] * len(codes), codes
    print(sum(posted))


def forks_with_threads(path: str, threads: str) -> None:
    """Fork once; many threads of the child use the inherited board for the first time, all at once."""
    board = open_board(path, "parent")
    board.tasks.post(name="before")
    pid = os.fork()
    if pid == 0:
        line = threading.Barrier(int(threads))
        failed: list[str] = []

        def write() -> None:
            line.wait()
            try:
                for _ in range(5):
                    board.tasks.post(name="by child")
                    board.tasks.list(limit=1)
            except BaseException as exc:
                failed.append(repr(exc))

        crowd = [threading.Thread(target=write) for _ in range(int(threads))]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        sys.exit("; ".join(failed) or 0)
    board.tasks.post(name="meanwhile")
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    board.tasks.post(name="after")
    sys.exit(code)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
