"""Workron's REST interface on a real daemon: the loop of its workers, with the fencing that Workron lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tiebreak.compat import workron  # noqa: F401  (declares its routes)
from tiebreak.daemon.routes import ROUTES

from ..daemons import PATIENCE, Reply, Serving, serving

NOWHERE = "01900000-0000-7000-8000-000000000000"
FIELDS = {
    "id",
    "command",
    "status",
    "created_at",
    "started_at",
    "done_at",
    "max_retries",
    "attempts",
    "depends_on",
    "priority",
    "queue_name",
    "worker_id",
}


class Queue:
    """The jobs of one project, as Workron's clients see them."""

    def __init__(self, daemon: Serving, project: str) -> None:
        self.daemon = daemon
        self.project = project

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        mark = "&" if "?" in path else "?"
        return self.daemon.ask(method, f"{path}{mark}project={self.project}", body, **options)

    def submit(self, command: str = "true", **facts: Any) -> dict[str, Any]:
        answer = self.ask("POST", "/jobs", {"command": command, **facts})
        assert answer.status == 201, answer
        return dict(answer.json)

    def get(self, job: dict[str, Any]) -> dict[str, Any]:
        answer = self.ask("GET", f"/jobs/{job['id']}")
        assert answer.status == 200, answer
        return dict(answer.json)

    def claim(self, worker: str = "w1") -> dict[str, Any] | None:
        answer = self.ask("GET", f"/jobs/next?worker_id={worker}")
        assert answer.status in (200, 204), answer
        assert answer.status == 200 or answer.body == b""
        return dict(answer.json) if answer.status == 200 else None

    def won(self, worker: str = "w1") -> dict[str, Any]:
        job = self.claim(worker)
        assert job, "nothing to do"
        return job

    def lapse(self, worker: str = "w1") -> dict[str, Any]:
        """Win a job as a worker that falls silent at once, and whose lease is over when the next request comes."""
        [task] = self.daemon.rpc("tasks.next", agent=worker, project=self.project, kind="job", lease=0.001)
        return dict(task)

    def report(self, job: dict[str, Any], word: str, worker: str = "w1", **facts: Any) -> Reply:
        return self.ask("POST", f"/jobs/{job['id']}/{word}", {"worker_id": worker, **facts})

    def bare(self, job: dict[str, Any], word: str) -> Reply:
        """Report as Workron's own workers do: with the id that the claim told, and nothing else."""
        return self.ask("POST", f"/jobs/{job['id']}/{word}")

    def task(self, job: dict[str, Any]) -> dict[str, Any]:
        return dict(self.daemon.rpc("tasks.get", ref=job["id"], project=self.project))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("workron")) as running:
        yield running


@pytest.fixture
def queue(daemon: Serving, request: pytest.FixtureRequest) -> Queue:
    """A project of the test's own on the shared board."""
    return Queue(daemon, f"p{abs(hash(request.node.nodeid))}")


def same(job: dict[str, Any]) -> str:
    """The job's id, without the grant that a claim adds to it."""
    return str(job["id"]).partition("~")[0]


def refused(answer: Reply, status: int) -> dict[str, Any]:
    """An error in the form that every error has."""
    assert answer.status == status, answer
    assert {"error", "message"} <= set(answer.json)
    return dict(answer.json)


def seconds(first: str, second: str) -> float:
    """How much later the second time is."""
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()


# ── A job's life ─────────────────────────────────────────────────────────────────────────────────────


def test_a_job_lives_as_workron_describes_it(queue: Queue) -> None:
    new = queue.submit("echo hello")
    assert set(new) == FIELDS | {"epoch"}
    assert (new["command"], new["status"], new["attempts"], new["max_retries"]) == ("echo hello", "pending", 0, 3)
    assert (new["started_at"], new["done_at"], new["worker_id"], new["depends_on"]) == (None, None, None, [])
    assert (new["priority"], new["queue_name"]) == (0, "default")
    running = queue.won("w1")
    assert (running["id"], running["status"], running["attempts"]) == (f"{new['id']}~1", "running", 1)
    assert running["worker_id"] == "w1"
    assert seconds(running["created_at"], running["started_at"]) >= 0
    answer = queue.report(running, "done")
    assert (answer.status, answer.json["status"]) == (200, "done")
    done = queue.get(new)
    assert (done["status"], done["attempts"], done["worker_id"]) == ("done", 1, "w1")
    assert seconds(done["started_at"], done["done_at"]) >= 0
    assert queue.claim() is None


