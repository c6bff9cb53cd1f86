"""What a dead worker left running, found and ended before its jobs are begun again on this machine.

A worker that is killed alone is cleaned up after by its keeper. When both are killed in the same instant, their jobs'
processes live on with nobody above them. They are found by what they cannot easily lose:

- the mark in the environment that every process of a job is started with: `TIEBREAK_WORKER`, `TIEBREAK_JOB` and
  `TIEBREAK_EPOCH`;
- the session of a marked process, because each job has one of its own;
- the control group of a marked process, if nothing in it is older than the dead worker and so nobody else shares it;
- descent from any of these.

A process that cleared its environment, left its session and lost its parent is not found, unless its control group
tells. Processes of other users cannot be looked at. When it is not certain that all was found and has ended, the
job is not given back: its lease is waited for.
"""

from __future__ import annotations

import os
import signal
from time import monotonic, sleep

from .. import trees
from ..processes import alive, control_group, environment, from_token, table
from .kin import mark_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..processes import Process
    from .kin import Mark

    Variables = dict[bytes, bytes]

PATIENCE = 5.0
"""Seconds that killed processes have to be gone."""


def end_left_by(holder: str, marks: Collection[Mark]) -> bool:
    """End what the jobs of a dead worker left running here; whether nothing of them can run any more.

    `marks` are the jobs that it held.
    """
    who = from_token(holder.partition("~")[2])
    if who is None:
        return False
    name = holder.encode()

    def theirs(variables: Variables) -> bool:
        return variables.get(b"TIEBREAK_WORKER") == name or mark_in(variables) in marks

    try:
        return _end(theirs, who.started, PATIENCE, looks=2)
    except OSError:  # too short of something to look
        return False


def end_earlier(jobs: Mapping[str, int], board: str, patience: float) -> None:
    """End what earlier attempts at these jobs left running here, as far as it can be found and ended in time.

    `jobs` are ids and the epochs that count now. An attempt whose worker lives is ended too if it is one at the same
    board: that worker has lost the job and has not noticed yet, perhaps because it is stopped.
    """
    here = os.fsencode(board)

    def theirs(variables: Variables) -> bool:
        mark = mark_in(variables)
        if mark is None or mark[0] not in jobs or not mark[1].isdecimal() or int(mark[1]) >= jobs[mark[0]]:
            return False
        who = from_token(variables.get(b"TIEBREAK_WORKER", b"").decode("utf-8", "replace").partition("~")[2])
        return variables.get(b"TIEBREAK_BOARD") == here or (who is not None and alive(who) is False)

    try:
        _end(theirs, 0, patience, looks=1)
    except OSError:
        pass  # too short of something to look; their leases have been waited for


def _end(theirs: Callable[[Variables], bool], since: int, patience: float, looks: int) -> bool:
    """Kill what is found until so many looks in a row find nothing; whether nothing can be left.

    A process may be born behind the back of a look: once something was found, one that finds nothing is not enough.
    """
    until, pause = monotonic() + patience, trees.LOOK_AGAIN
    known, hidden, empty = False, False, 0
    while empty < looks:
        found, hidden = _look(theirs, since)
        if not found:
            empty += 1
            continue
        known, empty, looks = True, 0, 2
        if _above(found) or monotonic() > until:
            return False
        trees.signal_tree(trees.identities(found.values()), signal.SIGKILL)
        sleep(pause)
        pause = min(2 * pause, 0.5)
    # Where its processes could be looked at, so could all others of that user.
    return known or not hidden


def _look(theirs: Callable[[Variables], bool], since: int) -> tuple[dict[int, Process], bool]:
    """The processes that are meant, and whether others that may be cannot be looked at."""
    seen = table()
    living = [process for process in seen.values() if not process.dead]
    marked, hidden = [], os.getpid() not in seen or 1 not in seen
    for process in living:
        variables = environment(process.pid)
        if variables is None:
            hidden = hidden or (process.started >= since and 2 not in (process.pid, process.parent))  # not the kernel's
        elif theirs(variables):
            marked.append(process)
    if not marked:
        return {}, hidden
    since = since or min(process.started for process in marked)
    sessions = {process.session for process in marked}
    groups = _unshared({control_group(process.pid) for process in marked} - {""}, living, since)
    roots = {process.pid for process in marked} | {
        process.pid
        for process in living
        if process.started >= since
        and (process.session in sessions or (groups and control_group(process.pid) in groups))
    }
    found = roots | {process.pid for process in trees.below(seen, roots)}
    return {pid: seen[pid] for pid in found if not seen[pid].dead}, hidden


def _unshared(groups: set[str], living: list[Process], since: int) -> set[str]:
    """Those of these control groups in which nothing is older."""
    if not groups:
        return groups
    return groups - {control_group(process.pid) for process in living if process.started < since}


def _above(found: Mapping[int, Process]) -> bool:
    """Whether this process, or one that it descends from, is among these."""
    pid = os.getpid()
    seen = table()
    while pid in seen:
        if pid in found:
            return True
        pid = seen[pid].parent
    return False
