"""The board moves while workers run: they follow it, what they have to tell is told there, and nothing runs twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tiebreak
from tiebreak.engine.move.moving import move

from ..cli.command import changed_command, gone
from ..postgres import server
from .shop import RunningWorker, Shop, until

WAITS = 'echo "$$" >> pids; while [ ! -e go ]; do sleep 0.05; done; echo "$TIEBREAK_BOARD"'


# The log of a board that was left cannot be read any more; that of the new one is judged by the tests of moving.
pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(params=["to a file", "to a server"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the board goes."""
    return str(tmp_path / "new.db") if request.param == "to a file" else server().empty_board()


def moved(shop: Shop, target: str) -> None:
    """Move the board, and go on with it there."""
    shop.board.close()
    assert move(shop.address, target).outcome == "moved"
    shop.board = tiebreak.open(target, agent="me~1", project="demo")


def test_a_worker_follows_its_board_and_reports_there_what_it_ran_meanwhile(shop: Shop, target: str) -> None:
    jobs = [shop.submit(WAITS, max_attempts=1) for _ in range(3)]
    with shop.worker("--lease", "1h", "--concurrency", "3") as worker:
        shop.pids("pids", 3)
        moved(shop, target)
        (shop.folder / "go").touch()
        for job in jobs:
            shop.until_state(job, "completed")
        later = shop.until_state(shop.submit(WAITS), "completed")
        worker.stop()
        assert worker.ended() == 0
    assert [line["about"] for line in worker.events("followed")] == [target]
    assert [shop.task(job).attempts for job in jobs] == [1, 1, 1]
    assert shop.output(later) == f"{target}\n", "a job that begins now is told where the board is now"
    assert len(shop.lines("pids")) == 4
    assert shop.board.events.read(event="job.orphaned") == []
    [me] = [agent for agent in shop.board.agents.list() if agent.id == worker.agent]
    assert me.status == "gone", "it said good-bye there"


def test_a_worker_that_dies_after_it_has_followed_is_known_there(shop: Shop) -> None:
    job = shop.submit("echo $$ >> pids; sleep 600", backoff=0)
    with shop.worker("--lease", "1h") as worker:
        shop.pids("pids", 1)
        moved(shop, str(shop.folder / "new.db"))
        until(lambda: worker.events("followed"), "it follows")
        os.kill(worker.pid, 9)
        worker.ended()
    task = shop.task(job)
    assert (task.state, task.reason) == ("pending", "its worker died (attempt 1 of 3)")


MODULE = """
import os, time
import tiebreak

@tiebreak.job()
def place():
    while not os.path.exists("go"):
        time.sleep(0.01)
    return os.environ["TIEBREAK_BOARD"]
"""


def test_a_function_that_is_called_later_learns_where_the_board_is(shop: Shop) -> None:
    (shop.folder / "places.py").write_text(MODULE)
    first = shop.submit({"call": "places.place"})
    with shop.worker("--import", "places", "--concurrency", "1", "--lease", "1h") as worker:
        until(lambda: worker.events("begun"), "it runs")
        old, new = shop.address, str(shop.folder / "new.db")
        moved(shop, new)
        until(lambda: worker.events("followed"), "it follows")
        (shop.folder / "go").touch()
        assert shop.until_state(first, "completed").result == old
        assert shop.until_state(shop.submit({"call": "places.place"}), "completed").result == new


def stranded(shop: Shop, worker: RunningWorker) -> None:
    """Move the board to where the worker cannot open it, while it has something to tell."""
    [pid] = shop.pids("pids", 1)
    new = shop.folder / "new.db"
    moved(shop, str(new))
    shop.board.close()
    for each in shop.folder.glob("new.db*"):
        each.rename(shop.folder / each.name.replace("new", "elsewhere"))
    (shop.folder / "go").touch()
    until(lambda: gone(pid), "the job is done")
    assert worker.ended() == 3


def test_a_worker_that_cannot_follow_ends_with_a_code_and_tells_what_it_could_not_report(shop: Shop) -> None:
    job = shop.submit(WAITS)
    impatient = changed_command(
        shop.folder, "from tiebreak.worker import board_requests", "board_requests.LAST_TRIES = 3.0"
    )
    with shop.worker("--lease", "1h", command=impatient) as worker:
        stranded(shop, worker)
    [error] = [line for line in worker.lines if "error" in line]
    assert "moved to" in error["message"]
    assert "does not exist" in error["message"]
    assert [(line["number"], line["ok"]) for line in worker.events("undelivered")] == [(job.number, True)]
    assert not (shop.folder / "new.db").exists(), "no new board was made where the old one was looked for"
    shop.board = tiebreak.open(str(shop.folder / "elsewhere.db"), agent="me~1", project="demo")