def run_all(queue: Queue, workers: int, report: Callable[[dict[str, Any], str], Reply]) -> list[str]:
    """Let so many workers claim and finish jobs until there are none; the id of each run."""
    together = Barrier(workers, timeout=PATIENCE)

    def work(worker: str) -> list[str]:
        ran = []
        together.wait()
        while job := queue.claim(worker):
            assert job["worker_id"] == worker
            ran.append(same(job))
            assert report(job, worker).status == 200
        return ran

    with ThreadPoolExecutor(workers) as threads:
        return [job for ran in threads.map(work, [f"w{i}" for i in range(workers)]) for job in ran]


@pytest.mark.parametrize("named", [True, False], ids=["with worker_id", "with the id alone"])
@pytest.mark.parametrize(("count", "workers"), [(5, 3), (60, 8)])
def test_no_job_is_run_twice_by_workers_that_race(count: int, workers: int, named: bool, queue: Queue) -> None:
    def report(job: dict[str, Any], worker: str) -> Reply:
        return queue.report(job, "done", worker) if named else queue.bare(job, "done")

    jobs = [queue.submit(f"echo {i}") for i in range(count)]
    assert Counter(run_all(queue, workers, report)) == Counter({job["id"]: 1 for job in jobs})
    after = [queue.get(job) for job in jobs]
    assert {(job["status"], job["attempts"]) for job in after} == {("done", 1)}


def test_the_most_urgent_job_comes_first_and_then_the_oldest(queue: Queue) -> None:
    given = [("low", -1), ("first", 0), ("second", 0), ("high", 1), ("urgent", 2), ("also urgent", 99)]
    for command, priority in given:
        queue.submit(command, priority=priority)
    order = [queue.won()["command"] for _ in given]
    assert order == ["urgent", "also urgent", "high", "first", "second", "low"]


def test_a_worker_gets_jobs_of_its_queue_and_of_no_other_kind_of_task(queue: Queue) -> None:
    queue.submit("for gpus", queue_name="gpu")
    queue.daemon.rpc("tasks.post", name="for people", agent="me", project=queue.project)
    assert queue.ask("GET", "/jobs/next?worker_id=w1&queue_name=cpu").status == 204
    assert queue.ask("GET", "/jobs/next?worker_id=w1&queue_name=gpu").json["command"] == "for gpus"
    assert queue.claim() is None


def test_a_job_is_retried_at_once_until_its_attempts_are_used_up(queue: Queue) -> None:
    new = queue.submit("false", max_retries=3)
    seen = []
    for attempt in (1, 2, 3):
        job = queue.won(f"w{attempt}")
        assert job["attempts"] == attempt
        seen.append(queue.report(job, "fail", f"w{attempt}", reason="exit 1").json["status"])
    assert seen == ["pending", "pending", "failed"]
    assert queue.claim() is None
    assert queue.get(new)["status"] == "failed"
    assert queue.task(new)["reason"] == "exit 1"


def test_a_worker_that_dies_uses_an_attempt_up(queue: Queue) -> None:
    new = queue.submit(max_retries=2)
    for worker in ("w1", "w2"):
        queue.lapse(worker)
    assert queue.claim("w3") is None
    assert (queue.get(new)["status"], queue.get(new)["attempts"]) == ("failed", 2)


def test_a_job_is_blocked_until_what_it_depends_on_is_done(queue: Queue) -> None:
    first, second = queue.submit("first"), queue.submit("second")
    last = queue.submit("last", depends_on=[first["id"], second["id"]])
    assert (last["status"], last["depends_on"]) == ("blocked", [first["id"], second["id"]])
    for expected in ("blocked", "pending"):
        assert queue.report(queue.won(), "done").status == 200
        assert queue.get(last)["status"] == expected
    assert same(queue.won()) == last["id"]


