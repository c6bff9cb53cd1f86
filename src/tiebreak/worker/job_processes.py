"""Which process belongs to which job.

The worker is a subreaper, so a process whose parents have ended becomes the worker's child. The job that it belongs to
is told by its process session (each job has its own), by its environment (`TIEBREAK_JOB` and `TIEBREAK_EPOCH`), or by
the fact that only one job runs. If none of these tells, the process is left alone until every job that could have
started it has ended; then it is killed.
"""

from __future__ import annotations

import os

from .. import process_tree
from ..process_identity import environment, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..process_identity import Identity, Process

JobMark = tuple[str, str]
"""A job's id and epoch, as they stand in the environment of its processes."""


class JobProcesses:
    """The processes below this worker, and the jobs that they belong to."""

    def __init__(self) -> None:
        self._leaders: dict[int, JobMark] = {}
        self._helpers: set[int] = set()
        self._marks: dict[int, JobMark | None] = {}
        self._possible_jobs: dict[tuple[int, int], set[JobMark]] = {}

    def add(self, pid: int, mark: JobMark) -> None:
        """Add the first process of a job; it leads a process session."""
        self._leaders[pid] = mark

    def discard(self, pid: int) -> None:
        """Forget a child that has ended: its pid may be used again."""
        self._leaders.pop(pid, None)
        self._helpers.discard(pid)
        self._marks.pop(pid, None)

    def add_helper(self, pid: int) -> None:
        """Add a child of the worker that belongs to no single job: one that runs functions."""
        self._helpers.add(pid)

    def nothing_left(self, pid: int) -> bool:
        """A cheap check whether an ended job left no process; False when it needs a closer look."""
        try:
            os.killpg(pid, 0)
            return False
        except ProcessLookupError:
            pass
        except PermissionError:
            return False
        try:
            orphans = process_tree.children() - self._leaders.keys() - self._helpers
            return all(self._mark(orphan) not in (None, self._leaders[pid]) for orphan in orphans)
        except OSError:  # not enough descriptors or memory to look
            return False

    def _mark(self, pid: int) -> JobMark | None:
        """The job of a child by its environment, looked up once."""
        if pid not in self._marks:
            self._marks[pid] = mark_in(environment(pid))
        return self._marks[pid]

    def of(self, pid: int, marks: Iterable[JobMark]) -> list[Identity]:
        """The living processes of these jobs, and of the child that has, or had, this pid."""
        seen, mine = table(), set(marks)
        roots = [process for process in seen.values() if pid in (process.session, process.pid)]
        roots += [orphan for orphan in self._orphans(seen) if self._job_of(orphan) in mine]
        return process_tree.identities(_living(seen, roots))

    def has_orphans(self) -> bool:
        """A cheap check whether this worker has children that it did not start itself."""
        return bool(process_tree.children() - self._leaders.keys() - self._helpers)

    def strays(self, calls: Iterable[JobMark], over: Iterable[JobMark] = ()) -> list[Identity]:
        """Processes that no running job can have started: every job that could have has ended.

        `calls` are the jobs that run in helpers; `over` are jobs that have just ended.
        """
        seen = table()
        running = {*self._leaders.values(), *calls}
        found = {(process.pid, process.started): process for process in self._orphans(seen)}
        self._possible_jobs = {key: self._possible_jobs.get(key, running | set(over)) for key in found}
        for key, orphan in found.items():
            mark = self._mark(orphan.pid)
            self._possible_jobs[key] = ({mark} if mark else self._possible_jobs[key]) & running
        lost = [process for key, process in found.items() if not self._possible_jobs[key]]
        return process_tree.identities(_living(seen, lost))

    def _orphans(self, seen: dict[int, Process]) -> list[Process]:
        """Children that this worker did not start itself: orphans of its jobs."""
        me = os.getpid()
        own = self._leaders.keys() | self._helpers
        return [
            process
            for process in seen.values()
            if process.parent == me and process.pid not in own and process.session not in own and not process.dead
        ]

    def _job_of(self, orphan: Process) -> JobMark | None:
        mark = self._mark(orphan.pid)
        if mark is None and len(self._leaders) == 1 and not self._helpers:
            return next(iter(self._leaders.values()))
        return mark


def _living(seen: dict[int, Process], roots: list[Process]) -> list[Process]:
    found = [process for process in roots if not process.dead]
    have = {process.pid for process in roots}
    return found + [process for process in process_tree.below(seen, have) if process.pid not in have]


def mark_in(variables: dict[bytes, bytes] | None) -> JobMark | None:
    """The job and epoch that a process was started for, as its environment says."""
    job, epoch = (variables or {}).get(b"TIEBREAK_JOB"), (variables or {}).get(b"TIEBREAK_EPOCH")
    return (job.decode("utf-8", "replace"), epoch.decode("utf-8", "replace")) if job and epoch else None
