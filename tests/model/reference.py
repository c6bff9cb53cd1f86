"""What a board does, said a second time and in the plainest way: dictionaries, loops, and no database.

It is written from the words of the design, not from the code. Every method either answers or raises `No`
with the name of the refusal; time is a number of microseconds that somebody moves.
"""

from __future__ import annotations

from typing import Any

SECOND = 1_000_000
FINAL = ("completed", "failed", "cancelled")
PRIORITIES = ("low", "normal", "high", "urgent")

# Which files each name could mean. Two names collide when they could mean the same file.
_EVERYWHERE = {
    "a.py": {"a"},
    "src/a.py": {"src/a"},
    "src/b.py": {"src/b"},
    "src/*.py": {"src/a", "src/b", "src/…"},
    "**/a.py": {"a", "src/a", "lib/a"},
}
FILES = {
    **{f"file:{name}": {(at, each) for at in ("one", "two") for each in files} for name, files in _EVERYWHERE.items()},
    **{f"file://{at}/src/a.py": {(at, "src/a")} for at in ("one", "two")},
    "file://one/src/*.py": {("one", each) for each in _EVERYWHERE["src/*.py"]},
}


class No(Exception):
    """A refusal, by name."""


class Task:
    """A task; a claim is (holder, until). When its time is over it can be won, and lasts until somebody says so."""

    def __init__(self, number: int, **facts: Any) -> None:
        self.number = number
        self.key: str | None = facts.get("key")
        self.priority: str = facts.get("priority", "normal")
        self.after: set[int] = facts.get("after", set())
        self.run_anyway: bool = facts.get("run_anyway", False)
        self.max_attempts: int = facts.get("max_attempts", 3)
        self.backoff: int = facts.get("backoff", SECOND)
        self.ready_at: int = facts.get("ready_at", 0)
        self.state = "pending"
        self.holder: str | None = None
        self.until = self.epoch = self.attempts = 0


class Hold:
    """A resource, or one slot of a pool."""

    def __init__(self) -> None:
        self.holder: str | None = None
        self.until = self.epoch = 0


