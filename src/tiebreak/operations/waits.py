"""Waiting for resources: entering the wait queue, keeping a place, leaving it, and who waits for whom.

First come, first served, over all processes and machines: a place is a row with a number that only grows. A place has
a short lease of its own, which its owner renews while it waits. So a waiter that died delays the others for that long
at most, and not at all where its process is known to have ended.

Nothing here hands a resource to anybody. The first waiter takes a free resource with `holds.take`, like any other
agent, and `holds.take` refuses all agents whose turn it is not. Entering is decided under the scope of the project's
holds, which `holds.take` and `holds.transfer` take too. Leaving deletes the caller's own row and needs no scope.

A call that closes a cycle of waiters finds the cycle, and the youngest waiter in it is told. That is nearly always the
caller, which then gets no place. A person must see a deadlock although the board stands still, so it is written to the
log at once; one that is tried again and again is counted like any other refusal. If a grant closes the cycle (a hold
was handed over to an agent that waits), the youngest waiter is woken by an event and finds the cycle in its own row
(`cycle`).
"""

from __future__ import annotations

from ..clock import SECOND, micros
from ..errors import Deadlock, Invalid, Lost, Refused
from ..held_files import called
from ..limits import MAX_LIMIT, MAX_PLACES, PLACE_LEASE
from ..model import Wait, record
from ..names import json_text, short
from . import holds_scopes, operation
from .agents import RECENT_EVENTS
from .events import append
from .resources import kind_of, refuse
from .wait_queue import WaitQueue, has_waiters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..names import AgentId, Label, Limit, Note, Number, Project, Resource
    from . import Transaction
    from .wait_queue import Waiter

_TOLD_ONCE = 60 * SECOND
"""A deadlock that is found again within this time is counted, not told again: an agent may try in a loop."""
_THIS = "project = :project AND number = :number AND agent = :agent"


@operation("waits.enter", writes=True, strangers=True, scopes=holds_scopes)
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
    """Enter the wait queue for all of these resources, or keep the given `place`; refused if the wait could never end.

    A place lapses at its `until` unless it is kept. `process` is a token of the process that waits.
    """
    if not resources:
        raise Invalid("resources: name at least one")
    tx.serialize("holds", project)
    _delete_lapsed_places(tx, project)
    kept = _renew_place(tx, place, agent, project)
    number = kept or _add_place(tx, resources, agent, project, note, process)
    queue = WaitQueue(tx, project)
    cycle = queue.find_cycle(agent)
    if cycle and max(waiter.number for waiter, _, _ in cycle) == number:
        raise _deadlock(tx, project, cycle, number, queued=kept > 0)
    if not kept:
        for resource in sorted(set(resources)):
            _wait_event(tx, "hold.queued", project, resource, agent, note)
    me = next((waiter for waiter in queue.waiters if waiter.number == number), None)
    if me is None:
        raise Refused("the process that waits is gone", hint="let the process that waits renew its own place")
    return _as_record(queue, project, me)


def _delete_lapsed_places(tx: Transaction, project: str) -> None:
    import json

    gone = tx.all(
        "DELETE FROM waits WHERE project = :project AND until <= {now} RETURNING number, agent, resources",
        project=project,
    )
    for _, agent, resources in sorted(gone):  # in order of arrival
        for resource in json.loads(resources):
            _wait_event(tx, "hold.unqueued", project, resource, agent, "its place lapsed")


def _renew_place(tx: Transaction, place: int, agent: str, project: str) -> int:
    if not place:
        return 0
    refuse_if_deadlocked(tx, place, agent, project)
    row = tx.first(
        f"UPDATE waits SET until = {{now}} + :lease WHERE {_THIS} RETURNING number",
        lease=micros(PLACE_LEASE),
        project=project,
        number=place,
        agent=agent,
    )
    return place if row else 0


def _add_place(
    tx: Transaction, resources: list[str], agent: str, project: str, note: str | None, process: str | None
) -> int:
    wanted = sorted(set(resources))
    count, newest = tx.first(
        "SELECT count(*), coalesce(max(number), 0) FROM waits WHERE project = :project", project=project
    ) or (0, 0)
    if count >= MAX_PLACES:
        raise Refused(f"{count} are waiting in this project already, no more can", hint="try again later")
    number: int = max(tx.now, newest + 1)  # no number is used twice, even if the last waiter has left
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
    return number


def refuse_if_deadlocked(tx: Transaction, place: int, agent: str, project: str) -> None:
    """Refuse to wait any longer in a place whose owner was told to leave because of a deadlock."""
    row = tx.first(f"SELECT cycle FROM waits WHERE {_THIS}", project=project, number=place, agent=agent)
    if row is not None and row[0] is not None:
        raise _deadlock_error(row[0])


@operation("waits.leave", writes=True, strangers=True)
def leave(tx: Transaction, *, place: Number, agent: AgentId = "", project: Project = "") -> bool:
    """Leave the wait queue; false if the place is gone already."""
    resources = remove_place(tx, place, agent, project)
    for resource in resources:
        _wait_event(tx, "hold.unqueued", project, resource, agent)
    return bool(resources)


def remove_place(tx: Transaction, place: int, agent: str, project: str) -> list[str]:
    """Delete a place; the resources that it was for."""
    import json

    row = tx.first(f"DELETE FROM waits WHERE {_THIS} RETURNING resources", project=project, number=place, agent=agent)
    return json.loads(row[0]) if row else []