def test_a_failed_dependency_does_not_block_a_job_for_ever(queue: Queue) -> None:
    first = queue.submit(max_retries=1)
    last = queue.submit(depends_on=[first["id"]])
    queue.report(queue.won(), "fail")
    assert queue.get(last)["status"] == "failed"
    refused(queue.ask("POST", "/jobs", {"command": "true", "depends_on": [first["id"]]}), 409)


# ── The fence ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["done", "fail", "heartbeat"])
def test_a_worker_that_was_given_up_does_not_touch_the_next_ones_run(word: str, queue: Queue) -> None:
    new = queue.submit()
    queue.lapse("w1")
    assert same(queue.won("w2")) == new["id"]
    before = queue.task(new)
    said = refused(queue.report(new, word, "w1"), 409)
    assert (said["error"], said["holder"]) == ("Fenced", "w2")
    assert queue.task(new) == before
    assert queue.report(new, "done", "w2").status == 200


@pytest.mark.parametrize("word", ["done", "fail", "heartbeat"])
def test_a_report_after_the_lapse_was_written_is_refused_also_when_nobody_else_came(word: str, queue: Queue) -> None:
    new = queue.submit()
    queue.lapse("w1")
    queue.daemon.rpc("tasks.sweep", project=queue.project)
    refused(queue.report(new, word, "w1"), 409)
    assert queue.get(new)["status"] == "pending"


@pytest.mark.parametrize("fence", ["epoch", "attempt"])
@pytest.mark.parametrize("word", ["done", "fail", "heartbeat"])
def test_an_earlier_run_of_the_same_worker_is_fenced_by_epoch_or_attempt(word: str, fence: str, queue: Queue) -> None:
    new = queue.submit()
    queue.lapse("w1")
    again = queue.won("w1")
    assert (again["epoch"], again["attempts"]) == (2, 2)
    before = queue.task(new)
    refused(queue.report(new, word, "w1", **{fence: 1}), 409)
    refused(queue.ask("POST", f"/jobs/{new['id']}/{word}?worker_id=w1&{fence}=1"), 409)
    assert queue.task(new) == before
    assert queue.report(new, word, "w1", **{fence: 2}).status == 200


def test_an_attempt_does_not_excuse_a_wrong_epoch(queue: Queue) -> None:
    new = queue.submit()
    queue.won("w1")
    refused(queue.report(new, "done", "w1", attempt=1, epoch=7), 409)
    assert queue.report(new, "done", "w1", attempt=1, epoch=1).status == 200


@pytest.mark.parametrize("word", ["done", "fail", "heartbeat"])
def test_nobody_reports_for_somebody_else_and_nobody_without_a_name(word: str, queue: Queue) -> None:
    new = queue.submit()
    queue.won("w1")
    before = queue.task(new)
    refused(queue.report(new, word, "w2"), 409)
    refused(queue.ask("POST", f"/jobs/{new['id']}/{word}"), 400)
    refused(queue.ask("POST", f"/jobs/{new['id']}/{word}?worker_id=w1", {"worker_id": "w2"}), 400)
    assert queue.task(new) == before


@pytest.mark.parametrize("word", ["done", "fail", "heartbeat"])
def test_a_finished_or_unclaimed_job_takes_no_report(word: str, queue: Queue) -> None:
    new = queue.submit()
    refused(queue.report(new, word), 409)
    queue.report(queue.won(), "done")
    refused(queue.report(new, word), 409)
    assert queue.get(new)["status"] == "done"


def test_a_heartbeat_keeps_a_job_for_thirty_seconds_from_then(queue: Queue) -> None:
    new = queue.submit()
    queue.won()
    claimed = queue.task(new)
    assert seconds(claimed["claimed_at"], claimed["until"]) == 30
    assert queue.report(new, "heartbeat").json["status"] == "running"
    renewed = queue.task(new)
    assert seconds(claimed["until"], renewed["until"]) > 0
    assert seconds(renewed["updated_at"], renewed["until"]) == 30


