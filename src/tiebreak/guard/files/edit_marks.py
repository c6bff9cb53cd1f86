"""Edits in progress: an agent's tool was allowed to write to a file, and has not said yet that it has done so.

Between the hook before an edit and the one after it lie some milliseconds. A command of another agent that ends just
then finds the file changed, and cannot know that it was the tool. So its hook waits a moment for what the holder says.
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
PATIENCE = 1.0
"""Seconds that a hook waits for the ends of edits. Then what changed counts as changed by its command."""


def edit_begins(state: AgentState, path: str) -> None:
    """A tool of this agent is allowed to write to the file at this path."""
    state.put(_fact(path), b"")


def edit_ends(state: AgentState, path: str) -> None:
    """It has done so."""
    state.forget(_fact(path))


class Patience:
    """Waits for the ends of edits, in one hook."""

    def __init__(self) -> None:
        self._until = 0.0

    def waits(self, record: WatchedFile, now: DiskState) -> bool:
        """Wait while a tool of the holder may just be writing to a file; whether it has ended meanwhile."""
        self._until = self._until or time.monotonic() + PATIENCE
        waited = False
        while _is_being_edited(record, now):
            if time.monotonic() > self._until:
                return False
            waited = True
            time.sleep(0.01)
        return waited


def _is_being_edited(record: WatchedFile, now: DiskState) -> bool:
    """Whether a tool of the holder may just have written what is there, and has not said so yet."""
    holder = AgentState(record.holder)
    since = holder.moment(_fact(record.path))
    if not since or time.time() - since / 1e9 > LONGEST or is_at_prompt(record.holder, since):
        return False
    return now.changed_at >= since


def _fact(path: str) -> str:
    return f"editing/{key(path)}"
