"""What the processes of a history do: five do everything and may be killed, two wait, and one rings for those two."""

from __future__ import annotations

import contextlib
import os
import random
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tiebreak
from tests.races.crew import PROJECT
from tests.races.scenarios import Run
from tiebreak import Board, Hold, NotFound, Refused, Task, Unavailable
from tiebreak.engine.postgres import engine as postgres
from tiebreak.model import agent_id, holder_id
from tiebreak.operations.session_fence import SEAT
from tiebreak.remote import RemoteEngine

from .diary import GRANTED, KEPT, REFUSED, UNKNOWN, Diary

KEYS = [f"key/{i}" for i in range(6)]
LOCKS = ["lock:a", "lock:b", "file:src/a.py", "file:src/b.py", "file:src/*.py", "file:src/**", "file:docs/x.md"]
POOL, SLOTS = "pool:ports", (2, 3, 4)
LIMITED, LIMIT = "limited", 2
BELL, BELL_LOCK = "bell", "lock:bell"
"""The queue and the lock that waiters wait for."""
PATIENCE = 90.0
"""Longer than any server is away."""
AT_ONCE, ROOM = 25, 10
"""How many events are pruned at once, and how many such prunings may be under way before one of them is seen."""
WAIT = 20.0
"""Much longer than a waiter that is woken has to wait."""


def open_board(address: str, agent: str) -> Board:
    """The board, for somebody who sits out the restart of a server."""
    postgres.PATIENCE = PATIENCE
    if address.startswith("unix:"):
        return Board(RemoteEngine(address, patience=PATIENCE), agent=agent, project=PROJECT)
    return tiebreak.open(address, agent=agent, project=PROJECT)


def tell_read(folder: str, number: int) -> None:
    """Let those who prune know how far the log has been read."""
    partial = Path(folder, "read.partial")
    partial.write_text(str(number))
    partial.replace(Path(folder, "read"))


def last_read(folder: str) -> int:
    """The number of the last event that has been read; 0 if none has."""
    try:
        return int(Path(folder, "read").read_text())
    except FileNotFoundError:
        return 0


class Life:
    """Somebody who does one thing after the other, and writes down every answer."""

    def __init__(self, address: str, agent: str, folder: str) -> None:
        self.agent = f"{agent}~1"
        self.board = open_board(address, self.agent)
        self.chance = random.Random(agent)
        self._diary = Diary(f"{folder}/diary-{agent}")
        self._folder = folder
        self._begin = 0.0

    def ask(self, name: str, /, **params: Any) -> Any:
        """Call an operation; what is noted next is its answer."""
        self._begin = time.monotonic()
        return self.board.call(name, params)

    def note(self, what: str, subject: str = "", epoch: int = 0, slot: int = 0, agent: str | None = None) -> None:
        """Write down what the last call has answered."""
        self._diary.note(self._begin, agent or self.agent, what, subject, slot, epoch)

    def attempt(self, deed: Callable[[], None]) -> None:
        """Do something; that it is refused is a part of life."""
        self._begin = time.monotonic()
        try:
            deed()
        except (Refused, NotFound):
            self.note(REFUSED)
        except Unavailable:
            self.note(UNKNOWN)

    def won(self, tasks: Iterable[Task]) -> None:
        """Note what was won, all of it, before anything else is done."""
        for task in tasks:
            self.note(GRANTED, task.id, task.epoch)