def test_a_worker_learns_from_its_heartbeat_that_the_job_was_cancelled(queue: Queue) -> None:
    new = queue.submit()
    queue.won()
    queue.daemon.rpc("tasks.cancel", ref=new["id"], agent="me", project=queue.project)
    assert refused(queue.report(new, "heartbeat"), 409)["state"] == "cancelled"
    assert queue.get(new)["status"] == "failed"


# ── Workers that know only Workron ───────────────────────────────────────────────────────────────────


def test_a_worker_written_for_workron_works_unchanged(queue: Queue) -> None:
    assert queue.ask("POST", "/workers/register", {"id": "w1"}).status == 201
    first, second = queue.submit("first", max_retries=2), queue.submit("second")
    job = queue.won("w1")
    assert queue.ask("GET", f"/jobs/{job['id']}").json["command"] == "first"
    assert queue.bare(job, "heartbeat").json["status"] == "running"
    assert queue.bare(job, "fail").json["status"] == "pending"
    again = queue.won("w1")
    assert (same(again), again["attempts"]) == (first["id"], 2)
    assert queue.bare(again, "fail").json["status"] == "failed"
    assert queue.bare(queue.won("w1"), "done").json["status"] == "done"
    assert queue.get(second)["worker_id"] == "w1"


@pytest.mark.parametrize("word", ["done", "fail", "heartbeat"])
@pytest.mark.parametrize("next_worker", ["w2", "w1"])
def test_the_id_alone_keeps_an_earlier_run_from_touching_the_next_one(
    word: str, next_worker: str, queue: Queue
) -> None:
    new = queue.submit()
    queue.lapse("w1")
    late = {"id": f"{new['id']}~1"}
    assert queue.won(next_worker)["id"] == f"{new['id']}~2"
    before = queue.task(new)
    said = refused(queue.bare(late, word), 409)
    assert (said["error"], said["holder"], said["epoch"]) == ("Fenced", next_worker, 2)
    assert queue.task(new) == before
    events = queue.daemon.rpc("events.read", event="job.orphaned", project=queue.project)
    assert [event["epoch"] for event in events] == ([] if word == "heartbeat" else [1])


@pytest.mark.parametrize("word", ["done", "fail", "heartbeat"])
def test_the_id_alone_is_refused_after_the_lease(word: str, queue: Queue) -> None:
    new = queue.submit()
    queue.lapse("w1")
    refused(queue.bare({"id": f"{new['id']}~1"}, word), 409)
    assert queue.get(new)["status"] == "pending"


@pytest.mark.parametrize("grant", ["~", "~0", "~x", "~-1", "~1~1", "~%D9%A1", "~99999999999999999999"])
def test_an_id_that_names_no_grant_is_refused(grant: str, queue: Queue) -> None:
    new = queue.submit()
    queue.won()
    for word in ("done", "fail", "heartbeat"):
        refused(queue.ask("POST", f"/jobs/{new['id']}{grant}/{word}"), 400)
    refused(queue.ask("GET", f"/jobs/{new['id']}{grant}"), 400)
    assert queue.get(new)["status"] == "running"


def test_the_grant_in_the_id_does_not_excuse_another_worker_or_epoch(queue: Queue) -> None:
    job = queue.submit() and queue.won("w1")
    assert job
    refused(queue.report(job, "done", "w2"), 409)
    refused(queue.report(job, "done", "w1", epoch=2), 400)
    assert queue.report(job, "done", "w1", epoch=1).status == 200


def test_a_job_may_depend_on_one_by_the_id_that_its_claim_told(queue: Queue) -> None:
    first = queue.submit()
    job = queue.won()
    assert queue.submit("next", depends_on=[job["id"]])["depends_on"] == [first["id"]]


def test_a_paused_queue_gives_no_jobs(queue: Queue) -> None:
    queue.submit()
    queue.daemon.rpc("queues.pause", queue="default", agent="me", project=queue.project)
    assert queue.claim() is None
    queue.daemon.rpc("queues.resume", queue="default", agent="me", project=queue.project)
    assert queue.won()


