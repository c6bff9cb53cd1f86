"""Edits in progress: an agent's tool was allowed to write to a file, and has not said yet that it has done so.

Between the hook before an edit and the one after it lie some milliseconds. A command of another agent that ends just
then finds the file changed. It was the tool, so nobody is told.
"""

from __future__ import annotations

import time

from ..agent_state import AgentState, key
from .running_commands import is_at_prompt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .disk_state import DiskState
    from .watched_files import WatchedFile

LONGEST = 10.0
"""Seconds that a tool may take to write a file. A tool that was refused at a prompt says nothing any more."""


def edit_begins(state: AgentState, path: str) -> None:
    """A tool of this agent is allowed to write to the file at this path."""
    state.put(_fact(path), b"")


def edit_ends(state: AgentState, path: str) -> None:
    """It has done so."""
    state.forget(_fact(path))


def is_being_edited(record: WatchedFile, now: DiskState) -> bool:
    """Whether a tool of the holder may just have written what is there."""
    holder = AgentState(record.holder)
    since = holder.moment(_fact(record.path))
    if not since or time.time() - since / 1e9 > LONGEST or is_at_prompt(record.holder, since):
        return False
    return now.changed_at >= since


def _fact(path: str) -> str:
    return f"editing/{key(path)}"
