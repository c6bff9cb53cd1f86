"""The races themselves: who reaches for what. Each answers with logs, for `checkers` to judge."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Generator, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import tiebreak
from tiebreak import Board, Deadlock, Hold, Lost, Task
from tiebreak.model import encode

from . import checkers
from .checkers import Grant
from .crew import PATIENCE, PROJECT, Crew, Plant, processes, race

Run = Generator[None, None, Any]


def open_board(address: str, agent: str = "judge") -> Board:
    """The board as one agent sees it."""
    return tiebreak.open(address, agent=f"{agent}~1", project=PROJECT)


def post(board: Board, count: int, **more: Any) -> list[Task]:
    """That many tasks, in one transaction."""
    return board.batch([("tasks.post", {"name": f"task {i}", **more}) for i in range(count)])


# ── Claims ───────────────────────────────────────────────────────────────────────────────────────────


def claimer(board: Board | str, agent: str, refs: Iterable[str]) -> Run:
    """Reach for every task, in the order in which everybody else does."""
    board = open_board(board, agent) if isinstance(board, str) else board
    yield
    won, lost = [], []
    for ref in refs:
        try:
            won.append(board.tasks.claim(ref=ref, agent=f"{agent}~1", create=False).id)
        except Lost as exc:
            lost.append((ref, exc.holder))
    return won, lost


def wins(agents: Iterable[str], reports: Iterable[Any]) -> list[tuple[str, str]]:
    """Who won what."""
    return [(ref, agent) for agent, (won, _) in zip(agents, reports, strict=True) for ref in won]


def told_right(wins: Iterable[tuple[str, str]], reports: Iterable[Any]) -> bool:
    """Whether everybody who lost was told who won."""
    winner = dict(wins)
    return all(winner[ref] == holder for _, lost in reports for ref, holder in lost)


def next_claimer(address: str, agent: str, seed: int) -> Run:
    """Ask for one to ten tasks at a time until there are none."""
    board = open_board(address, agent)
    counts = random.Random(seed)
    yield
    won: list[str] = []
    while got := board.tasks.next(count=counts.randint(1, 10)):
        won += [task.id for task in got]
    return won, []


def poster(address: str, agent: str) -> Run:
    """Open the board only now, with everybody else, and post one task."""
    yield
    with open_board(address, agent) as board:
        return board.tasks.post(name=f"from {agent}").number


def repeater(address: str, ref: str, once: str, times: int) -> Run:
    """Send the same claim again and again, as one whose answer got lost."""
    board = open_board(address, "same")
    yield
    return [encode(board.call("tasks.claim", {"ref": ref}, once=once)) for _ in range(times)]


# ── Holds ────────────────────────────────────────────────────────────────────────────────────────────


def taker(address: str, agent: str, resources: list[str]) -> Run:
    """Reach for each of these, one after the other, and keep what was won."""
    board = open_board(address, agent)
    yield
    won, lost = [], []
    for resource in resources:
        try:
            won += [(hold.resource, hold.epoch) for hold in board.holds.take(resources=[resource])]
        except Lost as exc:
            lost.append((resource, exc.holder))
    return won, lost


def gatherer(address: str, agent: str, resources: list[str], tries: int) -> Run:
    """Take all of them or none, and give them back, again and again; how often it worked."""
    board = open_board(address, agent)
    yield
    worked = 0
    for _ in range(tries):
        with contextlib.suppress(Lost):
            holds = board.holds.take(resources=resources)
            worked += 1
            board.holds.release(resources=resources, epochs=[hold.epoch for hold in holds])
    return worked


def watcher(address: str, over: Connection) -> Run:
    """Look at the live holds again and again, until told that it is over."""
    board = open_board(address, "watcher")
    yield
    seen = {}
    while not over.poll():
        seen[frozenset((hold.resource, hold.holder) for hold in board.holds.list())] = True
    return list(seen)


def gather(address: str, resources: list[str], *, tries: int, plant: Plant | None = None) -> tuple[Any, list[int]]:
    """Eight take the resources in one order, eight in the other; what a watcher saw, and the wins of each."""
    open_board(address).close()
    takers = [(address, f"agent-{i}", resources[:: 1 if i % 2 else -1], tries) for i in range(16)]
    over, end = processes.Pipe(duplex=False)
    with Crew(watcher, [(address, over)]) as eyes, Crew(gatherer, takers, plant=plant) as crew, end:
        eyes.go()
        crew.go()
        worked = crew.reports()
        end.send("over")
        seen = eyes.reports()[0]
    with open_board(address) as board:
        return [*seen, [(hold.resource, hold.holder) for hold in board.holds.list()]], worked


def swimmer(address: str, agent: str, pool: str, tries: int) -> Run:
    """Take a slot of a pool; give it back, keep it alive, or let it lapse."""
    board = open_board(address, agent)
    chance = random.Random(agent)
    yield
    grants = []
    for _ in range(tries):
        lapse = chance.random() < 0.3
        with contextlib.suppress(Lost):
            hold = board.holds.take(resources=[pool], lease=0.002 if lapse else 30.0)[0]
            grants.append(Grant(hold.resource, hold.slot, hold.epoch, agent))
            if not lapse:
                grant: dict[str, Any] = {"resources": [pool], "epochs": [hold.epoch], "slots": [hold.slot]}
                board.holds.renew(lease=20.0, **grant)
                board.holds.release(**grant)
    return grants


# ── Schedules ────────────────────────────────────────────────────────────────────────────────────────


def scheduler(address: str, agent: str) -> Run:
    """Fire whatever is due, one instant at a time, until nothing is; the keys of the jobs."""
    board = open_board(address, agent)
    yield
    fired: list[str | None] = []
    while board.schedules.due() == 0.0:
        fired += [task.key for task in board.schedules.fire(most=1)]
    return fired


# ── Churn ────────────────────────────────────────────────────────────────────────────────────────────

TASKS = 24
POOL, SLOTS = "pool:seats", 6
LOCKS = [*(f"lock:{i}" for i in range(8)), "seat:coordinator", "file:src/a.py", "file:src/b.py", "file:src/*.py"]


class Churner:
    """One of many that claim, finish, give back, let lapse and hold, and keep a diary of it."""

    def __init__(self, board: Board, agent: str, diary: str) -> None:
        self.board, self.agent = board, agent
        self.chance = random.Random(agent)
        self.diary = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.left: dict[str, Task] = {}

    def once(self) -> None:
        """One grant and what becomes of it; refusals are part of life."""
        with contextlib.suppress(tiebreak.Refused):
            self.chance.choice([self.claim, self.next, self.hold, self.swim, self.come_late])()

    def note(self, what: str, subject: str, slot: int, epoch: int) -> None:
        os.write(self.diary, f"{what} {subject} {slot} {epoch} {self.agent}\n".encode())

    def lease(self) -> float:
        return self.chance.choice([0.001, 0.01, 0.03, 0.03])

    def claim(self) -> None:
        open_tasks = self.board.tasks.list(states=["pending", "claimed"], limit=20)
        if not open_tasks:
            return
        task = self.board.tasks.claim(ref=self.chance.choice(open_tasks).id, lease=self.lease())
        self.note("granted", task.id, 0, task.epoch)
        self.finish(task)

    def next(self) -> None:
        tasks = self.board.tasks.next(count=self.chance.randint(1, 2), lease=self.lease())
        for task in tasks:
            self.note("granted", task.id, 0, task.epoch)
        for task in tasks:
            self.finish(task)

    def finish(self, task: Task) -> None:
        """Under the epoch that was granted, however late it is; a lapsed one finds its write refused."""
        end = self.chance.choice(["complete", "fail", "fail", "release", "release", "extend", "leave", "drop"])
        if end == "leave":
            self.left[task.id] = self.left.get(task.id, task)
            return
        more: dict[str, Any] = {"retry": self.chance.random() < 0.8} if end == "fail" else {}
        if end == "extend":
            more = {"lease": self.lease()}
        if end == "drop":
            self.board.tasks.cancel(ref=task.id)
            self.board.tasks.retry(ref=task.id)
            return
        done = self.board.call(f"tasks.{end}", {"ref": task.id, "epoch": task.epoch, **more})
        word = {"complete": "completed", "release": "released", "extend": "extended"}.get(end)
        self.note(f"task.{word or ('failed' if done.state == 'failed' else 'retrying')}", task.id, 0, task.epoch)
        if done.state in ("completed", "failed"):
            self.board.tasks.post(name="next one", max_attempts=1000, backoff=0.0)

    def come_late(self) -> None:
        """A write under the epoch of a grant that was left behind, perhaps long ago, perhaps won again since."""
        for ref, old in list(self.left.items()):
            with contextlib.suppress(tiebreak.Refused):
                self.board.tasks.extend(ref=ref, epoch=old.epoch, lease=self.lease())
                self.note("task.extended", ref, 0, old.epoch)
        if len(self.left) > 10:
            self.left.clear()

    def hold(self) -> None:
        wanted = self.chance.sample(LOCKS, self.chance.choice([1, 1, 2]))
        holds = self.board.holds.take(resources=wanted, lease=self.lease())
        for hold in holds:
            self.note("granted", hold.resource, hold.slot, hold.epoch)
        self.let_go(holds)

    def swim(self) -> None:
        hold = self.board.holds.take(resources=[POOL], lease=self.lease())[0]
        self.note("granted", hold.resource, hold.slot, hold.epoch)
        self.let_go([hold])

    def let_go(self, holds: list[Hold]) -> None:
        end = self.chance.choice(["release", "release", "renew", "leave", "break"])
        if end == "leave":
            return
        if end == "break":
            params = {"resource": holds[0].resource, "slot": holds[0].slot, "reason": "churn"}
            self.board.call("holds.break", params)
            return
        grant: dict[str, Any] = {
            "resources": [hold.resource for hold in holds],
            "epochs": [hold.epoch for hold in holds],
            "slots": [hold.slot for hold in holds],
        }
        if end == "renew":
            self.board.holds.renew(lease=self.lease(), **grant)
        else:
            self.board.holds.release(**grant)
        for hold in holds:
            self.note(f"hold.{end}ed" if end == "renew" else "hold.released", hold.resource, hold.slot, hold.epoch)


def globs_against_files(address: str, agents: Sequence[str], rounds: int) -> None:
    """Half of them take globs, half of them a file that each glob matches: of each such pair one is won, once."""
    folders = [f"file:d{number}" for number in range(rounds)]
    orders = [[f"{folder}/*.py" for folder in folders], [f"{folder}/a.py" for folder in folders]]
    reports = race(taker, [(address, agent, orders[i % 2]) for i, agent in enumerate(agents)])
    wins = [(won.split("/")[0], agent) for agent, (taken, _) in zip(agents, reports, strict=True) for won, _ in taken]
    checkers.one_winner_each(wins, folders)


def churner(address: str, agent: str, diary: str, seconds: float, turns: int) -> Run:
    """Live for that long, or for that many turns."""
    life = Churner(open_board(address, agent), agent, diary)
    yield
    end = time.monotonic() + seconds
    for _ in range(turns):
        if time.monotonic() > end:
            break
        life.once()


def churn(
    address: str, folder: str, *, seconds: float = 60.0, turns: int = 10**9, crew: int = 8, plant: Plant | None = None
) -> list[tuple[str, Grant]]:
    """Let a crew live on one board; what its diaries say, as (what, grant)."""
    with open_board(address) as board:
        post(board, TASKS, max_attempts=1000, backoff=0.0)
        board.holds.release(resources=[board.holds.take(resources=[POOL], slots=SLOTS)[0].resource])
    diaries = [(f"agent-{i}", os.path.join(folder, f"diary-{i}")) for i in range(crew)]
    each = [(address, *diary, seconds, turns) for diary in diaries]
    race(churner, each, plant=plant, patience=seconds + 150)
    return [entry for _, path in diaries for entry in _read_diary(path)]


def _read_diary(path: str) -> Generator[tuple[str, Grant], None, None]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            what, subject, slot, epoch, agent = line.split()
            yield what, Grant(subject, int(slot), int(epoch), agent)


def queuer(address: str, agent: str, resources: list[str], turns: int) -> Run:
    """Wait in line, do nothing, give it back: some times; then say how often it was won."""
    board = open_board(address, agent)
    yield
    won = 0
    for _ in range(turns):
        board.take(*resources, wait=PATIENCE)
        won += 1
        board.holds.release(resources=resources)
    return won


def pusher(address: str, agent: str, resources: list[str], tries: int) -> Run:
    """Reach for it again and again without getting in line."""
    board = open_board(address, agent)
    yield
    for _ in range(tries):
        with contextlib.suppress(Lost):
            board.holds.take(resources=resources)
            board.holds.release(resources=resources)
    return tries


def grasper(address: str, agent: str, first: str, second: str, ready: Any) -> Run:
    """Take one, and when all have theirs, wait for the next one's. Whoever is told to gives its own back."""
    board = open_board(address, agent)
    yield
    board.take(first)
    ready.wait(PATIENCE)
    try:
        board.take(second, wait=PATIENCE)
        return "won"
    except Deadlock as told:
        return f"told {told.data['cycle'][0]['agent'] == agent}"
    finally:
        board.holds.release(resources=[hold.resource for hold in board.holds.list() if board.is_me(hold)])


def queuer_or_pusher(queues: bool, *args: Any) -> Run:
    """One of the two, in one race."""
    return (yield from (queuer if queues else pusher)(*args))