def test_a_command_in_words_is_shown_as_a_shell_would_need_it(queue: Queue) -> None:
    queue.daemon.rpc("jobs.submit", command=["echo", "a b", "$HOME"], agent="me", project=queue.project)
    queue.daemon.rpc("jobs.submit", command={"call": "mail.send"}, agent="me", project=queue.project)
    assert queue.won()["command"] == "echo 'a b' '$HOME'"
    assert queue.claim() is None, "a worker that only runs commands was given a Python function"


# ── Requests that go wrong ───────────────────────────────────────────────────────────────────────────


def test_asking_for_headers_alone_claims_nothing(queue: Queue) -> None:
    new = queue.submit()
    assert queue.ask("HEAD", "/jobs/next?worker_id=w1").status == 204
    assert queue.get(new)["status"] == "pending"


def test_a_repeated_submission_or_claim_answers_as_the_first_time(queue: Queue) -> None:
    key = {"Idempotency-Key": f"once-{queue.project}-submit"}
    twice = [queue.ask("POST", "/jobs", {"command": "true"}, headers=key) for _ in range(2)]
    assert twice[0].json == twice[1].json
    queue.submit("another")
    key = {"Idempotency-Key": f"once-{queue.project}-claim"}
    twice = [queue.ask("GET", "/jobs/next?worker_id=w1", headers=key) for _ in range(2)]
    assert twice[0].json == twice[1].json
    assert len(queue.ask("GET", "/jobs").json) == 2


BAD_SUBMISSIONS = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"true"',
    b"\xff\xfe",
    b'{"command": "\\ud800"}',
    b"{}",
    b'{"command": null}',
    b'{"command": ""}',
    b'{"command": "   "}',
    b'{"command": "a\\u0000b"}',
    b'{"command": 7}',
    b'{"command": ["true"]}',
    b'{"command": "true", "priority": "high"}',
    b'{"command": "true", "priority": 1.5}',
    b'{"command": "true", "priority": true}',
    b'{"command": "true", "max_retries": 0}',
    b'{"command": "true", "max_retries": 99999999999999999999999}',
    b'{"command": "true", "queue_name": "no blanks"}',
    b'{"command": "true", "depends_on": "job-1"}',
    b'{"command": "true", "depends_on": [1]}',
    b'{"command": "true", "depends_on": ["no-such-job"]}',
    b'{"command": "true", "depends_on": ["' + NOWHERE.encode() + b'"]}',
    b'{"command": "true", "more": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"command": "' + b"x" * 70_000 + b'"}',
]


@pytest.mark.parametrize("body", BAD_SUBMISSIONS, ids=lambda body: repr(body[:50]))
def test_a_wrong_submission_is_refused_and_leaves_nothing(body: bytes, queue: Queue) -> None:
    refused(queue.ask("POST", "/jobs", body), 400)
    assert queue.ask("GET", "/jobs").json == []


@pytest.mark.parametrize(
    "command", ["a\nb", "\x1b[31m", "\u2028", "\u202eevil", "x" * 60_000, "\U0001fae9" * 300, "\x85x", "ünïcode"]
)
def test_a_command_for_a_shell_is_kept_as_it_is(command: str, queue: Queue) -> None:
    if command.strip():
        assert queue.submit(command)["command"] == command
        assert queue.won()["command"] == command
    else:
        refused(queue.ask("POST", "/jobs", {"command": command}), 400)


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/next",
        "/jobs/next?worker_id=",
        "/jobs/next?worker_id=a%20b",
        "/jobs/next?worker_id=w1&queue=x",
        "/jobs/next?worker_id=w1&worker_id=w2",
        "/jobs?status=claimed",
        "/jobs?status=",
        "/jobs?limit=0",
        "/jobs?limit=1001",
        "/jobs?limit=%D9%A1",
        "/jobs?limit=99999999999999999999",
        "/jobs?queue_name=%00",
        "/jobs?worker_id=%ff",
        "/jobs?before=",
        "/jobs?unknown=1",
        "/jobs/%00",
        "/workers?limit=1",
    ],
)
def test_a_wrong_query_is_refused(path: str, queue: Queue) -> None:
    queue.submit()
    refused(queue.ask("GET", path), 400)
    assert queue.claim(), "the job was claimed by a wrong question"


