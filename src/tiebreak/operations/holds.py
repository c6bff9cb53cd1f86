"""Holds: exclusive, time-bounded rights to files, locks, seats and the slots of pools.

Each resource has one row for ever, so its epoch is never forgotten, and the row is won like everything
else (see `grants`). Two things are decided over several rows, under `tx.serialize`: taking several
resources (all of them or none, in sorted order) and globs, which conflict with every hold that
could match the same path. A glob is a resource of its own with its own epoch; the check against other
patterns comes before the row is won, and both happen in one serialised transaction.

Renewing and releasing decide about one row each and take no scope. That is safe because a lapsed hold in the way is not
passed over but given back first, on its own row: a renewal that comes first keeps it, and one that comes later finds
it gone.
"""

from __future__ import annotations

from ..clock import micros
from ..errors import Invalid, NotFound, Refused
from ..globs import is_glob, overlap
from ..limits import HOLD_LEASE, MAX_LIMIT
from ..model import Hold, Released, holder_id, record
from ..names import short
from . import holds_of, operation
from .agents import incarnation_of
from .grants import LIVE, by_name, giving_back, passing_on
from .pools import slot_of, take_slot
from .resources import COLUMNS, THIS, called, current, ensure, grant, lapse, prolong, refuse, stale, tell
from .wait_queue import conflict, somebody_waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Epoch, Label, Lease, Limit, Note, Number, Project, Resource, Slots
    from . import Transaction


def _held_by_somebody(
    tx: Transaction, *, resources: list[str], agent: str, project: str, again: bool = False, place: int = 0, **_: Any
) -> None:
    """Losing needs no turn at the gate: what is held now, by a committed grant, is lost now."""
    _heed(tx, place, agent, project)
    for resource in sorted(resources):
        if resource.startswith("pool:"):
            continue
        row = tx.first(
            f"SELECT {COLUMNS} FROM holds WHERE {THIS} AND {LIVE}", project=project, resource=resource, slot=0
        )
        if row is not None and not (again and holder_id(record(Hold, row)) == agent):
            raise refuse(tx, record(Hold, row), agent, resource)
    _wait_your_turn(tx, resources, agent, project, place)


def _heed(tx: Transaction, place: int, agent: str, project: str) -> None:
    if place:
        from .waits import heed

        heed(tx, place, agent, project)


def _wait_your_turn(tx: Transaction, resources: list[str], agent: str, project: str, place: int) -> None:
    if somebody_waits(tx, project):
        from .waits import wait_your_turn

        wait_your_turn(tx, resources, agent, project, place)


@operation("holds.take", writes=True, strangers=True, glance=_held_by_somebody, scopes=holds_of)
def take(
    tx: Transaction,
    *,
    resources: list[Resource],
    agent: AgentId = "",
    project: Project = "",
    lease: Lease = HOLD_LEASE,
    note: Note | None = None,
    hashes: list[Label | None] = [],  # noqa: B006  (never changed)
    slots: Slots | None = None,
    again: bool = False,
    place: Number = 0,
) -> list[Hold]:
    """Take all of these resources, or none and learn who is in the way.

    `hashes` are the files' contents now, in the order of `resources`. `slots` sets the size of the pools
    named here. With `again`, what this agent holds already is renewed instead of refused, its slots of a pool too.
    What is free goes to those who wait in line first; `place` is one's own place there (see `waits.enter`), and ends
    with the grant.
    """
    _check_lists(resources)
    wanted = dict(zip(resources, [*hashes, *[None] * len(resources)], strict=False))
    tx.serialize("holds", project)
    _heed(tx, place, agent, project)
    _wait_your_turn(tx, resources, agent, project, place)
    taken = {}
    for resource in sorted(wanted):
        if resource.startswith("pool:"):
            taken[resource] = take_slot(tx, resource, agent, project, lease, note, slots, again)
        else:
            taken[resource] = _take(tx, resource, agent, project, lease, note, wanted[resource], again)
    if place:
        _end_the_wait(tx, place, agent, project)
    _look_for_a_deadlock(tx, agent, project)
    return [taken[resource] for resource in wanted]


def _end_the_wait(tx: Transaction, place: int, agent: str, project: str) -> None:
    from .waits import forget

    forget(tx, place, agent, project)


