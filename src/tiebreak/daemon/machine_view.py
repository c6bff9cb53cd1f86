"""What the machine of a daemon shows besides its board: terminals of sessions, and handoffs that wait in a queue.

The daemon knows nothing of sessions. `program` gives it these functions when it assembles the daemon; without them
there is nothing to see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model import Need, Session


def _no_handoffs(addresses: list[str]) -> list[Need]:
    return []


class MachineView(NamedTuple):
    """The functions. Both may block and are run on threads."""

    screen: Callable[[Session], str] | None = None
    """What the terminal of a session shows. Raises `Refused` if it is on another machine or gone."""
    handoffs: Callable[[list[str]], list[Need]] = _no_handoffs
    """The handoffs that wait in the queue of this machine for a board with one of these addresses."""