@pytest.mark.parametrize("body", [b"[]", b"7", b'{"worker_id": 7}', b'{"worker_id": "w1", "epoch": "1"}', b"{"])
def test_a_wrong_report_is_refused(body: bytes, queue: Queue) -> None:
    new = queue.submit()
    queue.won()
    for word in ("done", "fail", "heartbeat"):
        refused(queue.ask("POST", f"/jobs/{new['id']}/{word}", body), 400)
    for query in ("worker_id=w1&epoch=-1", "worker_id=w1&attempt=x", "worker_id=w1&reason=a%0Ab"):
        refused(queue.ask("POST", f"/jobs/{new['id']}/fail?{query}"), 400)
    refused(queue.report(new, "done", reason="why"), 400)
    assert queue.get(new)["status"] == "running"


def test_a_refused_client_is_told_routes_of_workron_only(queue: Queue) -> None:
    assert refused(queue.ask("GET", f"/jobs/{NOWHERE}"), 404)["hint"] == "GET /jobs lists them"


@pytest.mark.parametrize("id", [NOWHERE, "job-1", "%231", "..%5c"])
def test_an_unknown_job_is_not_found(id: str, queue: Queue) -> None:
    [task] = [queue.daemon.rpc("tasks.post", name="no job", key="no-job", agent="me", project=queue.project)]
    for unknown in (id.replace("%231", f"%23{task['number']}"), "no-job", task["id"]):
        refused(queue.ask("GET", f"/jobs/{unknown}"), 404)
        for word in ("done", "fail", "heartbeat"):
            refused(queue.ask("POST", f"/jobs/{unknown}/{word}?worker_id=w1"), 404)
    refused(queue.ask("GET", f"/jobs?before={NOWHERE}"), 404)


def test_a_job_that_carries_no_command_does_not_break_the_list(queue: Queue) -> None:
    for payload in (None, [1], {"command": 7}, "text"):
        queue.daemon.rpc("tasks.post", name="odd", kind="job", payload=payload, agent="me", project=queue.project)
    assert [job["command"] for job in queue.ask("GET", "/jobs").json] == [""] * 4


def test_jobs_are_listed_by_status_worker_and_page(queue: Queue) -> None:
    jobs = [queue.submit(f"{i}", queue_name="odd" if i % 2 else "even") for i in range(5)]
    queue.report(queue.won("w1"), "done", "w1")
    queue.won("w2")

    def commands(query: str) -> list[str]:
        return [job["command"] for job in queue.ask("GET", f"/jobs{query}").json]

    assert commands("") == ["4", "3", "2", "1", "0"]
    assert commands("?status=pending") == ["4", "3", "2"]
    assert commands("?status=running") == commands("?worker_id=w2") == ["1"]
    assert commands("?status=done") == ["0"]
    assert commands("?queue_name=odd") == ["3", "1"]
    assert commands("?limit=2") == ["4", "3"]
    assert commands(f"?limit=2&before={jobs[3]['id']}") == ["2", "1"]


# ── Workers ──────────────────────────────────────────────────────────────────────────────────────────


def test_workers_register_and_are_seen(queue: Queue) -> None:
    answer = queue.ask("POST", "/workers/register", {"id": "w1", "exec_addr": "10.0.0.1", "resources": {"vram_mb": 8}})
    assert answer.status == 201
    assert set(answer.json) == {
        "id",
        "exec_addr",
        "resources",
        "tags",
        "status",
        "last_heartbeat",
        "registered_at",
    }
    assert (answer.json["id"], answer.json["status"]) == ("w1", "active")
    first = answer.json["last_heartbeat"]
    queue.daemon.rpc("agents.announce", agent="somebody-else", project=queue.project)
    beat = queue.ask("POST", "/workers/w1/heartbeat")
    assert (beat.status, beat.json["registered_at"]) == (200, answer.json["registered_at"])
    assert seconds(first, beat.json["last_heartbeat"]) > 0
    assert [each["id"] for each in queue.ask("GET", "/workers").json] == ["w1"]


