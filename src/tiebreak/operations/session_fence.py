"""The fence of sessions: every write that an agent makes from the session of a replaced coordinator is refused.

The id of an agent that tiebreak started itself contains `SPAWNED`, and only writes of such agents are checked. The
fence is on the session, not on the name, so it stops every process inside a replaced session, under any name. The
session's row is authoritative. The check locks it (shared), and a handoff locks it exclusively, so a write is either
committed before the handoff or refused after it.
"""

from __future__ import annotations

from ..errors import Fenced
from ..model import holder_id
from ..names import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction

SEAT = "seat:coordinator"


def refuse_if_fenced(tx: Transaction, agent: str) -> None:
    """Raise `Fenced` if this agent acts from a session whose seat another session has, or that has ended."""
    row = tx.first(
        # Locked, so that the session is not replaced between this check and the write that follows.
        "SELECT agent, project, fenced_by, epoch, role, ended_at FROM sessions WHERE session = :session {share}",
        session=agent.partition("~")[2],
    )
    if row is None or not (row[2] is not None or (row[4] == "coordinator" and row[5] > 0)):
        return
    fenced, project, heir, epoch = row[:4]
    why = f"{short(heir)} has its seat" if heir else "its session has ended"
    tx.refuse(
        "hold.fenced",
        project=project,
        subject=SEAT,
        name=SEAT,
        kind="seat",
        agent=agent,
        epoch=epoch,
        note=why,
    )
    raise Fenced(
        f"{short(fenced)} is not the coordinator of {project} any more ({why}), nothing was written",
        reason="session-over",
        holder=heir and short(heir),
        epoch=epoch,
    )


def require_seat(tx: Transaction, agent: str, project: str, epoch: int) -> None:
    """Raise `Fenced` unless this agent holds the coordinator's seat by this grant; the seat is locked until the end."""
    from .resources import current, stale

    hold = current(tx, project, SEAT, 0, "{share}")
    if (holder_id(hold), hold.epoch) != (agent, epoch):
        raise stale(tx, SEAT, 0, agent, project, epoch)
