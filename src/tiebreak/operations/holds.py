"""Holds: exclusive, time-bounded rights to files, locks, seats and the slots of pools.

Each resource has one row for ever, so its epoch is never forgotten, and the row is won like everything
else (see `grants`). Two things are decided over several rows, under `tx.serialize`: taking several
resources (all of them or none, in sorted order) and globs, which conflict with every live hold that
could match the same path. A glob is a resource of its own with its own epoch; the check against other
patterns comes before the row is won, and both happen in one serialised transaction.
"""

from __future__ import annotations

from ..clock import micros
from ..errors import Invalid, Lost, NotFound, Refused
from ..globs import is_glob, overlap
from ..model import Hold, Released, columns, holder_id, record
from ..names import short
from . import operation
from .events import append
from .grants import EXTEND, GIVE_BACK, LIVE, PASS_ON, by_name, fenced, lost, win, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Epoch, Label, Lease, Limit, Note, Number, Project, Resource, Slots
    from . import Transaction

HOLD_LEASE = 1800.0

_COLUMNS = columns(Hold)
_THIS = "project = :project AND resource = :resource AND slot = :slot"


@operation("holds.take", writes=True)
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
) -> list[Hold]:
    """Take all of these resources, or none and learn who is in the way.

    `hashes` are the files' contents now, in the order of `resources`. `slots` sets the size of the pools
    named here. With `again`, what this agent holds already is renewed instead of refused.
    """
    wanted = dict(zip(resources, [*hashes, *[None] * len(resources)], strict=False))
    if not wanted:
        raise Invalid("resources: name at least one")
    tx.serialize("holds", project)
    taken = {}
    for resource in sorted(wanted):
        if resource.startswith("pool:"):
            taken[resource] = _take_slot(tx, resource, agent, project, lease, note, slots)
        else:
            taken[resource] = _take(tx, resource, agent, project, lease, note, wanted[resource], again)
    return [taken[resource] for resource in wanted]


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
    glob = resource.startswith("file:") and is_glob(resource[5:])
    if resource.startswith("file:"):
        _refuse_overlap(tx, resource, agent, project, glob)
    _ensure_row(tx, project, resource, 0, glob)
    held = _grant(tx, resource, 0, agent, project, lease, note, hash)
    if held is not None:
        return held
    if again and (mine := _renew(tx, resource, 0, agent, project, 0, lease, hash)) is not None:
        return mine
    raise _refuse(tx, _row(tx, project, resource, 0), agent, resource)


def _ensure_row(tx: Transaction, project: str, resource: str, slot: int, glob: bool) -> None:
    tx.all(
        "INSERT INTO holds (project, resource, slot, glob) VALUES (:project, :resource, :slot, :glob) "
        "ON CONFLICT DO NOTHING",
        project=project,
        resource=resource,
        slot=slot,
        glob=int(glob),
    )


def _grant(
    tx: Transaction,
    resource: str,
    slot: int,
    agent: str,
    project: str,
    lease: float,
    note: str | None,
    hash: str | None = None,
) -> Hold | None:
    also = ", taken_at = {now}, note = :note, hash = :hash"
    row = win(
        tx,
        "holds",
        also,
        _THIS,
        _COLUMNS + ", displaced",
        agent=agent,
        lease=lease,
        project=project,
        resource=resource,
        slot=slot,
        note=note,
        hash=hash,
    )
    if row is None:
        return None
    hold = record(Hold, row[:-1])
    if row[-1] is not None:
        _tell(tx, "hold.expired", hold, agent=row[-1], epoch=hold.epoch - 1)
    _tell(tx, "hold.taken", hold, agent=agent, note=note)
    return hold


def _refuse_overlap(tx: Transaction, resource: str, agent: str, project: str, glob: bool) -> None:
    """A pattern conflicts with every live hold of somebody else that could match the same path."""
    narrow = "" if glob else " AND glob = 1"
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM holds WHERE project = :project AND {LIVE}{narrow} "
        "AND holder <> :agent AND resource <> :resource AND substr(resource, 1, 5) = 'file:' ORDER BY resource",
        project=project,
        agent=agent,
        resource=resource,
    )
    for row in rows:
        other = record(Hold, row)
        if overlap(resource[5:], other.resource[5:]):
            raise _refuse(tx, other, agent, resource)


