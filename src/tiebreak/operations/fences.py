"""Fences of whole sessions: what a replaced coordinator still tries to write is refused, whatever it is.

An agent that tiebreak started itself has an id by which it is known (`SPAWNED`); only for those the board looks. The
fence is on the session and not on the name, so whoever acts from inside a replaced session is stopped, under any name.
"""

from __future__ import annotations

from ..clock import micros
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
        "SELECT agent, project, fenced_by, epoch FROM sessions WHERE session = :session "
        "AND (fenced_by IS NOT NULL OR (role = 'coordinator' AND ended_at > 0))",
        session=agent.partition("~")[2],
    )
    if row is None:
        return
    who, project, heir, epoch = row
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
        hint="stop working; `tb ps` shows who is",
        holder=heir and short(heir),
        epoch=epoch,
    )


def seated(tx: Transaction, agent: str, project: str, epoch: int) -> None:
    """Raise `Fenced` unless this agent is the project's coordinator by the grant with this epoch."""
    from .resources import current, stale

    hold = current(tx, project, SEAT, 0)
    if (holder_id(hold), hold.epoch) != (agent, epoch) or micros(hold.until or 0) <= tx.now:
        raise stale(tx, SEAT, 0, agent, project, epoch)