def test_a_worker_that_left_is_offline_until_it_registers_again(queue: Queue) -> None:
    def status() -> list[str]:
        return [each["status"] for each in queue.ask("GET", "/workers").json]

    queue.ask("POST", "/workers/register", {"id": "w1"})
    queue.daemon.rpc("agents.leave", agent="w1", project=queue.project)
    assert status() == ["offline"]
    queue.ask("POST", "/workers/register", {"id": "w1"})
    assert status() == ["active"]


def test_an_unknown_worker_has_to_register(queue: Queue) -> None:
    queue.daemon.rpc("agents.announce", agent="somebody-else", project=queue.project)
    for worker in ("w1", "somebody-else"):
        refused(queue.ask("POST", f"/workers/{worker}/heartbeat"), 404)
    assert queue.ask("GET", "/workers").json == []
    for body in (b"", b"{}", b"[]", b'{"id": ""}', b'{"id": 7}', b'{"id": "a b"}'):
        refused(queue.ask("POST", "/workers/register", body), 400)
    refused(queue.ask("POST", "/workers/a%20b/heartbeat"), 400)


# ── Who may ──────────────────────────────────────────────────────────────────────────────────────────

COMMANDS = [(each.method, each.path) for each in ROUTES if each.path.startswith("/jobs")]
SUBMITTED = {"command": "true"}


def rpc(method: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method}


def each_route(ask: Callable[..., Reply]) -> list[int]:
    """The status of every route about jobs, asked without a token."""
    body = {"POST": SUBMITTED, "GET": None}
    return [ask(method, path.replace("{id}", NOWHERE), body[method], token=None).status for method, path in COMMANDS]


def test_an_open_daemon_is_not_open_for_commands(tmp_path: Path) -> None:
    with serving(tmp_path, "--open", "--token-file", str(tmp_path / "token")) as daemon:
        assert daemon.ask("POST", "/rpc", rpc("events.last"), token=None).status == 200
        assert daemon.ask("GET", "/workers", token=None).status == 200
        assert len(COMMANDS) == 7
        assert each_route(daemon.ask) == [401] * 7
        assert daemon.ask("POST", "/jobs", SUBMITTED).status == 201, "with the token it is"


def test_the_operator_can_open_it_for_commands_too(tmp_path: Path) -> None:
    with serving(tmp_path, "--open", "--open-jobs") as daemon:
        assert 401 not in each_route(daemon.ask)
        assert daemon.ask("POST", "/jobs", SUBMITTED, token=None).status == 201
        assert daemon.ask("GET", "/jobs/next?worker_id=w1", token=None).status == 200


def test_no_other_route_of_an_open_daemon_submits_commands(tmp_path: Path) -> None:
    evil = {"name": "evil", "kind": "job", "payload": {"command": "evil"}}
    native = {**rpc("tasks.post"), "params": {**evil, "agent": "me", "project": "default"}}
    coord = {**rpc("tasks/send"), "params": evil}
    job = {"command": "evil", "agent": "me", "project": "default"}
    others = [
        {**rpc("jobs.submit"), "params": job},
        {**rpc("jobs.submit_many"), "params": {"jobs": [job], "agent": "me", "project": "default"}},
        {**rpc("schedules.add"), "params": {**job, "name": "evil", "expression": "* * * * * *"}},
    ]
    with serving(tmp_path, "--open", "--token-file", str(tmp_path / "token")) as daemon:
        for path, message in (("/rpc", native), ("/rpc", [native]), ("/", coord), *(("/rpc", each) for each in others)):
            daemon.ask("POST", path, message, token=None)
        assert daemon.rpc("schedules.list", project=None) == []
        assert daemon.ask("GET", "/jobs").json == [], "a worker would run what somebody without the token has put there"
