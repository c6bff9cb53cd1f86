"""A worker that was stopped past its lease wakes up: its report is refused, its tree is gone, the other's result stays.

Many times, in lanes side by side. Leases are short here, so on a busy machine a worker may lose one without having
been stopped; such a round is held to the same rules but does not count towards them.
"""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tiebreak
from tiebreak.model import Task, holder_id

from ..cli.command import changed_command, gone
from .shop import RunningWorker, Shop, until

LANES, ROUNDS, MOST = 5, 3, 9
LEASE = 2.0

# The first attempt runs for ever, with a child in a session of its own; a later one is done at once.
JOB = """
if [ "$TIEBREAK_EPOCH" = 1 ]; then
    setsid sleep 600 &
    echo $! >> {pids}
    echo $$ >> {pids}
    sleep 600
fi
echo $TIEBREAK_EPOCH
"""


def test_zombies_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(LANES) as lanes:
        done = list(lanes.map(lambda lane: run_lane(tmp_path / f"lane{lane}", lane), range(LANES)))
    assert sum(done) >= LANES * ROUNDS


def run_lane(folder: Path, lane: int) -> int:
    """Rounds on a board of its own until enough of them had a zombie."""
    folder.mkdir()
    shop, chance = Shop(folder), random.Random(lane)
    options = ("--lease", f"{LEASE}s", "--concurrency", "1")
    zombies = 0
    try:
        with shop.worker(*options) as one, shop.worker(*options) as two:
            for turn in range(MOST):
                zombies += round_of(shop, [one, two], chance, f"pids{turn}")
                if zombies == ROUNDS:
                    break
        assert shop.alive() == []
    finally:
        shop.close()
    return zombies


def round_of(shop: Shop, workers: list[RunningWorker], chance: random.Random, pids: str) -> bool:
    """One job whose first holder is stopped; whether it was stopped in time to become a zombie."""
    job = shop.submit(JOB.format(pids=pids), backoff=0, max_attempts=10, grace=0.2)
    until(lambda: len(shop.lines(pids)) == 2 or shop.task(job).epoch > 1, "the job runs")
    holder = next((worker for worker in workers if worker.agent == holder_id(shop.task(job))), None)
    stopped = holder is not None and shop.task(job).epoch == 1
    if holder is not None and stopped:
        time.sleep(chance.random() * 0.2)  # not always at the same point of its life
        os.kill(holder.pid, signal.SIGSTOP)
        over(shop, job, 15.0)
        os.kill(holder.pid, signal.SIGCONT)
    until(lambda: shop.task(job).state == "completed", "some worker finished the job")
    until(lambda: told(shop, job), "what became of the first attempt is told")
    check(shop, job, [int(line) for line in shop.lines(pids)])
    return stopped and told(shop, job) == ["job.orphaned"]


def told(shop: Shop, job: Task) -> list[str]:
    """How the first attempt was reported: too late, or just in time by a worker that saw its lease end."""
    events = shop.board.events.read(subject=job.id, limit=1000)
    return [each.event for each in events if each.epoch == 1 and each.event in ("job.orphaned", "task.retrying")]


def over(shop: Shop, job: Task, patience: float) -> None:
    """Until the other worker is done; not for ever, for a worker may be stopped in the middle of a write."""
    end = time.monotonic() + patience
    while shop.task(job).state != "completed" and time.monotonic() < end:
        time.sleep(0.02)


def check(shop: Shop, job: Task, pids: list[int]) -> None:
    task = shop.task(job)
    shop.until_gone(pids, "the first attempt's tree is gone")
    assert task.epoch > 1
    assert shop.output(task) == f"{task.epoch}\n"
    finished = shop.board.events.read(event="task.completed", subject=job.id)
    assert [event.epoch for event in finished] == [task.epoch]
    for orphan in shop.board.events.read(event="job.orphaned", subject=job.id):
        assert orphan.epoch < task.epoch


def test_a_result_that_comes_too_late_is_kept_as_it_was(tmp_path: Path) -> None:
    """The command itself ended well while its worker slept: that is told, but not believed."""
    shop = Shop(tmp_path)
    try:
        job = shop.submit("echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done; echo $TIEBREAK_EPOCH", backoff=0)
        with shop.worker("--lease", "1h") as first:
            [pid] = shop.pids("pids", 1)
            shop.suspend(first)
            (tmp_path / "go").touch()
            until(lambda: gone(pid), "the command has ended")
            with tiebreak.open(shop.address, agent=first.agent, project="demo") as its_own:
                its_own.tasks.release(ref=job.id, epoch=1)
            with shop.worker("--lease", "1h"):
                until(lambda: shop.task(job).state == "completed", "the other worker did it")
                assert shop.task(job).epoch > 1
                os.kill(first.pid, signal.SIGCONT)
                until(lambda: shop.board.events.read(event="job.orphaned"), "the first report is refused")
        [orphan] = shop.board.events.read(event="job.orphaned")
        assert (orphan.epoch, orphan.data["ok"], orphan.data["result"]["exit"]) == (1, True, 0), orphan
        assert len(shop.board.events.read(event="task.completed")) == 1
    finally:
        shop.close()


def test_what_is_granted_too_late_is_not_begun(tmp_path: Path) -> None:
    """The answer to the first claim was on its way for a whole lease: somebody else may have the job by then."""
    slow = changed_command(
        tmp_path,
        "from tiebreak.worker.request_sender import RequestBatch",
        "usual = RequestBatch.handle_answers",
        "def late(batch):",
        "    if any(call[0] == 'jobs.next' and answer for call, answer in zip(batch.calls, batch.answers)):",
        "        RequestBatch.handle_answers = usual",
        "        batch.asked -= 60",
        "    usual(batch)",
        "RequestBatch.handle_answers = late",
    )
    shop = Shop(tmp_path)
    try:
        job = shop.submit("echo $TIEBREAK_EPOCH >> ran")
        with shop.worker("--lease", "60s", command=slow) as worker:
            shop.until_state(job, "completed")
            until(lambda: worker.events("begun"), "it tells what it did")
            assert [line["epoch"] for line in worker.events("unbegun")] == [1]
            assert [line["epoch"] for line in worker.events("begun")] == [2]
        assert shop.lines("ran") == ["2"]
        assert shop.task(job).attempts == 1
        [back] = shop.board.events.read(event="task.released", subject=job.id)
        assert "lease had run out" in (back.note or "")
    finally:
        shop.close()
