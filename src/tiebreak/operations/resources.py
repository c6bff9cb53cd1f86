"""Resources: the row of one hold, and the statements on it that several operations share.

The row is authoritative. Every statement here is made by `grants`, names one row and changes it only if its condition
still holds, so none of them needs a scope of its own. A caller that decides over several rows takes the scope.
"""

from __future__ import annotations

from ..clock import micros
from ..errors import Fenced
from ..held_files import called, is_file, parts
from ..model import Hold, columns, holder_id, record
from ..names import json_text, short
from .events import append
from .grants import fenced, keeping, lapsing, lost, winning
from .session_fence import SEAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import Refused
    from . import Transaction

COLUMNS = columns(Hold)
THIS = "project = :project AND resource = :resource AND slot = :slot"
_WIN = winning("holds", THIS, COLUMNS + ", displaced", "taken_at = {now}, note = :note, hash = :hash")
_PROLONG = keeping("holds", THIS, COLUMNS, "hash = coalesce(:hash, hash), note = coalesce(:note, note)")
_LAPSE = lapsing("holds", THIS, COLUMNS)


def ensure_row(tx: Transaction, project: str, resource: str, slot: int, glob: bool) -> None:
    """Make sure that a resource has its row; a new row is free."""
    tx.all(
        "INSERT INTO holds (project, resource, slot, glob) VALUES (:project, :resource, :slot, :glob) "
        "ON CONFLICT DO NOTHING",
        project=project,
        resource=resource,
        slot=slot,
        glob=int(glob),
    )


