"""The proof says no to every log in which something went wrong."""

from __future__ import annotations

from typing import Any

import pytest

import tiebreak
from tiebreak.demo.proof import prove
from tiebreak.model import Event, Task


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Event], list[Task]]:
    """The log and tasks of a board on which everything happened that the proof wants to see."""
    now = 1_800_000_000_000_000
    path = tmp_path_factory.mktemp("proof") / "board.db"
    ada, ben = (tiebreak.open(path, agent=f"{n}~1", project="demo", clock=lambda: now) for n in ("ada", "ben"))
    for name in ("one", "two"):
        ada.tasks.post(name, key=name)
    late = ada.tasks.claim("one", lease=10)
    with pytest.raises(tiebreak.Lost):
        ben.tasks.claim("one")
    now += 11_000_000
    ben.tasks.claim("one")
    with pytest.raises(tiebreak.Fenced):
        ada.tasks.complete("one", epoch=late.epoch)
    ben.tasks.complete("one")
    for board in (ada, ben):
        with board.hold("lock:deploy"):
            board.tasks.claim("two")
            if board is ada:
                board.tasks.fail("two", reason="bad luck")
                now += 60_000_000
            else:
                board.tasks.complete("two")
    events, tasks = ben.events.read(project=None, limit=1000), ben.tasks.list()
    ada.close()
    ben.close()
    return events, tasks


def changed(event: Event, **fields: Any) -> Event:
    return Event(**{**{name: getattr(event, name) for name in Event.fields}, **fields})


def renumbered(events: list[Event]) -> list[Event]:
    return [changed(event, number=number) for number, event in enumerate(events, 1)]


def named(events: list[Event], name: str, which: int = 0) -> int:
    return [i for i, event in enumerate(events) if event.event == name][which]


def broken(events: list[Event], tasks: list[Task]) -> set[str]:
    proof = prove(events, tasks)
    assert proof.holds == all(check.holds for check in proof.checks)
    return {check.name for check in proof.checks if not check.holds}


def test_a_sound_log_is_proved(told: tuple[list[Event], list[Task]]) -> None:
    assert broken(*told) == set()
    assert prove(*told).holds


def test_a_task_that_was_completed_twice_is_seen(told: tuple[list[Event], list[Task]]) -> None:
    events, tasks = told
    at = named(events, "task.completed")
    assert "winners of each task" in broken(renumbered([*events[: at + 1], *events[at:]]), tasks)


def test_two_holders_at_once_are_seen(told: tuple[list[Event], list[Task]]) -> None:
    events, tasks = told
    at = named(events, "task.expired")
    assert broken(renumbered(events[:at] + events[at + 1 :]), tasks) == {"grants with two holders at once"}


def test_two_holders_of_a_lock_are_seen(told: tuple[list[Event], list[Task]]) -> None:
    events, tasks = told
    at = named(events, "hold.released")
    assert broken(renumbered(events[:at] + events[at + 1 :]), tasks) == {"grants with two holders at once"}


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_gap_or_a_repeat_in_the_epochs_is_seen(told: tuple[list[Event], list[Task]], epoch: int) -> None:
    events, tasks = told
    at = named(events, "task.claimed", 1)
    assert events[at].epoch == 2
    wrong = [*events[:at], changed(events[at], epoch=epoch), *events[at + 1 :]]
    assert "gaps in the epochs" in broken(wrong, tasks)


def test_a_task_that_is_gone_is_seen(told: tuple[list[Event], list[Task]]) -> None:
    events, tasks = told
    assert broken(events, tasks[1:]) >= {"tasks lost", "tasks completed"}


def test_a_task_that_was_never_finished_is_seen(told: tuple[list[Event], list[Task]]) -> None:
    events, tasks = told
    open_task = Task(**{**{name: getattr(tasks[0], name) for name in Task.fields}, "state": "pending"})
    assert "tasks completed" in broken(events, [open_task, *tasks[1:]])


@pytest.mark.parametrize("fields", [{"epoch": 1}, {"agent": "ada"}])
def test_a_late_write_that_was_accepted_is_seen(told: tuple[list[Event], list[Task]], fields: dict[str, Any]) -> None:
    events, tasks = told
    at = named(events, "task.completed")
    wrong = [*events[:at], changed(events[at], **fields), *events[at + 1 :]]
    assert broken(wrong, tasks) == {"late writes accepted"}


def test_a_hole_in_the_log_is_seen(told: tuple[list[Event], list[Task]]) -> None:
    events, tasks = told
    at = named(events, "task.refused")
    assert "events in the log, without a gap" in broken(events[:at] + events[at + 1 :], tasks)
    assert "events in the log, without a gap" in broken(events[1:], tasks)
    assert not prove([], []).holds


@pytest.mark.parametrize(
    ("missing", "check"),
    [
        ("task.refused", "refused claims"),
        ("task.fenced", "late writes refused by the fence"),
        ("task.retrying", "jobs that failed and recovered"),
    ],
)
def test_a_demonstration_in_which_nothing_went_wrong_proves_nothing(
    told: tuple[list[Event], list[Task]], missing: str, check: str
) -> None:
    events, tasks = told
    assert check in broken(renumbered([event for event in events if event.event != missing]), tasks)
