"""Waiting in line for resources: entering, keeping one's place, leaving, and who waits for whom.

First come, first served, over all processes and machines: a place is a row with a number that only grows. It has a
short lease of its own, kept while its owner waits, so that a waiter that died delays the others for that long at
most (for no time at all where its process can be seen to be gone). Nothing is handed to anybody here: whoever is first
takes what is free by `holds.take`, like everybody else, and all others are refused while it is not their turn.

A circle of waiters is found by the call that closes it, and the youngest of the circle is told. That is nearly always
the caller, whose place is then not given. Where a grant closes the circle (a hold was handed over to somebody who
waits), the youngest is woken and finds it written in its place.
"""

from __future__ import annotations

from ..clock import micros
from ..errors import Deadlock, Invalid, Lost, Refused
from ..limits import MAX_LIMIT, PLACE_LEASE
from ..model import Wait, record
from ..names import json_text, short
from . import holds_of, operation
from .events import append
from .resources import called, kind_of, refuse
from .wait_queue import Line, somebody_waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..names import AgentId, Label, Limit, Note, Number, Project, Resource
    from . import Transaction
    from .wait_queue import Waiter

MOST = 1000
"""How many may wait in one project."""
_THIS = "project = :project AND number = :number AND agent = :agent"


@operation("waits.enter", writes=True, strangers=True, scopes=holds_of)
def enter(
    tx: Transaction,
    *,
    resources: list[Resource],
    agent: AgentId = "",
    project: Project = "",
    place: Number = 0,
    note: Note | None = None,
    process: Label | None = None,
) -> Wait:
    """Stand in line for all of these resources, or keep the place that one has; refused if the wait could not end.

    A place lapses after 30 seconds. `process` is a token of the process that waits.
    """
    if not resources:
        raise Invalid("resources: name at least one")
    tx.serialize("holds", project)
    _forget_the_lapsed(tx, project)
    number = _keep(tx, place, agent, project) or _queue(tx, resources, agent, project, note, process)
    line = Line(tx, project)
    circle = line.circle(agent)
    if circle and max(waiter.number for waiter, _, _ in circle) == number:
        raise _deadlock(tx, project, circle, number)
    me = next((waiter for waiter in line.waiters if waiter.number == number), None)
    if me is None:
        raise Refused("the process that waits is gone", hint="let the process that waits keep its own place")
    return _shown(line, project, me)


def _forget_the_lapsed(tx: Transaction, project: str) -> None:
    import json

    gone = tx.all(
        "DELETE FROM waits WHERE project = :project AND until <= {now} RETURNING number, agent, resources",
        project=project,
    )
    for _, agent, resources in sorted(gone):  # the first in line first
        for resource in json.loads(resources):
            _tell(tx, "hold.unqueued", project, resource, agent, "its place lapsed")


def _keep(tx: Transaction, place: int, agent: str, project: str) -> int:
    if not place:
        return 0
    heed(tx, place, agent, project)
    row = tx.first(
        f"UPDATE waits SET until = {{now}} + :lease WHERE {_THIS} RETURNING number",
        lease=micros(PLACE_LEASE),
        project=project,
        number=place,
        agent=agent,
    )
    return place if row else 0


def _queue(
    tx: Transaction, resources: list[str], agent: str, project: str, note: str | None, process: str | None
) -> int:
    wanted = sorted(set(resources))
    count, newest = tx.first(
        "SELECT count(*), coalesce(max(number), 0) FROM waits WHERE project = :project", project=project
    ) or (0, 0)
    if count >= MOST:
        raise Refused(f"{count} are waiting in this project already, no more can", hint="try again later")
    number: int = max(tx.now, newest + 1)  # no number is given twice, also when the last in line has left
    tx.all(
        "INSERT INTO waits (project, number, agent, resources, note, process, since_at, until) "
        "VALUES (:project, :number, :agent, :resources, :note, :process, {now}, {now} + :lease)",
        project=project,
        number=number,
        agent=agent,
        resources=json_text(wanted),
        note=note,
        process=process,
        lease=micros(PLACE_LEASE),
    )
    for resource in wanted:
        _tell(tx, "hold.queued", project, resource, agent, note)
    return number


def heed(tx: Transaction, place: int, agent: str, project: str) -> None:
    """Refuse to wait any longer in a place whose owner was told to leave."""
    row = tx.first(f"SELECT cycle FROM waits WHERE {_THIS}", project=project, number=place, agent=agent)
    if row is not None and row[0] is not None:
        raise _told(row[0])


@operation("waits.leave", writes=True, strangers=True)
def leave(tx: Transaction, *, place: Number, agent: AgentId = "", project: Project = "") -> bool:
    """Give up one's place in line; false if one had none any more."""
    resources = forget(tx, place, agent, project)
    for resource in resources:
        _tell(tx, "hold.unqueued", project, resource, agent)
    return bool(resources)


