"""A worker's own troubles are not its jobs': they go back without having used an attempt, and it says why."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ..cli.command import TB, changed_command, clean_environment, gone
from .shop import Shop, until

WAITS = "echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done; echo done"


def limited(folder: Path, limit: str) -> str:
    """A `tb` with less than usual."""
    script = folder / "limited-tb"
    script.write_text(f'#!/bin/sh\nulimit {limit}\nexec {TB} "$@"\n')
    script.chmod(0o700)
    return str(script)


def test_too_few_descriptors_use_up_no_attempt_and_all_jobs_are_done(shop: Shop) -> None:
    jobs = [shop.submit(WAITS, max_attempts=1) for _ in range(12)]
    with shop.worker("--burst", "--concurrency", "12", command=limited(shop.folder, "-n 30")) as worker:
        until(lambda: worker.events("short"), "it says that it is short of something")
        assert "Too many open files" in worker.events("short")[0]["about"]
        begun = len(worker.events("begun"))
        assert 0 < begun < 12
        (shop.folder / "go").touch()
        assert worker.ended() == 0
    assert [(shop.task(job).state, shop.task(job).attempts) for job in jobs] == [("completed", 1)] * 12
    assert len(shop.lines("pids")) == 12


def test_a_worker_with_too_few_descriptors_ends_at_once_and_says_why(shop: Shop) -> None:
    """With the fewest it cannot even begin to listen; with some more it cannot look for what it may have started."""
    job = shop.submit("true", max_attempts=1)
    answers = []
    for limit in range(8, 17):
        poor = changed_command(
            shop.folder,
            "import resource",
            "from tiebreak.worker import capacity",
            "capacity.SOON = 0.01",
            f"resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))",
        )
        done = subprocess.run(
            [poor, "work", "--burst"],
            capture_output=True,
            text=True,
            cwd=shop.folder,
            env=clean_environment(shop.folder),
            timeout=20,  # less than it would look for children
            check=False,
        )
        answers.append((done.returncode, done.stderr.splitlines()[0]))
    assert set(answers) == {(3, "tb: this worker cannot go on: Too many open files")}
    assert (shop.task(job).state, shop.task(job).attempts) == ("pending", 0)


@pytest.mark.parametrize("number", ["EAGAIN", "ENOMEM", "ENFILE"])
def test_a_worker_that_cannot_start_anything_gives_its_jobs_back_and_ends_with_a_code(number: str, shop: Shop) -> None:
    jobs = [shop.submit("true", max_attempts=1) for _ in range(3)]
    poor = changed_command(
        shop.folder,
        "import errno, os",
        "from tiebreak.worker import capacity",
        "capacity.SOON = 0.01",
        "def spawn(*_, **__):",
        f"    raise OSError(errno.{number}, os.strerror(errno.{number}))",
        "os.posix_spawn = spawn",
    )
    with shop.worker("--burst", "--concurrency", "2", command=poor) as worker:
        assert worker.ended() == 3
    assert worker.events("short")
    assert [line["error"] for line in worker.lines if "error" in line] == ["Unavailable"]
    assert [(shop.task(job).state, shop.task(job).attempts) for job in jobs] == [("pending", 0)] * 3


def test_after_a_shortage_as_many_jobs_run_at_once_as_before(shop: Shop) -> None:
    """Two starts fail; later it runs as many at once as it was told."""
    jobs = [shop.submit(WAITS, max_attempts=1) for _ in range(3)]
    poor = changed_command(
        shop.folder,
        "import errno, os",
        "from tiebreak.worker import capacity",
        "capacity.SOON = capacity.AGAIN = 0.05",
        "usual, left = os.posix_spawn, [1, 1]",
        "def spawn(*words, **more):",
        "    if left:",
        "        left.pop()",
        "        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))",
        "    return usual(*words, **more)",
        "os.posix_spawn = spawn",
    )
    with shop.worker("--burst", "--concurrency", "3", command=poor) as worker:
        shop.pids("pids", 3)
        (shop.folder / "go").touch()
        assert worker.ended() == 0
    assert [(shop.task(job).state, shop.task(job).attempts) for job in jobs] == [("completed", 1)] * 3


def test_a_worker_without_memory_gives_its_jobs_back_and_ends_with_a_code(shop: Shop) -> None:
    job = shop.submit(WAITS, max_attempts=1, grace=0.2)
    poor = changed_command(
        shop.folder,
        "from tiebreak.worker.command_runner import CommandRunner",
        "usual = CommandRunner.poll_fresh",
        "def poll_fresh(commands, now):",
        "    if commands.running and __import__('os').path.exists('pids'):",
        "        CommandRunner.poll_fresh = usual",
        "        raise MemoryError",
        "    usual(commands, now)",
        "CommandRunner.poll_fresh = poll_fresh",
    )
    with shop.worker(command=poor) as worker:
        [pid] = shop.pids("pids", 1)
        shop.board.tasks.post(name="something happens")
        assert worker.ended() == 3
    assert gone(pid)
    assert (shop.task(job).state, shop.task(job).attempts) == ("pending", 0)


def test_a_worker_whose_board_is_deleted_ends_its_jobs_and_itself(shop: Shop) -> None:
    shop.submit(WAITS, grace=0.2)
    with shop.worker("--lease", "1h") as worker:
        pids = shop.pids("pids", 1)
        shop.board.close()
        for path in shop.folder.glob("board.db*"):
            path.unlink()
        until(lambda: os.path.exists(f"/proc/{worker.pid}"), "it runs")
        assert worker.ended() == 3
    shop.until_gone(pids, "the job has ended")
    assert [each["error"] for each in worker.lines if "error" in each] == ["Unavailable"]
    assert [each["drained"] for each in worker.events("undelivered")] == [True]


def test_a_claim_whose_answer_never_came_is_given_back(shop: Shop) -> None:
    """The board has granted it, and the connection broke: a burst must not end and leave it claimed."""
    jobs = [shop.submit("true", max_attempts=1) for _ in range(3)]
    deaf = changed_command(
        shop.folder,
        "from tiebreak import Unavailable",
        "from tiebreak.board import Board",
        "usual = Board.batch",
        "def batch(board, calls):",
        "    answers = usual(board, calls)",
        "    if any(call[0] == 'jobs.next' and answer for call, answer in zip(calls, answers)):",
        "        Board.batch = usual",
        "        raise Unavailable('the connection broke while committing')",
        "    return answers",
        "Board.batch = batch",
    )
    with shop.worker("--burst", "--lease", "1h", "--concurrency", "2", command=deaf) as worker:
        assert worker.ended() == 0
    assert [line["about"] for line in worker.events("unheard")] == [2]
    assert [(shop.task(job).state, shop.task(job).attempts) for job in jobs] == [("completed", 1)] * 3


def test_a_report_that_the_board_could_not_take_alone_is_delivered_later(shop: Shop) -> None:
    """A batch may be cut in two, and the second half meet a server that has just gone."""
    job = shop.submit("echo done", max_attempts=1)
    deaf = changed_command(
        shop.folder,
        "from tiebreak import Unavailable",
        "from tiebreak.board import Board",
        "usual = Board.batch",
        "def batch(board, calls):",
        "    names = [call[0] for call in calls]",
        "    if 'jobs.report' not in names:",
        "        return usual(board, calls)",
        "    Board.batch = usual",
        "    at = names.index('jobs.report')",
        "    return [*usual(board, calls[:at]), *[Unavailable('the server went away')] * (len(calls) - at)]",
        "Board.batch = batch",
    )
    with shop.worker("--burst", "--lease", "1h", command=deaf) as worker:
        assert worker.ended() == 0
    assert worker.events("unreachable")
    assert (shop.task(job).state, shop.task(job).attempts) == ("completed", 1)
    assert shop.task(job).result["exit"] == 0
    assert shop.output(job) == "done\n"