@operation("waits.list", writes=False, strangers=True)
def listing(
    tx: Transaction, *, project: Project = "", matching: Resource | None = None, limit: Limit = MAX_LIMIT
) -> list[Wait]:
    """List who waits for which resources and for whom, in order of arrival; `matching` selects those for a resource."""
    if not has_waiters(tx, project):
        return []
    queue = WaitQueue(tx, project)
    found = [waiter for waiter in queue.waiters if matching is None or waiter.wants(matching)]
    return [_as_record(queue, project, waiter) for waiter in found[:limit]]


def refuse_out_of_turn(tx: Transaction, resources: list[str], agent: str, project: str, place: int) -> None:
    """Refuse resources to an agent while others wait for them before it.

    That includes a resource that is held now: it may be released before this transaction tries to take it.
    """
    queue = WaitQueue(tx, project)
    if all(waiter.number != place or waiter.agent != agent for waiter in queue.waiters):
        place = 0  # the place has lapsed: everybody who waits now comes first
    for resource in sorted(resources):
        ahead = [] if queue.has(agent, resource) else queue.before(resource, agent, place)
        if ahead:
            hold = queue.blocking_hold(resource, agent)
            raise refuse(tx, hold, agent, resource) if hold else _others_first(tx, resource, ahead, agent, project)


def _others_first(tx: Transaction, resource: str, ahead: list[Waiter], agent: str, project: str) -> Lost:
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


def break_deadlocks(tx: Transaction, agent: str, project: str) -> None:
    """After a grant to an agent that waits: if it closed a cycle, tell the youngest waiter in it to leave."""
    queue = WaitQueue(tx, project)
    while cycle := queue.find_cycle(agent):
        youngest = max((waiter for waiter, _, _ in cycle), key=lambda waiter: waiter.number)
        steps = _steps(cycle)
        tx.all(
            "UPDATE waits SET cycle = :cycle WHERE project = :project AND number = :number",
            cycle=json_text(steps),
            project=project,
            number=youngest.number,
        )
        for resource in sorted({resource for holds in queue.blockers(youngest) for resource, _ in holds}):
            _wait_event(tx, "hold.deadlocked", project, resource, youngest.agent, _sentence(steps)[:1000])
        queue.waiters.remove(youngest)


def _steps(cycle: list[tuple[Waiter, str, str]]) -> list[dict[str, str]]:
    return [
        {"agent": short(waiter.agent), "waits_for": resource, "held_by": short(holder)}
        for waiter, resource, holder in cycle
    ]


def _sentence(steps: list[dict[str, str]]) -> str:
    return ", ".join(f"{s['agent']} waits for {called(s['waits_for'])} (held by {s['held_by']})" for s in steps)


def _deadlock(
    tx: Transaction, project: str, cycle: list[tuple[Waiter, str, str]], number: int, *, queued: bool
) -> Deadlock:
    """The refusal of a wait that could never end. Its place is given up, and the log tells of it."""
    youngest, resource, _ = next(step for step in cycle if step[0].number == number)
    steps = _steps(cycle)
    error, note = _deadlock_error(json_text(steps) or "[]"), _sentence(steps)[:1000]
    error.kept = not _told_lately(tx, project, resource, youngest.agent)
    if error.kept:
        given_up = remove_place(tx, number, youngest.agent, project)
        _wait_event(tx, "hold.deadlocked", project, resource, youngest.agent, note)
        for each in given_up if queued else ():  # the log has told that it was in the queue
            _wait_event(tx, "hold.unqueued", project, each, youngest.agent, "a deadlock")
    else:
        _refused(tx, "hold.deadlocked", project, resource, youngest.agent, note)
    return error


def _told_lately(tx: Transaction, project: str, resource: str, agent: str) -> bool:
    """Whether the log has told of this deadlock within `_TOLD_ONCE`."""
    row = tx.first(
        "SELECT 1 FROM {log} WHERE subject = :resource AND project = :project AND agent = :agent "
        "AND event = 'hold.deadlocked' AND at > {now} - :once AND number > (SELECT max(number) FROM {log}) - :recent "
        "LIMIT 1",
        resource=resource,
        project=project,
        agent=agent,
        once=_TOLD_ONCE,
        recent=RECENT_EVENTS,
    )
    return row is not None


def _deadlock_error(stored: str) -> Deadlock:
    import json

    steps = json.loads(stored)
    return Deadlock(
        f"this wait could never end: {_sentence(steps)}",
        reason="deadlock",
        cycle=steps,
    )


def _as_record(queue: WaitQueue, project: str, one: Waiter) -> Wait:
    waits_for, resources = json_text(queue.waits_for(one)), json_text(one.resources)
    return record(Wait, (one.number, project, one.agent, resources, one.note, one.since, one.until, waits_for))


def _wait_event(tx: Transaction, event: str, project: str, resource: str, agent: str, note: str | None = None) -> None:
    append(tx, event, project, subject=resource, name=resource, kind=kind_of(resource), agent=agent, note=note)


def _refused(tx: Transaction, event: str, project: str, resource: str, agent: str, note: str) -> None:
    tx.refuse(
        event, project=project, subject=resource, name=resource, kind=kind_of(resource), agent=agent, epoch=0, note=note
    )
