"""What the pages of a daemon show of the sessions on its machine: their terminals, and the handoffs that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import micros
from ..daemon.machine_view import MachineView
from ..errors import Unavailable
from ..model import Need, record
from ..names import short
from ..sessions import state_files
from ..sessions.handoff_queue import queued
from ..sessions.records import on_this_host
from ..sessions.stop import socket_of
from ..sessions.tmux import Tmux

if TYPE_CHECKING:
    from ..model import Session

LINES = 200
"""Lines above the screen that are shown, too."""


def screen(found: Session) -> str:
    """What the terminal of a session shows."""
    on_this_host(found)
    return Tmux(socket_of(found)).screen(found.tmux or "", LINES)


def handoffs(addresses: list[str]) -> list[Need]:
    """The handoffs in the queue of this machine for a board with one of these addresses."""
    try:
        orders = [state_files.read_json(path) for path in queued()]
    except (OSError, Unavailable):
        return []  # without a folder of our own nothing was queued
    return [_need(order) for order in orders if order is not None and order.get("board") in addresses]


def _need(order: dict[str, object]) -> Need:
    agent, at = str(order.get("agent") or "?"), order.get("at")
    since = micros(float(at)) if isinstance(at, (int, float)) else 0
    row = ("handoff", str(order.get("project") or ""), short(agent), 0, None, f"hand over from {short(agent)}", agent)
    return record(Need, (*row, since, "waits for its replacement to be started"))


VIEW = MachineView(screen, handoffs)
