"""Where agents work: the checkouts in which they have held files.

A file hold speaks of the repository's file in every checkout. What another agent's command does to that file in its own
checkout concerns the holder less than what it does in the holder's: there the holder's uncommitted lines are.
"""

from __future__ import annotations

import os

from .agent_state import AgentState, key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board


def note_place(state: AgentState, root: str) -> None:
    """Remember that this agent works in the checkout at `root`."""
    name = f"places/{key(root)}"
    if state.moment(name) == 0:
        state.put(name, os.fsencode(root))


class WorkingPlaces:
    """Who works in which checkout. The board is asked once at most."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._known: dict[tuple[str, str], bool] = {}
        self._hosts: dict[str, str | None] | None = None

    def works_in(self, holder: str, root: str) -> bool:
        """Whether a holder works in the checkout at `root`, or may do so.

        Of an agent whose hooks never ran on this machine, only the board knows on which machine it is.
        """
        if (holder, root) not in self._known:
            places = [os.path.basename(place) for place in AgentState(holder).names("places")]
            self._known[holder, root] = key(root) in places if places else self._may_be_here(holder)
        return self._known[holder, root]

    def _may_be_here(self, holder: str) -> bool:
        if self._hosts is None:
            self._hosts = {each.id: each.host for each in self._board.agents.list()}
        return self._hosts.get(holder) in (None, "", os.uname().nodename)
