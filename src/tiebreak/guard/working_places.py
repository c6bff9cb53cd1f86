"""Where an agent works: the checkouts in which it has held a file.

A file hold speaks of the repository's file in every checkout. What another agent's command does to that file in its own
checkout concerns the holder less than what it does in the holder's: there the holder's uncommitted lines are.
"""

from __future__ import annotations

import os

from ..names import short
from .agent_state import AgentState, key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board


def note_place(state: AgentState, root: str) -> None:
    """Remember that this agent works in the checkout at `root`."""
    name = f"places/{key(root)}"
    if state.moment(name) == 0:
        state.put(name, os.fsencode(root))


def works_here(board: Board, holder: str, root: str) -> bool:
    """Whether a holder works in the checkout at `root`, or may do so.

    Of an agent whose hooks never ran on this machine, only the board knows on which machine it is.
    """
    places = AgentState(holder).names("places")
    if places:
        return any(os.path.basename(place) == key(root) for place in places)
    hosts = {each.host for each in board.agents.list(agent=short(holder)) if each.id == holder and each.host}
    return not hosts or os.uname().nodename in hosts
