"""The line: who waits for which resources, in the order in which they came, and whom each of them waits for.

Two kinds of edges lead from somebody who waits. *Hard* ones lead to those who hold what it wants. *Soft* ones lead to
those who came earlier and want the same. A free resource goes to the first in line, but one in line gives way to
whoever it is itself waiting for, near or far: it can only go on when that one does.

Why only hard edges can deadlock: soft edges lead from later to earlier places, so a circle has a hard one, and
somewhere in it a soft edge follows a hard one. Whoever stands there is waited for by the one that it would have to
wait for, so that one gives way, and the circle is open.

A place of a pool is different: any of its holders can free one, so a waiter is stuck only when all of them are. That
is why a deadlock is looked for by taking away, again and again, everybody who can go on; whoever is left cannot.

All of it is read under `tx.serialize("holds", project)` where something is decided by it.
"""

from __future__ import annotations

from ..globs import overlap
from ..model import Hold, columns, holder_id, record
from ..names import short
from .grants import LIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from . import Transaction

ALIVE = "(until > {now} AND cycle IS NULL)"
"""A place counts while it is kept, and until its owner is told to leave."""


def conflict(a: str, b: str) -> bool:
    """Whether two resources cannot be held by two agents at once (pools apart)."""
    if a.startswith("file:") and b.startswith("file:"):
        return overlap(a[5:], b[5:])
    return a == b


def somebody_waits(tx: Transaction, project: str) -> bool:
    """Whether there is a line at all; mostly there is none."""
    return tx.first("SELECT 1 FROM waits WHERE project = :project LIMIT 1", project=project) is not None


class Waiter:
    """One place in line."""

    __slots__ = ("agent", "note", "number", "resources", "since", "until")

    def __init__(self, number: int, agent: str, resources: list[str], note: str | None, since: int, until: int) -> None:
        self.number, self.agent, self.resources = number, agent, resources
        self.note, self.since, self.until = note, since, until

    def wants(self, resource: str) -> str | None:
        """What it wants that cannot be had together with this resource."""
        return next((each for each in self.resources if conflict(each, resource)), None)


