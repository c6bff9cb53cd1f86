"""Fences of whole sessions: what a replaced coordinator still tries to write is refused, whatever it is.

An agent that tiebreak started itself has an id by which it is known (`SPAWNED`); only for those the board looks. The
fence is on the session and not on the name, so whoever acts from inside a replaced session is stopped, under any name.
"""

from __future__ import annotations

from ..errors import Fenced
from ..model import holder_id
from ..names import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction

SEAT = "seat:coordinator"


def admit(tx: Transaction, agent: str) -> None:
    """Raise `Fenced` if this agent acts from a session whose seat is somebody else's."""
    row = tx.first(
        # Locked: nobody is replaced between this look and the write that it lets pass.
        "SELECT agent, project, fenced_by, epoch, role, ended_at FROM sessions WHERE session = :session {share}",
        session=agent.partition("~")[2],
    )
    if row is None or not (row[2] is not None or (row[4] == "coordinator" and row[5] > 0)):
        return
    who, project, heir, epoch = row[:4]
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
        f"{short(who)} is not the coordinator of {project} any more ({why}), nothing was written",
        reason="session-over",
        holder=heir and short(heir),
        epoch=epoch,
    )


def seated(tx: Transaction, agent: str, project: str, epoch: int) -> None:
    """Raise `Fenced` unless this agent is the project's coordinator by this grant, and stays it until the commit."""
    from .resources import current, stale

    hold = current(tx, project, SEAT, 0, "{share}")
    if (holder_id(hold), hold.epoch) != (agent, epoch):
        raise stale(tx, SEAT, 0, agent, project, epoch)
