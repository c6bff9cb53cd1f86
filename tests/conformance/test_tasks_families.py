"""A task with very many dependents: its end is propagated in steps, and calls between two steps are right too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tiebreak import Board, Task
from tiebreak.daemon.writer import Writer
from tiebreak.errors import NotFound, Refused
from tiebreak.operations import deferred_work, dependencies

from ..cli.command import until
from .engines import Place
from .tasks_support import claimed, complete, fail, happened, state

LARGE = 1200
"""More than two steps."""


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one step deal with five tasks, and follow a chain for three."""
    monkeypatch.setattr(deferred_work, "BUDGET", 5)
    monkeypatch.setattr(deferred_work, "TOGETHER", 2)
    monkeypatch.setattr(dependencies, "ROUNDS", 3)


@pytest.fixture
def nobody_goes_on(small_steps: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every process that defers work die before it continues it."""
    monkeypatch.setattr(Board, "_finish_deferred_work", lambda board: board.engine.deferred_work.clear())
    monkeypatch.setattr(Writer, "_queue_deferred_work", lambda writer: writer._engine.deferred_work.clear())


def cancel(board: Board, task: Task) -> Task:
    """Call off."""
    return board.tasks.cancel(ref=task.id)


END = pytest.mark.parametrize("end", [complete, fail, cancel], ids=lambda end: end.__name__)
BAD_END = pytest.mark.parametrize("end", [fail, cancel], ids=lambda end: end.__name__)
End = Callable[[Board, Task], Task]
BECOMES = {"completed": ("pending", "ready"), "failed": ("cancelled", "cancelled"), "cancelled": ("cancelled",) * 2}
"""The state of those that come after, by how it ended, and what the log tells of each."""


def family(board: Board, size: int, root: Task | None = None, **more: Any) -> tuple[Task, list[Task]]:
    """A task, and so many that come after it."""
    root = root or board.tasks.post(name="root")
    made: list[Task] = []
    while len(made) < size:
        calls = [("tasks.post", {"name": "later", "after": [root.id], **more})] * min(300, size - len(made))
        made += board.batch(calls)
    return root, made


def finish(board: Board, project: str | None = None) -> int:
    """Do all the steps that are left; how many there were."""
    steps = 1
    while board.tasks.cascade(project=project):
        steps += 1
    return steps


def states(board: Board, project: str = "demo") -> Counter[str]:
    """How many tasks are in which state."""
    counts = board.upkeep.status(project=project)
    return Counter({each: getattr(counts, each) for each in ("blocked", "pending", "completed", "failed", "cancelled")})


def told(board: Board, event: str) -> Counter[str | None]:
    """How often the log tells this of each task."""
    found: Counter[str | None] = Counter()
    after = 0
    while events := board.events.read(event=event, after=after, limit=1000, project=None):
        found.update(each.subject for each in events)
        after = events[-1].number
    return found


# ── Small and large ──────────────────────────────────────────────────────────────────────────────────


@END
def test_few_dependents_are_updated_at_once(alice: Board, end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_work, "_write", lambda tx, kind, left: pytest.fail("deferred work") if left else None)
    root, later = family(alice, 40)
    ended = end(alice, root)

    assert {state(alice, task) for task in later} == {BECOMES[ended.state][0]}
    assert (alice.tasks.due(), alice.tasks.cascade()) == (None, 0)


@END
def test_very_many_dependents_are_updated_in_steps(alice: Board, end: End) -> None:
    root, later = family(alice, LARGE)
    ended = end(alice, root)
    finish(alice)

    becomes, event = BECOMES[ended.state]
    assert states(alice)["blocked"] == 0
    assert states(alice)[becomes] == LARGE + (ended.state == becomes)
    assert told(alice, f"task.{event}") == Counter(
        [task.id for task in later] + ([root.id] if ended.state == event else [])
    )


@END
def test_the_board_that_ends_a_task_updates_all_dependents(alice: Board, small_steps: None, end: End) -> None:
    root, later = family(alice, 33)
    ended = end(alice, root)

    until(lambda: alice.tasks.due() is None, "nothing is left to be done")
    assert {state(alice, task) for task in later} == {BECOMES[ended.state][0]}


def test_one_step_handles_no_more_tasks_than_its_budget(alice: Board, nobody_goes_on: None) -> None:
    root, _ = family(alice, 17)
    cancel(alice, root)

    seen = [states(alice)["blocked"]]
    while alice.tasks.cascade():
        seen.append(states(alice)["blocked"])
    assert seen == [12, 7, 2]
    assert states(alice)["blocked"] == 0


def test_a_report_about_several_jobs_leaves_a_chore_beyond_its_budget(alice: Board, nobody_goes_on: None) -> None:
    jobs = [alice.jobs.submit(command="true") for _ in range(4)]
    for job in jobs:
        family(alice, 4, alice.tasks.get(ref=job.id))
    won = alice.jobs.next(count=4)
    outcomes = [
        {"number": job.number, "epoch": job.epoch, "ok": i % 2 == 0, "retry": False} for i, job in enumerate(won)
    ]
    alice.jobs.report(outcomes=outcomes)

    assert states(alice)["blocked"] == 11, "five at once"
    finish(alice)
    assert states(alice) == Counter(pending=8, completed=2, failed=2, cancelled=8, blocked=0)


def test_a_last_attempt_that_lapses_cancels_very_many_dependents(
    place: Place, alice: Board, nobody_goes_on: None
) -> None:
    task = claimed(alice, max_attempts=1, lease=10.0)
    family(alice, 13, task)
    place.advance(11.0)
    alice.tasks.sweep()
    finish(alice)

    assert states(alice) == Counter(failed=1, cancelled=13, blocked=0)


# ── Shapes ───────────────────────────────────────────────────────────────────────────────────────────


@BAD_END
def test_a_chain_is_followed_to_its_end(alice: Board, small_steps: None, end: End) -> None:
    chain = [alice.tasks.post(name="first")]
    for _ in range(30):
        chain.append(alice.tasks.post(name="link", after=[chain[-1].id]))
    end(alice, chain[0])
    finish(alice)

    assert {state(alice, task) for task in chain[1:]} == {"cancelled"}
    assert alice.tasks.get(ref=chain[-1].id).reason == f"comes after #{chain[-2].number} 'link', which was cancelled"


@BAD_END
def test_a_task_after_two_cancelled_ones_is_cancelled_once(alice: Board, small_steps: None, end: End) -> None:
    root, middle = family(alice, 12)
    last = [alice.tasks.post(name="last", after=[task.id for task in middle]) for _ in range(12)]
    end(alice, root)
    finish(alice)

    assert [happened(alice, task) for task in last] == [["posted", "cancelled"]] * 12


@BAD_END
def test_what_runs_anyway_is_released(alice: Board, small_steps: None, end: End) -> None:
    root, doomed = family(alice, 9)
    _, anyway = family(alice, 9, root, run_anyway=True)
    behind = [alice.tasks.post(name="behind", after=[task.id], run_anyway=True) for task in doomed]
    end(alice, root)
    finish(alice)

    assert {state(alice, task) for task in [*anyway, *behind]} == {"pending"}
    assert {state(alice, task) for task in doomed} == {"cancelled"}


@BAD_END
def test_dependents_in_several_projects_are_all_updated(
    place: Place, alice: Board, small_steps: None, end: End
) -> None:
    elsewhere, third = place.open("bob", "elsewhere"), place.open("carol", "third")
    root, _ = family(alice, 8)
    _, far = family(elsewhere, 8, root)
    for task in far:
        family(third, 2, task)
    end(alice, root)

    until(lambda: third.tasks.due(project=None) is None, "nothing is left to be done")
    assert [states(alice, project)["blocked"] for project in ("demo", "elsewhere", "third")] == [0, 0, 0]
    assert states(alice, "third")["cancelled"] == 16


# ── After a crash ────────────────────────────────────────────────────────────────────────────────────


def test_next_continues_a_chore_of_a_dead_process(alice: Board, bob: Board, nobody_goes_on: None) -> None:
    root, later = family(alice, 23)
    complete(alice, root)

    won: list[str] = []
    while found := bob.tasks.next():
        won += [task.id for task in found]
    assert sorted(won) == sorted(task.id for task in later)


def test_jobs_of_another_project_are_not_forgotten(place: Place, alice: Board, nobody_goes_on: None) -> None:
    elsewhere = place.open("bob", "elsewhere")
    root, _ = family(alice, 23)
    jobs = [elsewhere.jobs.submit(command="true", after=[root.id]) for _ in range(7)]
    complete(alice, root)

    assert elsewhere.tasks.due() == 1.0, "deferred work of another project is looked at again in a second"
    won: list[int] = []
    for _ in range(20):
        won += [job.number for job in elsewhere.jobs.next()]
    assert sorted(won) == sorted(job.number for job in jobs)


def test_a_sweep_continues_a_chore_of_a_dead_process(alice: Board, small_steps: None, monkeypatch: Any) -> None:
    _cancelled_by_a_dead_one(alice, monkeypatch)
    assert alice.tasks.due() == 0
    alice.tasks.sweep(project=None)

    until(lambda: alice.tasks.due() is None, "nothing is left to be done")
    assert states(alice)["cancelled"] == 24


def test_a_waiter_continues_a_chore_of_a_dead_process(
    place: Place, alice: Board, small_steps: None, monkeypatch: Any
) -> None:
    later = _cancelled_by_a_dead_one(alice, monkeypatch)
    blocked = next(task for task in reversed(later) if state(alice, task) == "blocked")
    waiting = place.open("bob", "elsewhere")

    until(lambda: waiting.settled(blocked.id).state == "cancelled", "what is waited for was told")


def _cancelled_by_a_dead_one(alice: Board, monkeypatch: Any) -> list[Task]:
    root, later = family(alice, 23)
    with monkeypatch.context() as dead:
        dead.setattr(Board, "_finish_deferred_work", lambda board: board.engine.deferred_work.clear())
        dead.setattr(Writer, "_queue_deferred_work", lambda writer: writer._engine.deferred_work.clear())
        cancel(alice, root)
    return later


# ── Between two steps ────────────────────────────────────────────────────────────────────────────────


def test_a_task_that_no_chore_has_reached_yet_can_be_claimed(alice: Board, nobody_goes_on: None) -> None:
    root, later = family(alice, 12)
    complete(alice, root)
    assert state(alice, later[-1]) == "blocked"

    assert alice.tasks.claim(ref=later[-1].id).state == "claimed"
    assert happened(alice, later[-1]) == ["posted", "ready", "claimed"]


@BAD_END
def test_a_task_that_a_chore_will_cancel_is_refused_as_cancelled(alice: Board, nobody_goes_on: None, end: End) -> None:
    root, later = family(alice, 12)
    behind = alice.tasks.post(name="behind", after=[later[-1].id])
    end(alice, root)
    assert state(alice, later[-1]) == "blocked"

    with pytest.raises(Refused, match="is cancelled already"):
        alice.tasks.claim(ref=later[-1].id)
    assert (state(alice, later[-1]), state(alice, behind)) == ("cancelled", "cancelled")
    finish(alice)
    assert happened(alice, later[-1]) == ["posted", "cancelled"]


def test_a_retry_finishes_the_chore_first(alice: Board, nobody_goes_on: None) -> None:
    root, later = family(alice, 9)
    cancel(alice, root)
    assert states(alice)["blocked"] == 4
    reopened = alice.tasks.retry(ref=root.id)

    assert reopened.state == "pending"
    assert {state(alice, task) for task in later} == {"cancelled"}


def test_a_retry_of_a_task_with_a_long_chore_is_refused(alice: Board, nobody_goes_on: None) -> None:
    root, later = family(alice, 30)
    cancel(alice, root)

    with pytest.raises(Refused, match="still being updated") as refused:
        alice.tasks.retry(ref=root.id)
    assert refused.value.hint == "try again in a moment"
    finish(alice)
    assert alice.tasks.retry(ref=root.id).state == "pending"
    assert {state(alice, task) for task in later} == {"cancelled"}


def test_retrying_several_never_reopens_a_task_after_a_cancelled_one(alice: Board, nobody_goes_on: None) -> None:
    root, _ = family(alice, 30)
    cancel(alice, root)
    alice.tasks.retry_many(states=["cancelled"], limit=1000)
    finish(alice)

    blocked = alice.tasks.list(states=["blocked"], limit=1000)
    assert all(state(alice, before) == "pending" for task in blocked for before in alice.tasks.after(ref=task.id))


def test_a_task_can_be_posted_after_one_that_has_a_chore(alice: Board, nobody_goes_on: None) -> None:
    root, later = family(alice, 12)
    complete(alice, root)
    ready = alice.tasks.post(name="new", after=[root.id])
    waits = alice.tasks.post(name="new", after=[root.id, later[-1].id])
    finish(alice)

    assert (ready.state, state(alice, ready)) == ("pending", "pending")
    assert (waits.state, alice.tasks.get(ref=waits.id).blockers) == ("blocked", 1)


@BAD_END
def test_a_task_after_one_that_will_be_cancelled_is_cancelled_with_it(
    alice: Board, nobody_goes_on: None, end: End
) -> None:
    root, later = family(alice, 12)
    end(alice, root)
    new = alice.tasks.post(name="new", after=[later[-1].id])
    finish(alice)

    assert state(alice, new) == "cancelled"


def test_a_task_that_is_linked_before_a_chore_reached_it_becomes_ready(alice: Board, nobody_goes_on: None) -> None:
    root, later = family(alice, 12)
    other = complete(alice, alice.tasks.post(name="other"))
    complete(alice, root)
    alice.tasks.depend(ref=later[-1].id, after=[other.id])
    finish(alice)

    assert state(alice, later[-1]) == "pending"
    assert happened(alice, later[-1]) == ["posted", "linked", "ready"]


def test_the_end_of_another_predecessor_updates_the_task_as_well(alice: Board, nobody_goes_on: None) -> None:
    root, _ = family(alice, 12)
    other = alice.tasks.post(name="other")
    both = alice.tasks.post(name="both", after=[root.id, other.id])
    cancel(alice, root)
    assert state(alice, both) == "blocked"
    complete(alice, other)

    assert alice.tasks.get(ref=both.id).reason == f"comes after #{root.number} 'root', which was cancelled"


# ── Forgetting ───────────────────────────────────────────────────────────────────────────────────────


def test_a_task_with_a_chore_is_not_pruned(place: Place, alice: Board, nobody_goes_on: None) -> None:
    root, later = family(alice, 8)
    cancel(alice, root)
    for task in later[5:]:
        cancel(alice, task)
    alice.tasks.post(name="newest")
    place.advance(100.0)

    alice.upkeep.prune(older_than=50.0)
    assert state(alice, root) == "cancelled"
    finish(alice)
    alice.upkeep.prune(older_than=50.0)
    with pytest.raises(NotFound):
        state(alice, root)


def test_pruning_deletes_no_more_edges_than_its_limit(place: Place, alice: Board) -> None:
    root, _ = family(alice, 25)
    cancel(alice, root)
    alice.tasks.post(name="newest")
    place.advance(100.0)

    pruned = [alice.upkeep.prune(older_than=50.0, limit=10) for _ in range(6)]
    assert [step.tasks for step in pruned][:2] == [0, 0], "it has more edges than one step forgets"
    assert sum(step.tasks for step in pruned) == 26
    assert [bool(step.more) for step in pruned][-1] is False


def test_pruning_forgets_the_keys_of_one_project_at_a_time(place: Place, alice: Board) -> None:
    boards = [alice, place.open("bob", "second"), place.open("carol", "third")]
    for board in boards:
        board.tasks.claim(ref="key")
        board.tasks.complete(ref="key")
    alice.tasks.post(name="newest")
    place.advance(100.0)

    pruned = [alice.upkeep.prune(older_than=50.0) for _ in range(3)]
    assert [(step.tasks, bool(step.more)) for step in pruned] == [(1, True), (1, True), (1, False)]
    assert [board.tasks.claim(ref="key").epoch for board in boards] == [2, 2, 2]


# ── Many before one ──────────────────────────────────────────────────────────────────────────────────


def test_a_task_after_very_many_is_counted_right(alice: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "MANY", 3)
    before = [alice.tasks.post(name="before") for _ in range(8)]
    last = alice.tasks.post(name="last", after=[task.id for task in before])
    anyway = alice.tasks.post(name="anyway", after=[task.id for task in before], run_anyway=True)

    seen = []
    for task in before:
        complete(alice, task)
        seen.append((alice.tasks.get(ref=last.id).blockers, alice.tasks.get(ref=anyway.id).blockers))
    assert seen == [(n, n) for n in range(7, -1, -1)]
    assert (state(alice, last), state(alice, anyway)) == ("pending", "pending")


def test_a_task_that_ends_twice_counts_once_for_one_that_runs_anyway(
    alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependencies, "MANY", 1)
    before = [alice.tasks.post(name="before") for _ in range(5)]
    anyway = alice.tasks.post(name="anyway", after=[task.id for task in before], run_anyway=True)
    for _ in range(2):
        fail(alice, before[0])
        alice.tasks.retry(ref=before[0].id)
    complete(alice, before[0])

    assert alice.tasks.get(ref=anyway.id).blockers == 4


def test_a_refusal_names_only_the_first_of_very_many(alice: Board) -> None:
    before = alice.batch([("tasks.post", {"name": "before"})] * 300)
    last = alice.tasks.post(name="last", after=[task.id for task in before])

    with pytest.raises(Refused) as refused:
        alice.tasks.claim(ref=last.id)
    first = ", ".join(f"#{task.number}" for task in before[:10])
    assert refused.value.message.endswith(f"is blocked by {first} and 290 more")


def test_a_circle_through_several_projects_is_refused(place: Place, alice: Board) -> None:
    elsewhere = place.open("bob", "elsewhere")
    first = alice.tasks.post(name="first")
    second = elsewhere.tasks.post(name="second", after=[first.id])
    third = alice.tasks.post(name="third", after=[second.id])

    with pytest.raises(Refused, match="circle"):
        alice.tasks.depend(ref=first.id, after=[third.id])
    with pytest.raises(Refused, match="circle"):
        elsewhere.tasks.depend(ref=first.id, after=[second.id])
