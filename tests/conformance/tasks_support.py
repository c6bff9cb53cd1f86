"""Helpers for the cases about tasks: bringing a task into a state, and checking that nothing changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tiebreak import Board
from tiebreak.model import Event, Task

AUDIT = ("task.refused", "task.fenced")
"""Events about a refusal: they say that something did not happen, so they are no change."""


def changes(board: Board, after: int = 0) -> list[Event]:
    """The changes in all projects after an event."""
    return [event for event in board.events.read(after=after, limit=1000, project=None) if event.event not in AUDIT]


def happened(board: Board, task: Task) -> list[str]:
    """What was done to a task, in order, without the group's name: `posted`, `claimed` …"""
    return [event.event.removeprefix("task.") for event in changes(board) if event.subject == task.id]


@contextmanager
def unchanged(board: Board) -> Iterator[None]:
    """Assert that no task of any project changes and that no change is logged."""
    newest = board.events.last()
    tasks = board.tasks.list(project=None, limit=1000)
    yield
    assert board.tasks.list(project=None, limit=1000) == tasks
    assert changes(board, after=newest) == []


def claimed(board: Board, name: str = "work", *, max_attempts: int = 3, lease: float = 60.0) -> Task:
    """A new task, claimed."""
    return board.tasks.claim(ref=board.tasks.post(name=name, max_attempts=max_attempts).id, lease=lease)


def in_state(board: Board, state: str) -> Task:
    """A new task in that state, brought there by the board's own agent."""
    if state == "pending":
        return board.tasks.post(name="work")
    if state == "blocked":
        return board.tasks.post(name="work", after=[board.tasks.post(name="first").id])
    task = claimed(board)
    if state == "completed":
        return board.tasks.complete(ref=task.id)
    if state == "failed":
        return board.tasks.fail(ref=task.id, retry=False)
    if state == "cancelled":
        return board.tasks.cancel(ref=task.id)
    return task


def complete(board: Board, task: Task) -> Task:
    """Claim and complete."""
    board.tasks.claim(ref=task.id)
    return board.tasks.complete(ref=task.id)


def fail(board: Board, task: Task) -> Task:
    """Claim and fail for good."""
    board.tasks.claim(ref=task.id)
    return board.tasks.fail(ref=task.id, retry=False)


def state(board: Board, task: Task) -> str:
    """The state of a task now."""
    return board.tasks.get(ref=task.id).state
