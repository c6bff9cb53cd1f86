"""Large families of tasks end in steps: others pass in between, a crash loses nothing, and races decide rightly."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tiebreak import Board, Event, Refused, Task
from tiebreak.engine.postgres.transaction import PostgresTransaction
from tiebreak.engine.sqlite import waiting_writers
from tiebreak.engine.sqlite.engine import SqliteEngine
from tiebreak.operations import deferred_work

from .checkers import Broken, read_log
from .crew import Crew, Plant, processes, race
from .places import PLACES, served
from .plants import Set
from .scenarios import Run, open_board, post

SIX = [f"agent-{i}" for i in range(6)]
BAD = ("task.failed", "task.cancelled")
GAPS = 11
"""How many gaps between two steps are looked at."""


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A board that each process opens itself, so that each of them goes on with what it left."""
    with PLACES[request.param](tmp_path) as made:
        yield made


def small_steps(put: Set) -> None:
    """Let one step deal with few tasks, so that there are many steps."""
    put(deferred_work, "BUDGET", 7)
    put(deferred_work, "TOGETHER", 3)


def finish(board: Board) -> None:
    """Do all the steps that are left."""
    while board.tasks.cascade(project=None):
        pass


# ── Ends, claims and retries in overlapping families ─────────────────────────────────────────────────


def overlapping(board: Board, roots: int, later: int) -> tuple[list[Task], list[Task]]:
    """Some tasks, and others that come after one to three of them; some run anyway, and some are behind others."""
    chance = random.Random(later)
    first = post(board, roots)
    made: list[Task] = []
    for i in range(later):
        before = [task.id for task in chance.sample(first, chance.randint(1, 3))]
        if i % 5 == 4:
            before.append(chance.choice(made).id)
        made.append(board.tasks.post(name=f"later {i}", after=before, run_anyway=i % 7 == 6))
    return first, made


def meddler(address: str, agent: str, roots: Sequence[str], later: Sequence[str], seed: int) -> Run:
    """End, reopen, claim and call off whatever can be."""
    board, chance = open_board(address, agent), random.Random(seed)

    def deed() -> None:
        root, other = chance.choice(roots), chance.choice(later)
        what = chance.choice(["complete", "fail", "cancel", "retry", "claim", "next", "retry many"])
        if what in ("complete", "fail"):
            task = board.tasks.claim(ref=root)
            if what == "fail":
                board.tasks.fail(ref=task.id, retry=False)
            else:
                board.tasks.complete(ref=task.id)
        elif what == "cancel":
            board.tasks.cancel(ref=root if chance.random() < 0.5 else other)
        elif what == "retry":
            board.tasks.retry(ref=root)
        elif what == "claim":
            board.tasks.complete(ref=board.tasks.claim(ref=other).id)
        elif what == "next":
            for task in board.tasks.next(count=3):
                board.tasks.complete(ref=task.id)
        else:
            board.tasks.retry_many(states=["failed", "cancelled"], limit=5)

    yield
    for _ in range(25):
        try:
            deed()
        except Refused:
            continue


def end_all(board: Board) -> None:
    """Work until nothing is left to be worked on."""
    finish(board)
    while won := board.tasks.next(count=100):
        board.batch([("tasks.complete", {"ref": task.id}) for task in won])
        finish(board)


def judge(board: Board, later: Sequence[Task], events: Sequence[Event]) -> None:
    """Each task has ended as those that it comes after say; raises `Broken`."""
    ended_badly = {event.subject for event in events if event.event in BAD}
    for task in (board.tasks.get(ref=each.id) for each in later):
        before = board.tasks.after(ref=task.id)
        states = sorted({each.state for each in before})
        if task.state == "blocked":
            raise Broken(f"#{task.number} stays blocked by {task.blockers}, after tasks that are {states}")
        cascaded = (task.reason or "").startswith("comes after")
        if task.state == "completed" and states != ["completed"] and not _runs_anyway(task):
            raise Broken(f"#{task.number} is completed, after tasks that are {states}")
        if task.state == "cancelled" and cascaded and not ended_badly.intersection(each.id for each in before):
            raise Broken(f"#{task.number} was cancelled, and nothing that it comes after ever was")


def _runs_anyway(task: Task) -> bool:
    return int(task.name.split()[-1]) % 7 == 6