class Line:
    """All who wait in a project, and all that is held there, as of now."""

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
        self._behind: dict[str, set[str]] = {}

    def _free_slots(self, tx: Transaction, project: str) -> dict[str, int]:
        free = dict(tx.all("SELECT resource, slots FROM pools WHERE project = :project", project=project))
        for resource, _ in self.holds:
            if resource in free:
                free[resource] -= 1
        return free

    # ── Turns ────────────────────────────────────────────────────────────────────────────────────────

    def before(self, resource: str, agent: str, place: int) -> list[Waiter]:
        """Who must get this free resource before this agent does, the first of them first."""
        ahead = [w for w in self.waiters if (not place or w.number < place) and w.agent != agent and w.wants(resource)]
        ahead = [waiter for waiter in ahead if not self._gives_way(waiter, agent)]
        if resource.startswith("pool:") and self._free.get(resource, 0) > len(ahead):
            return []
        return ahead

    def has(self, agent: str, resource: str) -> bool:
        """Whether this agent holds it already (one more slot of a pool is always another thing)."""
        return (resource, agent) in self.holds and not resource.startswith("pool:")

    def in_its_way(self, resource: str, agent: str) -> Hold | None:
        """The hold that keeps this agent from a resource now; None if it is free."""
        if self._free.get(resource, 0) > 0:
            return None
        others = (hold for hold in self._held if holder_id(hold) != agent or hold.resource == resource)
        return next((hold for hold in others if conflict(resource, hold.resource)), None)

    def _gives_way(self, waiter: Waiter, agent: str) -> bool:
        """Whether a waiter is waiting, near or far, for what this agent holds."""
        if agent not in self._behind:
            self._behind[agent] = self._all_behind(agent)
        return waiter.agent in self._behind[agent]

    def _all_behind(self, agent: str) -> set[str]:
        """Those who wait for what an agent holds, and those who wait for them."""
        found = {one.agent for one in self.waiters if agent in self._holders(one)}
        if not found:
            return found  # as nearly always: mostly those who wait hold nothing
        edges = [(one.agent, self._holders(one) | {w.agent for w, _ in self.ahead(one)}) for one in self.waiters]
        while more := {who for who, whom in edges if who not in found and whom & found}:
            found |= more
        return found

    def _holders(self, waiter: Waiter) -> set[str]:
        return {holder for ways in self.in_the_way(waiter) for _, holder in ways}

    # ── The graph ────────────────────────────────────────────────────────────────────────────────────

    def _places(self, agent: str) -> list[Waiter]:
        return [waiter for waiter in self.waiters if waiter.agent == agent]

    def in_the_way(self, waiter: Waiter) -> list[list[tuple[str, str]]]:
        """For each thing it cannot have now, the holds in its way: of a pool any one of them, else all."""
        if waiter.number not in self._hard:
            found = (self._ways(resource, waiter.agent) for resource in waiter.resources)
            self._hard[waiter.number] = [ways for ways in found if ways]
        return self._hard[waiter.number]

    def _ways(self, resource: str, agent: str) -> list[tuple[str, str]]:
        # Nobody waits for itself: another of its processes may be about to let go.
        others = [(held, holder) for held, holder in self.holds if holder != agent and conflict(resource, held)]
        return others if self._free.get(resource, 0) <= 0 else []

    def ahead(self, waiter: Waiter) -> Iterator[tuple[Waiter, str]]:
        """The earlier ones that want the same, and what they want."""
        for other in self.waiters:
            if other.number >= waiter.number or other.agent == waiter.agent:
                continue
            wanted = next((want for want in map(other.wants, waiter.resources) if want), None)
            if wanted:
                yield other, wanted

    def stuck(self) -> set[str]:
        """Those who wait and can never go on by themselves."""
        stuck = {waiter.agent for waiter in self.waiters}
        while free := {agent for agent in stuck if self._can_go_on(agent, stuck)}:
            stuck -= free
        return stuck

    def _can_go_on(self, agent: str, stuck: set[str]) -> bool:
        return not any(self._blocked(ways, stuck) for waiter in self._places(agent) for ways in self.in_the_way(waiter))

    @staticmethod
    def _blocked(ways: list[tuple[str, str]], stuck: set[str]) -> bool:
        several = ways[0][0].startswith("pool:")
        return (all if several else any)(holder in stuck for _, holder in ways)

    def circle(self, agent: str) -> list[tuple[Waiter, str, str]]:
        """The shortest circle through an agent, if there is one: who waits, for what, and whose it is."""
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
            for ways in self.in_the_way(waiter):
                for resource, holder in ways:
                    if holder in stuck and self._blocked(ways, stuck):
                        yield waiter, resource, holder

    def waits_for(self, waiter: Waiter) -> list[dict[str, str]]:
        """Whom somebody waits for, as the board shows it."""
        hard = [(holder, resource, "holds") for ways in self.in_the_way(waiter) for resource, holder in ways]
        soft = [(w.agent, r, "ahead") for w, r in self.ahead(waiter) if not self._gives_way(w, waiter.agent)]
        return [
            {"agent": short(who), "resource": resource, "how": how} for who, resource, how in dict.fromkeys(hard + soft)
        ]


def _waiting(tx: Transaction, project: str) -> Iterator[Waiter]:
    import json

    rows = tx.all(
        "SELECT number, agent, resources, note, process, since_at, until FROM waits "
        f"WHERE project = :project AND {ALIVE} ORDER BY number",
        project=project,
    )
    for number, agent, resources, note, process, since, until in rows:
        if not _dead(tx, process):
            yield Waiter(number, agent, json.loads(resources), note, since, until)


def _dead(tx: Transaction, process: str | None) -> bool:
    """Whether the process that waits is known to be gone; on another host that cannot be known."""
    if not process:
        return False
    who = tx.process_of(process)
    return who is not None and tx.is_alive(who) is False