def _refuse(tx: Transaction, hold: Hold, agent: str, resource: str) -> Refused:
    holder = holder_id(hold) or ""
    tx.refuse(
        "hold.refused",
        project=hold.project,
        subject=resource,
        name=resource,
        kind=_kind(resource),
        agent=agent,
        epoch=hold.epoch,
        note=f"held by {short(holder)}" + (f" as {hold.resource}" if hold.resource != resource else ""),
    )
    what = _called(resource) if hold.resource == resource else f"{_called(resource)} (by {_called(hold.resource)})"
    error = lost(
        what,
        agent=agent,
        holder=holder,
        until=micros(hold.until or 0),
        epoch=hold.epoch,
        now=tx.now,
        hint=f"ask for it with `tb send {short(holder)} …`, or wait for it with --wait",
    )
    if hold.note:
        error.message += f": {hold.note}"
    error.data.update(resource=hold.resource, note=hold.note)
    return error


def _take_slot(
    tx: Transaction,
    resource: str,
    agent: str,
    project: str,
    lease: float,
    note: str | None,
    slots: int | None,
) -> Hold:
    size = _pool_size(tx, resource, project, slots)
    free = tx.first(
        f"SELECT slot FROM holds WHERE project = :project AND resource = :resource AND slot < :size AND NOT {LIVE} "
        "ORDER BY slot LIMIT 1",
        project=project,
        resource=resource,
        size=size,
    )
    hold = _grant(tx, resource, free[0], agent, project, lease, note) if free else None
    if hold is not None:
        return hold
    row = tx.first(
        f"SELECT {_COLUMNS} FROM holds WHERE project = :project AND resource = :resource AND slot < :size "
        "ORDER BY until LIMIT 1",
        project=project,
        resource=resource,
        size=size,
    )
    error = _refuse(tx, record(Hold, row), agent, resource)  # type: ignore[arg-type]
    raise Lost(f"all {size} slots of {resource} are taken; {error.message}", hint=error.hint, **error.data)


def _pool_size(tx: Transaction, resource: str, project: str, slots: int | None) -> int:
    """The number of slots; the first mention of a pool with `slots` makes it, a later one resizes it."""
    row = tx.first(
        "SELECT slots FROM pools WHERE project = :project AND resource = :resource",
        project=project,
        resource=resource,
    )
    if slots is None or (row and row[0] == slots):
        if row is None:
            raise NotFound(f"no pool {resource} yet", hint=f"`tb hold {resource} --slots N` makes it")
        return int(row[0])
    tx.all(
        "INSERT INTO pools (project, resource, slots) VALUES (:project, :resource, :slots) "
        "ON CONFLICT (project, resource) DO UPDATE SET slots = :slots",
        project=project,
        resource=resource,
        slots=slots,
    )
    for slot in range(slots):
        _ensure_row(tx, project, resource, slot, False)
    return slots


@operation("holds.renew", writes=True)
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
    held = []
    for i, resource in enumerate(resources):
        epoch, slot = _at(epochs, i, 0), _slot(tx, resource, _at(slots, i, None), agent, project)
        hold = _renew(tx, resource, slot, agent, project, epoch, lease, _at(hashes, i, None))
        if hold is None:
            raise _stale(tx, resource, slot, agent, project, epoch)
        held.append(hold)
    return held


def _renew(
    tx: Transaction,
    resource: str,
    slot: int,
    agent: str,
    project: str,
    epoch: int,
    lease: float,
    hash: str | None,
) -> Hold | None:
    row = write(
        tx,
        "holds",
        f"{EXTEND}, hash = coalesce(:hash, hash)",
        _THIS,
        _COLUMNS,
        agent=agent,
        epoch=epoch,
        lease=micros(lease),
        hash=hash,
        project=project,
        resource=resource,
        slot=slot,
    )
    if row is None:
        return None
    hold = record(Hold, row)
    _tell(tx, "hold.renewed", hold, agent=agent)
    return hold


@operation("holds.release", writes=True)
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
    out = []
    for i, resource in enumerate(resources):
        epoch, slot = _at(epochs, i, 0), _slot(tx, resource, _at(slots, i, None), agent, project)
        before = _row(tx, project, resource, slot)
        row = write(
            tx,
            "holds",
            GIVE_BACK,
            _THIS,
            _COLUMNS,
            agent=agent,
            epoch=epoch,
            project=project,
            resource=resource,
            slot=slot,
        )
        if row is None:
            raise _stale(tx, resource, slot, agent, project, epoch)
        now = _at(hashes, i, None)
        changed = None if now is None or before.hash is None else now != before.hash
        note = "the file was changed by somebody else meanwhile" if changed else None
        _tell(tx, "hold.released", record(Hold, row), agent=agent, note=note)
        out.append(record(Released, (resource, slot, before.epoch, changed)))
    return out


@operation("holds.transfer", writes=True)
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
    number = _slot(tx, resource, slot, agent, project)
    row = write(
        tx,
        "holds",
        f"{PASS_ON}, taken_at = {{now}}",
        _THIS,
        _COLUMNS,
        agent=agent,
        epoch=epoch,
        to=to,
        lease=micros(lease),
        project=project,
        resource=resource,
        slot=number,
    )
    if row is None:
        raise _stale(tx, resource, number, agent, project, epoch)
    hold = record(Hold, row)
    _tell(tx, "hold.transferred", hold, agent=to, note=f"handed over by {short(agent)}")
    return hold


