"""The wait queue: which agents wait for which resources, in order of arrival, and whom each of them waits for.

Two kinds of edges lead from a waiter. A *hard* edge leads to an agent that holds a resource that the waiter wants. A
*soft* edge leads to an earlier waiter that wants the same resource. A free resource goes to the first waiter in the
queue, with one exception: a waiter never blocks the agent that it is waiting for, directly or through others, because
it can only continue after that agent does.

Why only cycles of hard edges can deadlock: soft edges lead from later to earlier places, so they alone form no cycle.
In a cycle of both kinds, a soft edge somewhere follows a hard one. Let X be the agent where the hard edge ends and the
soft edge begins, and Z the earlier waiter that the soft edge leads to. Around the cycle, Z waits for a hold of X. So by
the exception Z does not block X, and the cycle is open.

A slot of a pool is different: any holder of the pool can free one, so a waiter is stuck only if all of them are stuck.
So a deadlock is found by elimination: remove every agent that can continue, again and again. The agents that are left
are stuck.

A grant that depends on the queue reads it under `tx.serialize("holds", project)`, so no other transaction enters the
queue or takes a hold of the project before the grant is written. The precheck of `holds.take`, which can only refuse,
reads it without the scope.
"""

from __future__ import annotations

from ..held_files import conflict
from ..model import Hold, columns, holder_id, record
from ..names import short
from . import is_dead
from .grants import LIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from . import Transaction

ALIVE = "(until > {now} AND cycle IS NULL)"
"""A condition: the place has not lapsed, and its owner was not told to leave because of a deadlock."""


def has_waiters(tx: Transaction, project: str) -> bool:
    """Whether any agent waits in a project; usually none does."""
    return tx.first("SELECT 1 FROM waits WHERE project = :project LIMIT 1", project=project) is not None


class Waiter:
    """One place in the queue."""

    __slots__ = ("agent", "note", "number", "resources", "since", "until")

    def __init__(self, number: int, agent: str, resources: list[str], note: str | None, since: int, until: int) -> None:
        self.number, self.agent, self.resources = number, agent, resources
        self.note, self.since, self.until = note, since, until

    def wants(self, resource: str) -> str | None:
        """The resource that it wants and that conflicts with this one; None if there is none."""
        return next((each for each in self.resources if conflict(each, resource)), None)


