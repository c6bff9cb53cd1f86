"""However a job ends, nothing of it is left: not what it left behind, not what left its session."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import tiebreak

from ..cli.command import gone
from .shop import RunningWorker, Shop, until

# A shell, a child, and two that detached into sessions of their own: one whose parent has died, and one that also
# threw its environment away. Each writes its number down.
TREE = """
echo $$ >> pids
sh -c 'echo $$ >> pids; sleep 600' &
setsid sh -c 'setsid sh -c "echo \\$\\$ >> pids; trap : TERM; while :; do sleep 1; done" & exit 0'
setsid sh -c 'env -i PATH="$PATH" setsid sh -c "echo \\$\\$ >> pids; exec sleep 600" & exit 0'
"""
STUBBORN = TREE + "trap 'echo asked >> asked' TERM\nwhile :; do sleep 0.05; done\n"


def begun(shop: Shop, name: str = "pids") -> list[int]:
    """All four processes of a tree."""
    return shop.pids(name, 4)


def test_what_a_job_left_behind_ends_with_it(shop: Shop) -> None:
    job = shop.submit(TREE + "while [ $(wc -l < pids) -lt 4 ]; do sleep 0.01; done; echo done")
    with shop.worker("--concurrency", "1"):
        shop.until_state(job, "completed")
        assert [pid for pid in begun(shop) if not gone(pid)] == []


def test_what_a_job_left_behind_ends_with_it_though_others_run(shop: Shop) -> None:
    """One that hid in a session of its own without its environment goes when all who may have started it are over."""
    other = shop.submit("while [ ! -e go ]; do sleep 0.05; done")
    with shop.worker("--concurrency", "2") as worker:
        until(lambda: worker.events("begun"), "the other runs")
        job = shop.submit(TREE + "while [ $(wc -l < pids) -lt 4 ]; do sleep 0.01; done")
        shop.until_state(job, "completed")
        assert shop.task(other).state == "claimed", "the other job was not touched"
        left = [pid for pid in begun(shop) if not gone(pid)]
        assert len(left) <= 1
        (shop.folder / "go").touch()
        shop.until_state(other, "completed")
        shop.until_gone(left, "nobody's process went with the last job that may have started it")


def test_a_timeout_ends_all_processes_of_a_job(shop: Shop) -> None:
    """On a busy machine not all of it may have been born by then; what was is gone."""
    job = shop.submit(STUBBORN, timeout=3.0, grace=0.3, max_attempts=1)
    with shop.worker():
        task = shop.until_state(job, "failed")
        assert (task.reason or "").startswith("not done after 3s")
        assert task.result["exit"] is None
        assert [pid for pid in map(int, shop.lines("pids")) if not gone(pid)] == shop.alive() == []


def test_a_job_that_listens_is_not_killed_before_its_grace(shop: Shop) -> None:
    """And though it then ends as if all were well, it has not done its work."""
    script = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
    job = shop.submit(script, timeout=3.0, grace=3600, max_attempts=1)
    with shop.worker():
        task = shop.until_state(job, "failed")
    assert (task.reason or "").startswith("not done after 3s")
    assert task.result["signal"] != "SIGKILL"


def test_a_cancelled_job_ends_at_once(shop: Shop) -> None:
    job = shop.submit(STUBBORN, grace=0.3)
    with shop.worker("--lease", "1h") as worker:
        pids = begun(shop)
        shop.board.tasks.cancel(ref=job.id, reason="not needed")
        shop.until_gone(pids, "the tree of a cancelled job is gone")
        until(lambda: worker.events("done"), "the worker says so")
        shop.until_state(shop.submit("true"), "completed")  # and it goes on
    assert shop.task(job).state == "cancelled"
    assert shop.board.events.read(event="job.orphaned") == []


def test_a_broken_job_ends_at_once_and_runs_again(shop: Shop) -> None:
    job = shop.submit("[ $TIEBREAK_EPOCH = 2 ] && exit 0\n" + STUBBORN, grace=3600, max_attempts=1)
    with shop.worker("--lease", "1h", "--concurrency", "1"):
        pids = begun(shop)
        shop.board.tasks.break_(job.id, reason="it hangs")
        shop.until_gone(pids, "the tree of a broken job is gone")
        task = shop.until_state(job, "completed")
    assert (task.epoch, task.attempts) == (2, 1)


def take_away(shop: Shop, worker: RunningWorker, ref: str) -> None:
    """Let a worker lose its claim, as if somebody had decided so for it."""
    with tiebreak.open(shop.address, agent=worker.agent, project="demo") as board:
        board.tasks.release(ref=ref, epoch=1)


def test_a_lost_job_is_killed_and_its_result_kept_aside(shop: Shop) -> None:
    first = shop.submit("[ $TIEBREAK_EPOCH = 2 ] && exit 0\n" + STUBBORN, grace=3600)
    with shop.worker("--lease", "1h", "--concurrency", "1") as worker:
        pids = begun(shop)
        take_away(shop, worker, first.id)
        shop.until_gone(pids, "the tree of a lost job is gone")
        until(lambda: worker.events("refused"), "the late report is refused")
        task = shop.until_state(first, "completed")
    assert (task.epoch, task.result["exit"]) == (2, 0)
    [orphan] = shop.board.events.read(event="job.orphaned")
    assert (orphan.epoch, orphan.data["ok"], orphan.data["result"]["signal"]) == (1, False, "SIGKILL")
    assert len(shop.board.events.read(event="task.completed")) == 1


def test_a_worker_that_cannot_reach_its_board_ends_its_jobs_before_the_lease_does(shop: Shop) -> None:
    """The board is moved away under it: nothing answers any more, and only its own clock tells it to stop."""
    shop.submit(STUBBORN, grace=0.5)
    with shop.worker("--lease", "4s", stderr=open(shop.folder / "said", "w")):
        pids = begun(shop)
        shop.board.close()
        lock = tiebreak.open(shop.address, agent="thief~1", project="demo")
        with blocked(shop.folder):
            shop.until_gone(pids, "the tree is gone though nobody answered")
        lock.close()


class blocked:  # noqa: N801
    """Nobody can write to the board inside: its gate and its lock are taken by a stopped process."""

    def __init__(self, folder: Path) -> None:
        import subprocess
        import sys

        code = (
            "import apsw, sys, time\n"
            f"c = apsw.Connection({str(folder / 'board.db')!r}); c.set_busy_timeout(60000)\n"
            "c.execute('BEGIN IMMEDIATE'); print('taken', flush=True); time.sleep(600)\n"
        )
        self._process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)

    def __enter__(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"taken\n"

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.parametrize("who", ["worker", "keeper", "group"])
def test_a_killed_worker_leaves_nothing_and_its_jobs_go_back(who: str, shop: Shop) -> None:
    """Though the lease is an hour: it is known that the process is dead."""
    job = shop.submit("[ $TIEBREAK_EPOCH = 2 ] && exit 0\n" + STUBBORN, grace=3600, backoff=0)
    with shop.worker("--lease", "1h") as worker:
        pids = begun(shop)
        if who == "worker":
            os.kill(worker.pid, signal.SIGKILL)
        elif who == "keeper":
            worker.process.kill()
        else:
            os.killpg(os.getpgid(worker.pid), signal.SIGKILL)
        shop.until_gone([*pids, worker.pid], "nothing of it is left")
        worker.ended()
    task = shop.until_state(job, "pending")
    assert task.attempts == 1, "the job may have done it"
    shop.burst()
    assert (shop.task(job).state, shop.task(job).epoch) == ("completed", 2)


def test_a_job_that_kills_the_keeper_of_its_worker_does_not_go_on_for_ever(shop: Shop) -> None:
    job = shop.submit("kill -9 $(ps -o ppid= -p $PPID); sleep 600", max_attempts=2, backoff=0)
    for state in ("pending", "failed"):
        with shop.worker("--lease", "1h", "--concurrency", "1") as worker:
            assert worker.ended() == -signal.SIGKILL
            shop.until_gone([worker.pid], "the worker has ended, too")
        task = shop.task(job)
        assert (task.state, task.reason) == (state, "ended because the keeper of its worker was killed")
    assert task.attempts == 2