class Churner(Life):
    """One of those who do everything."""

    def __init__(self, address: str, agent: str, folder: str, peers: list[str]) -> None:
        super().__init__(address, agent, folder)
        self._peers = [f"{peer}~1" for peer in peers]
        self._seats: list[str] = []
        self._left: list[Task] = []
        self.deeds = [
            *(self.claim_a_key, self.claim_a_key, self.next, self.post_after, self.depend, self.retry, self.prune),
            *(self.hold, self.hold, self.hold, self.swim, self.swim, self.take_the_seat, self.speak),
            *(self.submit, self.work, self.work, self.keep_all, self.come_late, self.hear_the_bell),
        ]

    def turn(self) -> None:
        """Do one thing."""
        self.attempt(self.chance.choice(self.deeds))

    def lease(self) -> float:
        return self.chance.choice([0.05, 0.3, 1.0, 5.0])

    # ── Tasks ────────────────────────────────────────────────────────────────────────────────────────

    def claim_a_key(self) -> None:
        task = self.ask("tasks.claim", ref=self.chance.choice(KEYS), lease=self.lease())
        self.won([task])
        self.use(task)

    def next(self) -> None:
        tasks = self.ask("tasks.next", count=self.chance.randint(1, 2), queue="default", lease=self.lease())
        self.won(tasks)
        for task in tasks:
            self.attempt(lambda task=task: self.use(task))  # type: ignore[misc]

    def hear_the_bell(self) -> None:
        """Sometimes take what the waiter waits for from under its nose."""
        if self.chance.random() < 0.2:
            tasks = self.ask("tasks.next", queue=BELL, lease=1.0)
            self.won(tasks)
            for task in tasks:
                self.finish("complete", task)

    def use(self, task: Task) -> None:
        end = self.chance.choice(["complete", "complete", "fail", "fail", "release", "extend", "cancel", "leave"])
        if end == "leave":
            self._left = [*self._left[-5:], task]
        elif end == "cancel":
            done = self.ask("tasks.cancel", ref=task.id)
            self.note("task.cancelled", task.id, done.epoch)
        else:
            self.finish(end, task)

    def finish(self, end: str, task: Task) -> None:
        more: dict[str, Any] = {"retry": self.chance.random() < 0.5} if end == "fail" else {}
        done = self.ask(f"tasks.{end}", ref=task.id, epoch=task.epoch, **more)
        words = {"complete": "completed", "release": "released", "extend": "extended"}
        word = words.get(end) or ("failed" if done.state == "failed" else "retrying")
        self.note(f"task.{word}", task.id, task.epoch)

    def come_late(self) -> None:
        """Write under the epoch of a grant that was left behind, and has perhaps been won again since."""
        for task in self._left:
            self.attempt(lambda task=task: self.finish(self.chance.choice(["extend", "complete", "release"]), task))  # type: ignore[misc]

    def post_after(self) -> None:
        others = self.ask("tasks.list", states=["pending", "claimed", "blocked"], limit=10, queue="default")
        after = [task.id for task in self.chance.sample(others, min(len(others), 2))]
        task = self.ask("tasks.post", name="later", after=after, backoff=0.05)
        self.note("task.posted", task.id)

    def depend(self) -> None:
        others = self.ask("tasks.list", states=["pending", "blocked", "claimed"], limit=10, queue="default")
        if len(others) > 1:
            task, before = self.chance.sample(others, 2)
            self.ask("tasks.depend", ref=task.id, after=[before.id])

    def retry(self) -> None:
        over = self.ask("tasks.list", states=["failed", "cancelled"], limit=100)
        if over:
            done = self.ask("tasks.retry", ref=self.chance.choice(over).id)
            self.note("task.reopened", done.id, done.epoch)

    def prune(self) -> None:
        """So few at a time that the log loses only what the chronicler has read, however many do this at once."""
        oldest = self.ask("events.read", limit=1)
        if self.chance.random() < 0.3 and oldest and oldest[0].number + AT_ONCE * ROOM <= last_read(self._folder):
            self.ask("upkeep.prune", older_than=0.0, limit=AT_ONCE)

    def keep_all(self) -> None:
        for task in self.ask("agents.renew", lease=1.0, hold_lease=1.0):
            self.note(KEPT, task.id, task.epoch)

    # ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────

    def submit(self) -> None:
        limited = self.chance.random() < 0.5
        more = {"name": LIMITED, "limit": f"g={LIMIT}"} if limited else {"name": "free"}
        self.note("task.posted", self.ask("jobs.submit", command="true", backoff=0.05, **more).id)

    def work(self) -> None:
        jobs = self.ask("jobs.next", count=2, lease=self.lease())
        for job in jobs:
            self.note(GRANTED, job.id, job.epoch)
        if not jobs:
            return
        missing = self.ask("jobs.heartbeat", grants=[[job.number, job.epoch] for job in jobs], lease=self.lease())
        lost = {each["number"] for each in missing}
        for job in jobs:
            if job.number not in lost:
                self.note(KEPT, job.id, job.epoch)
        ends = [self.chance.choice([{"ok": True}, {"ok": False}, {"ok": True, "drained": True}]) for _ in jobs]
        outcomes = [{"number": job.number, "epoch": job.epoch, **end} for job, end in zip(jobs, ends, strict=True)]
        answers = self.ask("jobs.report", outcomes=outcomes)
        words = {"pending": "retrying"}
        for job, end, answer in zip(jobs, ends, answers, strict=True):
            if answer["accepted"]:
                word = "released" if "drained" in end else words.get(answer["state"], answer["state"])
                self.note(f"task.{word}", job.id, job.epoch)

    # ── Holds ────────────────────────────────────────────────────────────────────────────────────────

    def hold(self) -> None:
        wanted = self.chance.sample(LOCKS, self.chance.choice([1, 1, 2]))
        self.let_go(self.taken(resources=wanted, lease=self.lease()))

    def swim(self) -> None:
        slots = self.chance.choice(SLOTS) if self.chance.random() < 0.2 else None
        self.let_go(self.taken(resources=[POOL], lease=self.lease(), slots=slots))

    def taken(self, **params: Any) -> list[Hold]:
        holds: list[Hold] = self.ask("holds.take", **params)
        for hold in holds:
            self.note(GRANTED, hold.resource, hold.epoch, hold.slot)
        return holds

    def let_go(self, holds: list[Hold]) -> None:
        end = self.chance.choice(["release", "release", "renew", "leave", "break", "transfer", "renew late"])
        one = holds[0]
        grant = {
            "resources": [hold.resource for hold in holds],
            "epochs": [hold.epoch for hold in holds],
            "slots": [hold.slot for hold in holds],
        }
        if end == "break":
            self.ask("holds.break", resource=one.resource, slot=one.slot, epoch=one.epoch, reason="a history")
            self.note("hold.broken", one.resource, one.epoch, one.slot)
        elif end == "transfer":
            heir = self.chance.choice(self._peers)
            got = self.ask("holds.transfer", resource=one.resource, slot=one.slot, epoch=one.epoch, to=heir, lease=1.0)
            self.note(GRANTED, got.resource, got.epoch, got.slot, agent=holder_id(got))
        elif end != "leave":
            if end == "renew late":
                time.sleep(0.06)  # some of the leases have run out by then
            verb = "release" if end == "release" else "renew"
            self.ask(f"holds.{verb}", **grant, **({} if verb == "release" else {"lease": self.lease()}))
            for hold in holds:
                self.note(
                    "hold.released" if verb == "release" else "hold.renewed", hold.resource, hold.epoch, hold.slot
                )

    # ── The seat ─────────────────────────────────────────────────────────────────────────────────────

    def take_the_seat(self) -> None:
        """Replace whoever coordinates, be it a session of one's own."""
        seated = self.ask("sessions.list", role="coordinator", limit=1)
        name, _, _ = self.agent.partition("~")
        session = f"{name}~spawn-{uuid.uuid4().hex[:12]}"
        begun = self.ask(
            "sessions.begin",
            session=session,
            role="coordinator",
            command=["true"],
            host="host",
            boot="boot",
            pid=1,
            started=1,
            lease=2.0,
            replaces=agent_id(seated[0]) if seated else None,
        )
        self.note(GRANTED, SEAT, begun.epoch, agent=session)
        self._seats = [*self._seats[-3:], session]

    def speak(self) -> None:
        """As a coordinator, perhaps one that was replaced."""
        for session in self._seats:
            self.attempt(lambda session=session: self._send(session))  # type: ignore[misc]

    def _send(self, session: str) -> None:
        self.ask("messages.send", agent=session, body="to all")
        self.note("message.sent", agent=session)