class WaitQueue:
    """All waiters and all live holds of a project, as of now."""

    def __init__(self, tx: Transaction, project: str) -> None:
        self.waiters = list(_waiting(tx, project))
        rows = tx.all(
            f"SELECT {columns(Hold)} FROM holds WHERE project = :project AND {LIVE} ORDER BY resource, slot",
            project=project,
        )
        self._held = [record(Hold, row) for row in rows]
        self.holds = [(hold.resource, holder_id(hold) or "") for hold in self._held]
        self._free = self._free_slots(tx, project)
        self._hard: dict[int, list[list[tuple[str, str]]]] = {}
        self._waiting_on: dict[str, set[str]] = {}

    def _free_slots(self, tx: Transaction, project: str) -> dict[str, int]:
        free = dict(tx.all("SELECT resource, slots FROM pools WHERE project = :project", project=project))
        for resource, _ in self.holds:
            if resource in free:
                free[resource] -= 1
        return free

    # ── Turns ────────────────────────────────────────────────────────────────────────────────────────

    def before(self, resource: str, agent: str, place: int) -> list[Waiter]:
        """The waiters that must get this free resource before this agent does, in order of arrival."""
        ahead = [w for w in self.waiters if (not place or w.number < place) and w.agent != agent and w.wants(resource)]
        ahead = [waiter for waiter in ahead if not self._waits_on(waiter, agent)]
        if resource.startswith("pool:") and self._free.get(resource, 0) > len(ahead):
            return []
        return ahead

    def has(self, agent: str, resource: str) -> bool:
        """Whether this agent holds the resource already; never for a pool, where each slot is taken separately."""
        return (resource, agent) in self.holds and not resource.startswith("pool:")

    def blocking_hold(self, resource: str, agent: str) -> Hold | None:
        """The hold that prevents this agent from taking a resource now; None if the resource is free."""
        if self._free.get(resource, 0) > 0:
            return None
        others = (hold for hold in self._held if holder_id(hold) != agent or hold.resource == resource)
        return next((hold for hold in others if conflict(resource, hold.resource)), None)

    def _waits_on(self, waiter: Waiter, agent: str) -> bool:
        """Whether a waiter waits for a hold of this agent, directly or through others."""
        if agent not in self._waiting_on:
            self._waiting_on[agent] = self._all_waiting_on(agent)
        return waiter.agent in self._waiting_on[agent]

    def _all_waiting_on(self, agent: str) -> set[str]:
        """The agents that wait for a hold of this agent, and those that wait for them."""
        found = {one.agent for one in self.waiters if agent in self._holders(one)}
        if not found:
            return found  # the usual case: most agents that ask hold nothing that others wait for
        edges = [(one.agent, self._holders(one) | {w.agent for w, _ in self.ahead(one)}) for one in self.waiters]
        while more := {one for one, others in edges if one not in found and others & found}:
            found |= more
        return found

    def _holders(self, waiter: Waiter) -> set[str]:
        return {holder for holds in self.blockers(waiter) for _, holder in holds}

    # ── The graph ────────────────────────────────────────────────────────────────────────────────────

    def _places(self, agent: str) -> list[Waiter]:
        return [waiter for waiter in self.waiters if waiter.agent == agent]

    def blockers(self, waiter: Waiter) -> list[list[tuple[str, str]]]:
        """The holds that block a waiter, as (resource, holder), one list for each wanted resource that is not free.

        The waiter can take the resource when all holds of its list are released; for a pool, when any one is.
        """
        if waiter.number not in self._hard:
            found = (self._conflicting(resource, waiter.agent) for resource in waiter.resources)
            self._hard[waiter.number] = [holds for holds in found if holds]
        return self._hard[waiter.number]

    def _conflicting(self, resource: str, agent: str) -> list[tuple[str, str]]:
        # An agent does not wait for itself: another of its processes may be about to release the hold.
        others = [(held, holder) for held, holder in self.holds if holder != agent and conflict(resource, held)]
        return others if self._free.get(resource, 0) <= 0 else []

    def ahead(self, waiter: Waiter) -> Iterator[tuple[Waiter, str]]:
        """The earlier waiters that want the same, each with the resource that it wants."""
        for other in self.waiters:
            if other.number >= waiter.number or other.agent == waiter.agent:
                continue
            wanted = next((want for want in map(other.wants, waiter.resources) if want), None)
            if wanted:
                yield other, wanted

    def stuck(self) -> set[str]:
        """The agents that wait and can never continue by themselves."""
        stuck = {waiter.agent for waiter in self.waiters}
        while free := {agent for agent in stuck if self._can_continue(agent, stuck)}:
            stuck -= free
        return stuck

    def _can_continue(self, agent: str, stuck: set[str]) -> bool:
        places = self._places(agent)
        return not any(self._blocked(holds, stuck) for waiter in places for holds in self.blockers(waiter))

    @staticmethod
    def _blocked(holds: list[tuple[str, str]], stuck: set[str]) -> bool:
        several = holds[0][0].startswith("pool:")
        return (all if several else any)(holder in stuck for _, holder in holds)

    def find_cycle(self, agent: str) -> list[tuple[Waiter, str, str]]:
        """The shortest cycle of waiters through an agent, as (waiter, resource, holder); empty if there is none."""
        stuck = self.stuck()
        paths: list[list[tuple[Waiter, str, str]]] = [[]] if agent in stuck else []
        seen: set[str] = set()
        while paths:
            path = paths.pop(0)
            for step in self._steps(path[-1][2] if path else agent, stuck):
                if step[2] == agent:
                    return [*path, step]
                if step[2] not in seen:
                    seen.add(step[2])
                    paths.append([*path, step])
        return []

    def _steps(self, agent: str, stuck: set[str]) -> Iterator[tuple[Waiter, str, str]]:
        for waiter in self._places(agent):
            for holds in self.blockers(waiter):
                for resource, holder in holds:
                    if holder in stuck and self._blocked(holds, stuck):
                        yield waiter, resource, holder

    def waits_for(self, waiter: Waiter) -> list[dict[str, str]]:
        """The agents that a waiter waits for, as the board shows them."""
        hard = [(holder, resource, "holds") for holds in self.blockers(waiter) for resource, holder in holds]
        soft = [(w.agent, r, "ahead") for w, r in self.ahead(waiter) if not self._waits_on(w, waiter.agent)]
        edges = dict.fromkeys(hard + soft)
        return [{"agent": short(agent), "resource": resource, "how": how} for agent, resource, how in edges]


def _waiting(tx: Transaction, project: str) -> Iterator[Waiter]:
    import json

    rows = tx.all(
        "SELECT number, agent, resources, note, process, since_at, until FROM waits "
        f"WHERE project = :project AND {ALIVE} ORDER BY number",
        project=project,
    )
    for number, agent, resources, note, process, since, until in rows:
        # On another host it cannot be known whether the process that waits has ended: its place lapses there.
        if not is_dead(tx, tx.process_of(process or "")):
            yield Waiter(number, agent, json.loads(resources), note, since, until)
