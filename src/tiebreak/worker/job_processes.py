"""Which process belongs to which job.

The worker is a sub-reaper, so what a job leaves behind becomes the worker's child. Whose it was shows in its session
(each job has one), in its environment (`TIEBREAK_JOB` and `TIEBREAK_EPOCH`), or by there being one job only. What
none of these tells is nobody's until every job that could have started it has ended; then it is ended too.
"""

from __future__ import annotations

import os

from .. import trees
from ..processes import environment, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..processes import Identity, Process

Mark = tuple[str, str]
"""A job's id and epoch, as its processes have them in their environment."""


class JobProcesses:
    """The worker's view of all that lives below it."""

    def __init__(self) -> None:
        self._known: dict[int, Mark] = {}
        self._helpers: set[int] = set()
        self._marks: dict[int, Mark | None] = {}
        self._suspects: dict[tuple[int, int], set[Mark]] = {}

    def add(self, pid: int, mark: Mark) -> None:
        """The first process of a job has started, as leader of a session."""
        self._known[pid] = mark

    def discard(self, pid: int) -> None:
        """A child of whatever sort has ended, and its number may come again."""
        self._known.pop(pid, None)
        self._helpers.discard(pid)
        self._marks.pop(pid, None)

    def add_helper(self, pid: int) -> None:
        """A child of the worker's own that belongs to no job."""
        self._helpers.add(pid)

    def nothing_left(self, pid: int) -> bool:
        """Whether a glance shows that an ended job left nothing: what almost every job does."""
        try:
            os.killpg(pid, 0)
            return False
        except ProcessLookupError:
            pass
        except PermissionError:
            return False
        try:
            strangers = trees.children() - self._known.keys() - self._helpers
            return all(self._mark(stranger) not in (None, self._known[pid]) for stranger in strangers)
        except OSError:  # too short of something to look
            return False

    def _mark(self, pid: int) -> Mark | None:
        """Whose a child is, by its environment; looked up once for each."""
        if pid not in self._marks:
            self._marks[pid] = mark_in(environment(pid))
        return self._marks[pid]

    def of(self, pid: int, marks: Iterable[Mark]) -> list[Identity]:
        """Everything alive that belongs to the jobs of the child that has, or had, this pid."""
        seen, mine = table(), set(marks)
        roots = [process for process in seen.values() if pid in (process.session, process.pid)]
        roots += [stranger for stranger in self._strangers(seen) if self._whose(stranger) in mine]
        return trees.identities(_living(seen, roots))

    def strangers(self) -> bool:
        """Whether there is anything below this worker that it did not start itself, at a glance."""
        return bool(trees.children() - self._known.keys() - self._helpers)

    def nobodys(self, calls: Iterable[Mark], over: Iterable[Mark] = ()) -> list[Identity]:
        """What is left of jobs that have ended, though nothing told which one of them it was.

        `calls` are the jobs that run in helpers; `over` are those that have just ended.
        """
        seen = table()
        running = {*self._known.values(), *calls}
        found = {(process.pid, process.started): process for process in self._strangers(seen)}
        self._suspects = {key: self._suspects.get(key, running | set(over)) for key in found}
        for key, stranger in found.items():
            mark = self._mark(stranger.pid)
            self._suspects[key] = ({mark} if mark else self._suspects[key]) & running
        lost = [process for key, process in found.items() if not self._suspects[key]]
        return trees.identities(_living(seen, lost))

    def _strangers(self, seen: dict[int, Process]) -> list[Process]:
        """Children that this worker did not start itself."""
        me = os.getpid()
        own = self._known.keys() | self._helpers
        return [
            process
            for process in seen.values()
            if process.parent == me and process.pid not in own and process.session not in own and not process.dead
        ]

    def _whose(self, stranger: Process) -> Mark | None:
        mark = self._mark(stranger.pid)
        if mark is None and len(self._known) == 1 and not self._helpers:
            return next(iter(self._known.values()))
        return mark


def _living(seen: dict[int, Process], roots: list[Process]) -> list[Process]:
    found = [process for process in roots if not process.dead]
    have = {process.pid for process in roots}
    return found + [process for process in trees.below(seen, have) if process.pid not in have]


def mark_in(variables: dict[bytes, bytes] | None) -> Mark | None:
    """The job and epoch that a process was started for, by its environment."""
    job, epoch = (variables or {}).get(b"TIEBREAK_JOB"), (variables or {}).get(b"TIEBREAK_EPOCH")
    return (job.decode("utf-8", "replace"), epoch.decode("utf-8", "replace")) if job and epoch else None
