"""Ends the processes that a dead worker left running, before its jobs run again on this machine.

When a worker is killed, its keeper cleans up. When both are killed at once, the processes of their jobs live on with
no parent. They are found by traits that a process cannot easily shed:

- the process session of the job, which the dead worker wrote into its register (`register`);
- the environment that every process of a job starts with (`TIEBREAK_WORKER`, `TIEBREAK_JOB`, `TIEBREAK_EPOCH`), and the
  session of a process that has it;
- the control group of any of these, unless it contains a process older than the dead worker, which others then share;
- descent from any of these.

A process that cleared its environment, left its session and lost its parent is found only by its control group.
Processes of other users cannot be inspected. Unless it is certain that every process was found and has ended, the job
is not given back, and other workers wait until its lease runs out. It is never certain when the worker has no
register, when it died before it wrote down the session that it had just started, or when the leader of a session has
ended but other members have not: another process may have reused the session's number.
"""

from __future__ import annotations

import os
import signal
from time import monotonic, sleep

from .. import process_tree
from ..process_identity import control_group, environment, from_token, is_dead, table
from .job_processes import mark_in
from .register import register_of, registers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..process_identity import Process
    from .job_processes import JobMark

    Variables = dict[bytes, bytes]

PATIENCE = 5.0
"""Seconds that killed processes may take to disappear."""


def end_left_by(holder: str, marks: Collection[JobMark]) -> bool:
    """End what the jobs of a dead worker left running here; True only if certainly nothing of them runs any more.

    `marks` are the jobs that the worker held.
    """
    who = from_token(holder.partition("~")[2])
    if who is None:
        return False
    name = holder.encode()

    def theirs(variables: Variables) -> bool:
        return variables.get(b"TIEBREAK_WORKER") == name or mark_in(variables) in marks

    try:
        listed = register_of(who)
        ended = _end(theirs, listed.sessions() if listed else {}, who.started, PATIENCE, looks=2)
    except OSError:  # not enough descriptors or memory to look
        return False
    return ended and listed is not None and listed.complete


def end_earlier(jobs: Mapping[str, int], board: str, patience: float) -> None:
    """End what earlier attempts at these jobs left running here, as far as it can be found and ended in time.

    `jobs` maps job ids to their current epochs. An earlier attempt is ended even if its worker lives, provided that the
    worker uses the same board: it has lost the job and has not noticed yet, perhaps because it is suspended.
    """
    here = os.fsencode(board)

    def theirs(variables: Variables) -> bool:
        mark = mark_in(variables)
        if mark is None or mark[0] not in jobs or not mark[1].isdecimal() or int(mark[1]) >= jobs[mark[0]]:
            return False
        who = from_token(variables.get(b"TIEBREAK_WORKER", b"").decode("utf-8", "replace").partition("~")[2])
        return variables.get(b"TIEBREAK_BOARD") == here or is_dead(who)

    try:
        sessions: dict[int, int] = {}
        for who, listed in registers():
            if listed.board == board or is_dead(who):
                sessions |= listed.earlier(jobs)
        _end(theirs, sessions, 0, patience, looks=1)
    except OSError:
        pass  # not enough descriptors or memory to look; the earlier leases have run out anyway


def _end(
    theirs: Callable[[Variables], bool], sessions: Mapping[int, int], since: int, patience: float, looks: int
) -> bool:
    """Kill what is found until that many `looks` in a row find nothing; whether nothing can be left.

    `sessions` maps the numbers of process sessions to the start times of their leaders. A process may be started while
    the process table is being read, so once something was found, a single look that finds nothing is not enough.
    """
    until, pause = monotonic() + patience, process_tree.LOOK_AGAIN
    search = _LeftoverSearch(theirs, sessions, since)
    empty = 0
    while empty < looks:
        found = search.look()
        if not found:
            empty += 1
            continue
        empty, looks = 0, 2
        if _includes_ancestor(found):
            return False
        process_tree.signal_tree(process_tree.identities(found.values()), signal.SIGKILL)
        if monotonic() > until:  # not before: on a busy machine, the look alone may take all the time
            return False
        sleep(pause)
        pause = min(2 * pause, 0.5)
    return search.certain()


class _LeftoverSearch:
    """Repeated looks at the process table, which remember the sessions that belong to the jobs."""

    def __init__(self, theirs: Callable[[Variables], bool], sessions: Mapping[int, int], since: int) -> None:
        self._theirs = theirs
        self._listed = sessions
        self._since = since
        self._sessions: set[int] = set()
        self._readable = False
        self._hidden = False
        self._leaderless = False

    def look(self) -> dict[int, Process]:
        """Look once more; the living processes of the jobs."""
        seen = table()
        living = [process for process in seen.values() if not process.dead]
        marked = self._marked(seen, living)
        for number, started in self._listed.items():
            if number in seen and seen[number].started == started:
                self._sessions.add(number)
        self._sessions |= {process.session for process in marked}
        # The number of a session is not reused while it has members. With another leader it is another session.
        unknown = self._listed.keys() - self._sessions - seen.keys()
        self._leaderless = any(process.session in unknown for process in living)
        roots = [*marked, *(process for process in living if process.session in self._sessions)]
        if not roots:
            return {}
        self._readable = self._readable or any(environment(process.pid) is not None for process in roots)
        roots += self._in_their_groups(roots, living)
        pids = {process.pid for process in roots}
        found = pids | {process.pid for process in process_tree.below(seen, pids)}
        return {pid: seen[pid] for pid in found if not seen[pid].dead}

    def certain(self) -> bool:
        """Whether nothing can be left that was not found."""
        # If one of their processes could be inspected, so could all others of that user.
        return (self._readable or not self._hidden) and not self._leaderless

    def _marked(self, seen: Mapping[int, Process], living: list[Process]) -> list[Process]:
        found, self._hidden = [], os.getpid() not in seen or 1 not in seen
        for process in living:
            variables = environment(process.pid)
            if variables is not None:
                if self._theirs(variables):
                    found.append(process)
            elif process.started >= self._since and 2 not in (process.pid, process.parent):  # 2 starts kernel threads
                self._hidden = True
        return found

    def _in_their_groups(self, roots: list[Process], living: list[Process]) -> list[Process]:
        since = self._since or min(process.started for process in roots)
        groups = _unshared({control_group(process.pid) for process in roots} - {""}, living, since)
        if not groups:
            return []
        return [process for process in living if process.started >= since and control_group(process.pid) in groups]


def _unshared(groups: set[str], living: list[Process], since: int) -> set[str]:
    """The control groups in which no process is older than `since`."""
    if not groups:
        return groups
    return groups - {control_group(process.pid) for process in living if process.started < since}


def _includes_ancestor(found: Mapping[int, Process]) -> bool:
    """Whether this process or one of its ancestors is among these."""
    pid = os.getpid()
    seen = table()
    while pid in seen:
        if pid in found:
            return True
        pid = seen[pid].parent
    return False
