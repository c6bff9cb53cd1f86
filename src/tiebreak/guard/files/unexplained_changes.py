"""Held files that changed while no agent's command is known to have run: a person saved them, say.

Nothing is refused because of such a change: people and agents often work in one checkout. But the holder is told once,
by its next hook, and again when it commits the file unseen.
"""

from __future__ import annotations

import os

from ...agent_names import same_family
from ..agent_notes import leave_notes
from ..agent_state import AgentState, key
from .disk_state import look
from .interference import makers, may_have_changed
from .interference_report import words_unexplained
from .running_commands import own, running
from .watched_files import watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .disk_state import DiskState
    from .running_commands import RunningCommand
    from .watched_files import WatchedFile


def note_unexplained(state: AgentState, records: list[WatchedFile]) -> None:
    """Leave the agent a note about each of its files that changed by nobody that is known, once."""
    commands: list[RunningCommand] | None = None
    for record in records:
        now, told = look(record.root, record.name), f"missed/{key(record.path)}"
        if record.holder != state.agent or record.by or now.signature == record.seen:
            continue
        if state.get(told) == now.signature.encode():
            continue
        commands = running() if commands is None else commands
        if not _may_be_explained(record, now, commands) and now.fingerprint() != record.fingerprint:
            leave_notes(state, [f"tiebreak: {words_unexplained(record, now)}"])
            state.put(told, now.signature.encode())


def _may_be_explained(record: WatchedFile, now: DiskState, commands: list[RunningCommand]) -> bool:
    """Whether a command that still runs may have changed it: when that ends, its hook tells."""
    return any(each.root in (record.root, "") and may_have_changed(each, now) for each in commands)


class UnseenChange:
    """A file of an agent that changed before its command began which runs now, and that it has not looked at since."""

    __slots__ = ("makers", "record", "state")

    def __init__(self, record: WatchedFile, state: DiskState, makers: list[str]) -> None:
        self.record = record
        self.state = state
        self.makers = makers
        """The other agents, by id, whose commands run and may have changed it. There are none if a person did it."""


def unseen_in(agent: str, root: str, names: list[str]) -> list[UnseenChange]:
    """The unseen changes in these files. Without hooks an agent has no command that is known to run, so none."""
    found: dict[str, UnseenChange] = {}
    for command in own(AgentState(agent), root):
        for path in (os.path.join(root, name) for name in names):
            before = command.seen.get(path)
            record = watched(path) if before is not None else None
            if before is None or record is None or not same_family(record.holder, agent):
                continue
            now = look(record.root, record.name)
            if now.signature == before.signature != record.seen and before.fingerprint != record.fingerprint:
                found[path] = UnseenChange(record, now, makers(record, now))
    return list(found.values())
