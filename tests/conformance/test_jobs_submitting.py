"""A job is a task that carries a command; only the worker that runs it learns its settings."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board
from tiebreak.errors import Invalid, Refused

from .engines import Place
from .jobs_support import outcome, report, running, submit, win
from .tasks_support import unchanged

ENV = {"API_TOKEN": "ghp_123456789012345678901234567890123456", "PLAIN": "yes"}


@pytest.mark.parametrize(
    "command",
    ["make test | tee log", ["ls", "-l", "a b"], {"call": "mail.send", "args": [1, None], "kwargs": {"to": "ü"}}],
)
def test_a_command_comes_back_as_it_was_given(alice: Board, command: Any) -> None:
    task = alice.jobs.submit(command=command)

    assert task.kind == "job"
    assert task.command == command
    assert alice.tasks.get(ref=task.id).command == command


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("  make test\nmake clean", "make test"),
        (["git", "fetch", "origin"], "git fetch origin"),
        ({"call": "mail.send"}, "mail.send"),
        ("x" * 500, "x" * 200),
        ("echo \x1b[31mred", "echo  [31mred"),
    ],
)
def test_a_job_without_a_name_is_called_by_its_command(alice: Board, command: Any, name: str) -> None:
    assert alice.jobs.submit(command=command).name == name


@pytest.mark.parametrize(
    "command",
    [
        "",
        " \n",
        "a\0b",
        [],
        [""],
        ["ls", 1],
        {},
        {"call": ""},
        {"call": "f", "args": 3},
        {"call": "f", "more": 1},
        7,
        None,
    ],
)
def test_what_is_no_command_is_refused(alice: Board, command: Any) -> None:
    with unchanged(alice), pytest.raises(Invalid, match="command"):
        alice.jobs.submit(command=command)


@pytest.mark.parametrize(
    "given",
    [
        {"env": {"A=B": "x"}},
        {"env": {"A": 1}},
        {"env": {"A": "\0"}},
        {"env": ["A"]},
        {"cwd": "relative"},
        {"timeout": 0},
        {"timeout": -1},
        {"limits": {"memory": 0}},
        {"limits": {"disk": 5}},
        {"limit": "group"},
        {"limit": "group=0"},
        {"limit": "group=x"},
        {"limit": "=3"},
        {"cap": -1},
        {"unique_for": 60},
        {"at": "tomorrow"},
    ],
)
def test_settings_that_make_no_sense_are_refused(alice: Board, given: dict[str, Any]) -> None:
    with unchanged(alice), pytest.raises(Invalid):
        submit(alice, **given)


def test_whoever_wins_a_job_is_told_how_to_run_it(alice: Board) -> None:
    settings: dict[str, Any] = {
        "env": ENV,
        "cwd": "/tmp",
        "timeout": 90.0,
        "grace": 5.0,
        "limits": {"memory": 1 << 30, "cpu": 60, "files": 100},
        "cap": 1000,
    }
    submit(alice, **settings)

    [job] = win(alice)

    assert job.settings == settings
    assert (job.command, job.attempts, job.epoch, job.holder) == ("true", 1, 1, "alice")


def test_secrets_stand_in_no_record_list_or_event(alice: Board) -> None:
    task = submit(alice, env=ENV)
    told = [task, *alice.tasks.list(), *alice.events.read(), alice.jobs.inspect(ref=task.id)]
    running(alice, env=ENV)
    told += [*alice.tasks.list(), *alice.events.read(), *alice.events.why(ref=task.id)]

    assert not [each for each in told if ENV["API_TOKEN"] in repr(each)]


def test_inspecting_masks_what_looks_secret_and_nothing_else(alice: Board) -> None:
    env = {
        **ENV,
        "DATABASE": "postgresql://me:geheim@host/db",
        "SESSION": "f3a9c1d27b8e4f60a1b2c3d4e5f60718",
        "URL": "https://example.org/a/long/path/that/is/no/secret",
        "FOLDER": "/usr/local/lib/python3.11/site-packages",
        "WORDS": "some words that anybody may read, twice over",
    }
    task = submit(alice, env=env)

    shown = alice.jobs.inspect(ref=task.id)["settings"]["env"]

    hidden = {name for name, value in shown.items() if value != env[name]}
    assert hidden == {"API_TOKEN", "DATABASE", "SESSION"}


def test_a_plain_task_cannot_be_inspected_as_a_job(alice: Board) -> None:
    with pytest.raises(Refused, match="no command"):
        alice.jobs.inspect(ref=alice.tasks.post(name="plain").id)


# ── When ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_delayed_job_waits(place: Place, alice: Board) -> None:
    submit(alice, delay=60)
    assert win(alice) == []

    place.advance(61)

    assert len(win(alice)) == 1


def test_a_job_for_a_time_waits_for_it(place: Place, alice: Board) -> None:
    submit(alice, at=alice.upkeep.now() + 60)
    assert win(alice) == []

    place.advance(61)

    assert len(win(alice)) == 1


def test_a_job_for_a_time_that_is_over_is_ready(alice: Board) -> None:
    submit(alice, at="2020-01-01T00:00:00Z")

    assert len(win(alice)) == 1


# ── Unique jobs ──────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_not_lost_when_a_plain_task_has_its_key(alice: Board, bob: Board) -> None:
    taken = bob.tasks.post(name="in the way", key="nightly")
    with unchanged(alice), pytest.raises(Refused, match=f"#{taken.number}, which is no job"):
        alice.jobs.submit(command="make", key="nightly")
    with unchanged(alice), pytest.raises(Refused, match="no job"):
        alice.jobs.submit_many(jobs=[{"command": "a"}, {"command": "b", "key": "nightly"}])


def test_the_same_key_twice_is_one_job(alice: Board) -> None:
    assert submit(alice, key="nightly") == submit(alice, key="nightly")


def test_a_unique_job_that_is_open_is_the_answer_however_old(place: Place, alice: Board) -> None:
    first = submit(alice, key="nightly", unique_for=60)
    place.advance(3600)

    assert submit(alice, key="nightly", unique_for=60).id == first.id


def test_a_unique_job_that_ended_is_the_answer_within_its_period(place: Place, alice: Board) -> None:
    first = running(alice, key="nightly", unique_for=60)
    report(alice, outcome(first))
    place.advance(59)

    assert submit(alice, key="nightly", unique_for=60).id == first.id


def test_after_its_period_there_is_a_new_job_and_the_old_one_keeps_its_story(place: Place, alice: Board) -> None:
    first = running(alice, key="nightly", unique_for=60)
    report(alice, outcome(first))
    place.advance(61)

    second = submit(alice, key="nightly", unique_for=60)

    assert second.id != first.id
    assert second.state == "pending"
    assert alice.tasks.get(ref="nightly").id == second.id
    assert alice.tasks.get(ref=first.id).state == "completed"


def test_epochs_of_a_key_go_on_counting_over_its_jobs(place: Place, alice: Board) -> None:
    first = running(alice, key="nightly")
    report(alice, outcome(first))
    place.advance(61)

    submit(alice, key="nightly", unique_for=60)

    assert win(alice)[0].epoch == first.epoch + 1


def test_without_a_period_a_key_is_for_ever(place: Place, alice: Board) -> None:
    first = running(alice, key="once")
    report(alice, outcome(first))
    place.advance(3600)

    assert submit(alice, key="once").id == first.id


# ── Many at once ─────────────────────────────────────────────────────────────────────────────────────


def test_many_jobs_keep_their_order(alice: Board) -> None:
    made = alice.jobs.submit_many(jobs=[{"command": "true", "name": f"{i}"} for i in range(250)])

    assert [task.name for task in made] == [f"{i}" for i in range(250)]
    assert [task.number for task in made] == sorted(task.number for task in made)
    assert [job.name for job in win(alice)] == [f"{i}" for i in range(100)]


def test_each_of_many_jobs_is_posted_in_the_log(alice: Board) -> None:
    made = alice.jobs.submit_many(jobs=[{"command": "true"} for _ in range(7)])

    assert [e.subject for e in alice.events.read(event="task.posted")] == [task.id for task in made]


def test_many_jobs_are_all_or_none(alice: Board) -> None:
    with unchanged(alice), pytest.raises(Invalid, match=r"jobs\[1\]: command"):
        alice.jobs.submit_many(jobs=[{"command": "true"}, {"command": ""}])


def test_many_jobs_may_differ_in_everything(alice: Board) -> None:
    first, second, third, fourth = alice.jobs.submit_many(
        jobs=[
            {"command": "a", "key": "k", "queue": "q", "priority": "high", "tags": ["x"], "max_attempts": 1},
            {"command": {"call": "m.f"}, "delay": 60, "env": {"A": "b"}},
            {"command": ["c"], "key": "k"},
            {"command": "d", "after": ["k"], "limit": "g=2"},
        ]
    )

    assert (first.queue, first.priority, first.tags, first.max_attempts) == ("q", "high", ("x",), 1)
    assert second.ready_at is not None
    assert third == first
    assert (fourth.state, fourth.blockers) == ("blocked", 1)


def test_nobody_submits_under_another_name_than_allowed(alice: Board) -> None:
    with unchanged(alice), pytest.raises(Invalid, match="unknown"):
        alice.jobs.submit_many(jobs=[{"command": "true", "holder": "mallory"}])
