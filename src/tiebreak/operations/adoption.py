"""Adoption: an agent goes on with the work of an earlier incarnation of its own, such as a terminal that was closed.

Each claim or hold passes to the new incarnation by the statement that passes every grant on (see `grants`), so it is a
new grant with the next epoch, and the old incarnation is fenced from that moment on. The row is locked before it is
examined, and the write names the holder and the epoch that were seen.

The old incarnation must be dead by proof (see `death`), or a person confirms it. The board cannot tell who confirms:
interfaces for people ask, interfaces for agents never do, and the event says which of the two it was.

An adopted claim continues the same attempt. Jobs are never adopted: their workers return them. Neither is the
coordinator's seat, which has rules of its own (see `sessions`).
"""

from __future__ import annotations

from ..agent_names import same_person
from ..clock import SECOND, micros
from ..errors import NotFound, Refused
from ..held_files import called as called_hold
from ..held_files import conflict, is_file
from ..limits import CLAIM_LEASE, HOLD_LEASE, MAX_NOTE
from ..model import Hold, Task, holder_id, record
from ..names import JOB, short
from ..text import ago
from . import changeable, claimable, holds_scopes, operation
from .agents import listing as agents
from .death import proof_of_death
from .events import task_event
from .grants import LIVE, passing_on
from .references import STORED, called, find
from .resources import COLUMNS, THIS, hold_event
from .session_fence import SEAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..names import AgentId, Epoch, Lease, Project, Ref, Resource
    from . import Transaction

_CONTINUED = "claimed_at = {now}, updated_at = {now}, look_at = {fresh} + :lease"


@operation("tasks.adopt", writes=True, strangers=True)
def adopt_claim(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
    lease: Lease = CLAIM_LEASE,
    confirmed: bool = False,
) -> Task:
    """Take over a claim of an earlier incarnation of this agent, as a new grant that continues the same attempt.

    The process of the earlier one must be known to have ended, or a person has `confirmed` that it is not at work any
    more. With an epoch, only that grant is taken over.
    """
    task = find(tx, ref, project, "{lock}")
    holder = holder_id(task)
    if task.state != "claimed" or task.lapsed or not holder or epoch not in (0, task.epoch) or task.kind == JOB:
        raise NotFound(f"{called(task)} is not claimed by an earlier session of yours", state=task.state)
    why = _reason(tx, called(task), holder, agent, task.project, confirmed, f"#{task.number}", task.claimed_at or 0.0)
    row = tx.first(
        passing_on(
            "tasks", f"number = :number AND state = 'claimed'{changeable(tx)}{claimable(tx)}", STORED, _CONTINUED
        ),
        number=task.number,
        agent=holder,
        epoch=task.epoch,
        to=agent,
        lease=micros(lease),
    )
    if row is None:
        raise NotFound(f"{called(task)} is not claimed by an earlier session of yours", state=task.state)
    adopted = record(Task, row)
    note = f"held by {short(holder)}: taken over by {agent}, {why}"[:MAX_NOTE]
    task_event(tx, "task.broken", adopted, state="pending", agent=agent, epoch=task.epoch, note=note)
    until = micros(adopted.until or 0)
    task_event(tx, "task.claimed", adopted, agent=agent, epoch=adopted.epoch, until=until)
    return adopted


@operation("holds.adopt", writes=True, strangers=True, scopes=holds_scopes)
def adopt_holds(
    tx: Transaction,
    *,
    holder: AgentId,
    resources: list[Resource] = [],  # noqa: B006  (never changed)
    agent: AgentId = "",
    project: Project = "",
    lease: Lease = HOLD_LEASE,
    confirmed: bool = False,
) -> list[Hold]:
    """Take over holds of `holder`, an earlier incarnation of this agent, as new grants: those named, or all.

    Holds of the same incarnation that overlap with a named one pass on with it. The process of the earlier incarnation
    must be known to have ended, or a person has `confirmed` that it is not at work any more.
    """
    tx.serialize("holds", project)
    rows = tx.all(
        f"SELECT {COLUMNS} FROM holds WHERE project = :project AND holder = :holder AND resource <> :seat AND {LIVE} "
        "ORDER BY resource, slot {lock}",
        project=project,
        holder=holder,
        seat=SEAT,
    )
    wanted = _with_overlapping([record(Hold, row) for row in rows], resources)
    if not wanted or holder == agent:
        what = called_hold(resources[0]) if resources else "nothing"
        raise NotFound(f"{what} is {'not ' if resources else ''}held by an earlier session of yours")
    first = wanted[0]
    named = called_hold(first.resource)
    why = _reason(tx, named, holder, agent, project, confirmed, named, first.taken_at or 0.0)
    adopted = [_pass_on(tx, hold, holder, agent, lease, why) for hold in wanted]
    from .holds import break_deadlocks_of

    break_deadlocks_of(tx, agent, project)
    return [hold for hold in adopted if hold is not None]


def _with_overlapping(held: list[Hold], resources: list[str]) -> list[Hold]:
    """The named holds, and those that overlap with one of them, directly or through others; all if none is named."""
    wanted = {hold.resource for hold in held if not resources or hold.resource in resources}
    while more := {
        hold.resource
        for hold in held
        if hold.resource not in wanted and any(_overlap(hold.resource, each) for each in wanted)
    }:
        wanted |= more
    return [hold for hold in held if hold.resource in wanted]


def _overlap(one: str, other: str) -> bool:
    return is_file(one) and conflict(one, other)


def _pass_on(tx: Transaction, hold: Hold, holder: str, agent: str, lease: float, why: str) -> Hold | None:
    row = tx.first(
        passing_on("holds", THIS, COLUMNS, "taken_at = {now}"),
        agent=holder,
        epoch=hold.epoch,
        to=agent,
        lease=micros(lease),
        project=hold.project,
        resource=hold.resource,
        slot=hold.slot,
    )
    if row is None:
        return None  # released just now
    passed = record(Hold, row)
    note = f"taken over from session {holder.partition('~')[2] or 'unnamed'} ({why}), held by {short(holder)}"
    hold_event(tx, "hold.transferred", passed, agent=agent, note=note)
    return passed


def _reason(
    tx: Transaction, what: str, holder: str, agent: str, project: str, confirmed: bool, thing: str, since: float
) -> str:
    """Why a grant may be taken over; raises a refusal if it may not."""
    if holder == agent:
        raise Refused(f"{what} is held by you in this very session")
    if not same_person(holder, agent):
        raise Refused(
            f"{what} is held by {short(holder)}, which is not an earlier session of yours",
            reason="adopt-other",
            holder=short(holder),
            thing=thing,
        )
    if proof := proof_of_death(tx, holder, project):
        return proof
    if confirmed:
        return "as a person confirmed"
    seen = next((each.seen_at for each in agents(tx, project=project, agent=holder) if each.id == holder), since)
    raise Refused(
        f"{what} is held by {short(holder)} (session {holder.partition('~')[2] or 'unnamed'}) for "
        f"{ago(tx.now / SECOND - since)}, was last seen {ago(tx.now / SECOND - seen)} ago, and is not known to be dead",
        reason="holder-may-live",
        holder=short(holder),
        session=holder.partition("~")[2],
        since=since,
        seen=seen,
        thing=thing,
    )