def forget(tx: Transaction, place: int, agent: str, project: str) -> list[str]:
    """Take a place out of the line; what it was for."""
    import json

    row = tx.first(f"DELETE FROM waits WHERE {_THIS} RETURNING resources", project=project, number=place, agent=agent)
    return json.loads(row[0]) if row else []


@operation("waits.list", writes=False, strangers=True)
def listing(
    tx: Transaction, *, project: Project = "", matching: Resource | None = None, limit: Limit = MAX_LIMIT
) -> list[Wait]:
    """Who waits for what and for whom, the first in line first; `matching` keeps those that want this resource."""
    if not somebody_waits(tx, project):
        return []
    line = Line(tx, project)
    found = [waiter for waiter in line.waiters if matching is None or waiter.wants(matching)]
    return [_shown(line, project, waiter) for waiter in found[:limit]]


def wait_your_turn(tx: Transaction, resources: list[str], agent: str, project: str, place: int) -> None:
    """Refuse a resource to somebody while others are in line for it before them.

    Also one that is held now: by the time that it is reached for it may have been released.
    """
    line = Line(tx, project)
    if all(waiter.number != place or waiter.agent != agent for waiter in line.waiters):
        place = 0  # lapsed: behind everybody who is there now
    for resource in sorted(resources):
        ahead = [] if line.has(agent, resource) else line.before(resource, agent, place)
        if ahead:
            hold = line.in_its_way(resource, agent)
            raise refuse(tx, hold, agent, resource) if hold else _not_yet(tx, resource, ahead, agent, project)


def _not_yet(tx: Transaction, resource: str, ahead: list[Waiter], agent: str, project: str) -> Lost:
    first = ahead[0]
    behind = f"{len(ahead)} are" if len(ahead) > 1 else "1 is"
    note = f"{behind} waiting before, first {short(first.agent)}"
    _refused(tx, "hold.refused", project, resource, agent, note)
    left = max(0, first.until - tx.now) / 1_000_000
    return Lost(
        f"{called(resource)} is free, but {behind} waiting before you, first {short(first.agent)}",
        reason="others-are-first",
        first=short(first.agent),
        holder=None,
        until=None,
        epoch=0,
        left=left,
        waiting=len(ahead),
        next=short(first.agent),
        resource=first.wants(resource),
    )


def tell_the_youngest(tx: Transaction, agent: str, project: str) -> None:
    """After a grant to somebody who is waiting: if that closed a circle, wake its youngest member to end it."""
    line = Line(tx, project)
    while circle := line.circle(agent):
        youngest = max((waiter for waiter, _, _ in circle), key=lambda waiter: waiter.number)
        cycle = _steps(circle)
        tx.all(
            "UPDATE waits SET cycle = :cycle WHERE project = :project AND number = :number",
            cycle=json_text(cycle),
            project=project,
            number=youngest.number,
        )
        for resource in sorted({resource for ways in line.in_the_way(youngest) for resource, _ in ways}):
            _tell(tx, "hold.deadlocked", project, resource, youngest.agent, _sentence(cycle)[:1000])
        line.waiters.remove(youngest)


def _steps(circle: list[tuple[Waiter, str, str]]) -> list[dict[str, str]]:
    return [
        {"agent": short(waiter.agent), "waits_for": resource, "held_by": short(holder)}
        for waiter, resource, holder in circle
    ]


def _sentence(cycle: list[dict[str, str]]) -> str:
    return ", ".join(f"{s['agent']} waits for {called(s['waits_for'])} (held by {s['held_by']})" for s in cycle)


def _deadlock(tx: Transaction, project: str, circle: list[tuple[Waiter, str, str]], number: int) -> Deadlock:
    youngest, resource, _ = next(step for step in circle if step[0].number == number)
    cycle = _steps(circle)
    _refused(tx, "hold.deadlocked", project, resource, youngest.agent, _sentence(cycle)[:1000])
    return _told(json_text(cycle) or "[]")


def _told(stored: str) -> Deadlock:
    import json

    cycle = json.loads(stored)
    return Deadlock(
        f"this wait could never end: {_sentence(cycle)}",
        reason="deadlock",
        cycle=cycle,
    )


def _shown(line: Line, project: str, one: Waiter) -> Wait:
    waits_for, resources = json_text(line.waits_for(one)), json_text(one.resources)
    return record(Wait, (one.number, project, one.agent, resources, one.note, one.since, one.until, waits_for))


def _tell(tx: Transaction, event: str, project: str, resource: str, agent: str, note: str | None = None) -> None:
    append(tx, event, project, subject=resource, name=resource, kind=kind_of(resource), agent=agent, note=note)


def _refused(tx: Transaction, event: str, project: str, resource: str, agent: str, note: str) -> None:
    tx.refuse(
        event, project=project, subject=resource, name=resource, kind=kind_of(resource), agent=agent, epoch=0, note=note
    )