def churner(address: str, agent: str, folder: str, peers: list[str]) -> Run:
    """Live until it is over."""
    life = Churner(address, agent, folder, peers)
    yield
    while not os.path.exists(f"{folder}/over"):
        life.turn()


# ── Those who wait ───────────────────────────────────────────────────────────────────────────────────


class Waiter(Life):
    """Waits for one thing only, so that it can be told how long it slept after it was there."""

    def next(self) -> bool:
        """Wait for a task of the bell; whether there was one, or it was the last."""
        self._begin = time.monotonic()
        tasks = self.board.win_next(queue=BELL, wait=WAIT, lease=30.0)
        self.won(tasks)
        for task in tasks:
            self.ask("tasks.complete", ref=task.id, epoch=task.epoch)
            self.note("task.completed", task.id, task.epoch)
        return any(task.name == "the last" for task in tasks)

    def take(self) -> None:
        """Wait for the lock, and give it back."""
        self._begin = time.monotonic()
        [hold] = self.board.take(BELL_LOCK, wait=WAIT, lease=30.0)
        self.note(GRANTED, hold.resource, hold.epoch)
        time.sleep(0.02)
        self.ask("holds.release", resources=[BELL_LOCK], epochs=[hold.epoch])
        self.note("hold.released", hold.resource, hold.epoch)

    def ring(self, name: str) -> None:
        """Post what the waiter for tasks waits for."""
        task = self.ask("tasks.post", name=name, queue=BELL, max_attempts=100, backoff=0.05)
        self.note("task.posted", task.id)


def listener(address: str, agent: str, folder: str) -> Run:
    """Wait for tasks until the last one has come."""
    life = Waiter(address, agent, folder)
    yield
    while True:
        with contextlib.suppress(Refused, Unavailable):
            if life.next():
                return


def stander(address: str, agent: str, folder: str) -> Run:
    """Wait in line for a lock, again and again."""
    life = Waiter(address, agent, folder)
    yield
    while not os.path.exists(f"{folder}/over"):
        life.attempt(life.take)


def ringer(address: str, agent: str, folder: str) -> Run:
    """Ring a few times a second, and stand in line as well, so that somebody always waits for the lock."""
    life = Waiter(address, agent, folder)
    yield
    while not os.path.exists(f"{folder}/over"):
        life.attempt(lambda: life.ring("ring"))
        life.attempt(life.take)
        time.sleep(0.1)


def last_ring(address: str) -> None:
    """Wake the listener for the last time, from outside."""
    with open_board(address, "judge~1") as board:
        board.tasks.post(name="the last", queue=BELL, max_attempts=100, backoff=0.05)