def meddle(address: str, plant: Plant = small_steps) -> None:
    """Let six processes meddle, end everything, and judge."""
    with open_board(address) as board:
        roots, later = overlapping(board, 8, 120)
        names = [task.id for task in roots], [task.id for task in later]
        race(meddler, [(address, agent, *names, seed) for seed, agent in enumerate(SIX)], plant=plant)
        finish(board)
        for task in board.tasks.list(states=["blocked"], limit=1000):
            open_before = sum(each.state not in ("completed", "failed", "cancelled") for each in _before(board, task))
            if not _runs_anyway(task) and task.blockers != open_before:
                raise Broken(f"#{task.number} counts {task.blockers}, and waits for {open_before}")
        end_all(board)
        judge(board, later, read_log(board))


def _before(board: Board, task: Task) -> list[Task]:
    return board.tasks.after(ref=task.id)


def test_overlapping_families_end_as_those_before_them_say(address: str) -> None:
    meddle(address)


def completer(address: str, agent: str, ref: str) -> Run:
    """Complete one task at the same instant as everybody else."""
    board = open_board(address, agent)
    board.tasks.claim(ref=ref)
    yield
    board.tasks.complete(ref=ref)


def all_at_once(address: str, plant: Plant = small_steps) -> None:
    """Six tasks are completed at the same instant, and 60 others come after all six."""
    with open_board(address) as board:
        first = post(board, len(SIX))
        later = post(board, 60, after=[task.id for task in first])
        race(completer, [(address, agent, task.id) for agent, task in zip(SIX, first, strict=True)], plant=plant)
        finish(board)
        stuck = [task.number for task in later if board.tasks.get(ref=task.id).state != "pending"]
        if stuck:
            raise Broken(f"{len(stuck)} stay blocked")
        ready = [event.subject for event in read_log(board) if event.event == "task.ready"]
        assert sorted(ready, key=str) == sorted(task.id for task in later), "each becomes ready once"


def test_what_comes_after_six_is_ready_when_all_six_are_completed_at_once(address: str) -> None:
    all_at_once(address)


