"""Jobs are run once, as they were meant, and what became of them is told."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from tiebreak.engine.sqlite.opening import allow_writing

from ..cli.command import TB, Answer, Tb, complaint
from ..cli.terminals import shown
from ..daemons import Serving
from ..log import boards
from ..postgres import server
from .shop import RunningWorker, Shop, until


def five_jobs_and_three_workers(shop: Shop) -> list[RunningWorker]:
    """The case of the seed: each of five jobs is done by one of three workers, exactly once."""
    jobs = [shop.submit(f"echo {n} >> done; echo job {n}", max_attempts=1) for n in range(5)]
    with ExitStack() as stack:
        workers = [stack.enter_context(shop.worker("--concurrency", "1")) for _ in range(3)]
        for job in jobs:
            shop.until_state(job, "completed")
        for worker in workers:
            worker.stop()
        assert [worker.ended() for worker in workers] == [0, 0, 0]
    assert sorted(shop.lines("done")) == ["0", "1", "2", "3", "4"]
    assert [shop.output(job) for job in jobs] == [f"job {n}\n" for n in range(5)]
    completed = [event.subject for event in shop.board.events.read(event="task.completed")]
    assert sorted(completed, key=str) == sorted(job.id for job in jobs)
    assert sum(len(worker.events("begun")) for worker in workers) == 5
    return workers


def test_five_jobs_are_done_once_by_three_workers(shop: Shop) -> None:
    five_jobs_and_three_workers(shop)


def test_five_jobs_are_done_once_through_a_daemon(tmp_path: Path) -> None:
    serving = Serving(tmp_path).start()
    try:
        shop = Shop(tmp_path, f"unix:{serving.socket}")
        five_jobs_and_three_workers(shop)
        shop.close()
    finally:
        serving.kill()


def test_a_worker_that_may_not_run_commands_says_so_and_ends(tmp_path: Path) -> None:
    serving = Serving(tmp_path, "--open").start()
    try:
        shop = Shop(tmp_path, serving.url)
        with shop.worker(XDG_STATE_HOME=str(tmp_path / "elsewhere")) as stranger:  # where no token is found
            assert stranger.ended() == 3
        assert [each.get("error") for each in stranger.lines] == ["Unauthorised"]
        shop.close()
    finally:
        serving.kill()


def test_five_jobs_are_done_once_on_postgresql(tmp_path: Path) -> None:
    shop = Shop(tmp_path, server().empty_board())
    five_jobs_and_three_workers(shop)
    boards.keep(shop.address)
    shop.close()


def test_what_a_job_did_is_told_in_figures(shop: Shop) -> None:
    job = shop.submit("echo well")
    shop.burst()
    result = shop.task(job).result
    assert (result["exit"], result["signal"]) == (0, None)
    assert result["seconds"] >= 0
    assert set(result) == {"exit", "signal", "seconds", "peak"}


def test_a_job_that_took_memory_shows_its_peak(shop: Shop) -> None:
    job = shop.submit(["python3", "-c", "x = b'1' * 200_000_000"])
    shop.burst()
    assert shop.task(job).result["peak"] > 200_000_000


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo working; echo out of paper >&2; exit 3", "exit code 3: out of paper"),
        ("exit 7", "exit code 7"),
        ("kill -SEGV $$", "ended by SIGSEGV"),
        (["no-such-program"], "cannot be started: No such file or directory"),
        (["/etc/passwd"], "cannot be started: Permission denied"),
    ],
)
def test_a_failure_says_why_in_a_sentence(command: object, reason: str, shop: Shop) -> None:
    job = shop.submit(command, max_attempts=1)
    shop.burst()
    assert (shop.task(job).state, shop.task(job).reason) == ("failed", reason)


def test_a_failed_attempt_is_followed_by_another(shop: Shop) -> None:
    job = shop.submit('echo "$TIEBREAK_ATTEMPT $TIEBREAK_EPOCH" >> seen; [ $TIEBREAK_ATTEMPT = 3 ]', backoff=0)
    shop.burst()
    assert shop.task(job).state == "completed"
    assert shop.lines("seen") == ["1 1", "2 2", "3 3"]


def test_a_job_learns_who_it_is(shop: Shop) -> None:
    names = ("JOB", "EPOCH", "ATTEMPT", "PROJECT", "BOARD", "AGENT")
    job = shop.submit("; ".join(f"echo $TIEBREAK_{name}" for name in names))
    worker = shop.burst()
    assert shop.output(job).split() == [job.id, "1", "1", "demo", shop.address, worker.agent]


def test_a_job_runs_where_and_with_what_it_was_told(shop: Shop) -> None:
    (shop.folder / "a b").mkdir()
    place = str(shop.folder / "a b")
    jobs = [
        shop.submit(
            'pwd; echo "$COLOUR"; ulimit -n; ulimit -t', cwd=place, env={"COLOUR": "red"}, limits={"files": 77}
        ),
        shop.submit(["sh", "-c", "ulimit -t; ulimit -v"], limits={"cpu": 9, "memory": 512 * 1024 * 1024}),
        shop.submit("pwd", cwd="/no/such/folder", max_attempts=1),
    ]
    shop.burst()
    assert shop.output(jobs[0]).split("\n")[:3] == [place, "red", "77"]
    assert shop.output(jobs[1]).split() == ["9", str(512 * 1024)]
    assert "exit code 126" in (shop.task(jobs[2]).reason or "")


def test_a_string_is_run_by_the_shell_and_a_list_is_not(shop: Shop) -> None:
    piped = shop.submit("printf 'b\\na\\n' | sort > sorted && cat sorted")
    plain = shop.submit(["echo", "a | sort > $HOME"])
    shop.burst()
    assert shop.output(piped) == "a\nb\n"
    assert shop.output(plain) == "a | sort > $HOME\n"


def test_standard_input_is_empty(shop: Shop) -> None:
    job = shop.submit("cat; echo end")
    shop.burst()
    assert shop.output(job) == "end\n"


def test_output_can_be_read_while_the_job_runs(shop: Shop) -> None:
    job = shop.submit("echo first; while [ ! -e go ]; do sleep 0.05; done; echo last >&2")
    with shop.worker():
        until(lambda: shop.output(job) == "first\n", "the first line is there")
        assert shop.task(job).state == "claimed"
        (shop.folder / "go").touch()
        shop.until_state(job, "completed")
    chunks = shop.board.jobs.output(ref=job.id)["chunks"]
    assert [(chunk["stream"], chunk["text"]) for chunk in chunks] == [(1, "first\n"), (2, "last\n")]


def test_an_endless_output_keeps_its_head_and_tail_within_the_cap(shop: Shop) -> None:
    job = shop.submit("echo begin; seq 1 300000; echo end", cap=20_000)
    shop.burst()
    found = shop.board.jobs.output(ref=job.id)
    text = "".join(chunk["text"] for chunk in found["chunks"])
    assert text.startswith("begin\n1\n2\n")
    assert text.endswith("299999\n300000\nend\n")
    assert len(text) <= 20_000 + 4096
    assert sum(chunk["cut"] for chunk in found["chunks"]) + len(text) == found["total"]
    assert found["total"] == len("begin\nend\n") + sum(len(f"{n}\n") for n in range(1, 300001))


def test_much_output_just_before_the_end_is_kept_whole(shop: Shop) -> None:
    job = shop.submit("seq 1 120000")
    shop.burst()
    assert shop.output(job) == "".join(f"{n}\n" for n in range(1, 120001))


def test_bytes_that_are_no_text_do_no_harm(shop: Shop) -> None:
    job = shop.submit(r"printf 'caf\303'; sleep 0.05; printf '\251 \377 \000 end\n'")
    shop.burst()
    assert shop.task(job).state == "completed"
    assert shop.output(job) == "café \ufffd \ufffd end\n"


def test_a_secret_in_the_environment_is_seen_by_the_job_alone(shop: Shop) -> None:
    job = shop.submit("[ ${#API_TOKEN} = 15 ] && echo right", env={"API_TOKEN": "hunter2-hunter2"})
    worker = shop.burst()
    assert shop.output(job) == "right\n"
    everything = [
        repr(shop.board.events.read(limit=1000)),
        repr(shop.board.tasks.list(states=None, limit=100)),
        repr(shop.board.jobs.inspect(ref=job.id)),
        json.dumps(worker.lines),
    ]
    assert [text for text in everything if "hunter2" in text] == []


def test_only_the_queues_and_tags_that_were_asked_for_are_taken(shop: Shop) -> None:
    wanted = [shop.submit("true", queue="a", tags=["x"]), shop.submit("true", queue="b", tags=["y", "z"])]
    others = [shop.submit("true", queue="c", tags=["x"]), shop.submit("true", queue="a"), shop.submit("true")]
    shop.burst("--queue", "a", "--queue", "b", "--tags", "x,y")
    assert [shop.task(job).state for job in wanted] == ["completed", "completed"]
    assert {shop.task(job).state for job in others} == {"pending"}


def test_once_runs_a_single_job(shop: Shop) -> None:
    jobs = [shop.submit("true") for _ in range(3)]
    with shop.worker("--once", "--concurrency", "3") as worker:
        assert worker.ended() == 0
    assert [shop.task(job).state for job in jobs] == ["completed", "pending", "pending"]


def test_a_burst_goes_on_with_what_its_own_jobs_made_ready(shop: Shop) -> None:
    first = shop.submit("true")
    second = shop.submit("true", after=[first.id])
    third = shop.submit("true", after=[second.id])
    shop.burst()
    assert shop.task(third).state == "completed"


def test_a_burst_does_not_stop_before_a_retry(shop: Shop) -> None:
    """Nor before what comes after the retried job."""
    job = shop.submit("test -e tried || { touch tried; exit 1; }", backoff=1.5)
    later = shop.submit("true", after=[job.id])
    worker = shop.burst()
    assert (shop.task(job).state, shop.task(job).attempts) == ("completed", 2)
    assert shop.task(later).state == "completed"
    assert len(worker.events("waiting")) == 1


def test_a_burst_ends_when_the_last_attempt_has_failed(shop: Shop) -> None:
    job = shop.submit("exit 1", max_attempts=3, backoff=0.1)
    shop.burst()
    assert (shop.task(job).state, shop.task(job).attempts) == ("failed", 3)


def test_a_burst_does_not_wait_for_what_it_may_not_run(shop: Shop) -> None:
    """The retries of another queue, tag, function or paused queue, and a job that was submitted for later."""
    for place in ({"queue": "other"}, {"queue": "mine"}, {"queue": "mine", "tags": ["slow"]}, {"queue": "paused"}):
        shop.submit("exit 1", backoff=3600, **place)
    shop.board.jobs.submit(command={"call": "no.such"}, queue="mine", tags=["quick"], backoff=3600)
    won = shop.board.jobs.next(count=10, commands=True, calls=["no.such"])
    assert len(won) == 5
    for job in won:
        shop.board.tasks.fail(ref=job.id, epoch=job.epoch)
    shop.submit("true", queue="mine", tags=["quick"], delay=3600)
    shop.board.queues.pause(queue="paused", reason="not now")
    shop.burst("--queue", "mine", "--queue", "paused", "--tags", "quick")


def test_once_does_not_wait_for_a_retry(shop: Shop) -> None:
    job = shop.submit("exit 1", backoff=3600)
    with shop.worker("--once") as worker:
        assert worker.ended() == 0
    assert shop.task(job).attempts == 1


def test_a_waiting_worker_takes_what_comes(shop: Shop) -> None:
    with shop.worker() as worker:
        for _ in range(3):
            shop.until_state(shop.submit("true"), "completed")
        later = shop.submit("true", delay=0.5)
        shop.until_state(later, "completed")
        worker.stop()
        assert worker.ended() == 0


def test_a_worker_runs_scheduled_jobs_without_a_daemon(shop: Shop) -> None:
    shop.board.schedules.add(name="yearly", expression="0 3 1 1 *", command="true")
    with apsw.Connection(shop.address) as raw:
        allow_writing(raw)
        raw.execute("UPDATE schedules SET due = due - 366 * 86400000000")  # a year has gone by
    with shop.worker():
        until(lambda: [task.state for task in shop.board.schedules.history(name="yearly")] == ["completed"], "it ran")


def test_a_worker_tells_people_in_plain_lines(shop: Shop) -> None:
    shop.submit("true")
    shop.submit("echo no paper; false", max_attempts=1)
    done = subprocess.run(
        [TB, "work", "--burst", "--as", "bob"], cwd=shop.folder, env=shop.environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "bob works on every queue of demo",
        "#1 true: done",
        "failed: exit code 1: no paper",
        "1 done, 1 failed",
    ):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--concurrency", "0"], "--concurrency: from 1 to 1000"),
        (["--concurrency", "many"], "--concurrency"),
        (["--lease", "0.1s"], "--lease: from 1s"),
        (["--queue", "a b"], "--queue"),
        (["--drain-timeout", "soon"], "--drain-timeout"),
        (["--import", "no.such.module"], "--import no.such.module: ModuleNotFoundError"),
    ],
)
def test_wrong_options_are_told_and_nothing_is_taken(words: list[str], said: str, shop: Shop) -> None:
    job = shop.submit("true", queue="q")
    done = subprocess.run(
        [TB, "work", "--queue", "r", *words], cwd=shop.folder, env=shop.environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert shop.task(job).state == "pending"


def test_a_board_that_is_not_there_is_told(shop: Shop) -> None:
    done = subprocess.run(
        [TB, "work", "--board", "unix:/no/such/socket"], env=shop.environment, capture_output=True, text=True
    )
    complaint(Answer(done.returncode, done.stdout, done.stderr), 3)


def test_the_worker_is_known_by_its_process(shop: Shop) -> None:
    with shop.worker("--as", "bob") as worker:
        [me] = [agent for agent in shop.board.agents.list() if agent.id == worker.agent]
        assert (me.pid, me.program, me.status) == (worker.pid, "worker", "active")
        worker.stop()
        worker.ended()
    assert [agent.status for agent in shop.board.agents.list() if agent.id == worker.agent] == ["gone"]
    assert os.path.exists(shop.address)


def test_on_a_terminal_one_line_shows_the_counts(shop: Shop) -> None:
    shop.submit("true")
    shop.submit("echo no paper; false", max_attempts=1)
    text = shown(Tb(shop.folder), "work", "--burst", columns=100)
    assert "\r\x1b[K" in text
    assert "#1 true" in text
    assert "failed: exit code 1: no paper\n" in text
    assert "stopped: 1 done, 1 failed" in text
    assert "begun" not in text