def _look_for_a_deadlock(tx: Transaction, agent: str, project: str) -> None:
    """A grant to somebody who waits elsewhere may close a circle of waiters."""
    waiting = "SELECT 1 FROM waits WHERE project = :project AND agent = :agent LIMIT 1"
    if tx.first(waiting, project=project, agent=agent) is not None:
        from .waits import tell_the_youngest

        tell_the_youngest(tx, agent, project)


def _take(
    tx: Transaction,
    resource: str,
    agent: str,
    project: str,
    lease: float,
    note: str | None,
    hash: str | None,
    again: bool,
) -> Hold:
    other = _in_the_way(tx, resource, agent, project)
    if other is not None:
        raise refuse(tx, other, agent, resource)
    ensure(tx, project, resource, 0, resource.startswith("file:") and is_glob(resource[5:]))
    held = grant(tx, resource, 0, agent, project, lease, note, hash)
    if held is not None:
        return held
    if again and (mine := prolong(tx, resource, 0, agent, project, 0, lease, hash, note)) is not None:
        return mine
    rival = current(tx, project, resource, 0)
    if holder_id(rival) is None:  # given back meanwhile, and nobody else can take it before this ends
        return _take(tx, resource, agent, project, lease, note, hash, again)
    raise refuse(tx, rival, agent, resource)


def _in_the_way(tx: Transaction, resource: str, agent: str, project: str) -> Hold | None:
    """The hold of somebody else, under another name, that could mean the same file; lapsed ones are given back."""
    if not resource.startswith("file:"):
        return None
    tx.serialize("holds", project)
    narrow = "" if is_glob(resource[5:]) else " AND glob = 1"
    rows = tx.all(
        f"SELECT {COLUMNS} FROM holds WHERE project = :project AND holder IS NOT NULL{narrow} "
        "AND holder <> :agent AND resource <> :resource AND substr(resource, 1, 5) = 'file:' ORDER BY resource",
        project=project,
        agent=agent,
        resource=resource,
    )
    others = [hold for hold in (record(Hold, row) for row in rows) if overlap(resource[5:], hold.resource[5:])]
    live = next((hold for hold in others if micros(hold.until or 0) > tx.now), None)
    if live is not None:
        return live
    ended = [lapse(tx, hold) for hold in others]
    if all(ended):
        return None
    return _in_the_way(tx, resource, agent, project)  # one of them was renewed or released just now: look again


@operation("holds.renew", writes=True, strangers=True)
def renew(
    tx: Transaction,
    *,
    resources: list[Resource],
    agent: AgentId = "",
    project: Project = "",
    lease: Lease = HOLD_LEASE,
    epochs: list[Epoch] = [],  # noqa: B006
    slots: list[Number] = [],  # noqa: B006
    hashes: list[Label | None] = [],  # noqa: B006
) -> list[Hold]:
    """Keep holds for another lease, all of them or none. A given hash vouches for the file as it is now."""
    _check_lists(resources, epochs, slots)
    held = {}
    for i, resource in _in_order(resources):
        epoch, slot = _at(epochs, i, 0), slot_of(tx, resource, _at(slots, i, None), agent, project)
        hold = prolong(tx, resource, slot, agent, project, epoch, lease, _at(hashes, i, None))
        if hold is None:
            raise stale(tx, resource, slot, agent, project, epoch)
        held[i] = hold
    return [held[i] for i in range(len(resources))]


@operation("holds.release", writes=True, strangers=True)
def release(
    tx: Transaction,
    *,
    resources: list[Resource],
    agent: AgentId = "",
    project: Project = "",
    epochs: list[Epoch] = [],  # noqa: B006
    slots: list[Number] = [],  # noqa: B006
    hashes: list[Label | None] = [],  # noqa: B006
) -> list[Released]:
    """Give holds back, all of them or none; tells of each file whether somebody else changed it meanwhile."""
    _check_lists(resources, epochs, slots)
    out = {}
    for i, resource in _in_order(resources):
        epoch, slot = _at(epochs, i, 0), slot_of(tx, resource, _at(slots, i, None), agent, project)
        row = tx.first(
            giving_back("holds", THIS, COLUMNS),
            agent=agent,
            epoch=epoch,
            project=project,
            resource=resource,
            slot=slot,
        )
        if row is None:
            raise stale(tx, resource, slot, agent, project, epoch)
        given, now = record(Hold, row), _at(hashes, i, None)
        changed = None if now is None or given.hash is None else now != given.hash
        note = "the file was changed by somebody else meanwhile" if changed else None
        tell(tx, "hold.released", given, agent=agent, note=note)
        out[i] = record(Released, (resource, slot, given.epoch, changed))
    return [out[i] for i in range(len(resources))]