def counts_without_a_lock(put: Set) -> None:
    """Whoever ends a task counts for those after it without having locked them."""
    small_steps(put)
    sound, words = PostgresTransaction.all, "AND state = 'blocked' ORDER BY number {lock}"

    def spoiled(self: PostgresTransaction, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        return sound(self, sql.replace(words, words.replace(" {lock}", "")), **params)

    put(PostgresTransaction, "all", spoiled)


@pytest.mark.usefixtures("unchecked")
def test_a_count_without_a_lock_is_found(tmp_path: Path) -> None:
    def again_and_again(place: str) -> None:
        for _ in range(10):
            all_at_once(place, counts_without_a_lock)

    with PLACES["postgres"](tmp_path) as made, pytest.raises(Broken, match="stay blocked"):
        again_and_again(made)


def nothing_is_left(put: Set) -> None:
    """What is too much for one step is forgotten."""
    small_steps(put)
    put(deferred_work, "_write", lambda tx, kind, left: None)


@pytest.mark.usefixtures("unchecked")
def test_deferred_work_that_is_forgotten_is_found(path: str) -> None:
    with pytest.raises(Broken, match=r"stays blocked|and waits for"):
        meddle(path, nothing_is_left)


# ── A crash between two steps ────────────────────────────────────────────────────────────────────────


def ender(address: str, agent: str, ref: str, how: str, dies_at: int, word: Connection) -> Run:
    """End a task, and get stuck before a step."""
    board = open_board(address, agent)
    if how == "complete":
        board.tasks.claim(ref=ref)
    run, steps = board.engine.run, 0

    def counted(operation: Any, params: dict[str, Any], once: str | None = None) -> Any:
        nonlocal steps
        steps += operation.name == "tasks.cascade"
        if steps == dies_at:
            word.send("now")
            time.sleep(600)
        return run(operation, params, once)

    board.engine.run = counted  # type: ignore[method-assign]
    yield
    board.tasks.complete(ref=ref) if how == "complete" else board.tasks.cancel(ref=ref)


def killed_between_steps(address: str, how: str, dies_at: int, later: int) -> Board:
    """A board on which somebody was killed while it told those that come after a task."""
    board = open_board(address)
    [root] = post(board, 1)
    post(board, later, after=[root.id])
    mine, theirs = processes.Pipe(duplex=False)
    with Crew(ender, [(address, "dead", root.id, how, dies_at, theirs)], plant=small_steps) as crew:
        crew.go()
        assert mine.poll(120.0)
        crew.kill()
    assert board.upkeep.status().blocked > 0, "it was killed too late"
    return board


@pytest.mark.parametrize("dies_at", [1, 3])
def test_next_finishes_what_a_killed_process_left(address: str, dies_at: int) -> None:
    with killed_between_steps(address, "complete", dies_at, 40) as board:
        won = []
        while found := board.tasks.next(count=7):
            won += found
        assert len({task.id for task in won}) == 40


def test_a_sweep_finishes_what_a_killed_process_left(address: str) -> None:
    with killed_between_steps(address, "cancel", 2, 40) as board:
        board.tasks.sweep(project=None)
        counts = board.upkeep.status()
        assert (counts.blocked, counts.cancelled) == (0, 41)


def canceller(address: str, agent: str, refs: Sequence[str]) -> Run:
    """Call tasks off, one after another, until it is killed."""
    board = open_board(address, agent)
    yield
    for ref in refs:
        board.tasks.cancel(ref=ref)


def connections(address: str) -> set[int]:
    """The server's processes for a database; none for a file. They outlive a killed client, and commit what it sent."""
    if not address.startswith("postgresql"):
        return set()
    others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(address) as raw:
        return {pid for (pid,) in raw.execute(others).fetchall()}


def test_a_process_that_is_killed_anywhere_leaves_no_task_undecided(address: str) -> None:
    chance, counted = random.Random(15), 0
    with open_board(address) as board:
        for number in range(5):
            roots = post(board, 4)
            later = [task for root in roots for task in post(board, 40, after=[root.id])]
            before_it = connections(address)
            with Crew(canceller, [(address, "dead", [root.id for root in roots])], plant=small_steps) as crew:
                crew.go()
                if number == 0:  # once at least it has begun, however slow the machine is
                    until(lambda ref=roots[0].id: board.tasks.get(ref=ref).state == "cancelled")  # type: ignore[misc]
                time.sleep(chance.uniform(0.001, 0.1))
                crew.kill()
            until(lambda known=before_it: connections(address) <= known)  # type: ignore[misc]
            finish(board)
            ends = {root.number: board.tasks.get(ref=root.id).state for root in roots}
            for task in later:
                [before] = board.tasks.after(ref=task.id)
                expected = "cancelled" if ends[before.number] == "cancelled" else "blocked"
                assert board.tasks.get(ref=task.id).state == expected
            counted += sum(state == "cancelled" for state in ends.values())
    assert counted, "it was always killed before it had done anything"


# ── Others pass in between ───────────────────────────────────────────────────────────────────────────


def passer(address: str, agent: str, project: str, until: str) -> Run:
    """Complete tasks that have one after them, until a task has ended and all that come after it know."""
    board = open_board(address, agent)
    yield
    while True:
        first = board.tasks.post(name=f"passed by {agent}", project=project)
        board.tasks.post(name="after it", project=project, after=[first.id])
        board.tasks.claim(ref=first.id, project=project)
        board.tasks.complete(ref=first.id, project=project)
        if board.tasks.get(ref=until).state == "cancelled":
            return None


def passed(events: Sequence[Event], later: int) -> dict[str, int]:
    """In how many of the gaps between two steps each of the others has written something."""
    gaps: dict[str, int] = {}
    told = 0
    since: set[str] = set()
    for event in events:
        if event.event == "task.cancelled" and event.name == "later":
            told += 1
            for agent in since:
                gaps[agent] = gaps.get(agent, 0) + 1
            since.clear()
        elif event.agent in ("same", "other") and 0 < told < later:
            since.add(event.agent)
    assert told == later
    return gaps


def patient(address: str, agent: str, refs: Sequence[str]) -> Run:
    """Call tasks off; before each of the first steps, wait until both others have written since the last one.

    If something that they need were kept between two steps, they never would.
    """
    board = open_board(address, agent)
    run, steps = board.engine.run, 0

    def counted(operation: Any, params: dict[str, Any], once: str | None = None) -> Any:
        nonlocal steps
        if operation.name == "tasks.cascade" and (steps := steps + 1) <= GAPS:
            seen = board.events.last()
            until(lambda: others <= {event.agent for event in board.events.read(after=seen, project=None, limit=1000)})
        return run(operation, params, once)

    others = {"same", "other"}
    yield
    board.engine.run = counted  # type: ignore[method-assign]
    for ref in refs:
        board.tasks.cancel(ref=ref)


def hurried(address: str, agent: str, refs: Sequence[str]) -> Run:
    """Call tasks off; leave the gate after each of the first steps only when both others wait there, and hurry on.

    The others have no claim to the only CPU as long as this process wants it.
    """
    board = open_board(address, agent)
    assert isinstance(board.engine, SqliteEngine)
    gate = board.engine._gate
    leave, left = gate.leave, 0

    def leave_when_both_wait() -> None:
        nonlocal left
        if (left := left + 1) <= GAPS:
            until(lambda: waiting_at(gate.path) == 2)
        leave()

    yield
    gate.leave = leave_when_both_wait  # type: ignore[method-assign]
    for ref in refs:
        board.tasks.cancel(ref=ref)


def until(condition: Callable[[], bool]) -> None:
    """Look again and again, for nobody tells."""
    end = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.001)


