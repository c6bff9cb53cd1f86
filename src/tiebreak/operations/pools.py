"""Pools: counted resources. Each slot is a row of its own, with its own holder and its own epochs."""

from __future__ import annotations

from ..errors import Invalid, Lost, NotFound
from ..model import Hold, record
from .grants import LIVE
from .resources import COLUMNS, ensure, grant, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction


def take_slot(
    tx: Transaction,
    resource: str,
    agent: str,
    project: str,
    lease: float,
    note: str | None,
    slots: int | None,
) -> Hold:
    """Take the lowest free slot of a pool. Slots beyond its size that are still held since it shrank count too."""
    size = pool_size(tx, resource, project, slots)
    free = tx.first(
        f"SELECT slot FROM holds WHERE project = :project AND resource = :resource AND slot < :size AND NOT {LIVE} "
        f"AND (SELECT count(*) FROM holds WHERE project = :project AND resource = :resource AND {LIVE}) < :size "
        "ORDER BY slot LIMIT 1",
        project=project,
        resource=resource,
        size=size,
    )
    hold = grant(tx, resource, free[0], agent, project, lease, note) if free else None
    if hold is not None:
        return hold
    row = tx.first(
        f"SELECT {COLUMNS} FROM holds WHERE project = :project AND resource = :resource AND {LIVE} "
        "ORDER BY until LIMIT 1",
        project=project,
        resource=resource,
    )
    error = refuse(tx, record(Hold, row), agent, resource)  # type: ignore[arg-type]
    raise Lost(f"all {size} slots of {resource} are taken; {error.message}", hint=error.hint, **error.data)


def pool_size(tx: Transaction, resource: str, project: str, slots: int | None) -> int:
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
        ensure(tx, project, resource, slot, False)
    return slots


def slot_of(tx: Transaction, resource: str, given: int | None, agent: str, project: str) -> int:
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