def grant(
    tx: Transaction,
    resource: str,
    slot: int,
    agent: str,
    project: str,
    lease: float,
    note: str | None,
    hash: str | None = None,
    slots: int = 0,
) -> Hold | None:
    """Try to win a resource; None if an agent holds it. `slots` is the size of its pool."""
    row = tx.first(
        _WIN,
        agent=agent,
        lease=micros(lease),
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
        hold_event(tx, "hold.expired", hold, agent=row[-1], epoch=hold.epoch - 1, until=0)
    hold_event(tx, "hold.taken", hold, agent=agent, note=note, slots=slots)
    return hold


def record_lapse(tx: Transaction, hold: Hold) -> bool:
    """Write that a hold has lapsed; False if it was renewed or released since it was read."""
    row = tx.first(_LAPSE, project=hold.project, resource=hold.resource, slot=hold.slot, epoch=hold.epoch)
    if row is not None:
        hold_event(tx, "hold.expired", record(Hold, row), agent=holder_id(hold) or "")
    return row is not None


def prolong(
    tx: Transaction,
    resource: str,
    slot: int,
    agent: str,
    project: str,
    epoch: int,
    lease: float,
    hash: str | None,
    note: str | None = None,
) -> Hold | None:
    """Renew a hold as its holder; None if the fence stopped the write."""
    row = tx.first(
        _PROLONG,
        agent=agent,
        epoch=epoch,
        lease=micros(lease),
        hash=hash,
        note=note,
        project=project,
        resource=resource,
        slot=slot,
    )
    if row is None:
        return None
    hold = record(Hold, row)
    hold_event(tx, "hold.renewed", hold, agent=agent)
    return hold


def current(tx: Transaction, project: str, resource: str, slot: int, lock: str = "") -> Hold:
    """The hold as it is stored; with `lock`, the row is locked until this transaction ends."""
    row = tx.first(
        f"SELECT {COLUMNS} FROM holds WHERE {THIS} {lock}",
        project=project,
        resource=resource,
        slot=slot,
    )
    return record(Hold, row or (project, resource, slot, None, 0, 0, 0, None, None))


def refuse(tx: Transaction, hold: Hold, agent: str, resource: str) -> Refused:
    """The refusal for an agent that wants a resource which is held. It is also remembered for the log."""
    holder = holder_id(hold) or ""
    tx.refuse(
        "hold.refused",
        project=hold.project,
        subject=hold.resource,
        name=resource,
        kind=kind_of(resource),
        agent=agent,
        epoch=hold.epoch,
        note=f"held by {short(holder)}" + (f" as {hold.resource}" if hold.resource != resource else ""),
    )
    what = _shown(resource) + ("" if hold.resource == resource else f" (by {_other(hold.resource, resource)})")
    error = lost(
        tx,
        what,
        hold.resource,
        project=hold.project,
        agent=agent,
        holder=holder,
        until=micros(hold.until or 0),
        epoch=hold.epoch,
        reason="hold-held",
        has_other_rules=hold.resource == SEAT,
        resource=hold.resource,
        note=hold.note,
    )
    if hold.note:
        error.message += f": {hold.note}"
    return error


def _shown(resource: str) -> str:
    """A resource that was asked for: the caller knows in which checkout it is."""
    return parts(resource)[1] if is_file(resource) else resource


def _other(held: str, wanted: str) -> str:
    """Another resource that is in the way of the wanted one."""
    everywhere = is_file(held) and parts(held)[0] == "" != parts(wanted)[0]
    return f"{called(held)} in every checkout" if everywhere else called(held)


def stale(tx: Transaction, resource: str, slot: int, agent: str, project: str, epoch: int) -> Refused:
    """The refusal for a write that the fence stopped. It is also remembered for the log."""
    hold = current(tx, project, resource, slot)
    broken = _broken(tx, hold, agent, epoch or hold.epoch)
    tx.refuse(
        "hold.fenced",
        project=project,
        subject=resource,
        name=resource,
        kind=kind_of(resource),
        agent=agent,
        epoch=epoch,
        note=f"held by {hold.holder}" if hold.holder else "free",
    )
    if broken is not None:
        by, because = broken
        return Fenced(
            f"{called(resource)}: {by} broke your hold: {because}",
            reason="hold-over",
            holder=hold.holder,
            epoch=hold.epoch,
            until=hold.until,
            resource=resource,
            broken_by=by,
            broken_because=because,
        )
    return fenced(
        called(resource),
        agent=agent,
        epoch=epoch,
        row=(holder_id(hold), hold.epoch, micros(hold.until or 0)),
        now=tx.now,
        reason="hold-over",
        resource=resource,
    )


_LOOKED_AT = 1000
"""How many of a resource's newest events are searched for the one that ended a grant."""


def breaking_note(holder: str, reason: str) -> str:
    """The note of the event about a broken hold: whose hold it was, and why it was broken."""
    return f"{breaking_note_begins(holder)}{reason}"[:1000]


def breaking_note_begins(holder: str) -> str:
    """The beginning of that note: the reason follows it."""
    return f"held by {short(holder)}: "


def _broken(tx: Transaction, hold: Hold, agent: str, epoch: int) -> tuple[str, str] | None:
    """Who broke this agent's grant of that epoch, and why; None if nobody did, or if it was long ago."""
    rows = tx.all(
        "SELECT agent, note, data FROM (SELECT number, event, epoch, agent, note, data FROM {log} "
        "WHERE subject = :resource AND project = :project ORDER BY number DESC LIMIT :most) AS newest "
        "WHERE event = 'hold.broken' AND epoch = :epoch ORDER BY number DESC",
        resource=hold.resource,
        project=hold.project,
        most=_LOOKED_AT,
        epoch=epoch,
    )
    begins, slot = breaking_note_begins(agent), json_text(_slot(hold))
    mine = ((by, note) for by, note, data in rows if data == slot and note.startswith(begins))
    return next(((short(by), note.removeprefix(begins)) for by, note in mine), None)


def _slot(hold: Hold) -> dict[str, int] | None:
    """What an event about a pool says beside its columns."""
    return {"slot": hold.slot} if hold.resource.startswith("pool:") else None


def hold_event(
    tx: Transaction,
    event: str,
    hold: Hold,
    *,
    agent: str,
    epoch: int | None = None,
    until: int | None = None,
    note: str | None = None,
    slots: int = 0,
) -> None:
    """Append an event about a hold; for a pool also with the slot and, if given, the pool's size."""
    data = _slot(hold)
    if data and slots:
        data["slots"] = slots
    append(
        tx,
        event,
        hold.project,
        subject=hold.resource,
        name=hold.resource,
        kind=kind_of(hold.resource),
        agent=agent,
        epoch=hold.epoch if epoch is None else epoch,
        until=micros(hold.until or 0) if until is None else until,
        note=note,
        data=data,
    )


def kind_of(resource: str) -> str:
    """`file`, `lock`, `seat` or `pool`."""
    return resource.partition(":")[0]