def waiting_at(path: str) -> int:
    """How many wait for the lock on a file, by the kernel's own list."""
    mark = f":{os.stat(path).st_ino} "
    return sum("->" in line and mark in line for line in Path("/proc/locks").read_text().splitlines())


def on_one_cpu(put: Set) -> None:
    """Take one CPU, and give those who wait all the time that they need."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    medium_steps(put)
    put(waiting_writers, "PATIENCE", 120.0)


def last_on_that_cpu(put: Set) -> None:
    """Run on the same CPU, after everybody else."""
    on_one_cpu(put)
    os.nice(19)


def others_while_a_family_ends(
    address: str, later: int, worker: Any = canceller, others: Plant | None = None, **options: Any
) -> dict[str, int]:
    """End a large family while two others write, one of them in another project; how many gaps they found."""
    with open_board(address) as board:
        [root] = post(board, 1)
        made = [task for _ in range(later // 500) for task in board.batch(_later(root))]
        where = [("same", "race"), ("other", "elsewhere")]
        crew = Crew(passer, [(address, agent, project, made[-1].id) for agent, project in where], plant=others)
        with crew, Crew(worker, [(address, "boss", [root.id])], **options) as boss:
            crew.go()
            boss.go()
            boss.reports()
            crew.reports()
        return passed(read_log(board), later)


def _later(root: Task) -> list[tuple[str, dict[str, Any]]]:
    return [("tasks.post", {"name": "later", "after": [root.id]})] * 500


def medium_steps(put: Set) -> None:
    """As many steps as a family of 10,000 takes."""
    put(deferred_work, "BUDGET", 75)


def test_others_pass_between_the_steps(address: str) -> None:
    gaps = others_while_a_family_ends(address, 1000, patient, plant=medium_steps)
    assert min(gaps.get(agent, 0) for agent in ("same", "other")) >= GAPS - 1, gaps


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_writers_that_wait_during_a_step_enter_before_the_next(path: str) -> None:
    """Also when they have no CPU yet at the moment at which they could enter."""
    gaps = others_while_a_family_ends(path, 1000, hurried, last_on_that_cpu, plant=on_one_cpu)
    assert min(gaps.get(agent, 0) for agent in ("same", "other")) >= GAPS - 1, gaps


def test_others_pass_between_the_steps_of_a_daemon(tmp_path: Path) -> None:
    with served(tmp_path) as made:
        gaps = others_while_a_family_ends(made.url, 3000)
    assert min(gaps.get(agent, 0) for agent in ("same", "other")) >= 2, gaps


def test_a_daemon_answers_for_its_health_between_the_steps(tmp_path: Path) -> None:
    """Not by the time that it takes: after how many answers tasks were still to be told, and fewer each time."""
    with served(tmp_path) as made, open_board(made.url) as board:
        [root] = post(board, 1)
        for _ in range(10):
            board.batch(_later(root))
        board.tasks.cancel(ref=root.id)
        seen = [board.upkeep.status().blocked]
        while seen[-1]:
            board.engine.probe()  # GET /health
            seen.append(board.upkeep.status().blocked)
    assert len({blocked for blocked in seen if 0 < blocked < 5000}) >= 2, seen
