"""A board and its reference do the same random things, and never differ."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import tiebreak
from tests.conformance.engines import ENGINES
from tiebreak.model import holder_id

from .reference import FILES, SECOND, No, Reference

SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None

AGENTS = st.sampled_from(["ann~1", "ann~2", "bob~1"])
LEASES = st.sampled_from([1.0, 5.0, 60.0])
KEYS = st.sampled_from(["red", "green"])
EPOCHS = st.sampled_from(["any", "current", "current", "stale", "future"])
RESOURCES = st.sampled_from([*FILES, "lock:x", "seat:y", "pool:p"])
SOME = st.integers(0, 10**6)


class BoardMachine(RuleBasedStateMachine):
    """Rules are what agents do; after each of them everything visible is compared."""

    engine = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="model-", dir=SCRATCH)
        self.place = ENGINES[self.engine](Path(self.folder))
        self.board = self.place.open("judge")
        now = round((self.board.upkeep.status().now) * SECOND)
        self.reference = Reference(now)

    def teardown(self) -> None:
        self.place.close()
        shutil.rmtree(self.folder)

    # ── Comparing ────────────────────────────────────────────────────────────────────────────────────

    def both(self, operation: str, params: dict[str, Any], expected: Callable[[], Any]) -> tuple[Any, Any]:
        """Do it on both; they agree on the refusal, or neither refuses."""
        try:
            wanted, refusal = expected(), ""
        except No as no:
            wanted, refusal = None, str(no)
        try:
            got, said = self.board.call(operation, params), ""
        except tiebreak.TiebreakError as exc:
            got, said = None, type(exc).__name__
        assert said in refusal.split("|"), (
            f"{operation} {params}: {said or got!r}, but {refusal or wanted!r} was expected"
        )
        return got, wanted

    @invariant()
    def tasks_are_the_same(self) -> None:
        seen = {
            t.number: (t.state, holder_id(t) if t.state == "claimed" else None, t.epoch, t.attempts, t.until)
            for t in self.board.tasks.list(limit=1000)
        }
        model = self.reference
        wanted = {}
        for task in model.tasks.values():
            claimed = model.state(task) == "claimed"
            holder, until = (task.holder, task.until / SECOND) if claimed else (None, None)
            wanted[task.number] = (model.state(task), holder, task.epoch, task.attempts, until)
        assert seen == wanted

    @invariant()
    def holds_are_the_same(self) -> None:
        holds = self.board.holds.list()
        seen = {(h.resource, h.slot): (holder_id(h), h.epoch, h.until) for h in holds}
        wanted = {key: (h.holder, h.epoch, h.until / SECOND) for key, h in self.reference.live().items()}
        assert seen == wanted

    @invariant()
    def nobody_shares_a_file(self) -> None:
        live = [(FILES[h.resource], holder_id(h)) for h in self.board.holds.list() if h.resource in FILES]
        assert not any(a & b and who != other for a, who in live for b, other in live)

    # ── Time ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 5.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.place.advance(seconds)
        self.reference.now += round(seconds * SECOND)

    # ── Tasks ────────────────────────────────────────────────────────────────────────────────────────

    @rule(
        key=st.none() | KEYS,
        priority=st.sampled_from(["low", "normal", "urgent"]),
        delay=st.sampled_from([0.0, 0.0, 0.0, 2.0]),
        after=st.lists(SOME, max_size=2),
        run_anyway=st.booleans(),
        max_attempts=st.sampled_from([1, 2, 3]),
        backoff=st.sampled_from([0.0, 1.0]),
    )
    def post(self, after: list[int], delay: float, backoff: float, **facts: Any) -> None:
        before = [n % len(self.reference.tasks) + 1 for n in after] if self.reference.tasks else []
        params = {"name": "task", "after": [f"#{n}" for n in before], "delay": delay, "backoff": backoff, **facts}
        params["key"] = facts["key"]
        times = {"delay": round(delay * SECOND), "backoff": round(backoff * SECOND)}
        got, wanted = self.both("tasks.post", params, lambda: self.reference.post(after=before, **times, **facts))
        assert got is None or got.number == wanted.number

    def pick(self, n: int) -> int:
        """Some task, more often one of the newest."""
        return max(1, len(self.reference.tasks) - n % max(1, len(self.reference.tasks)))

    def epoch(self, which: str, current: int) -> int:
        return {"any": 0, "current": current, "stale": max(current - 1, 0), "future": current + 1}[which]

    @precondition(lambda self: self.reference.tasks)
    @rule(n=SOME, agent=AGENTS, lease=LEASES)
    def claim(self, n: int, agent: str, lease: float) -> None:
        number = self.pick(n)
        params = {"ref": f"#{number}", "agent": agent, "lease": lease}
        got, wanted = self.both(
            "tasks.claim", params, lambda: self.reference.claim(number, agent, round(lease * SECOND))
        )
        assert got is None or (got.epoch, got.number) == (wanted.epoch, wanted.number)

    @rule(key=KEYS, agent=AGENTS, lease=LEASES)
    def claim_by_key(self, key: str, agent: str, lease: float) -> None:
        params = {"ref": key, "agent": agent, "lease": lease}
        got, wanted = self.both(
            "tasks.claim", params, lambda: self.reference.claim_key(key, agent, round(lease * SECOND))
        )
        assert got is None or (got.epoch, got.number) == (wanted.epoch, wanted.number)

    @rule(agent=AGENTS, count=st.integers(1, 3), lease=LEASES)
    def next(self, agent: str, count: int, lease: float) -> None:
        params = {"agent": agent, "count": count, "lease": lease}
        got, wanted = self.both("tasks.next", params, lambda: self.reference.next(agent, count, round(lease * SECOND)))
        assert [task.number for task in got] == wanted

    @precondition(lambda self: self.reference.tasks)
    @rule(
        n=SOME,
        act=st.sampled_from(["extend", "complete", "fail", "release"]),
        agent=AGENTS,
        as_holder=st.booleans(),
        epoch=EPOCHS,
        lease=LEASES,
        retry=st.booleans(),
    )
    def write(self, n: int, act: str, agent: str, as_holder: bool, epoch: str, lease: float, retry: bool) -> None:
        number = self.pick(n)
        task = self.reference.tasks[number]
        who = task.holder if as_holder and task.holder else agent
        fence = self.epoch(epoch, task.epoch)
        params: dict[str, Any] = {"ref": f"#{number}", "agent": who, "epoch": fence}
        model = self.reference
        calls: dict[str, tuple[dict[str, Any], Callable[[], Any]]] = {
            "extend": ({"lease": lease}, lambda: model.extend(number, who, fence, round(lease * SECOND))),
            "complete": ({}, lambda: model.complete(number, who, fence)),
            "fail": ({"retry": retry}, lambda: model.fail(number, who, fence, retry)),
            "release": ({}, lambda: model.release(number, who, fence)),
        }
        more, expected = calls[act]
        got, longest = self.both(f"tasks.{act}", {**params, **more}, expected)
        if longest:  # between half and all of it; which one is the board's choice
            task.ready_at = round(got.ready_at * SECOND)
            assert longest // 2 <= task.ready_at - model.now <= longest

    @precondition(lambda self: self.reference.tasks)
    @rule(n=SOME)
    def cancel(self, n: int) -> None:
        number = self.pick(n)
        self.both("tasks.cancel", {"ref": f"#{number}"}, lambda: self.reference.cancel(number))

    @precondition(lambda self: self.reference.tasks)
    @rule(n=SOME)
    def retry(self, n: int) -> None:
        number = self.pick(n)
        self.both("tasks.retry", {"ref": f"#{number}"}, lambda: self.reference.retry(number))

    @rule()
    def sweep(self) -> None:
        self.both("tasks.sweep", {}, self.reference.sweep)

    # ── Holds ────────────────────────────────────────────────────────────────────────────────────────

    @rule(
        resources=st.lists(RESOURCES, min_size=1, max_size=3, unique=True),
        agent=AGENTS,
        lease=LEASES,
        slots=st.sampled_from([None, None, 1, 2, 3]),
        again=st.booleans(),
    )
    def take(self, resources: list[str], agent: str, lease: float, slots: int | None, again: bool) -> None:
        params = {"resources": resources, "agent": agent, "lease": lease, "slots": slots, "again": again}
        length = round(lease * SECOND)
        got, wanted = self.both(
            "holds.take", params, lambda: self.reference.take(resources, agent, length, slots, again)
        )
        assert got is None or sorted((h.resource, h.slot, h.epoch) for h in got) == sorted(wanted)

    @rule(resource=RESOURCES, agent=AGENTS, as_holder=st.booleans(), epoch=EPOCHS, lease=LEASES)
    def renew(self, resource: str, agent: str, as_holder: bool, epoch: str, lease: float) -> None:
        who, fence = self.holder(resource, agent, as_holder, epoch)
        params = {"resources": [resource], "agent": who, "epochs": [fence], "lease": lease}
        self.both("holds.renew", params, lambda: self.reference.renew(resource, who, fence, round(lease * SECOND)))

    @rule(resource=RESOURCES, agent=AGENTS, as_holder=st.booleans(), epoch=EPOCHS)
    def release(self, resource: str, agent: str, as_holder: bool, epoch: str) -> None:
        who, fence = self.holder(resource, agent, as_holder, epoch)
        params = {"resources": [resource], "agent": who, "epochs": [fence]}
        self.both("holds.release", params, lambda: self.reference.drop(resource, who, fence))

    @rule(resource=RESOURCES, agent=AGENTS, as_holder=st.booleans(), epoch=EPOCHS, to=AGENTS, lease=LEASES)
    def transfer(self, resource: str, agent: str, as_holder: bool, epoch: str, to: str, lease: float) -> None:
        who, fence = self.holder(resource, agent, as_holder, epoch)
        params = {"resource": resource, "agent": who, "epoch": fence, "to": to, "lease": lease}
        length = round(lease * SECOND)
        got, wanted = self.both(
            "holds.transfer", params, lambda: self.reference.transfer(resource, who, fence, to, length)
        )
        assert got is None or got.epoch == wanted

    @rule(resource=RESOURCES, slot=st.integers(0, 2))
    def take_away(self, resource: str, slot: int) -> None:
        slot = slot if resource.startswith("pool:") else 0
        params = {"resource": resource, "slot": slot, "reason": "because"}
        self.both("holds.break", params, lambda: self.reference.take_away(resource, slot))

    def holder(self, resource: str, agent: str, as_holder: bool, epoch: str) -> tuple[str, int]:
        """Who tries, under which epoch; mostly the one who has or had it."""
        for (name, _), hold in sorted(self.reference.holds.items(), key=lambda item: item[0]):
            if name == resource and hold.holder is not None:
                return (hold.holder if as_holder else agent), self.epoch(epoch, hold.epoch)
        return agent, self.epoch(epoch, 0)
