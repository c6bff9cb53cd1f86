"""Pools: counted resources. Each slot is a row of `holds`, with its own holder and its own epochs.

How many slots are taken is a decision over several rows, so a slot is taken under the scope of the project's holds
(`tx.serialize`). Renewing and releasing a slot decide about its own row and need no scope. That is safe because a
lapsed slot counts as taken until its lapse is written on its row.
"""

from __future__ import annotations

from ..errors import Invalid, Lost, NotFound
from ..model import Hold, record
from .grants import LAPSED
from .resources import COLUMNS, ensure_row, grant, prolong, record_lapse, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction


_POOL = "project = :project AND resource = :resource"


def take_slot(
    tx: Transaction,
    resource: str,
    agent: str,
    project: str,
    lease: float,
    note: str | None,
    slots: int | None,
    again: bool = False,
) -> Hold:
    """Take the lowest free slot of a pool. Slots beyond its size that are still held since it shrank count as taken.

    Lapsed slots are ended first, and then only slots without a holder count as free: a slot that was renewed meanwhile
    does not. With `again`, an agent that has slots of the pool renews all of them instead, and gets the lowest as the
    answer.
    """
    tx.serialize("holds", project)
    size = pool_size(tx, resource, project, slots)
    where = {"project": project, "resource": resource}
    for row in tx.all(f"SELECT {COLUMNS} FROM holds WHERE {_POOL} AND {LAPSED} ORDER BY slot", **where):
        record_lapse(tx, record(Hold, row))
    if again and (mine := _renewed(tx, resource, agent, project, lease, note)) is not None:
        return mine
    free = tx.first(
        f"SELECT slot FROM holds WHERE {_POOL} AND slot < :size AND holder IS NULL "
        f"AND (SELECT count(*) FROM holds WHERE {_POOL} AND holder IS NOT NULL) < :size ORDER BY slot LIMIT 1",
        size=size,
        **where,
    )
    hold = grant(tx, resource, free[0], agent, project, lease, note, slots=size) if free else None
    if hold is not None:
        return hold
    held = tx.first(f"SELECT {COLUMNS} FROM holds WHERE {_POOL} AND holder IS NOT NULL ORDER BY until LIMIT 1", **where)
    if held is None:
        return take_slot(tx, resource, agent, project, lease, note, slots, again)  # all were released meanwhile
    if _end_dead(tx, project, resource):
        return take_slot(tx, resource, agent, project, lease, note, slots, again)
    error = refuse(tx, record(Hold, held), agent, resource)
    raise Lost(f"all {size} slots of {resource} are taken; {error.message}", reason=error.reason, **error.data)


def _end_dead(tx: Transaction, project: str, resource: str) -> bool:
    """End the slots of holders that are known to be dead; whether there was one."""
    from .death import end_hold_of_dead

    rows = tx.all(
        f"SELECT {COLUMNS} FROM holds WHERE {_POOL} AND holder IS NOT NULL ORDER BY slot",
        project=project,
        resource=resource,
    )
    return sum(end_hold_of_dead(tx, record(Hold, row)) for row in rows) > 0


def _renewed(tx: Transaction, resource: str, agent: str, project: str, lease: float, note: str | None) -> Hold | None:
    """Renew the slots that an agent has; the lowest of them, None if it has none any more."""
    where = {"project": project, "resource": resource, "agent": agent}
    rows = tx.all(f"SELECT slot FROM holds WHERE {_POOL} AND holder = :agent ORDER BY slot", **where)
    kept = [prolong(tx, resource, slot, agent, project, 0, lease, None, note) for (slot,) in rows]
    return next((hold for hold in kept if hold is not None), None)


def pool_size(tx: Transaction, resource: str, project: str, slots: int | None) -> int:
    """The number of slots of a pool. `slots` creates the pool if it is new, and otherwise resizes it."""
    row = tx.first(
        "SELECT slots FROM pools WHERE project = :project AND resource = :resource",
        project=project,
        resource=resource,
    )
    if slots is None or (row and row[0] == slots):
        if row is None:
            raise NotFound(f"no pool {resource} yet", reason="pool-unknown", resource=resource)
        return int(row[0])
    tx.all(
        "INSERT INTO pools (project, resource, slots) VALUES (:project, :resource, :slots) "
        "ON CONFLICT (project, resource) DO UPDATE SET slots = :slots",
        project=project,
        resource=resource,
        slots=slots,
    )
    for slot in range(slots):
        ensure_row(tx, project, resource, slot, False)
    return slots


def slot_of(tx: Transaction, resource: str, given: int | None, agent: str, project: str) -> int:
    """The slot that is meant: the given one, or the one that this agent has."""
    if given is not None or not resource.startswith("pool:"):
        return given or 0
    rows = tx.all(
        f"SELECT slot, CASE WHEN {LAPSED} THEN 1 ELSE 0 END FROM holds WHERE {_POOL} AND holder = :agent ORDER BY slot",
        project=project,
        resource=resource,
        agent=agent,
    )
    running = [slot for slot, lapsed in rows if not lapsed]
    mine = running or [slot for slot, _ in rows]
    if len(mine) > 1:
        raise Invalid(f"you have more than one slot of {resource}", reason="slot-missing")
    return int(mine[0]) if mine else 0
