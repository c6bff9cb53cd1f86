"""The worker's two background threads that watch the board, so that the loop never waits for it.

One thread waits for events: it wakes the loop when something happened, collects the ids of cancelled and broken tasks,
and submits scheduled jobs that are due. The other looks from time to time for dead workers of this machine and returns
their jobs.
"""

from __future__ import annotations

import threading
from collections import deque
from time import sleep

from ..clock import elapsed
from ..errors import TiebreakError
from ..limits import MAX_LIMIT
from ..model import holder_id
from ..names import JOB
from ..process_identity import from_token, is_dead
from .leftover_processes import end_left_by
from .register import forget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..board import Board
    from ..process_identity import Identity
    from .job_processes import JobMark

LONGEST_REST = 0.05
"""Longest pause in seconds between two looks at a busy board; on a quiet board an event is noticed at once."""
LONG = 30.0
"""Longest wait in seconds for an event before the schedules are looked at again."""


class BoardWatcher:
    """Watches one board; `wake` is called after each change of `news` or `error`."""

    def __init__(self, board: Board, wake: Callable[[], None], pause: float) -> None:
        self._board = board
        self._wake = wake
        self._pause = pause
        self.news = False
        """Whether something happened; the loop sets it back."""
        self.error: BaseException | None = None
        """The unexpected error that ended one of the threads."""
        self._ended: deque[str] = deque()
        self._rest = 0.001
        self._seen = board.events.last()
        for look, name in ((self._watch, "events"), (self._return_jobs, "dead workers")):
            threading.Thread(target=self._repeat, args=(look,), name=name, daemon=True).start()

    def take_ended(self) -> set[str]:
        """The ids of tasks that were cancelled, or whose claim was broken, since the last call."""
        found = set()
        while self._ended:
            found.add(self._ended.popleft())
        return found

    def _repeat(self, look: Callable[[], None]) -> None:
        try:
            while True:
                look()
        except BaseException as exc:  # raised again by the loop
            self.error = exc
            self._wake()

    def _watch(self) -> None:
        """Wait for the next event or scheduled job, and wake the loop."""
        asked = elapsed()
        try:
            if self._board.engine.wait(self._seen, self._submit_scheduled(), project=self._board.project):
                self._read_events()
        except (TiebreakError, OSError, MemoryError):
            sleep(1.0)  # the sender gets the same error, and the loop reports it
        self.news = True
        self._wake()
        self._rest = 0.001 if elapsed() - asked > LONGEST_REST else min(LONGEST_REST, 2 * self._rest)
        sleep(self._rest)

    def _submit_scheduled(self) -> float:
        """Submit the scheduled jobs that are due; seconds until the next one."""
        due = self._board.schedules.due()
        if due is not None and due <= 0:
            self._board.schedules.fire()
            return 0.0
        return LONG if due is None else min(LONG, due)

    def _read_events(self) -> None:
        newest = self._board.events.last()
        for what in ("task.cancelled", "task.broken"):
            found = self._board.events.read(after=self._seen, event=what, limit=MAX_LIMIT)
            self._ended.extend(event.subject or "" for event in found)
        self._seen = max(newest, self._seen)

    def _return_jobs(self) -> None:
        """Return the jobs of dead workers, then pause."""
        try:
            return_jobs_of_dead_workers(self._board)
            self._board.report_dead_agents()
        except (TiebreakError, OSError, MemoryError):
            pass  # tried again later; if it never works, the leases run out
        sleep(self._pause)


def return_jobs_of_dead_workers(board: Board, *, every_project: bool = False) -> int:
    """Return the jobs of workers on this machine whose processes are known to be dead; how many jobs there were.

    What else such a worker holds is given back with them, because its jobs act under its name. The processes that it
    left running are ended first. If it is not certain that all of them have ended, everything stays with the dead
    worker until the leases run out.
    """
    filters: dict[str, Any] = {"project": None} if every_project else {}
    held: dict[str, set[JobMark]] = {}
    projects: dict[str, set[str]] = {}
    for task in board.tasks.list(states=["claimed"], kind=JOB, limit=MAX_LIMIT, **filters):
        held.setdefault(holder_id(task) or "", set()).add((task.id, str(task.epoch)))
        projects.setdefault(holder_id(task) or "", set()).add(task.project)
    for hold in board.holds.list(limit=MAX_LIMIT, **filters):
        worker = holder_id(hold) or ""
        # The id of a shell names a process, too, but its holds do not end with it.
        if worker in held or (is_dead(_process(worker)) and _is_worker(board, worker, hold.project)):
            held.setdefault(worker, set())
            projects.setdefault(worker, set()).add(hold.project)
    return sum(
        _give_back(board, holder, projects[holder])
        for holder, marks in held.items()
        if holder != board.agent and is_dead(_process(holder)) and end_left_by(holder, marks)
    )


def _is_worker(board: Board, agent: str, project: str) -> bool:
    return any(
        each.id == agent and each.program == "worker" for each in board.agents.list(agent=agent, project=project)
    )


def _give_back(board: Board, holder: str, projects: set[str]) -> int:
    count = 0
    for project in sorted(projects):
        count += board.call("tasks.forfeit", {"holder": holder, "reason": "its worker died", "project": project})
    who = _process(holder)
    if who is not None:
        forget(who)
    return count


def _process(holder: str) -> Identity | None:
    """The process of a worker, as its name tells."""
    return from_token(holder.partition("~")[2])
