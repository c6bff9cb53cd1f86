"""Three hosts: two with workers, one with the board. Cables are pulled, a host dies, and every job is done once.

Commands write down when they live, by a clock that all hosts have in common, since they are one machine. A host that
is cut off has to end its commands before another can win their jobs, so no two attempts at one job live at once.

Most jobs are done in a moment. A few, the patient ones, run until they are told to end: one of them shows for sure
what becomes of a command whose host is cut off for longer than a lease.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.cli.command import TB, clean_environment, gone, until
from tests.races import checkers
from tests.races.scenarios import open_board
from tiebreak import Board

from .hosts import Cable, Network, inside, network

JOBS = 1000
PATIENT = 3
LEASE = 5.0
SPREAD = 12.0
"""Seconds over which the jobs become due, so that there is work whatever happens."""
PATIENCE = 120.0

# The kind of mark, the attempt, the command's process, and the seconds since the machine was started.
_MARK = 'mark() { read up rest < /proc/uptime; echo "$1 $TIEBREAK_JOB $TIEBREAK_EPOCH $$ $up" >> "marks-$HOST"; }; '
BRIEF = _MARK + "mark begun; mark done"
SHORT = _MARK + "mark begun; sleep 0.2; mark done"
# A child that has left the command's session has to go as well.
LONG = _MARK + (
    'mark begun; setsid sleep 600 & echo "$! $TIEBREAK_EPOCH" >> "children-$TIEBREAK_JOB"; '
    'until [ -e "end-$TIEBREAK_JOB" ]; do sleep 0.05; mark lives; done; mark done'
)


class Mark(NamedTuple):
    """What a command wrote down."""

    kind: str
    job: str
    epoch: int
    pid: int
    moment: float
    host: str


class Standstills:
    """The longest time for which this machine let a process wait that wanted to run."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._over.wait(0.02):
            now = time.monotonic()
            self.longest = max(self.longest, now - before - 0.02)
            before = now

    def __enter__(self) -> Standstills:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


class Site:
    """The hosts with workers, and the files that their commands write."""

    def __init__(self, net: Network, board: Board, folder: Path) -> None:
        self.net, self.board, self.folder = net, board, folder

    def marks(self) -> list[Mark]:
        """All that was written down so far, on every host."""
        found = []
        for path in self.folder.glob("marks-*"):
            for line in path.read_text().rpartition("\n")[0].splitlines():
                kind, job, epoch, pid, moment = line.split()
                found.append(Mark(kind, job, int(epoch), int(pid), float(moment), path.name.partition("-")[2]))
        return found

    def attempt(self, job: str, epoch: int) -> list[Mark]:
        """What one attempt wrote down."""
        return [mark for mark in self.marks() if (mark.job, mark.epoch) == (job, epoch)]

    def processes(self, job: str, host: str) -> list[int]:
        """What the attempts at a job have started on a host: their commands, and a child of each."""
        here = {mark.epoch: mark.pid for mark in self.marks() if (mark.job, mark.host) == (job, host)}
        children = [line.split() for line in (self.folder / f"children-{job}").read_text().splitlines()]
        return [*here.values(), *(int(pid) for pid, epoch in children if int(epoch) in here)]

    def running(self, job: str, *, elsewhere: str = "") -> Mark:
        """The beginning of the attempt that has a job now, once it lives on another host than this."""
        until(lambda: self._lives(job, elsewhere), f"the job runs on another host than {elsewhere}", PATIENCE)
        return self.attempt(job, self.board.tasks.get(ref=job).epoch)[0]

    def _lives(self, job: str, elsewhere: str) -> bool:
        task = self.board.tasks.get(ref=job)
        marks = self.attempt(job, task.epoch)
        return task.state == "claimed" and len(marks) > 2 and marks[0].host != elsewhere

    def cable(self, host: str) -> Cable:
        """By which a host is joined to the database."""
        return next(cable for cable in self.net.cables if cable.host == host)

    def let_go(self, job: str) -> None:
        """Tell a patient job to end."""
        (self.folder / f"end-{job}").touch()


