"""A job never runs twice at once on one host: what a dead worker left running is ended before it is begun again."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiebreak.model import Task
from tiebreak.worker.leftover_processes import end_earlier
from tiebreak.worker.register import WIDTH, RegisterContents

from ..cli.command import changed_command, gone
from ..daemons import serving
from .shop import RunningWorker, Shop, until

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


def kill_both(worker: RunningWorker) -> None:
    """A worker and its keeper, in one instant: neither can clean up after the other."""
    os.kill(worker.process.pid, signal.SIGSTOP)
    os.kill(worker.pid, signal.SIGKILL)
    worker.process.kill()
    worker.ended()


def register_of(shop: Shop, worker: RunningWorker) -> Path:
    """The file of a worker."""
    return shop.folder / "state" / "tiebreak" / "run" / f"{worker.agent.partition('~')[2]}.worker"


def register(shop: Shop, worker: RunningWorker) -> str:
    return register_of(shop, worker).read_text()


def until_listed(shop: Shop, worker: RunningWorker, pid: int) -> None:
    """Until the worker has written down the session of a job, which this process leads."""
    until(lambda: f" {pid} " in register(shop, worker), "its session is in the register")


def how_it_went_back(shop: Shop, job: Task) -> str:
    [event] = shop.board.events.read(event="task.expired", subject=job.id)
    return event.note or ""


def test_what_worker_and_keeper_left_is_ended_before_their_job_is_given_back(shop: Shop) -> None:
    """Though the lease is an hour."""
    job = shop.submit(JOB.format(more=""), backoff=0)
    with shop.worker("--lease", "1h") as worker:
        pids = shop.pids("pids", 3)
        until_listed(shop, worker, pids[0])
        kill_both(worker)
    with shop.worker("--lease", "1h"):
        shop.until_state(job, "completed")
    assert shop.lines("alive") == []
    shop.until_gone(pids, "nothing of the first attempt is left")
    assert how_it_went_back(shop, job) == "its worker died (attempt 1 of 3)"


def test_leftover_processes_are_ended_even_if_the_lease_ran_out_first(shop: Shop) -> None:
    job = shop.submit(JOB.format(more=""), backoff=0)
    with shop.worker("--lease", "2s") as worker:
        pids = shop.pids("pids", 3)
        kill_both(worker)
    until(lambda: shop.task(job).lapsed or shop.task(job).state == "pending", "the lease has run out")
    shop.burst("--lease", "2s")
    assert (shop.task(job).state, shop.lines("alive")) == ("completed", [])
    shop.until_gone(pids, "nothing of the first attempt is left")


def test_a_stopped_worker_s_job_is_ended_before_another_begins_it_again(shop: Shop) -> None:
    job = shop.submit(JOB.format(more=""), backoff=0)
    with shop.worker("--lease", "2s") as worker:
        pids = shop.pids("pids", 3)
        shop.suspend(worker)
        with shop.worker("--lease", "2s"):
            shop.until_state(job, "completed")
        assert shop.lines("alive") == []
        os.kill(worker.pid, signal.SIGCONT)
        shop.until_gone(pids, "nothing of the first attempt is left")


def test_what_was_found_is_killed_even_if_looking_took_all_the_time() -> None:
    mark = {"TIEBREAK_JOB": "a-job", "TIEBREAK_EPOCH": "1", "TIEBREAK_WORKER": "old~1", "TIEBREAK_BOARD": "/a/board"}
    left = subprocess.Popen(["sleep", "60"], env={**os.environ, **mark}, start_new_session=True)
    try:
        end_earlier({"a-job": 2}, "/a/board", patience=-1.0)
        assert left.wait(30) == -signal.SIGKILL
    finally:
        left.kill()
        left.wait()


def test_if_processes_cannot_be_inspected_the_lease_has_to_run_out(shop: Shop) -> None:
    """As with those of another user."""
    job = shop.submit(JOB.format(more=""), backoff=0)
    blind = changed_command(
        shop.folder,
        "from tiebreak.worker import leftover_processes",
        "leftover_processes.environment = lambda pid: None",
    )
    with shop.worker("--lease", "5s") as worker:
        shop.pids("pids", 3)
        kill_both(worker)
    with shop.worker("--lease", "1s", command=blind):
        shop.until_state(job, "completed")
    assert how_it_went_back(shop, job) == "the lease of attempt 1 of 3 ran out"


AS_NOBODY = """
import os, sys
from tiebreak.worker.leftover_processes import end_left_by
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(end_left_by(sys.argv[1], {(sys.argv[2], "1")}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_belongs_to_another_user_is_not_taken_to_be_gone(shop: Shop) -> None:
    job = shop.submit(JOB.format(more=""))
    with shop.worker("--lease", "1h") as worker:
        pids = shop.pids("pids", 3)
        kill_both(worker)
    words = [sys.executable, "-c", AS_NOBODY, worker.agent, job.id]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "False\n"
    assert not any(map(gone, pids))


# Its first process carries no mark: it cleared its environment, or a long title took the environment's place.
BARE = ["env", "-i", "sh", "-c", "echo $$ >> pids; while :; do sleep 0.05; done"]
TITLED = f"""
exec {sys.executable} -c '
import ctypes, os, time
start = int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[45])
end = int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[48])
ctypes.memset(start, 120, end - start)
assert b"TIEBREAK" not in open("/proc/self/environ", "rb").read()
print(os.getpid(), file=open("pids", "a"), flush=True)
time.sleep(600)
'
"""
BARE_COMMAND = shlex.join(BARE)
WITHOUT_A_MARK = pytest.mark.parametrize("first", [BARE_COMMAND, TITLED], ids=["bare", "titled"])
AGAIN = """
if [ $TIEBREAK_EPOCH -gt 1 ]; then
    [ -n "$(tr -d '\\0' < /proc/$(cat pids)/cmdline)" ] && echo $(cat pids) >> alive
    exit 0
fi
exec """


def again(first: str) -> str:
    """A job whose second attempt writes down whether the first still runs."""
    return AGAIN + first.strip().removeprefix("exec ")


@WITHOUT_A_MARK
def test_a_job_whose_first_process_lost_its_mark_is_ended_before_it_is_given_back(shop: Shop, first: str) -> None:
    job = shop.submit(again(first), backoff=0)
    with shop.worker("--lease", "1h") as worker:
        pids = shop.pids("pids", 1)
        until_listed(shop, worker, pids[0])
        kill_both(worker)
    with shop.worker("--lease", "1h"):
        shop.until_state(job, "completed")
    assert shop.lines("alive") == []
    shop.until_gone(pids, "nothing of the first attempt is left")
    assert how_it_went_back(shop, job) == "its worker died (attempt 1 of 3)"
    assert not register_of(shop, worker).exists()


@WITHOUT_A_MARK
def test_a_job_that_lost_its_mark_is_ended_even_if_its_lease_ran_out_first(shop: Shop, first: str) -> None:
    job = shop.submit(again(first), backoff=0)
    with shop.worker("--lease", "2s") as worker:
        pids = shop.pids("pids", 1)
        until_listed(shop, worker, pids[0])
        kill_both(worker)
    until(lambda: shop.task(job).lapsed or shop.task(job).state == "pending", "the lease has run out")
    shop.burst("--lease", "2s")
    assert (shop.task(job).state, shop.lines("alive")) == ("completed", [])
    shop.until_gone(pids, "nothing of the first attempt is left")


def test_a_job_that_lost_its_mark_is_ended_even_if_its_old_worker_is_suspended(shop: Shop) -> None:
    job = shop.submit(again(BARE_COMMAND), backoff=0)
    with shop.worker("--lease", "2s") as worker:
        pids = shop.pids("pids", 1)
        until_listed(shop, worker, pids[0])
        shop.suspend(worker)
        with shop.worker("--lease", "2s"):
            shop.until_state(job, "completed")
        assert shop.lines("alive") == []
        os.kill(worker.pid, signal.SIGCONT)
        shop.until_gone(pids, "nothing of the first attempt is left")


def wait_for_the_lease(shop: Shop, job: Task) -> None:
    """Another worker does not begin the job before its lease has ended."""
    with shop.worker("--lease", "1s"):
        shop.until_state(job, "completed")
    assert how_it_went_back(shop, job) == "the lease of attempt 1 of 3 ran out"


def test_without_a_register_the_lease_has_to_run_out(shop: Shop) -> None:
    """Nobody can know what a worker started if its file is gone."""
    job = shop.submit(again(BARE_COMMAND), backoff=0)
    with shop.worker("--lease", "4s") as worker:
        shop.pids("pids", 1)
        register_of(shop, worker).unlink()
        kill_both(worker)
        wait_for_the_lease(shop, job)


def test_if_the_register_lacks_a_session_the_lease_has_to_run_out(shop: Shop) -> None:
    """The worker dies when it has started a job, and before it wrote down which process that is."""
    job = shop.submit(again(BARE_COMMAND), backoff=0)
    forgetful = changed_command(
        shop.folder, "from tiebreak.worker.register import Register", "Register.confirm = lambda *_: None"
    )
    with shop.worker("--lease", "4s", command=forgetful) as worker:
        shop.pids("pids", 1)
        kill_both(worker)
        wait_for_the_lease(shop, job)


def test_if_the_leader_of_a_session_is_gone_the_lease_has_to_run_out(shop: Shop) -> None:
    """Its number may be that of somebody else's session by now, who must not be killed."""
    job = shop.submit(f"[ $TIEBREAK_EPOCH -gt 1 ] && exit 0; {BARE_COMMAND} & wait", backoff=0)
    with shop.worker("--lease", "4s") as worker:
        [pid] = shop.pids("pids", 1)
        leader = os.getsid(pid)
        until_listed(shop, worker, leader)
        shop.suspend(worker)
        os.kill(leader, signal.SIGKILL)
        kill_both(worker)
        until(lambda: not os.path.exists(f"/proc/{leader}"), "the leader has been reaped")
        wait_for_the_lease(shop, job)
        assert not gone(pid)


FUNCTION = """
import os, subprocess, tiebreak

@tiebreak.job()
def starts():
    if os.environ["TIEBREAK_EPOCH"] == "1":
        subprocess.run(["env", "-i", "sh", "-c", "echo $$ >> pids; while :; do sleep 0.05; done"])
"""


def test_what_a_function_started_without_a_mark_is_ended_or_the_lease_has_to_run_out(shop: Shop) -> None:
    """The child that ran the function leads its session, and has died with the worker; it may be reaped by now."""
    (shop.folder / "functions.py").write_text(FUNCTION)
    job = shop.submit({"call": "functions.starts"}, backoff=0)
    with shop.worker("--lease", "4s", "--import", "functions") as worker:
        [pid] = shop.pids("pids", 1)
        kill_both(worker)
    with shop.worker("--lease", "1s", "--import", "functions"):
        shop.until_state(job, "completed")
    assert gone(pid) or how_it_went_back(shop, job) == "the lease of attempt 1 of 3 ran out"


def test_the_register_of_a_worker_lists_only_what_runs_and_goes_with_it(shop: Shop) -> None:
    for _ in range(20):
        shop.submit("true")
    shop.submit("echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done")
    with shop.worker("--burst", "--concurrency", "2") as worker:
        [pid] = shop.pids("pids", 1)
        until_listed(shop, worker, pid)
        until(lambda: len(register(shop, worker).split("\n", 1)[1].split()) == 5, "nothing else is in the register")
        assert len(register(shop, worker).splitlines()) <= 3
        (shop.folder / "go").touch()
        assert worker.ended() == 0
    assert not register_of(shop, worker).exists()


def test_the_register_of_a_dead_worker_is_deleted_when_no_lease_is_left(shop: Shop) -> None:
    """Nobody gives back the jobs of a worker that had none."""
    with shop.worker() as worker:
        left = register_of(shop, worker)
        until(left.exists, "it has a register")
        kill_both(worker)
    shop.burst()
    assert left.exists()
    os.utime(left, (0, 0))
    with shop.worker() as idle:
        until(register_of(shop, idle).exists, "it has a register")
        assert not left.exists()
        os.utime(register_of(shop, idle), (0, 0))
        shop.burst()
        assert register_of(shop, idle).exists()


@pytest.mark.parametrize("cut", [1, 15, 17, 20, 22, 24, 25, 26])
def test_an_entry_that_was_cut_while_it_was_written_is_in_doubt(cut: int) -> None:
    head, begun = b'"/board.db"\n', b"01a1e6cf-bfc8 3".ljust(59)
    ended = b"01a1e6cf-bfc8 3 4711 815 .".ljust(59)
    assert RegisterContents(head + ended + b"\n").leaders == {4711: (("01a1e6cf-bfc8", "3"), 815)}
    listed = RegisterContents(head + ended[:cut] + begun[cut:] + b"\n")
    assert listed.complete == (cut > 25)
    assert list(listed.leaders) == ([4711] if listed.complete else [])


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


def test_a_process_without_other_traits_is_found_by_its_control_group(shop: Shop) -> None:
    job = shop.submit(JOB.format(more=NAMELESS), backoff=0)
    with control_group() as group:
        apart = changed_command(
            shop.folder, "import os", f"open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))"
        )
        with shop.worker("--lease", "1h", command=apart) as worker:
            pids = shop.pids("pids", 4)
            until_listed(shop, worker, pids[0])
            kill_both(worker)
        with shop.worker("--lease", "1h"):
            shop.until_state(job, "completed")
        assert shop.lines("alive") == []
        shop.until_gone(pids, "nothing of the first attempt is left")


def test_a_register_that_ends_within_an_entry_is_in_doubt() -> None:
    head, entry = b'"board.db"\n', b"job 1 7 70 .".ljust(WIDTH - 1) + b"\n"
    assert RegisterContents(head + 2 * entry).complete
    assert not any(RegisterContents((head + 2 * entry)[:-cut]).complete for cut in range(1, WIDTH))


def test_what_a_job_held_is_not_given_back_before_the_processes_of_its_dead_worker_have_ended(shop: Shop) -> None:
    """The hold lasts an hour, and its worker has no job any more."""
    job = shop.submit("tb hold lock:deploy --lease 1h; setsid sh -c 'echo $$ >> pids; sleep 600' &\nsleep 1", backoff=0)
    shop.board.holds.take(resources=["lock:mine"])
    with shop.worker("--lease", "1h") as worker:
        pids = shop.pids("pids", 1)
        kill_both(worker)
    shop.board.tasks.cancel(ref=job.id)
    assert not gone(pids[0])
    with shop.worker("--lease", "1h"):
        until(lambda: "lock:deploy" not in held(shop), "the hold is given back")
        assert gone(pids[0])
    assert held(shop) == ["lock:mine"]


def held(shop: Shop) -> list[str]:
    return [hold.resource for hold in shop.board.holds.list()]


def test_jobs_of_a_dead_worker_do_not_wait_for_another_worker_where_a_daemon_serves(shop: Shop) -> None:
    job = shop.submit(JOB.format(more=""), backoff=0)
    with shop.worker("--lease", "1h") as worker:
        pids = shop.pids("pids", 3)
        until_listed(shop, worker, pids[0])
        kill_both(worker)
    with serving(shop.folder):
        shop.until_state(job, "pending")
        assert all(gone(pid) for pid in pids)
    assert how_it_went_back(shop, job) == "its worker died (attempt 1 of 3)"