@operation("holds.transfer", writes=True, strangers=True, scopes=holds_of)
def transfer(
    tx: Transaction,
    *,
    resource: Resource,
    to: AgentId,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
    slot: Number | None = None,
    lease: Lease = HOLD_LEASE,
) -> Hold:
    """Hand a hold to another agent: a new grant, so the giver is fenced from that moment on."""
    tx.serialize("holds", project)
    number = slot_of(tx, resource, slot, agent, project)
    heir = incarnation_of(tx, to, project)
    row = tx.first(
        passing_on("holds", THIS, COLUMNS, "taken_at = {now}"),
        agent=agent,
        epoch=epoch,
        to=heir,
        lease=micros(lease),
        project=project,
        resource=resource,
        slot=number,
    )
    if row is None:
        raise stale(tx, resource, number, agent, project, epoch)
    other = _in_the_way(tx, resource, heir, project)
    if other is not None:
        raise Refused(
            f"{called(resource)} cannot pass to {short(heir)} while {other.holder} holds {called(other.resource)}",
            hint="hand that over too, or drop it first",
        )
    hold = record(Hold, row)
    tell(tx, "hold.transferred", hold, agent=heir, note=f"handed over by {short(agent)}")
    _look_for_a_deadlock(tx, heir, project)
    return hold


@operation("holds.break", writes=True, strangers=True, scopes=holds_of)
def break_hold(
    tx: Transaction,
    *,
    resource: Resource,
    reason: Note,
    agent: AgentId = "",
    project: Project = "",
    slot: Number | None = None,
    epoch: Epoch = 0,
) -> Hold:
    """Take a hold away from whoever has it, as an operator, with a reason that everybody can read.

    With an epoch, only that grant: nothing happens to whoever has it by a later one.
    """
    if slot is None and resource.startswith("pool:"):
        raise Invalid(f"slot: which slot of {resource}?", reason="slot-missing")
    slot = slot or 0
    tx.serialize("holds", project)
    held = current(tx, project, resource, slot, "{lock}")
    holder = holder_id(held)
    if not holder or micros(held.until or 0) <= tx.now or epoch not in (0, held.epoch):
        raise NotFound(f"{called(resource)} is not held by anybody")
    row = tx.first(
        giving_back("holds", THIS, COLUMNS, fence="epoch = :epoch"),
        project=project,
        resource=resource,
        slot=slot,
        epoch=held.epoch,
    )
    hold = record(Hold, row) if row else held
    tell(tx, "hold.broken", hold, agent=agent, note=f"held by {short(holder)}: {reason}"[:1000])
    return hold


@operation("holds.list", writes=False, strangers=True)
def listing(
    tx: Transaction,
    *,
    project: Project | None = "",
    agent: AgentId | None = None,
    matching: Resource | None = None,
    limit: Limit = MAX_LIMIT,
) -> list[Hold]:
    """The live holds, those that run out first coming first; `matching` keeps those in the way of a resource."""
    where = [LIVE]
    if project is not None:
        where.append("project = :project")
    if agent is not None:
        where.append(by_name("holder"))
    rows = tx.all(
        f"SELECT {COLUMNS} FROM holds WHERE {' AND '.join(where)} ORDER BY until, resource, slot",
        project=project,
        who=agent and short(agent),
    )
    holds = [record(Hold, row) for row in rows]
    return [hold for hold in holds if matching is None or conflict(matching, hold.resource)][:limit]


def _in_order(resources: list[str]) -> list[tuple[int, str]]:
    """The resources with their places, in the order in which everybody locks them."""
    return sorted(enumerate(resources), key=lambda each: (each[1], each[0]))


def _check_lists(resources: list[str], *others: list[int]) -> None:
    """Something must be named, and a list that goes with it must not be shorter: a missing epoch is no fence."""
    if not resources:
        raise Invalid("resources: name at least one")
    twice = [each for each in resources if each.startswith("pool:") and resources.count(each) > 1]
    if twice and not any(others):
        raise Invalid(f"resources: {twice[0]} is named twice; take its slots one by one")
    if any(len(other) not in (0, len(resources)) for other in others):
        raise Invalid("epochs and slots: give one for each resource, or none at all")


def _at(values: list[Any], i: int, default: Any) -> Any:
    return values[i] if i < len(values) else default