class Reference:
    """The whole board."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.tasks: dict[int, Task] = {}
        self.keys: dict[str, int] = {}
        self.holds: dict[tuple[str, int], Hold] = {}
        self.pools: dict[str, int] = {}

    # ── Tasks ────────────────────────────────────────────────────────────────────────────────────────

    def state(self, task: Task) -> str:
        """The state that everybody sees: what lapsed and can be won is pending; nothing fails by time alone."""
        return "pending" if self._lapsed(task) and task.attempts < task.max_attempts else task.state

    def _lapsed(self, task: Task) -> bool:
        return task.state == "claimed" and task.until <= self.now

    def post(self, *, after: list[int], delay: int, **facts: Any) -> Task:
        if facts["key"] in self.keys:
            return self.tasks[self.keys[facts["key"]]]
        if not facts["run_anyway"] and any(self.state(self.tasks[n]) in ("failed", "cancelled") for n in after):
            raise No("Refused")
        number = len(self.tasks) + 1
        ready_at = self.now + delay if delay else 0
        task = self.tasks[number] = Task(number, after=set(after), ready_at=ready_at, **facts)
        if facts["key"] is not None:
            self.keys[facts["key"]] = number
        if self._waits(task):
            task.state = "blocked"
        return task

    def _waits(self, task: Task) -> bool:
        """Until all that it comes after is completed, or has ended in any way if it runs anyway."""
        enough = FINAL if task.run_anyway else ("completed",)
        return any(self.state(self.tasks[n]) not in enough for n in task.after)

    def claim(self, number: int, agent: str, lease: int) -> Task:
        task = self.tasks[number]
        if self.state(task) == "claimed":
            if not self._lapsed(task):
                raise No("Lost")
            self._lapse(task)  # its last attempt: the refusal says that it failed, so that is so from now on
        if task.state == "blocked":  # what blocks it may have lapsed by now
            for earlier in self._earlier(task):
                self._lapse(self.tasks[earlier])
        if self.state(task) != "pending" or task.ready_at > self.now:
            raise No("Refused")
        return self._grant(task, agent, lease)

    def _earlier(self, task: Task) -> set[int]:
        """Everything that it comes after, at first or second hand."""
        return task.after.union(*(self._earlier(self.tasks[number]) for number in task.after))

    def claim_key(self, key: str, agent: str, lease: int) -> Task:
        if key not in self.keys:
            self.post(key=key, after=[], delay=0, run_anyway=False)
        return self.claim(self.keys[key], agent, lease)

    def _grant(self, task: Task, agent: str, lease: int) -> Task:
        task.state, task.holder, task.until = "claimed", agent, self.now + lease
        task.epoch += 1
        task.attempts += 1
        task.ready_at = 0
        return task

    def next(self, agent: str, count: int, lease: int) -> list[int]:
        self.sweep()
        ready = [t for t in self.tasks.values() if t.state == "pending" and t.ready_at <= self.now]
        ready.sort(key=lambda t: (-PRIORITIES.index(t.priority), t.number))
        return [self._grant(task, agent, lease).number for task in ready[:count]]

    def sweep(self) -> None:
        """Write lapses down; only then does what comes after a lapsed last attempt move."""
        for task in sorted(self.tasks.values(), key=lambda t: t.until):
            self._lapse(task)

    def _lapse(self, task: Task) -> None:
        if task.state != "claimed" or task.until > self.now:
            return
        task.state = "pending" if task.attempts < task.max_attempts else "failed"
        task.holder, task.until = None, 0
        if task.state == "failed":
            self._ended(task)

    def _held(self, number: int, agent: str, epoch: int) -> Task:
        task = self.tasks[number]
        mine = task.state == "claimed" and task.holder == agent and epoch in (0, task.epoch)
        if not mine:
            raise No("Fenced")
        return task

    def extend(self, number: int, agent: str, epoch: int, lease: int) -> None:
        self._held(number, agent, epoch).until = self.now + lease

    def complete(self, number: int, agent: str, epoch: int) -> None:
        task = self._held(number, agent, epoch)
        task.state, task.until = "completed", 0
        self._ended(task)

    def fail(self, number: int, agent: str, epoch: int, retry: bool) -> int:
        """The longest wait before it is tried again."""
        task = self._held(number, agent, epoch)
        task.until = 0
        if retry and task.attempts < task.max_attempts:
            wait = min(3600 * SECOND, task.backoff * 2 ** (task.attempts - 1))
            task.state, task.holder, task.ready_at = "pending", None, self.now + wait if wait else 0
            return wait
        task.state = "failed"
        self._ended(task)
        return 0

    def release(self, number: int, agent: str, epoch: int) -> None:
        task = self._held(number, agent, epoch)
        task.state, task.holder, task.until = "pending", None, 0
        task.attempts -= 1

    def cancel(self, number: int) -> None:
        task = self.tasks[number]
        if task.state in FINAL:
            raise No("Refused")
        task.state, task.holder, task.until, task.ready_at = "cancelled", None, 0, 0
        self._ended(task)

    def retry(self, number: int) -> None:
        task = self.tasks[number]
        over = task.state in ("failed", "cancelled") or (self._lapsed(task) and self.state(task) == "claimed")
        doomed = any(self.tasks[n].state in ("failed", "cancelled") for n in task.after) and not task.run_anyway
        if not over or doomed:
            raise No("Refused")
        self._lapse(task)
        task.holder, task.until, task.attempts, task.ready_at = None, 0, 0, 0
        task.state = "blocked" if self._waits(task) else "pending"

    def _ended(self, end: Task) -> None:
        """Those that come after it go on, or end with it."""
        for task in self.tasks.values():
            if end.number not in task.after or task.state != "blocked":
                continue
            if end.state == "completed" or task.run_anyway:
                task.state = "blocked" if self._waits(task) else "pending"
            else:
                task.state, task.ready_at = "cancelled", 0
                self._ended(task)

    # ── Holds ────────────────────────────────────────────────────────────────────────────────────────

    def live(self) -> dict[tuple[str, int], Hold]:
        return {k: h for k, h in self.holds.items() if h.holder is not None and h.until > self.now}

    def _in_the_way(self, resource: str, agent: str) -> bool:
        """Whether somebody else has something that could be the same file."""
        mine = FILES.get(resource, set())
        return any(h.holder != agent and mine & FILES.get(other, set()) for (other, _), h in self.live().items())

    def take(
        self, resources: list[str], agent: str, lease: int, slots: int | None, again: bool
    ) -> list[tuple[str, int, int]]:
        plan, reasons, pools = [], set(), dict(self.pools)
        kept: list[tuple[str, int]] = []
        for resource in sorted(set(resources)):
            slot = 0
            try:
                if resource.startswith("pool:"):
                    pools[resource] = slots or pools.get(resource, 0)
                    mine = self._slots_of(resource, agent, pools[resource]) if again else []
                    kept += [(resource, each) for each in mine]
                    slot = mine[0] if mine else self._free_slot(resource, pools[resource])
                elif self._in_the_way(resource, agent) or not self._free(resource, agent, again):
                    raise No("Lost")
            except No as no:
                reasons.add(str(no))
            plan.append((resource, slot))
        if reasons:
            raise No("|".join(reasons))  # any of several reasons may be given
        self.pools = pools
        for resource, _ in plan:
            self._give_back_lapsed(resource, agent)
        for thing in plan:
            hold = self.holds.setdefault(thing, Hold())
            if thing not in self.live():
                hold.epoch += 1
            hold.holder, hold.until = agent, self.now + lease
        for thing in kept:
            self.holds[thing].until = self.now + lease
        return [(*thing, self.holds[thing].epoch) for thing in plan]

    def _give_back_lapsed(self, resource: str, agent: str) -> None:
        """What lapsed and is in the way of a grant is over for good."""
        mine = FILES.get(resource, set())
        for key, hold in self.holds.items():
            same_file = hold.holder != agent and key[0] != resource and mine & FILES.get(key[0], set())
            same_pool = key[0] == resource and resource.startswith("pool:")
            if key not in self.live() and (same_file or same_pool):
                hold.holder = None

    def _free(self, resource: str, agent: str, again: bool) -> bool:
        held = self.live().get((resource, 0))
        return held is None or (again and held.holder == agent)

    def _slots_of(self, pool: str, agent: str, size: int) -> list[int]:
        """The slots of a pool that an agent has, the lowest one first."""
        if not size:
            raise No("NotFound")
        return sorted(slot for (name, slot), hold in self.live().items() if name == pool and hold.holder == agent)

    def _free_slot(self, pool: str, size: int) -> int:
        """The lowest one; none while as many as fit are held, if only in slots from when it was larger."""
        if not size:
            raise No("NotFound")
        taken = {slot for name, slot in self.live() if name == pool}
        if len(taken) >= size:
            raise No("Lost")
        return next(slot for slot in range(size) if slot not in taken)

    def _mine(self, resource: str, agent: str, epoch: int) -> tuple[str, int]:
        """The grant that is meant; of a pool the one slot that this agent has, or had last if none is live."""
        every = [key for key, h in sorted(self.holds.items()) if key[0] == resource and h.holder == agent]
        slots = [key for key in every if key in self.live()] or every
        if len(slots) > 1:
            raise No("Invalid")
        if not slots or epoch not in (0, self.holds[slots[0]].epoch):
            raise No("Fenced")
        return slots[0]

    def renew(self, resource: str, agent: str, epoch: int, lease: int) -> None:
        self.holds[self._mine(resource, agent, epoch)].until = self.now + lease

    def drop(self, resource: str, agent: str, epoch: int) -> None:
        self.holds[self._mine(resource, agent, epoch)].holder = None

    def transfer(self, resource: str, agent: str, epoch: int, to: str, lease: int) -> int:
        """The new holder must not collide with anybody either, least of all with the giver."""
        files = FILES.get(resource, set())
        others = [h for (name, _), h in self.live().items() if name != resource and files & FILES.get(name, set())]
        collides, refused = any(h.holder != to for h in others), "Lost|Refused"
        try:
            hold = self.holds[self._mine(resource, agent, epoch)]
        except No as no:
            raise No(f"{no}|{refused}" if collides else str(no)) from None  # two reasons: either may be given
        if collides:
            raise No(refused)
        self._give_back_lapsed(resource, to)
        hold.holder, hold.until = to, self.now + lease
        hold.epoch += 1
        return hold.epoch

    def take_away(self, resource: str, slot: int) -> None:
        if (resource, slot) not in self.live():
            raise No("NotFound")
        self.holds[resource, slot].holder = None
