"""What the pages of a daemon show of the sessions on its machine: their terminals, and the handoffs that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..daemon.machine_view import MachineView
from ..sessions import terminal
from ..sessions.handoff_queue import waiting

if TYPE_CHECKING:
    from ..model import Need, Session

LINES = 200
"""Lines above the screen that are shown, too."""


def screen(found: Session) -> str:
    """What the terminal of a session shows."""
    return terminal.screen(found, LINES)


def handoffs(addresses: list[str]) -> list[Need]:
    """The handoffs in the queue of this machine for a board with one of these addresses."""
    return waiting(lambda order: order.get("board") in addresses)


VIEW = MachineView(screen, handoffs)
