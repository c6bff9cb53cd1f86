"""Helpers for the cases about jobs: winning jobs and reporting their outcomes."""

from __future__ import annotations

from typing import Any

from tiebreak import Board
from tiebreak.model import Event, Job, Task


def submit(board: Board, name: str = "work", **given: Any) -> Task:
    """A job that anybody may run."""
    task: Task = board.call("jobs.submit", {"command": "true", "name": name, **given})
    return task


def win(board: Board, count: int = 100, **given: Any) -> list[Job]:
    """The next jobs."""
    won: list[Job] = board.call("jobs.next", {"count": count, "lease": 60.0, **given})
    return won


def won(board: Board, **given: Any) -> list[str]:
    """The names of the next jobs, in the order in which they are won."""
    return [job.name for job in win(board, **given)]


def running(board: Board, name: str = "work", **given: Any) -> Job:
    """A new job, won."""
    task = submit(board, name, **given)
    [job] = [job for job in win(board) if job.number == task.number]
    return job


def outcome(job: Job, *, ok: bool = True, **more: Any) -> dict[str, Any]:
    """What became of an attempt, as a worker reports it."""
    return {"number": job.number, "epoch": job.epoch, "ok": ok, **more}


def report(board: Board, *outcomes: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers to a report."""
    answers: list[dict[str, Any]] = board.jobs.report(outcomes=list(outcomes))
    return answers


def orphans(board: Board) -> list[Event]:
    """What was reported too late."""
    return board.events.read(event="job.orphaned")


def states(board: Board, *jobs: Job | Task) -> list[str]:
    """How things stand with some jobs."""
    return [board.tasks.get(ref=job.id).state for job in jobs]
