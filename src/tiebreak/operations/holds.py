"""Holds: exclusive, time-bounded rights to files, locks, seats and the slots of pools.

Each resource has one row that is never deleted, so its epoch is never forgotten. The row is won by the same statement
as everything else (see `grants`): the database serialises its writers, and one of them finds it free.

Two decisions cover several rows and run under the scope of the project's holds (`tx.serialize`): taking several
resources (all or none, in sorted order), and globs. A glob conflicts with every hold that could match the same path. It
is a resource of its own with its own epoch. The check against other patterns and the statement that wins the row happen
in one serialised transaction.

Renewing and releasing decide about one row each and take no scope. That is safe because a conflicting hold that has
lapsed is not simply ignored: `take` first writes its lapse, on its own row. A renewal that was committed before that
keeps the hold, and a renewal that comes later finds it gone.
"""

from __future__ import annotations

from ..clock import micros
from ..errors import Invalid, NotFound, Refused
from ..globs import is_glob
from ..held_files import called, conflict, file_resource, has_other_names, is_file, parts
from ..limits import HOLD_LEASE, MAX_LIMIT
from ..model import Hold, Released, holder_id, record
from ..names import short
from . import holds_scopes, operation
from .agents import incarnation_of
from .grants import LIVE, by_name, giving_back, passing_on
from .pools import slot_of, take_slot
from .resources import (
    COLUMNS,
    THIS,
    breaking_note,
    current,
    ensure_row,
    grant,
    hold_event,
    prolong,
    record_lapse,
    refuse,
    stale,
)
from .session_fence import SEAT
from .wait_queue import has_waiters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Epoch, HoldLimit, Label, Lease, Note, Number, Project, Resource, Slots
    from . import Transaction


def _refuse_if_held(
    tx: Transaction, *, resources: list[str], agent: str, project: str, again: bool = False, place: int = 0, **_: Any
) -> None:
    """Refuse the call at once, before it waits for the write lock, if a committed grant holds one of the resources."""
    _refuse_if_deadlocked(tx, place, agent, project)
    for resource in sorted(resources):
        if resource.startswith("pool:"):
            continue
        row = tx.first(
            f"SELECT {COLUMNS} FROM holds WHERE {THIS} AND {LIVE}", project=project, resource=resource, slot=0
        )
        if row is None or (again and holder_id(record(Hold, row)) == agent):
            continue
        if not _held_by_dead(tx, record(Hold, row)):
            raise refuse(tx, record(Hold, row), agent, resource)
    _refuse_out_of_turn(tx, resources, agent, project, place)


def _refuse_if_deadlocked(tx: Transaction, place: int, agent: str, project: str) -> None:
    if place:
        from .waits import refuse_if_deadlocked

        refuse_if_deadlocked(tx, place, agent, project)


def _refuse_out_of_turn(tx: Transaction, resources: list[str], agent: str, project: str, place: int) -> None:
    if has_waiters(tx, project):
        from .waits import refuse_out_of_turn

        refuse_out_of_turn(tx, resources, agent, project, place)


@operation("holds.take", writes=True, strangers=True, precheck=_refuse_if_held, scopes=holds_scopes)
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
    """Take all of these resources, or none of them and learn who holds one.

    `hashes` are hashes of the files' present contents, in the order of `resources`. `slots` sets the size of the pools
    named here. With `again`, resources that this agent already holds are renewed instead of refused, its slots of a
    pool too. Agents that wait for a free resource get it before all others. `place` is the caller's own place in the
    wait queue (see `waits.enter`); the grant ends it.
    """
    _check_lists(resources)
    wanted = dict(zip(resources, [*hashes, *[None] * len(resources)], strict=False))
    tx.serialize("holds", project)
    _refuse_if_deadlocked(tx, place, agent, project)
    _refuse_out_of_turn(tx, resources, agent, project, place)
    taken = {}
    for resource in sorted(wanted):
        if resource.startswith("pool:"):
            taken[resource] = take_slot(tx, resource, agent, project, lease, note, slots, again)
        else:
            taken[resource] = _take(tx, resource, agent, project, lease, note, wanted[resource], again)
    if place:
        _remove_place(tx, place, agent, project)
    break_deadlocks_of(tx, agent, project)
    return [taken[resource] for resource in wanted]


def _remove_place(tx: Transaction, place: int, agent: str, project: str) -> None:
    from .waits import remove_place

    remove_place(tx, place, agent, project)


def break_deadlocks_of(tx: Transaction, agent: str, project: str) -> None:
    """Look for a cycle of waiters: a grant to an agent that waits for something else may close one."""
    waiting = "SELECT 1 FROM waits WHERE project = :project AND agent = :agent LIMIT 1"
    if tx.first(waiting, project=project, agent=agent) is not None:
        from .waits import break_deadlocks

        break_deadlocks(tx, agent, project)


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
    other = _conflicting_hold(tx, resource, agent, project)
    if other is not None:
        raise refuse(tx, other, agent, resource)
    ensure_row(tx, project, resource, 0, has_other_names(resource))
    held = grant(tx, resource, 0, agent, project, lease, note, hash)
    if held is not None:
        return held
    if again and (mine := prolong(tx, resource, 0, agent, project, 0, lease, hash, note)) is not None:
        return mine
    rival = current(tx, project, resource, 0)
    if holder_id(rival) is None:  # released just now, and nobody else can take it before this transaction ends
        return _take(tx, resource, agent, project, lease, note, hash, again)
    if _end_of_dead(tx, rival):
        return _take(tx, resource, agent, project, lease, note, hash, again)
    raise refuse(tx, rival, agent, resource)


