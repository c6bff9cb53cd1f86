"""A job never runs twice at once on one host: what a dead worker left running is ended before it is begun again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiebreak.model import Task

from ..cli.command import changed_command, gone
from .shop import Hand, Shop, until

UNIFIED = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]

# A shell, a child in its session that cleared its environment, and one that left its session when its parent had died.
# A later attempt writes down which of them still live.
JOB = """
if [ $TIEBREAK_EPOCH -gt 1 ]; then
    for pid in $(cat pids); do
        [ -n "$(tr -d '\\0' < /proc/$pid/cmdline)" ] && echo $pid >> alive
    done
    exit 0
fi
echo $$ >> pids
env -i sh -c 'echo $$ >> pids; while :; do sleep 600; done' &
setsid sh -c 'sh -c "echo \\$\\$ >> pids; trap : TERM; while :; do sleep 1; done" & exit 0'
{more}
trap : TERM
while :; do sleep 0.05; done
"""
# Nothing tells whose this one is: neither its environment, nor its session, nor its parent.
NAMELESS = """setsid sh -c 'env -i PATH="$PATH" setsid sh -c "echo \\$\\$ >> pids; exec sleep 600" & exit 0'"""


@pytest.fixture(autouse=True)
def leave_nothing(shop: Shop) -> Iterator[None]:
    """Whatever the test found: what runs in its folder ends with it."""
    yield
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(shop.folder):
                os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def kill_both(hand: Hand) -> None:
    """A worker and its keeper, in one instant: neither can clean up after the other."""
    os.kill(hand.process.pid, signal.SIGSTOP)
    os.kill(hand.pid, signal.SIGKILL)
    hand.process.kill()
    hand.ended()


def how_it_went_back(shop: Shop, job: Task) -> str:
    [event] = shop.board.events.read(event="task.expired", subject=job.id)
    return event.note or ""


def test_what_worker_and_keeper_left_is_ended_before_their_job_is_given_back(shop: Shop) -> None:
    """Though the lease is an hour."""
    job = shop.submit(JOB.format(more=""), backoff=0)
    with shop.worker("--lease", "1h") as hand:
        pids = shop.pids("pids", 3)
        kill_both(hand)
    with shop.worker("--lease", "1h"):
        shop.until_state(job, "completed")
    assert shop.lines("alive") == []
    shop.until_gone(pids, "nothing of the first attempt is left")
    assert how_it_went_back(shop, job) == "its worker died (attempt 1 of 3)"


def test_what_they_left_is_ended_though_their_lease_ran_out_before_anybody_came(shop: Shop) -> None:
    job = shop.submit(JOB.format(more=""), backoff=0)
    with shop.worker("--lease", "2s") as hand:
        pids = shop.pids("pids", 3)
        kill_both(hand)
    until(lambda: shop.task(job).lapsed or shop.task(job).state == "pending", "the lease has run out")
    shop.burst("--lease", "2s")
    assert (shop.task(job).state, shop.lines("alive")) == ("completed", [])
    shop.until_gone(pids, "nothing of the first attempt is left")


def test_a_stopped_worker_s_job_is_ended_before_another_begins_it_again(shop: Shop) -> None:
    job = shop.submit(JOB.format(more=""), backoff=0)
    with shop.worker("--lease", "2s") as hand:
        pids = shop.pids("pids", 3)
        os.kill(hand.pid, signal.SIGSTOP)
        with shop.worker("--lease", "2s"):
            shop.until_state(job, "completed")
        assert shop.lines("alive") == []
        os.kill(hand.pid, signal.SIGCONT)
        shop.until_gone(pids, "nothing of the first attempt is left")


def test_where_processes_cannot_be_looked_at_the_lease_is_waited_for(shop: Shop) -> None:
    """As with those of another user."""
    job = shop.submit(JOB.format(more=""), backoff=0)
    blind = changed_command(
        shop.folder, "from tiebreak.worker import leftovers", "leftovers.environment = lambda pid: None"
    )
    with shop.worker("--lease", "5s") as hand:
        shop.pids("pids", 3)
        kill_both(hand)
    with shop.worker("--lease", "1s", command=blind):
        shop.until_state(job, "completed")
    assert how_it_went_back(shop, job) == "the lease of attempt 1 of 3 ran out"


AS_NOBODY = """
import os, sys
from tiebreak.worker.leftovers import end_left_by
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(end_left_by(sys.argv[1], {(sys.argv[2], "1")}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_belongs_to_another_user_is_not_taken_to_be_gone(shop: Shop) -> None:
    job = shop.submit(JOB.format(more=""))
    with shop.worker("--lease", "1h") as hand:
        pids = shop.pids("pids", 3)
        kill_both(hand)
    words = [sys.executable, "-c", AS_NOBODY, hand.agent, job.id]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "False\n"
    assert not any(map(gone, pids))


@contextmanager
def control_group() -> Iterator[Path]:
    """A control group of its own for what is started here."""
    top = next((each for each in UNIFIED if (each / "cgroup.procs").exists()), None)
    if top is None or not os.access(top, os.W_OK):
        pytest.skip("no control groups can be made here")
    made = top / f"tiebreak-test-{os.getpid()}"
    made.mkdir()
    try:
        yield made
    finally:
        until(lambda: not (made / "cgroup.procs").read_text(), "nothing is left in the control group")
        made.rmdir()


def test_one_that_nothing_else_tells_of_is_found_by_its_control_group(shop: Shop) -> None:
    job = shop.submit(JOB.format(more=NAMELESS), backoff=0)
    with control_group() as group:
        apart = changed_command(
            shop.folder, "import os", f"open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))"
        )
        with shop.worker("--lease", "1h", command=apart) as hand:
            pids = shop.pids("pids", 4)
            kill_both(hand)
        with shop.worker("--lease", "1h"):
            shop.until_state(job, "completed")
        assert shop.lines("alive") == []
        shop.until_gone(pids, "nothing of the first attempt is left")
