"""Schedules: each instant runs at most once, whichever process fires it and whatever the clocks do."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tiebreak import Board, Invalid, NotFound, Refused, Unavailable
from tiebreak.clock import micros
from tiebreak.model import Schedule, Task
from tiebreak.operations import cron_times, schedules
from tiebreak.operations.jobs import submit
from tiebreak.text import parse_rfc3339

from .engines import Place
from .tasks_support import changes

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
BERLIN = "Europe/Berlin"


def until(place: Place, board: Board, moment: str) -> None:
    """Let time pass until a little after a moment."""
    place.advance(parse_rfc3339(moment) + 0.5 - board.upkeep.now())


def daily(board: Board, **more: Any) -> Schedule:
    """A job that comes round once a day, at noon."""
    return board.schedules.add(**{"name": "daily", "expression": "0 12 * * *", "command": "make", **more})


def noon(place: Place, board: Board, days: int = 1) -> None:
    """Let so many noons go by."""
    due = board.schedules.list(project=None)[0].due or 0.0
    place.advance(due + (days - 1) * DAY + 0.5 - board.upkeep.now())


def times(tasks: list[Task]) -> list[str]:
    """The instants that jobs were submitted for, in their order."""
    return [(task.key or "")[-20:] for task in tasks]


def said(board: Board, name: str = "daily") -> list[str]:
    """What happened to a schedule, in order."""
    return [each.event.removeprefix("schedule.") for each in changes(board) if each.subject == f"cron:{name}"]


# ── One run for each instant ─────────────────────────────────────────────────────────────────────────


def test_nothing_runs_before_its_instant(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice)
    until(place, alice, "2031-01-01T11:59:59Z")
    assert alice.schedules.fire() == []
    until(place, alice, "2031-01-01T12:00:00Z")
    assert times(alice.schedules.fire()) == ["2031-01-01T12:00:00Z"]


def test_an_instant_that_somebody_has_won_is_won_by_nobody_else(place: Place, alice: Board, bob: Board) -> None:
    daily(alice)
    noon(place, alice)
    fired = [board.schedules.fire() for board in (bob, alice, bob)]
    assert [len(tasks) for tasks in fired] == [1, 0, 0]
    assert len(alice.tasks.list(kind="job")) == 1
    [known] = alice.schedules.list()
    assert (known.holder, known.epoch) == ("bob", 1)


def test_nobody_takes_the_place_of_an_instants_job(place: Place, alice: Board, bob: Board) -> None:
    due = micros(daily(alice).due or 0)
    with pytest.raises(Invalid, match="cron:"):
        bob.tasks.post(name="in the way", key=schedules.key("daily", due))
    with pytest.raises(Invalid, match="cron:"):
        bob.tasks.claim(ref=schedules.key("daily", due))
    noon(place, alice)
    assert [task.kind for task in alice.schedules.fire()] == ["job"]


def test_epochs_count_the_instants(place: Place, alice: Board) -> None:
    daily(alice)
    for epoch in (1, 2, 3):
        noon(place, alice)
        alice.schedules.fire()
        [known] = alice.schedules.list()
        assert known.epoch == epoch
        assert (known.due or 0) - (known.last or 0) == DAY
    fired = [event.epoch for event in changes(alice) if event.event == "schedule.fired"]
    assert fired == [1, 2, 3]


def test_the_job_is_as_the_schedule_says_and_the_owners(place: Place, alice: Board, bob: Board) -> None:
    daily(alice, options={"queue": "night", "priority": "high", "max_attempts": 7, "tags": ["a", "b"]})
    noon(place, alice)
    [task] = bob.schedules.fire()
    assert (task.kind, task.name, task.queue, task.priority) == ("job", "daily", "night", "high")
    assert (task.max_attempts, task.tags, task.created_by, task.command) == (7, ("a", "b"), "alice", "make")
    assert bob.schedules.history(name="daily") == [task]


def test_only_the_worker_that_runs_it_learns_what_a_job_is_given(place: Place, alice: Board, bob: Board) -> None:
    daily(alice, options={"env": {"WORD": "swordfish"}})
    noon(place, alice)
    alice.schedules.fire()
    alice.schedules.pause(name="daily")
    seen = [alice.schedules.list(), alice.events.read(), alice.tasks.list(), alice.schedules.history(name="daily")]
    assert "swordfish" not in repr(seen)
    assert bob.jobs.next()[0].settings["env"] == {"WORD": "swordfish"}


def test_a_key_that_is_taken_already_counts_as_the_run(place: Place, alice: Board) -> None:
    made = daily(alice)
    taken = alice.jobs.submit(command="by hand", key=schedules.key("daily", int(made.due or 0) * 1_000_000))
    noon(place, alice)
    assert [task.id for task in alice.schedules.fire()] == [taken.id]
    assert [task.id for task in alice.tasks.list()] == [taken.id]


def test_an_instant_whose_job_could_not_be_submitted_is_not_lost(
    place: Place, alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    daily(alice)
    noon(place, alice)

    def fails(*_: Any, **__: Any) -> Task:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(submit, "function", fails)
        with pytest.raises(Unavailable):
            alice.schedules.fire()
    assert alice.schedules.list()[0].epoch == 0
    assert len(alice.schedules.fire()) == 1
    assert alice.schedules.list()[0].epoch == 1


def test_a_schedule_that_cannot_run_does_not_stop_the_others(
    place: Place, alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    daily(alice, zone=BERLIN)
    daily(alice, name="other")
    noon(place, alice, days=2)
    sound = cron_times._zone

    def gone(name: str) -> Any:
        if name == BERLIN:
            raise Invalid("zone: unknown here")
        return sound(name)

    monkeypatch.setattr(cron_times, "_zone", gone)
    assert [task.name for task in alice.schedules.fire()] == ["other"]
    [broken] = alice.schedules.list(name="daily")
    assert (broken.paused_at is not None, broken.due, broken.reason) == (True, None, "zone: unknown here")
    assert alice.schedules.due() not in (None, 0.0)


# ── Missed instants ──────────────────────────────────────────────────────────────────────────────────


def test_of_many_missed_instants_the_newest_runs_for_all(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice)
    until(place, alice, "2031-01-09T18:00:00Z")
    assert times(alice.schedules.fire()) == ["2031-01-09T12:00:00Z"]
    assert alice.schedules.fire() == []
    assert alice.schedules.due() == pytest.approx(18 * HOUR, abs=2)


def test_a_year_of_missed_seconds_is_one_run(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice, expression="* * * * * *")
    until(place, alice, "2032-01-01T00:00:00Z")
    assert times(alice.schedules.fire()) == ["2032-01-01T00:00:00Z"]
    assert alice.schedules.list()[0].epoch == 1


def test_the_policy_skip_skips_missed_instants(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice, policy="skip")
    until(place, alice, "2031-01-09T12:01:01Z")
    assert alice.schedules.fire() == []
    assert said(alice) == ["added", "skipped"]
    assert alice.schedules.list()[0].epoch == 0
    until(place, alice, "2031-01-10T12:00:59Z")
    assert times(alice.schedules.fire()) == ["2031-01-10T12:00:00Z"]


def test_the_policy_run_all_runs_missed_instants_in_steps(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice, policy="run-all")
    until(place, alice, "2031-01-08T12:00:00Z")
    steps = []
    while alice.schedules.due() == 0:
        steps.append(times(alice.schedules.fire(most=3)))
    assert [len(step) for step in steps] == [3, 3, 2]
    assert [each for step in steps for each in step] == [f"2031-01-0{day}T12:00:00Z" for day in range(1, 9)]
    assert alice.schedules.list()[0].epoch == 8


def test_a_long_backlog_leaves_room_for_others(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice, name="busy", expression="* * * * *", policy="run-all")
    daily(alice)
    until(place, alice, "2031-01-01T12:00:00Z")
    names = [task.name for task in alice.schedules.fire()]
    assert (names.count("busy"), names.count("daily")) == (10, 1)


@pytest.mark.parametrize("policy", ["skip", "run-once", "run-all"])
def test_another_expression_fires_nothing_of_the_past(place: Place, alice: Board, policy: str) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice, policy=policy)
    until(place, alice, "2031-01-05T12:30:00Z")
    daily(alice, policy=policy, expression="0 * * * *")
    assert alice.schedules.fire() == []
    until(place, alice, "2031-01-05T13:00:00Z")
    assert times(alice.schedules.fire()) == ["2031-01-05T13:00:00Z"]


def test_another_zone_fires_nothing_of_the_past(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice)
    until(place, alice, "2031-01-01T11:30:00Z")
    daily(alice, zone=BERLIN)
    assert alice.schedules.fire() == []
    until(place, alice, "2031-01-02T11:00:00Z")
    assert times(alice.schedules.fire()) == ["2031-01-02T11:00:00Z"]


def test_the_same_expression_again_forgets_no_instant_that_is_due(place: Place, alice: Board) -> None:
    daily(alice)
    noon(place, alice)
    daily(alice, command="make all")
    assert len(alice.schedules.fire()) == 1
    assert said(alice) == ["added", "changed", "fired"]


def test_a_day_that_comes_every_four_years_is_waited_for(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice, expression="0 12 29 2 *")
    until(place, alice, "2032-02-29T12:00:00Z")
    assert times(alice.schedules.fire()) == ["2032-02-29T12:00:00Z"]
    assert alice.schedules.list()[0].due == parse_rfc3339("2036-02-29T12:00:00Z")


# ── Pausing and removing ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", ["skip", "run-once", "run-all"])
def test_instants_during_a_pause_are_not_made_up_for(place: Place, alice: Board, policy: str) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice, policy=policy)
    paused = alice.schedules.pause(name="daily", reason="holidays")
    assert (paused.due, paused.reason) == (None, "holidays")
    until(place, alice, "2031-01-04T12:00:30Z")
    assert (alice.schedules.due(), alice.schedules.fire()) == (None, [])
    alice.schedules.resume(name="daily")
    assert alice.schedules.fire() == []
    until(place, alice, "2031-01-05T12:00:00Z")
    assert times(alice.schedules.fire()) == ["2031-01-05T12:00:00Z"]


def test_a_change_does_not_end_a_pause(place: Place, alice: Board) -> None:
    daily(alice)
    alice.schedules.pause(name="daily")
    assert daily(alice, expression="* * * * *").due is None
    place.advance(DAY)
    assert alice.schedules.fire() == []


def test_what_is_not_paused_cannot_be_resumed(alice: Board) -> None:
    daily(alice)
    with pytest.raises(Refused, match="is not paused"):
        alice.schedules.resume(name="daily")


def test_a_removed_schedule_runs_no_more_and_its_epochs_go_on_when_it_comes_back(place: Place, alice: Board) -> None:
    daily(alice)
    noon(place, alice)
    alice.schedules.fire()
    alice.schedules.remove(name="daily")
    place.advance(3 * DAY)
    assert (alice.schedules.list(), alice.schedules.due(), alice.schedules.fire()) == ([], None, [])
    daily(alice)
    assert alice.schedules.fire() == []
    noon(place, alice)
    alice.schedules.fire()
    assert [known.epoch for known in alice.schedules.list()] == [2]


@pytest.mark.parametrize("word", ["pause", "resume", "remove", "next"])
def test_an_unknown_schedule_is_not_found(alice: Board, bob: Board, word: str) -> None:
    daily(alice, project="elsewhere")
    daily(alice)
    alice.schedules.remove(name="daily")
    with pytest.raises(NotFound, match="no schedule daily in project demo"):
        alice.call(f"schedules.{word}", {"name": "daily"})


# ── Daylight saving ──────────────────────────────────────────────────────────────────────────────────


def all_of(place: Place, board: Board, start: str, end: str, expression: str, policy: str = "run-all") -> list[str]:
    """The instants that run between two moments, when somebody looks every ten minutes."""
    until(place, board, start)
    board.schedules.add(name="dst", expression=expression, zone=BERLIN, command="make", policy=policy)
    seen: list[str] = []
    while board.upkeep.now() < parse_rfc3339(end):
        place.advance(10 * MINUTE)
        seen += times(board.schedules.fire())
    return seen


@pytest.mark.parametrize("policy", ["skip", "run-once", "run-all"])
def test_a_time_that_the_clock_leaps_over_runs_once_after_the_leap(place: Place, alice: Board, policy: str) -> None:
    days = ("2031-03-29T00:00:00Z", "2031-03-31T12:00:00Z")
    assert all_of(place, alice, *days, "30 2 * * *", policy) == [
        "2031-03-29T01:30:00Z",
        "2031-03-30T01:00:00Z",
        "2031-03-31T00:30:00Z",
    ]


def test_several_times_that_the_clock_leaps_over_are_one_instant(place: Place, alice: Board) -> None:
    days = ("2031-03-30T00:00:00Z", "2031-03-30T12:00:00Z")
    assert all_of(place, alice, *days, "0,20,40 2,3 * * *") == [
        "2031-03-30T01:00:00Z",
        "2031-03-30T01:20:00Z",
        "2031-03-30T01:40:00Z",
    ]


def test_a_time_that_comes_twice_runs_once(place: Place, alice: Board) -> None:
    days = ("2031-10-25T00:00:00Z", "2031-10-27T12:00:00Z")
    assert all_of(place, alice, *days, "30 2 * * *") == [
        "2031-10-25T00:30:00Z",
        "2031-10-26T00:30:00Z",
        "2031-10-27T01:30:00Z",
    ]


def test_what_runs_every_hour_runs_in_both_passes_of_an_hour(place: Place, alice: Board) -> None:
    hours = ("2031-10-25T23:10:00Z", "2031-10-26T02:40:00Z")
    assert all_of(place, alice, *hours, "30 * * * *") == [
        f"2031-10-{at}:30:00Z" for at in ("25T23", "26T00", "26T01", "26T02")
    ]


def test_a_schedule_made_in_the_second_pass_does_not_go_back_to_the_first(place: Place, alice: Board) -> None:
    hours = ("2031-10-26T01:15:00Z", "2031-10-27T03:00:00Z")
    assert all_of(place, alice, *hours, "30 2 * * *") == ["2031-10-27T01:30:00Z"]


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────────


def test_due_is_asked_of_one_project_or_of_all(place: Place, alice: Board) -> None:
    assert alice.schedules.due(project=None) is None
    until(place, alice, "2031-01-01T00:00:00Z")
    daily(alice, project="elsewhere")
    assert alice.schedules.due() is None
    assert alice.schedules.due(project=None) == pytest.approx(12 * HOUR, abs=2)
    place.advance(2 * DAY)
    assert (alice.schedules.due(), alice.schedules.due(project=None)) == (None, 0.0)
    assert alice.schedules.fire() == []
    assert [task.project for task in alice.schedules.fire(project=None)] == ["elsewhere"]


def test_a_process_without_the_cron_library_is_not_woken(
    place: Place, alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    daily(alice)
    noon(place, alice)
    monkeypatch.setitem(sys.modules, "cronsim", None)
    assert alice.schedules.due() is None
    with pytest.raises(Unavailable, match="not installed"):
        alice.schedules.fire()
    assert len(alice.schedules.list()) == 1


def test_the_next_instants_are_told_in_order(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T13:00:00Z")
    daily(alice)
    noons = [parse_rfc3339(f"2031-01-0{day}T12:00:00Z") for day in (2, 3, 4)]
    assert alice.schedules.next(name="daily", count=3) == noons
    alice.schedules.pause(name="daily")
    assert alice.schedules.next(name="daily", count=1) == noons[:1]


def test_history_is_of_one_schedule_alone_newest_first(place: Place, alice: Board) -> None:
    until(place, alice, "2031-01-01T00:00:00Z")
    for name in ("a", "a:b", "a:2", "ab"):
        daily(alice, name=name)
    daily(alice, name="a", project="elsewhere")
    for _ in range(3):
        place.advance(DAY)
        alice.schedules.fire(project=None)
    assert times(alice.schedules.history(name="a")) == [f"2031-01-0{day}T12:00:00Z" for day in (3, 2, 1)]
    assert {task.name for task in alice.schedules.history(name="a")} == {"a"}
    newest = alice.schedules.history(name="a", limit=1)
    assert times(newest + alice.schedules.history(name="a", limit=1, before=newest[0].number)) == [
        "2031-01-03T12:00:00Z",
        "2031-01-02T12:00:00Z",
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"expression": "* * * *"}, "wrong number of fields"),
        ({"expression": "60 * * * *"}, "bad minute"),
        ({"expression": "0 0 30 2 *"}, "bad day-of-month"),
        ({"expression": "@reboot"}, "wrong number of fields"),
        ({"expression": "٣ * * * *"}, "bad minute"),
        ({"expression": "0 0 * 2 MON#6"}, "bad day-of-week"),
        ({"zone": "Europe"}, "not a time zone"),
        ({"zone": "../../etc/passwd"}, "not a time zone"),
        ({"zone": "/etc/localtime"}, "not a time zone"),
        ({"policy": "run-twice"}, "policy: one of"),
        ({"options": []}, "options: expected an object"),
        ({"options": {"key": "mine"}}, "options: key cannot be set"),
        ({"options": {"after": ["#1"]}}, "options: after cannot be set"),
        ({"options": {"no_such": 1}}, "unknown parameter"),
        ({"options": {"max_attempts": 0}}, "max_attempts: must be between"),
        ({"options": {"cwd": "not/absolute"}}, "cwd: "),
        ({"command": ""}, "command: "),
        ({"command": [1]}, "command: "),
        ({"name": "no blanks"}, "name: letters"),
    ],
)
def test_an_invalid_schedule_is_refused_and_leaves_nothing(alice: Board, given: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        daily(alice, **given)
    assert (alice.schedules.list(), changes(alice)) == ([], [])


@pytest.mark.parametrize("word", ["@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@Midnight"])
def test_the_usual_names_are_known(alice: Board, word: str) -> None:
    assert daily(alice, expression=word).due is not None
