"""The explorer finds bugs that are planted, and nothing where there is none."""

from __future__ import annotations

import pytest

from .explore import Explorer
from .plants import POST_AFTER_A, TAKE_FILE, TAKE_GLOB, Planted, planted, planted_bugs
from .samples import ANSWER_NO, ANSWER_YES, CANCEL_O, COMPLETE_A, SAMPLES, Sample, one
from .scheduler import Cut, Schedule
from .world import world


@pytest.mark.parametrize("bug", planted_bugs(), ids=lambda bug: f"{bug.number}: {bug.name}")
def test_a_planted_bug_is_found(bug: Planted) -> None:
    here = world()
    with planted(here.clients, bug.plant):
        explored = Explorer(here, bug.samples, scopes_first=False).everything(enough=bug.kind)
    assert bug.plant.count, "there was nothing to rewrite: the plant has to follow the code"
    assert bug.kind in explored.kinds(), "the bug is there, and nobody noticed"


@pytest.mark.parametrize(
    "samples",
    [(POST_AFTER_A, COMPLETE_A), (TAKE_FILE, TAKE_GLOB), (ANSWER_YES, CANCEL_O), (ANSWER_YES, ANSWER_NO)],
    ids=["posts", "holds", "an answer and a cancel", "two answers"],
)
def test_nothing_is_found_without_a_plant(samples: tuple[Sample, Sample]) -> None:
    explored = Explorer(world(), samples, scopes_first=False).everything(40)
    assert not explored.findings, str(explored.findings[0])


def test_a_schedule_runs_the_same_again() -> None:
    schedule = Schedule((1, 0), (Cut(2), Cut(4, "clock")))
    scripts = [COMPLETE_A.calls, POST_AFTER_A.calls]
    first, again = (world().interleaved(scripts, schedule) for _ in range(2))
    assert first[0].messages[:3] == again[0].messages[:3]
    assert [who for who, _ in first[0].messages] == [who for who, _ in again[0].messages]
    assert first[1] == again[1]


@pytest.mark.parametrize("sample", SAMPLES[:40:4], ids=lambda sample: sample.name)
def test_a_client_alone_has_the_same_outcome_at_the_gate(sample: Sample) -> None:
    _, outcome = world().interleaved([sample.calls], Schedule((0,)))
    assert outcome == world().alone(sample.calls)


def test_a_client_that_dies_leaves_nothing_behind() -> None:
    schedule = Schedule((0, 1), (Cut(4, "death"),))
    trace, outcome = world().interleaved([COMPLETE_A.calls, one("upkeep.now", "board").calls], schedule)
    assert trace.dead == {0}
    assert outcome == world().serial([COMPLETE_A.calls, one("upkeep.now", "board").calls], [(1, 0)], frozenset({0}))


def test_a_deadlock_is_reported() -> None:
    """Two clients that take the same two rows in opposite orders."""
    in_order = one("batch", "D E", calls=[("tasks.claim", {"ref": each}, None) for each in ("D", "E")])
    reverse = one("batch", "D E", calls=[("tasks.claim", {"ref": each}, None) for each in ("E", "D")])
    explored = Explorer(world(), (in_order, reverse), batches_too=True).everything(enough="deadlock")
    assert "deadlock" in explored.kinds()
