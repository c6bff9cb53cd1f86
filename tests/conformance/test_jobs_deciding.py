"""Claims of dead workers are forfeited, failed jobs are retried by filter, and a graph shows dependencies."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tiebreak import Board
from tiebreak.errors import Invalid, Refused
from tiebreak.process_identity import identity, token

from .engines import Place
from .jobs_support import orphans, outcome, report, running, states, submit, win, won
from .tasks_support import happened, unchanged

# ── The dead ─────────────────────────────────────────────────────────────────────────────────────────


def dead() -> str:
    """The session of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    session = token(identity(process.pid))
    process.communicate()
    return session


def test_jobs_of_a_dead_worker_come_back_at_once(place: Place, alice: Board) -> None:
    gone = f"worker~{dead()}"
    worker = place.open(gone)
    for name in "abc":
        submit(alice, name)
    jobs = win(worker, count=2)

    assert alice.tasks.forfeit(holder=gone, reason="its process is gone") == 2

    assert won(alice) == ["a", "b", "c"]
    task = alice.tasks.get(ref=jobs[0].id)
    assert happened(alice, task) == ["posted", "claimed", "expired", "claimed"]
    assert (task.epoch, task.attempts) == (2, 2)


def test_a_report_of_the_dead_is_refused(place: Place, alice: Board) -> None:
    gone = f"worker~{dead()}"
    job = running(place.open(gone))
    alice.tasks.forfeit(holder=gone)

    assert not report(place.open(gone), outcome(job))[0]["accepted"]
    assert len(orphans(alice)) == 1


def test_a_job_that_killed_its_last_worker_has_failed_and_says_why(place: Place, alice: Board) -> None:
    gone = f"worker~{dead()}"
    job = running(place.open(gone), max_attempts=1)
    after = submit(alice, after=[job.id])

    alice.tasks.forfeit(holder=gone, reason="killed by {signal} 9")

    task = alice.tasks.get(ref=job.id)
    assert (task.state, task.reason) == ("failed", "killed by {signal} 9 (attempt 1 of 1)")
    assert states(alice, after) == ["cancelled"]


def test_only_the_claims_of_that_incarnation_are_forfeited(place: Place, alice: Board) -> None:
    gone = f"worker~{dead()}"
    kept = running(place.open("worker~other"))
    running(place.open(gone))

    alice.tasks.forfeit(holder=gone)

    assert states(alice, kept) == ["claimed"]


def test_a_living_process_keeps_its_claims(place: Place, alice: Board) -> None:
    here = f"worker~{token(identity(os.getpid()))}"
    job = running(place.open(here))

    with unchanged(alice), pytest.raises(Refused, match="alive"):
        alice.tasks.forfeit(holder=here)
    assert states(alice, job) == ["claimed"]


def test_the_caller_is_believed_about_a_process_on_another_machine(place: Place, alice: Board) -> None:
    running(place.open("worker~elsewhere"))

    assert alice.tasks.forfeit(holder="worker~elsewhere") == 1


def test_a_name_without_a_session_cannot_forfeit(alice: Board) -> None:
    with unchanged(alice), pytest.raises(Invalid, match="incarnation"):
        alice.tasks.forfeit(holder="worker")


def test_forfeiting_without_claims_changes_nothing(alice: Board) -> None:
    with unchanged(alice):
        assert alice.tasks.forfeit(holder="worker~nothing") == 0


# ── Trying again ─────────────────────────────────────────────────────────────────────────────────────


def failed(board: Board, name: str, **given: object) -> str:
    job = running(board, name, **given)
    report(board, outcome(job, ok=False, retry=False))
    return job.id


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["mail a", "mail b", "build", "plain"]),
        ({"queue": "mail"}, ["mail a", "mail b"]),
        ({"kind": "job"}, ["mail a", "mail b", "build"]),
        ({"name_contains": "MAIL"}, ["mail a", "mail b"]),
        ({"tag": "x"}, ["mail b"]),
        ({"limit": 2}, ["build", "plain"]),
        ({"states": ["cancelled"]}, ["off"]),
        ({"queue": "nothing"}, []),
    ],
)
def test_failed_jobs_are_tried_again_by_filter(alice: Board, filters: dict[str, object], names: list[str]) -> None:
    failed(alice, "mail a", queue="mail")
    failed(alice, "mail b", queue="mail", tags=["x"])
    failed(alice, "build")
    plain = alice.tasks.post(name="plain")
    alice.tasks.claim(ref=plain.id)
    alice.tasks.fail(ref=plain.id, retry=False)
    alice.tasks.cancel(ref=submit(alice, "off").id)
    report(alice, outcome(running(alice, "done")))

    reopened = alice.call("tasks.retry_many", filters)

    assert [task.name for task in reopened] == names
    assert sorted(task.name for task in alice.tasks.list(states=["pending"])) == sorted(names)


def test_a_job_that_is_tried_again_has_all_its_attempts(alice: Board) -> None:
    failed(alice, "build", max_attempts=2)
    alice.tasks.retry_many(reason="fixed")

    [job] = win(alice)

    assert (job.attempts, job.epoch) == (1, 2)


# ── The graph ────────────────────────────────────────────────────────────────────────────────────────


def test_a_graph_shows_what_comes_before_and_after_near_and_far(alice: Board) -> None:
    top = submit(alice, "top")
    left, right = submit(alice, "left", after=[top.id]), submit(alice, "right", after=[top.id])
    bottom = submit(alice, "bottom", after=[left.id, right.id])
    submit(alice, "apart")

    seen = alice.jobs.graph(ref=left.id)

    assert [node["name"] for node in seen["nodes"]] == ["top", "left", "bottom"]
    assert seen["edges"] == [[top.number, left.number], [left.number, bottom.number]]
    assert [node["name"] for node in alice.jobs.graph(ref=top.id)["nodes"]] == ["top", "left", "right", "bottom"]
    assert len(alice.jobs.graph(ref=bottom.id)["edges"]) == 4


def test_a_task_alone_is_a_graph(alice: Board) -> None:
    task = submit(alice)

    seen = alice.jobs.graph(ref=task.id)

    assert ([node["state"] for node in seen["nodes"]], seen["edges"], seen["cut"]) == (["pending"], [], False)


def test_a_graph_that_is_too_large_says_so(alice: Board) -> None:
    before = submit(alice)
    for _ in range(9):
        before = submit(alice, after=[before.id])

    seen = alice.jobs.graph(ref=before.id, limit=5)

    assert (len(seen["nodes"]), seen["cut"]) == (5, True)


def test_a_graph_shows_the_present_states(place: Place, alice: Board) -> None:
    job = running(alice)
    place.advance(61)

    assert alice.jobs.graph(ref=job.id)["nodes"][0]["state"] == "pending"
