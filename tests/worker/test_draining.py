"""Stopping: what runs may finish, what does not finish goes back, and no attempt is used up."""

from __future__ import annotations

import signal

import pytest

from .shop import Shop, until

WAITS = "echo $$ >> pids; trap 'echo asked >> asked; exit 0' TERM; while [ ! -e go ]; do sleep 0.05; done; echo done"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_signal_lets_running_jobs_finish_and_takes_no_new_one(number: signal.Signals, shop: Shop) -> None:
    job = shop.submit(WAITS)
    with shop.worker("--drain-timeout", "1h") as worker:
        shop.pids("pids", 1)
        worker.process.send_signal(number)
        until(lambda: worker.events("draining"), "it drains")
        later = shop.submit("true")
        (shop.folder / "go").touch()
        assert worker.ended() == 0
    assert shop.task(job).state == "completed"
    assert shop.output(job) == "done\n"
    assert shop.lines("asked") == []
    assert (shop.task(later).state, shop.task(later).attempts) == ("pending", 0)


def test_after_the_drain_timeout_jobs_are_ended_and_go_back(shop: Shop) -> None:
    job = shop.submit(WAITS, max_attempts=1)
    with shop.worker("--drain-timeout", "0.2s") as worker:
        pids = shop.pids("pids", 1)
        worker.stop()
        assert worker.ended() == 0
    task = shop.task(job)
    assert (task.state, task.attempts, task.epoch) == ("pending", 0, 1)
    assert shop.lines("asked") == ["asked"]
    shop.until_gone(pids, "the job is gone")
    (shop.folder / "go").touch()
    shop.burst()
    assert (shop.task(job).state, shop.task(job).epoch) == ("completed", 2)


def test_the_second_signal_does_not_wait_for_the_drain_timeout(shop: Shop) -> None:
    job = shop.submit("trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done", grace=0.2)
    with shop.worker("--drain-timeout", "1h") as worker:
        pids = shop.pids("pids", 1)
        worker.stop()
        until(lambda: worker.events("draining"), "it drains")
        worker.stop()
        assert worker.ended() == 0
    assert (shop.task(job).state, shop.task(job).attempts) == ("pending", 0)
    shop.until_gone(pids, "who did not listen was killed")


def test_an_idle_worker_stops_at_once(shop: Shop) -> None:
    with shop.worker("--drain-timeout", "1h") as worker:
        worker.stop()
        assert worker.ended() == 0