def _held_by_dead(tx: Transaction, hold: Hold) -> bool:
    from .death import bound_and_dead

    return hold.resource != SEAT and bool(bound_and_dead(tx, holder_id(hold) or "", hold.project))


def _end_of_dead(tx: Transaction, hold: Hold) -> bool:
    from .death import end_hold_of_dead

    return end_hold_of_dead(tx, hold)


def _conflicting_hold(tx: Transaction, resource: str, agent: str, project: str) -> Hold | None:
    """Another agent's live hold on a different path or glob that could match the same file; ends lapsed ones."""
    if not is_file(resource):
        return None
    tx.serialize("holds", project)
    checkout, path = parts(resource)
    # `glob` is 1 for globs and for files of a checkout: those that other names can mean too.
    narrow = "" if is_glob(path) else " AND (glob = 1 OR resource = :everywhere)" if checkout else " AND glob = 1"
    rows = tx.all(
        f"SELECT {COLUMNS} FROM holds WHERE project = :project AND holder IS NOT NULL{narrow} "
        "AND holder <> :agent AND resource <> :resource AND substr(resource, 1, 5) = 'file:' ORDER BY resource",
        project=project,
        agent=agent,
        resource=resource,
        everywhere=file_resource(path),
    )
    others = [hold for hold in (record(Hold, row) for row in rows) if conflict(resource, hold.resource)]
    live = next((hold for hold in others if micros(hold.until or 0) > tx.now), None)
    if live is not None:
        return _conflicting_hold(tx, resource, agent, project) if _end_of_dead(tx, live) else live
    ended = [record_lapse(tx, hold) for hold in others]
    if all(ended):
        return None
    return _conflicting_hold(tx, resource, agent, project)  # one of them was renewed or released just now: check again


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
    """Renew holds for another lease, all of them or none.

    A hash replaces the one that the hold was taken with: `holds.release` compares with the last one.
    """
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
    """Release holds, all of them or none; the answer says for each file whether its hash is another than the last one.

    Who changed a file does not follow from that: its holder usually did (docs/decisions/007-vouching-for-a-file.md).
    """
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
        hold_event(tx, "hold.released", given, agent=agent)
        out[i] = record(Released, (resource, slot, given.epoch, changed))
    return [out[i] for i in range(len(resources))]


@operation("holds.transfer", writes=True, strangers=True, scopes=holds_scopes)
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
    """Hand a hold over to another agent. This is a new grant, so the giver is fenced from that moment on."""
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
    other = _conflicting_hold(tx, resource, heir, project)
    if other is not None:
        raise Refused(
            f"{called(resource)} cannot pass to {short(heir)} while {other.holder} holds {called(other.resource)}",
            hint="hand that over too, or release it first",
        )
    hold = record(Hold, row)
    hold_event(tx, "hold.transferred", hold, agent=heir, note=f"handed over by {short(agent)}")
    break_deadlocks_of(tx, heir, project)
    return hold


@operation("holds.break", writes=True, strangers=True, scopes=holds_scopes)
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
    """Take a hold away from its holder, as an operator, with a reason that everybody can read.

    With an epoch, only that grant is ended: a later holder is not affected.
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
    hold_event(tx, "hold.broken", hold, agent=agent, note=breaking_note(holder, reason))
    return hold


@operation("holds.list", writes=False, strangers=True)
def listing(
    tx: Transaction,
    *,
    project: Project | None = "",
    agent: AgentId | None = None,
    matching: Resource | None = None,
    limit: HoldLimit = MAX_LIMIT,
) -> list[Hold]:
    """List the live holds, the first to run out at the top; `matching` selects those in conflict with a resource."""
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
    """The resources with their indexes, in the order in which every call locks them."""
    return sorted(enumerate(resources), key=lambda each: (each[1], each[0]))


def _check_lists(resources: list[str], *others: list[int]) -> None:
    """Refuse an empty list, and lists of different lengths: a hold without its epoch would not be fenced."""
    if not resources:
        raise Invalid("resources: name at least one")
    twice = [each for each in resources if each.startswith("pool:") and resources.count(each) > 1]
    if twice and not any(others):
        raise Invalid(f"resources: {twice[0]} is named twice; take its slots one by one")
    if any(len(other) not in (0, len(resources)) for other in others):
        raise Invalid("epochs and slots: give one for each resource, or none at all")


def _at(values: list[Any], i: int, default: Any) -> Any:
    return values[i] if i < len(values) else default