@operation("holds.break", writes=True)
def break_hold(
    tx: Transaction,
    *,
    resource: Resource,
    reason: Note,
    agent: AgentId = "",
    project: Project = "",
    slot: Number = 0,
) -> Hold:
    """Take a hold away from whoever has it, as an operator, with a reason that everybody can read."""
    row = tx.first(
        f"SELECT holder FROM holds WHERE {_THIS} AND {LIVE}",
        project=project,
        resource=resource,
        slot=slot,
    )
    if row is None:
        raise NotFound(f"{_called(resource)} is not held by anybody")
    broken = tx.first(
        f"UPDATE holds SET {GIVE_BACK} WHERE {_THIS} AND holder = :holder RETURNING {_COLUMNS}",
        project=project,
        resource=resource,
        slot=slot,
        holder=row[0],
    )
    hold = record(Hold, broken or ())
    _tell(tx, "hold.broken", hold, agent=agent, note=f"held by {short(row[0])}: {reason}"[:1000])
    return hold


@operation("holds.list", writes=False)
def listing(
    tx: Transaction,
    *,
    project: Project | None = "",
    agent: AgentId | None = None,
    matching: Resource | None = None,
    limit: Limit = 1000,
) -> list[Hold]:
    """The live holds, those that run out first coming first; `matching` keeps those in the way of a resource."""
    where = [LIVE]
    if project is not None:
        where.append("project = :project")
    if agent is not None:
        where.append(by_name("holder"))
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM holds WHERE {' AND '.join(where)} ORDER BY until, resource, slot LIMIT :limit",
        project=project,
        who=agent and short(agent),
        limit=limit,
    )
    holds = [record(Hold, row) for row in rows]
    return holds if matching is None else [h for h in holds if conflict(matching, h.resource)]


def conflict(a: str, b: str) -> bool:
    """Whether two resources cannot be held by two agents at once (pools apart)."""
    if a.startswith("file:") and b.startswith("file:"):
        return overlap(a[5:], b[5:])
    return a == b


def _row(tx: Transaction, project: str, resource: str, slot: int) -> Hold:
    row = tx.first(
        f"SELECT {_COLUMNS} FROM holds WHERE {_THIS}",
        project=project,
        resource=resource,
        slot=slot,
    )
    return record(Hold, row or (project, resource, slot, None, 0, 0, 0, None, None))


def _slot(tx: Transaction, resource: str, given: int | None, agent: str, project: str) -> int:
    """Which slot of a pool is meant; with none given, the one that this agent has."""
    if given is not None or not resource.startswith("pool:"):
        return given or 0
    rows = tx.all(
        f"SELECT slot FROM holds WHERE project = :project AND resource = :resource AND holder = :agent AND {LIVE} "
        "ORDER BY slot LIMIT 2",
        project=project,
        resource=resource,
        agent=agent,
    )
    if len(rows) > 1:
        raise Invalid(f"you have more than one slot of {resource}", hint="say which with --slot")
    return int(rows[0][0]) if rows else 0


def _stale(tx: Transaction, resource: str, slot: int, agent: str, project: str, epoch: int) -> Refused:
    hold = _row(tx, project, resource, slot)
    tx.refuse(
        "hold.fenced",
        project=project,
        subject=resource,
        name=resource,
        kind=_kind(resource),
        agent=agent,
        epoch=epoch,
        note=f"held by {hold.holder}" if hold.holder else "free",
    )
    return fenced(
        _called(resource),
        agent=agent,
        epoch=epoch,
        row=(holder_id(hold), hold.epoch, micros(hold.until or 0)),
        now=tx.now,
        again=f"`tb hold {_called(resource)}` takes it again if it is free",
    )


def _tell(
    tx: Transaction, event: str, hold: Hold, *, agent: str, epoch: int | None = None, note: str | None = None
) -> None:
    append(
        tx,
        event,
        hold.project,
        subject=hold.resource,
        name=hold.resource,
        kind=_kind(hold.resource),
        agent=agent,
        epoch=hold.epoch if epoch is None else epoch,
        until=micros(hold.until or 0),
        note=note,
        data={"slot": hold.slot} if hold.resource.startswith("pool:") else None,
    )


def _kind(resource: str) -> str:
    return resource.partition(":")[0]


def _called(resource: str) -> str:
    return resource.removeprefix("file:")


def _at(values: list[Any], i: int, default: Any) -> Any:
    return values[i] if i < len(values) else default
