"""`tb serve --workers 2`, end to end: workers run jobs, finish them on shutdown, and leave no process behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..cli.command import changed_command, gone, until
from ..daemons import Serving, serving

PATIENCE = 120.0
# Says which process it is, with a child that has left its session, and runs until it is told to end.
WAITS = (
    "setsid sleep 600 & echo $! >> {folder}/pids; echo $$ >> {folder}/pids; "
    "until [ -e {folder}/go ]; do sleep 0.05; done; kill $!; echo done"
)


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Serving]:
    """A daemon with two workers, which the test may end and start; running jobs may finish for an hour, or as given."""
    patience = getattr(request, "param", "1h")
    longer = f"daemon_assembly.worker_command = lambda *to: [*usual(*to), '--drain-timeout', '{patience}']"
    changed = ["from tiebreak.program import daemon_assembly", "usual = daemon_assembly.worker_command", longer]
    monkeypatch.setattr("tests.daemons.TB", changed_command(tmp_path, *changed))
    with serving(tmp_path, "--workers", "2") as running:
        yield running
        (tmp_path / "go").touch()
        assert running.stop() == 0


def submit(daemon: Serving, command: str) -> str:
    """Submit a job as any program would; its id."""
    answer = daemon.ask("POST", "/jobs?project=demo", {"command": command})
    assert answer.status == 201, answer
    return str(answer.json["id"])


def job(daemon: Serving, ref: str) -> dict[str, Any]:
    """A job as it is now."""
    found: dict[str, Any] = daemon.rpc("tasks.get", ref=ref, project="demo")
    return found


def until_done(daemon: Serving, ref: str) -> dict[str, Any]:
    """The job, once it is done."""
    until(lambda: job(daemon, ref)["state"] == "completed", "the job is done", PATIENCE)
    return job(daemon, ref)


def waiting_job(daemon: Serving) -> tuple[str, list[int]]:
    """A job that runs until it is told to end, and its processes."""
    ref, pids = submit(daemon, WAITS.format(folder=daemon.folder)), daemon.folder / "pids"
    until(lambda: pids.exists() and len(pids.read_text().splitlines()) == 2, "the job runs", PATIENCE)
    return ref, [int(line) for line in pids.read_text().splitlines()]


def workers(daemon: Serving) -> list[int]:
    """The workers that it has started, by its log."""
    return [line["pid"] for line in daemon.lines() if line.get("message") == "a worker has begun"]


def test_what_is_submitted_over_http_is_done_once_by_its_workers(daemon: Serving) -> None:
    jobs = [submit(daemon, f"echo {n} >> {daemon.folder}/done; echo job {n}") for n in range(20)]
    done = [until_done(daemon, ref) for ref in jobs]
    assert sorted((daemon.folder / "done").read_text().split(), key=int) == [str(n) for n in range(20)]
    assert [each["epoch"] for each in done] == [1] * 20
    output = daemon.rpc("jobs.output", ref=jobs[7], project="demo")
    assert [chunk["text"] for chunk in output["chunks"]] == ["job 7\n"]
    assert len(workers(daemon)) == 2


def test_two_jobs_run_at_once(daemon: Serving) -> None:
    """Each waits for the other: none would end if one worker did them one after the other."""
    meet = "touch {0}/{1}; until [ -e {0}/{2} ]; do sleep 0.05; done"
    pair = [submit(daemon, meet.format(daemon.folder, *names)) for names in ("ab", "ba")]
    for ref in pair:
        until_done(daemon, ref)


def test_a_stopped_daemon_lets_the_running_job_finish_and_reports_it(daemon: Serving) -> None:
    ref, pids = waiting_job(daemon)
    assert daemon.process
    daemon.process.terminate()
    until(lambda: "stopping the workers" in daemon.log.read_text(), "it drains", PATIENCE)
    assert job(daemon, ref)["state"] == "claimed", "it still answers"
    assert not any(map(gone, pids))
    (daemon.folder / "go").touch()
    assert daemon.process.wait(PATIENCE) == 0
    until(lambda: all(map(gone, [*pids, *workers(daemon)])), "nothing is left", PATIENCE)
    daemon.start()
    done = job(daemon, ref)
    assert (done["state"], done["epoch"], done["attempts"]) == ("completed", 1, 1)


@pytest.mark.parametrize("daemon", ["0s"], indirect=True)
def test_a_killed_daemon_leaves_no_process_of_a_job_and_the_job_is_pending_again(daemon: Serving) -> None:
    ref, pids = waiting_job(daemon)
    before = workers(daemon)
    daemon.kill()
    until(lambda: all(map(gone, pids)), "nothing is left of the job", PATIENCE)
    (daemon.folder / "go").touch()
    daemon.start()
    done = until_done(daemon, ref)
    # More than once, if a worker of the killed one was about to win it.
    assert done["epoch"] >= 2, "it went back"
    assert done["attempts"] == 1, "no attempt was used up"
    assert len(daemon.rpc("events.read", event="task.completed", project="demo")) == 1
    until(lambda: all(map(gone, before)), "the workers of the killed one have ended", PATIENCE)


def test_a_restarted_daemon_gets_the_reports_of_its_former_workers(daemon: Serving) -> None:
    ref, pids = waiting_job(daemon)
    before = workers(daemon)
    daemon.kill()
    daemon.start()
    assert not any(map(gone, pids))
    (daemon.folder / "go").touch()
    done = until_done(daemon, ref)
    assert (done["epoch"], done["attempts"]) == (1, 1)
    until(lambda: all(map(gone, [*pids, *before])), "the workers of the killed one have ended", PATIENCE)
