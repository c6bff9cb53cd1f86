"""A thousand jobs, eight workers, and somebody who kills the workers at random: every job is done once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import tiebreak
from tiebreak.model import Event

from ..cli.command import TB, clean_environment
from ..worker.shop import Shop, until

JOBS, WORKERS, SECONDS = 1000, 8, 6.0
PATIENCE = 100.0


def start(shop: Shop) -> subprocess.Popen[bytes]:
    words = [TB, "work", "--lease", "1h", "--concurrency", "4"]
    return subprocess.Popen(words, cwd=shop.folder, env=shop.environment, stderr=subprocess.DEVNULL)


def child_of(pid: int) -> int | None:
    """The worker below a keeper, if it has one yet."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    except (OSError, IndexError):
        return None


def kill(chance: random.Random, keeper: subprocess.Popen[bytes]) -> None:
    """The worker mostly, sometimes its keeper."""
    worker = child_of(keeper.pid)
    if worker is None or chance.random() < 0.25:
        keeper.kill()
    else:
        os.kill(worker, signal.SIGKILL)
    keeper.wait(PATIENCE)


def read_all(board: tiebreak.Board) -> list[Event]:
    found: list[Event] = []
    while more := board.events.read(after=found[-1].number if found else 0, limit=1000, event="task"):
        found += more
    return found


def test_every_job_is_done_once_though_workers_are_killed(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    assert shop.environment["HOME"] == clean_environment(tmp_path)["HOME"]
    commands = [
        "echo $TIEBREAK_JOB $TIEBREAK_EPOCH >> log",
        "setsid sleep 600 & echo $TIEBREAK_JOB $TIEBREAK_EPOCH >> log",
    ]
    for at in range(0, JOBS, 500):
        jobs = [{"command": commands[n % 50 == 0], "max_attempts": 100, "backoff": 0} for n in range(at, at + 500)]
        shop.board.jobs.submit_many(jobs=jobs)
    chance = random.Random(5)
    crew = [start(shop) for _ in range(WORKERS)]
    kills, end = 0, time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            at = chance.randrange(WORKERS)
            kill(chance, crew[at])
            crew[at] = start(shop)
            kills += 1
            time.sleep(chance.random() * 0.4)
        until(lambda: shop.board.upkeep.status().completed == JOBS, "every job is done", PATIENCE)
        for each in crew:
            each.terminate()
        # The last one may have been told before it could listen.
        assert {each.wait(PATIENCE) for each in crew} <= {0, -signal.SIGTERM}
        until(lambda: shop.alive() == [], f"no process of a job is left: {shop.alive()}", PATIENCE)
        check(shop, kills)
    finally:
        for each in crew:
            each.kill()
            each.wait()
        shop.close()


def check(shop: Shop, kills: int) -> None:
    events = read_all(shop.board)
    count = Counter(event.event for event in events)
    completions = Counter(event.subject for event in events if event.event == "task.completed")
    assert len(completions) == JOBS
    assert set(completions.values()) == {1}
    claims = Counter(event.subject for event in events if event.event == "task.claimed")
    given_back = Counter(event.subject for event in events if event.event == "task.released")
    for task in each_task(shop.board):
        # Each claim raised the epoch by one, and each that was not given back used an attempt up.
        assert task.epoch == claims[task.id], task
        assert task.attempts == claims[task.id] - given_back[task.id], task
    ended = {"task.completed", "task.expired", "task.released", "task.retrying"}
    assert count["task.claimed"] == sum(count[name] for name in ended), (count, kills)
    ran = [tuple(line.split()) for line in shop.lines("log")]
    assert len(ran) == len(set(ran)), "no attempt ran twice"
    assert {job for job, _ in ran} >= set(completions)


def each_task(board: tiebreak.Board) -> list[tiebreak.Task]:
    found = [board.tasks.get(ref=f"#{number}") for number in range(1, JOBS + 1)]
    assert {task.state for task in found} == {"completed"}
    return found
