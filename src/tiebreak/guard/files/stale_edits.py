"""Whether an edit would overwrite what its agent has not seen: the file is compared with what it saw or left last."""

from __future__ import annotations

import os

from ...agent_names import same_family
from ...held_files import file_resource
from ...names import short
from ...text import plain
from ..agent_notes import leave_notes
from ..agent_state import BORN_FACT
from . import read_set
from .disk_state import ABSENT, look
from .interference_report import how_back
from .left_contents import is_changed
from .safety_copies import find
from .watched_files import quarantined, watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..guarded_file import GuardedFile
    from ..hook_context import HookContext
    from .watched_files import WatchedFile

HELD = ("hold.taken", "hold.renewed", "hold.released", "hold.expired", "hold.transferred")
"""The events by which an agent is known to have held a file at that time."""


def stale(hook: HookContext, file: GuardedFile, *, reading_tool: bool) -> str:
    """Why the edit would overwrite changes that the agent has not seen; "" if it would not."""
    difference, knows = read_set.changed(hook.state, file.path), read_set.knows(hook.state, file.path)
    record = watched(os.path.join(file.root, file.disk_name))
    if record is not None and not knows:
        difference = _difference_from_left(hook, record)
    if difference is None:
        return _unseen(hook, file)
    own = read_set.made_by_own_command(hook.state, file.path)
    is_gone = not os.path.lexists(file.path)
    if own and (is_gone or not hook.call.replaces_file):
        return ""
    age = read_set.age(hook.state, file.path) if knows else 0.0  # nobody else has held it since it was left
    by = "by your own command" if own else _by(hook, file, age)
    reason = f"tiebreak: {plain(file.name)} was changed since you {'last saw' if knows else 'left'} it, {by}."
    kept = _kept(hook, file)
    again = "Read it again, then repeat the edit on what is there now."
    if not reading_tool:  # without a reading tool, this refusal shows the agent the changes
        _remember_shown(hook, file, record)
        again = "Look at the difference, then repeat the edit on what is there now."
    if is_gone:  # nothing is there to be read, and nothing gets lost
        read_set.remember(hook.state, file.path)
        again = "Write it again if it has to be there."
    return f"{reason} {again}{kept}\n{difference}"


def _difference_from_left(hook: HookContext, record: WatchedFile) -> str | None:
    """What has changed since the agent's own commands left a file that it has never seen by a tool; None if nothing."""
    state = look(record.root, record.name)
    if record.holder != hook.agent or state.signature == record.seen or not record.is_worked_on:
        return None
    left = find(record.path, record.fingerprint)
    contents = left.contents() if left is not None else b"" if record.fingerprint == ABSENT else None
    return read_set.difference(record.path, record.fingerprint, contents)


def _remember_shown(hook: HookContext, file: GuardedFile, record: WatchedFile | None) -> None:
    """The agent has seen what is in the file, in a refusal."""
    from .interference import accept_seen

    read_set.remember(hook.state, file.path)
    if record is not None and record.holder == hook.agent and is_changed(record):
        leave_notes(hook.state, accept_seen(record))


def _kept(hook: HookContext, file: GuardedFile) -> str:
    """How the agent gets back what it left, if somebody else's command changed it."""
    record = quarantined(os.path.join(file.root, file.disk_name))
    if record is None or not same_family(record.holder, hook.agent):
        return ""
    return how_back(record, look(record.root, record.name))


def _by(hook: HookContext, file: GuardedFile, age: float) -> str:
    """During whose command it changed, or which other agent held it in the last `age` seconds."""
    since = hook.board.upkeep.now() - age
    record = quarantined(os.path.join(file.root, file.disk_name))
    if record is not None:
        return f"while a command of {short(record.by)} ran"
    if by := _running_beside(hook, file):
        return f"while a command of {' and one of '.join(map(short, by))} ran"
    everywhere = file_resource(file.name)
    events = [
        event
        for name in dict.fromkeys((file.resource, everywhere))
        for event in hook.board.events.read(subject=name, project=file.project, event="hold", newest=True)
    ]
    events.sort(key=lambda event: event.number)
    others = [e.agent for e in events if e.event in HELD and e.at >= since and e.agent not in (None, short(hook.agent))]
    return f"while {others[-1]} held it" if others else "by nobody that tiebreak knows"


def _running_beside(hook: HookContext, file: GuardedFile) -> list[str]:
    """The agents whose commands still run and may have changed the agent's own file."""
    from .interference import makers

    record = watched(os.path.join(file.root, file.disk_name))
    if record is None or record.holder != hook.agent or not is_changed(record):
        return []
    return makers(record, look(record.root, record.name))


def _unseen(hook: HookContext, file: GuardedFile) -> str:
    """Why the edit would replace a new file that the agent has never read; "" if it would not."""
    if not hook.call.replaces_file or read_set.knows(hook.state, file.path):
        return ""
    try:
        written = os.stat(file.path).st_mtime_ns
    except OSError:
        return ""
    began = hook.state.moment(BORN_FACT)
    if not began or written < began:
        return ""
    by = _by(hook, file, hook.state.age(BORN_FACT))
    return (
        f"tiebreak: {file.name} was written since you started, {by}, and you have never read it. Read it first, then "
        "decide whether to replace it."
    )
