"""A stranger that ends a task which very many come after changes no job, not even by the steps that others do later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tests.postgres import server
from tiebreak import Board, Task
from tiebreak.errors import Unauthorised
from tiebreak.operations import deferred_work, find
from tiebreak.operations.strangers import for_strangers

WHO = {"agent": "stranger~1", "project": "p"}
SIZE = 12


@pytest.fixture(params=["sqlite", "postgres"])
def board(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    """A board on which one step deals with five tasks."""
    monkeypatch.setattr(deferred_work, "BUDGET", 5)
    address = str(tmp_path / "board.db") if request.param == "sqlite" else server().empty_board()
    with tiebreak.open(address, agent="owner~1", project="p") as made:
        yield made


def stranger(board: Board, name: str, **params: Any) -> Any:
    """The same call, made without a token."""
    wanted = for_strangers(find(name))
    return board.engine.run(wanted, {**{key: who for key, who in WHO.items() if key in wanted.parameters}, **params})


def family(board: Board) -> tuple[Task, list[Task]]:
    """A task that the stranger has claimed, and more that come after it than one step deals with."""
    root = board.tasks.post(name="root")
    later = board.batch([("tasks.post", {"name": "later", "after": [root.id]})] * SIZE)
    stranger(board, "tasks.claim", ref=root.id)
    return root, later


ENDS: dict[str, dict[str, Any]] = {"tasks.complete": {}, "tasks.fail": {"retry": False}, "tasks.cancel": {}}
END = pytest.mark.parametrize("end", ENDS)
BAD_END = pytest.mark.parametrize("end", ["tasks.fail", "tasks.cancel"])


def refused(board: Board, end: str, root: Task, job: Task) -> None:
    before = board.tasks.list(limit=1000)
    with pytest.raises(Unauthorised, match=f"would change #{job.number}, which is a job"):
        stranger(board, end, ref=root.id, **ENDS[end])
    assert board.tasks.list(limit=1000) == before
    assert (board.tasks.cascade(), board.engine.deferred_work) == (0, set())


@END
def test_an_end_whose_later_steps_reach_a_job_is_refused(board: Board, end: str) -> None:
    root, _ = family(board)
    refused(board, end, root, board.jobs.submit(command="true", after=[root.id]))


@BAD_END
def test_an_end_whose_later_steps_reach_a_job_from_afar_is_refused(board: Board, end: str) -> None:
    root, later = family(board)
    between = board.tasks.post(name="between", after=[later[-1].id])
    refused(board, end, root, board.jobs.submit(command="true", after=[between.id]))


def test_a_completion_is_not_refused_for_a_job_that_it_does_not_touch(board: Board) -> None:
    root, later = family(board)
    job = board.jobs.submit(command="true", after=[later[-1].id])
    stranger(board, "tasks.complete", ref=root.id)
    while board.tasks.cascade():
        pass

    assert {board.tasks.get(ref=task.id).state for task in later} == {"pending"}
    assert board.tasks.get(ref=job.id) == job


@BAD_END
def test_a_job_behind_a_task_that_runs_anyway_is_not_touched(board: Board, end: str) -> None:
    root, _ = family(board)
    anyway = board.tasks.post(name="anyway", after=[root.id], run_anyway=True)
    job = board.jobs.submit(command="true", after=[anyway.id])
    stranger(board, end, ref=root.id, **ENDS[end])
    while board.tasks.cascade():
        pass

    assert (board.tasks.get(ref=anyway.id).state, board.tasks.get(ref=job.id)) == ("pending", job)


@END
def test_a_stranger_may_end_a_large_family_that_has_no_jobs(board: Board, end: str) -> None:
    root, later = family(board)
    stranger(board, end, ref=root.id, **ENDS[end])
    assert board.engine.deferred_work == {"p"}
    while board.tasks.cascade():
        pass

    assert "blocked" not in {board.tasks.get(ref=task.id).state for task in later}


def test_a_stranger_does_not_continue_unfinished_work_of_others(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Board, "_finish_deferred_work", lambda board: board.engine.deferred_work.clear())
    root = board.tasks.post(name="root")
    jobs = [board.jobs.submit(command="true", after=[root.id]) for _ in range(SIZE)]
    board.tasks.cancel(ref=root.id)
    before = [board.tasks.get(ref=job.id) for job in jobs]

    assert stranger(board, "tasks.next") == []
    assert stranger(board, "tasks.sweep") == 0
    with pytest.raises(Unauthorised):
        stranger(board, "tasks.claim", ref=jobs[-1].id, create=False)
    assert [board.tasks.get(ref=job.id) for job in jobs] == before


# ── Claims that lapse ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def before_a_job(board: Board) -> tuple[Task, Task]:
    """A task that a job comes after, with another one in between, and the job."""
    root = board.tasks.post(name="root", priority="urgent")
    between = board.tasks.post(name="between", after=[root.id])
    return root, board.jobs.submit(command="true", after=[between.id])


@pytest.mark.parametrize("claim", ["tasks.claim", "tasks.claim_many"])
def test_a_stranger_cannot_claim_a_task_that_a_job_depends_on(
    board: Board, before_a_job: tuple[Task, Task], claim: str
) -> None:
    """Left to lapse until no attempt is left, such a claim would have the job cancelled."""
    root, job = before_a_job
    which = {"ref": root.id} if claim == "tasks.claim" else {"refs": [root.id]}
    with pytest.raises(Unauthorised, match=f"would claim #{root.number}, which a job comes after"):
        stranger(board, claim, **which)

    assert board.tasks.get(ref=root.id) == root
    assert board.tasks.get(ref=job.id) == job


def test_next_skips_tasks_that_jobs_depend_on(board: Board, before_a_job: tuple[Task, Task]) -> None:
    root, _ = before_a_job
    plain = board.tasks.post(name="plain", priority="low")
    assert [task.id for task in stranger(board, "tasks.next")] == [plain.id]
    assert stranger(board, "tasks.next") == []
    assert [task.id for task in board.tasks.next()] == [root.id]


def test_a_claim_from_before_the_job_can_still_be_kept(board: Board) -> None:
    root = board.tasks.post(name="root")
    won = stranger(board, "tasks.claim", ref=root.id)
    board.jobs.submit(command="true", after=[root.id])
    assert stranger(board, "tasks.extend", ref=root.id, epoch=won.epoch).epoch == won.epoch