@contextmanager
def manned(net: Network, cable: Cable, project: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker on a host; nothing is left there afterwards."""
    more = {"TIEBREAK_BOARD": net.seen_from(cable), "TIEBREAK_PROJECT": project, "HOST": cable.host}
    words = [TB, "work", "--lease", f"{LEASE:g}s", "--concurrency", "6"]
    with inside(cable.host), open(folder / f"log-{cable.host}", "wb") as log:
        keeper = subprocess.Popen(words, cwd=folder, env=clean_environment(folder) | more, stdout=log, stderr=log)
    try:
        yield keeper
    finally:
        kill_all(cable)
        keeper.wait(PATIENCE)


def processes_on(cable: Cable) -> list[int]:
    """Who lives on a host."""
    listed = subprocess.run(["ip", "netns", "pids", cable.host], capture_output=True, text=True, check=True)
    return [pid for pid in map(int, listed.stdout.split()) if not gone(pid)]


def kill_all(cable: Cable) -> None:
    """The power is off. First everything stands still, then it dies, and the worker after its commands.

    Who sees a dead worker may take its jobs over at once, and what a real host runs does not outlive it for a moment.
    """
    still: list[int] = []
    while (pids := processes_on(cable)) != still:
        _send(pids, signal.SIGSTOP)
        still = pids
    _send(still[::-1], signal.SIGKILL)
    until(lambda: not processes_on(cable), f"nothing lives on {cable.host}", PATIENCE)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def submit_all(board: Board, chance: random.Random) -> None:
    """All jobs but the patient ones, due one after another."""
    jobs = [
        {
            "command": chance.choice([BRIEF, BRIEF, BRIEF, SHORT]),
            "delay": chance.uniform(0.0, SPREAD),
            "max_attempts": 100,
            "backoff": 0.0,
        }
        for _ in range(JOBS - PATIENT)
    ]
    board.jobs.submit_many(jobs=jobs)


def flicker(cables: list[Cable], chance: random.Random) -> None:
    """Cut and heal a few times, for less than a lease."""
    for _ in range(4):
        cable = chance.choice(cables)
        cable.cut()
        time.sleep(chance.choice([0.1, 0.3, 0.8]))
        cable.heal()
        time.sleep(chance.uniform(0.1, 0.6))


def patient_job(site: Site) -> Mark:
    """A patient job that runs on some host."""
    job = site.board.jobs.submit(command=LONG, priority="high", max_attempts=100, backoff=0.0)
    return site.running(job.id)


def cut_off(site: Site) -> None:
    """Cut a host off until another one has its job: nothing of it is left there, while nobody can be told."""
    first = patient_job(site)
    cable = site.cable(first.host)
    cable.cut()
    try:
        site.running(first.job, elsewhere=cable.host)
        left = site.processes(first.job, cable.host)
        until(lambda: all(map(gone, left)), "a host that has lost its lease has ended the job", PATIENCE)
    finally:
        cable.heal()
    site.let_go(first.job)


def lose_a_host(site: Site) -> Cable:
    """Cut a host off for good and kill all that it runs, while it has a job; whoever is left does that."""
    first = patient_job(site)
    dead = site.cable(first.host)
    dead.cut()
    kill_all(dead)
    site.running(first.job, elsewhere=dead.host)
    site.let_go(first.job)
    return dead


def test_every_job_is_done_once_through_cuts_and_the_death_of_a_host(tmp_path: Path) -> None:
    chance = random.Random(5)
    with Standstills() as standstills, network(2) as net, open_board(net.here) as board, ExitStack() as stack:
        site = Site(net, board, tmp_path)
        submit_all(board, chance)
        keepers = {cable.host: stack.enter_context(manned(net, cable, board.project, tmp_path)) for cable in net.cables}
        flicker(net.cables, chance)
        for _ in range(PATIENT - 1):
            cut_off(site)
        dead = lose_a_host(site)
        until(lambda: board.upkeep.status().completed == JOBS, "all jobs are done", PATIENCE)
        [alive] = [cable for cable in net.cables if cable is not dead]
        until(lambda: len(processes_on(alive)) <= 2, "only the worker and its keeper are left", PATIENCE)
        keepers[alive.host].terminate()
        assert keepers[alive.host].wait(PATIENCE) == 0
        assert [processes_on(cable) for cable in net.cables] == [[], []]
        judge(board, site.marks())
        never_two_at_once(site.marks(), standstills.longest)


def judge(board: Board, marks: list[Mark]) -> None:
    """One accepted completion each, by the last who was given the job, and the command behind it has run to its end."""
    events = checkers.read_log(board)
    tasks = board.tasks.list(limit=1000)
    completed = Counter(event.subject for event in events if event.event == "task.completed")
    assert (len(completed), set(completed.values())) == (JOBS, {1})
    assert {task.id for task in tasks} == set(completed)
    assert {task.state for task in tasks} == {"completed"}
    checkers.epochs_count_grants(checkers.grants_in(events), {(task.id, 0): task.epoch for task in tasks})
    claims = {event.subject: (event.epoch, event.agent) for event in events if event.event == "task.claimed"}
    assert claims == {each.subject: (each.epoch, each.agent) for each in events if each.event == "task.completed"}
    ends = Counter((mark.job, mark.epoch) for mark in marks if mark.kind == "done")
    assert {(task.id, task.epoch) for task in tasks} <= set(ends), "accepted, but never run to its end"
    assert set(Counter((mark.job, mark.epoch) for mark in marks if mark.kind == "begun").values()) == {1}


def never_two_at_once(marks: list[Mark], allowed: float) -> None:
    """The attempts at one job, each from its first to its last sign of life, follow each other.

    A worker that the machine does not let run cannot end anything: as long as that was seen to last is allowed.
    """
    lives: dict[str, dict[int, list[float]]] = {}
    for mark in marks:
        lives.setdefault(mark.job, {}).setdefault(mark.epoch, []).append(mark.moment)
    for job, attempts in lives.items():
        for (one, early), (other, late) in pairwise(sorted(attempts.items())):
            overlap = max(early) - min(late)
            assert overlap <= allowed, f"{job}: attempts {one} and {other} ran at once for {overlap:.2f} s"
