"""Twenty schedulers at the same moment: each instant is run by one of them, and none is missed."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

import tiebreak
from tiebreak.clock import SECOND, wall
from tiebreak.model import Event, Task

from . import plants
from .crew import PROJECT, race
from .places import postgres, served
from .scenarios import open_board, scheduler

SCHEDULERS = [f"scheduler-{i}" for i in range(20)]
INSTANTS = 100
DAY = 86_400


def missed(address: str, count: int = INSTANTS) -> None:
    """A schedule with so many instants in the past, one each day; the next one is half a day away."""
    now = wall()
    hour, minute = time.gmtime(now / SECOND - DAY / 2)[3:5]
    earlier = now - count * DAY * SECOND
    with tiebreak.open(address, agent="judge~1", project=PROJECT, clock=lambda: earlier) as board:
        board.schedules.add(name="daily", expression=f"{minute} {hour} * * *", command="true", policy="run-all")


def runs_of(address: str) -> tuple[list[Task], list[Event]]:
    """The jobs that were submitted, and what the log says of it."""
    with open_board(address) as board:
        events = board.events.read(event="schedule.fired", limit=1000)
        return board.tasks.list(kind="job", limit=1000), events


def judge(tasks: list[Task], events: list[Event], count: int = INSTANTS) -> None:
    """One job for each instant, one grant for each, in order."""
    instants = Counter(event.data["instant"] for event in events)
    assert [instant for instant, times in instants.items() if times > 1] == [], "run more than once"
    assert (len(tasks), len(instants)) == (count, count)
    assert len({task.key for task in tasks}) == count
    assert [event.epoch for event in events] == list(range(1, count + 1))


def test_twenty_schedulers_on_one_file(path: str) -> None:
    missed(path)
    reports = race(scheduler, [(path, agent) for agent in SCHEDULERS])
    judge(*runs_of(path))
    assert sum(map(len, reports)) == INSTANTS
    assert len({key for report in reports for key in report}) == INSTANTS


def test_twenty_schedulers_on_one_server(tmp_path: Path) -> None:
    with postgres(tmp_path) as address:
        missed(address)
        reports = race(scheduler, [(address, agent) for agent in SCHEDULERS])
        judge(*runs_of(address))
    assert sum(map(len, reports)) == INSTANTS
    assert len({key for report in reports for key in report}) == INSTANTS


def test_twenty_schedulers_beside_a_daemon_that_fires_too(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        missed(str(daemon.board))
        places = [daemon.url, str(daemon.board)]
        reports = race(scheduler, [(places[i % 2], agent) for i, agent in enumerate(SCHEDULERS)])
        judge(*runs_of(daemon.url))
    keys = [key for report in reports for key in report]
    assert len(keys) == len(set(keys)) <= INSTANTS


@pytest.mark.usefixtures("unchecked")
def test_an_instant_that_is_run_twice_is_found(path: str) -> None:
    missed(path, 20)
    race(scheduler, [(path, agent) for agent in SCHEDULERS], plant=plants.instants_are_run_by_whoever_saw_them)
    with pytest.raises(AssertionError, match="run more than once"):
        judge(*runs_of(path), 20)
