"""What happens to the files of others while an agent's command runs: looked for by their names, before and after it.

A file that is not as its holder left it goes into quarantine, and both agents are told (`interference_report`).

Commands overlap, and nobody can say which of two commands wrote to a file that changed while both ran. If the holder's
command was the last to begin, the change counts as the holder's, because most commands that run for long change nothing
of others. Both agents are told all the same, by their own hooks: whoever's hook comes first notes in the record beside
whom the file changed. What the holder left before stays in a safety copy.
"""

from __future__ import annotations

import os

from ...agent_names import same_family
from ...checkouts import checkout_of
from ...fingerprints import read_file
from ...globs import is_glob, overlap
from ...held_files import means_files_in, path_of
from ...model import holder_id
from ..agent_notes import leave_notes
from ..agent_state import AgentState
from ..commits.git_status import status_of
from ..guarded_file import guarded_files
from ..live_holds import live_holds
from ..working_places import WorkingPlaces
from . import known_strays
from .disk_state import ABSENT, FILE, REACHABLE, REPOSITORY_ABOVE, changed_at_in, look
from .edit_marks import Patience
from .interference_report import (
    Interference,
    name_from,
    tell_holder,
    tell_of_stray,
    words_beside,
    words_by_relative,
    words_to_relative,
)
from .left_contents import accept, held_names, is_as_left, remember_left, watched_anywhere
from .running_commands import Look, is_at_prompt, others_in, running
from .safety_copies import keep
from .watched_files import update, watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...model import Hold
    from ...repository import Repository
    from ..hook_context import HookContext
    from .disk_state import DiskState
    from .moved_contents import Candidate
    from .running_commands import RunningCommand
    from .watched_files import WatchedFile


# ── Before a command ─────────────────────────────────────────────────────────────────────────────────


def look_before(hook: HookContext, found: Repository | None, command: RunningCommand) -> list[WatchedFile]:
    """Remember what is at the places of all held files, wherever they are; returns their records."""
    holds = live_holds(hook.board)
    records = watched_anywhere(hook.board, holds)
    if found is not None:
        records += _begin_to_watch(hook, found, holds, {each.path for each in records})
    commands = running() if records else []
    for record in records:
        state = look(record.root, record.name)
        command.seen[record.path] = (
            Look(state.signature) if state.signature == record.seen else _changed_look(hook, record, state, commands)
        )
    return records


def _changed_look(hook: HookContext, record: WatchedFile, state: DiskState, commands: list[RunningCommand]) -> Look:
    """A file is not as its record says. It is what its holder left if only the holder can have changed it.

    That is: no command of another agent runs, and the holder has no hooks that would have said so, or a command of its
    own runs.
    """
    if record.by or state.kind not in REACHABLE or same_family(record.holder, hook.agent):
        kept = keep(record.path, "") if state.kind in REACHABLE else None  # its holder may go on in quarantine
        return Look(state.signature, kept or state.fingerprint() or "")
    is_left = not others_in(record.root, record.holder, commands) and (
        not AgentState(record.holder).has_hooks or _holder_may_have_changed(record, state, commands)
    )
    if is_left:
        accept(record)
        return Look(state.signature)
    return Look(state.signature, keep(record.path, "") or state.fingerprint() or "")


def _begin_to_watch(hook: HookContext, found: Repository, holds: list[Hold], known: set[str]) -> list[WatchedFile]:
    """Make records of files that others hold here without hooks: by their names, or by globs that match them."""
    checkout = checkout_of(found)
    theirs = [hold for hold in holds if not same_family(holder_id(hold) or "", hook.agent)]
    wanted = list(held_names(theirs, found).items())
    globs = [hold for hold in theirs if means_files_in(hold.resource, checkout) and is_glob(path_of(hold.resource))]
    places = WorkingPlaces(hook.board)
    globs = [hold for hold in globs if places.works_in(holder_id(hold) or "", found.root)]
    if globs:
        for file in guarded_files(status_of(found.root) or (), found.root, hook.board.project_names, checkout):
            wanted += [(file.disk_name, hold) for hold in globs if overlap(file.name, path_of(hold.resource))]
    return [
        remember_left(hook.board, hold, found.root, name, known=False)
        for name, hold in wanted
        if os.path.join(found.root, name) not in known and places.works_in(holder_id(hold) or "", found.root)
    ]


def _holder_may_have_changed(
    record: WatchedFile, state: DiskState, commands: Iterable[RunningCommand], since: int = 0
) -> bool:
    """Whether a command of the holder runs that began after that time, and may have changed the file."""
    return any(
        each.since > since and may_have_changed(each, state) and not is_at_prompt(each.agent, each.since)
        for each in commands
        if same_family(each.agent, record.holder)
    )


# ── The agent's own files ────────────────────────────────────────────────────────────────────────────


def accept_own(hook: HookContext, records: list[WatchedFile], command: RunningCommand) -> dict[str, str]:
    """What this agent's command changed in its own files is what it left; what to tell it about others becomes a note.

    `records` are those of this agent, its main agent and its sub-agents. They are told what it changed in their files;
    returns what to tell this agent about these, by their paths.
    """
    commands, told = None, {}
    for record in records:
        state, before = look(record.root, record.name), command.seen.get(record.path)
        if state.signature == (before.signature if before else record.seen):
            continue
        if state.signature == record.seen and not record.by and not record.beside:
            continue  # the command itself has said that this is what the holder leaves: `tb recover`, `tb renew`
        if record.by:
            _change_in_quarantine(record, state, command)
            continue
        commands = running() if commands is None else commands
        others = _names(each for each in others_in(record.root, hook.agent, commands) if may_have_changed(each, state))
        if record.holder == hook.agent:
            _accept(hook.state, record, state, others, _names(commands))
        elif any(each.agent == record.holder and may_have_changed(each, state) for each in commands):
            _note(record, state, [*others, hook.agent])  # the end of its own command tells the holder
            told[record.path] = words_to_relative(record, state)
        else:
            told[record.path] = _change_of_relative(hook, record, state, others)
    return told


def accept_seen(record: WatchedFile) -> list[str]:
    """Its holder has read a file that had changed, and goes on with it; returns what to tell the holder."""
    state = look(record.root, record.name)
    beside, left = makers(record, state) if not record.by else [], record.written
    if not beside:
        accept(record, is_read=True)
        return []
    accept(record, " ".join(beside), is_read=True)  # their hooks have not come yet
    return [words_beside(record, state, beside, left)]


def _change_in_quarantine(record: WatchedFile, state: DiskState, command: RunningCommand) -> None:
    """A file of this agent changed in quarantine while its own command ran. Its holder has to look at it all the same.

    Whoever changes it further is told, even if that brings back what the holder left before.
    """
    fingerprint, before = keep(record.path, ""), command.seen.get(record.path)
    was_as_left = before is None or before.signature == record.seen != ABSENT  # then another's command may have done it
    is_own = not was_as_left and command.root in (record.root, "")

    def change(found: WatchedFile) -> bool:
        found.own = fingerprint or ""
        return bool(found.by)

    if is_own and state.kind == FILE:
        update(record, change)


def _change_of_relative(hook: HookContext, record: WatchedFile, state: DiskState, others: list[str]) -> str:
    """A command changed a file of its main agent or of a sub-agent: both may commit it, but have to know.

    Returns what to tell this agent.
    """
    leave_notes(AgentState(record.holder), [words_by_relative(record, state, [hook.agent, *others], record.written)])
    words = words_to_relative(record, state)
    if state.kind == FILE:
        accept(record, " ".join(others), is_read=True)
    else:
        _note(record, state, others)
    return words


def _accept(holder: AgentState, record: WatchedFile, state: DiskState, others: list[str], run: list[str]) -> None:
    """Accept a changed file, beside whose change the commands of others ran, or had run. The holder is told of these.

    Of a command that still runs, it is told once for each file. The note comes first: a hook that is killed in between
    repeats it.
    """
    known = record.beside.split()
    new = [each for each in others if each not in known] + [each for each in known if each not in run]
    if new:
        leave_notes(holder, [words_beside(record, state, new, record.written)])
    if state.kind == FILE or not (known or others):
        accept(record, " ".join(others))
    else:  # what is gone or replaced is not what the holder left, unless it says so
        _note(record, state, others)


def _note(record: WatchedFile, state: DiskState, others: list[str]) -> None:
    def change(found: WatchedFile) -> bool:
        found.seen, found.beside = state.signature, " ".join(others)
        return not found.by

    update(record, change)


def makers(record: WatchedFile, state: DiskState) -> list[str]:
    """The other agents, by id, whose commands run and may have made of a held file what is there."""
    others = others_in(record.root, record.holder, running())
    return _names(each for each in others if may_have_changed(each, state))


def may_have_changed(command: RunningCommand, state: DiskState) -> bool:
    """Whether a command that runs now had begun when a file was changed. Of what is gone, nobody knows when."""
    return state.changed_at == 0 or command.since <= state.changed_at


def _names(commands: Iterable[RunningCommand]) -> list[str]:
    return list(dict.fromkeys(each.agent for each in commands))


# ── The files of others ──────────────────────────────────────────────────────────────────────────────


def harmed(hook: HookContext, root: str, records: list[WatchedFile], command: RunningCommand) -> list[Interference]:
    """The files of others that changed during the command and are not as their holders left them.

    `root` is the checkout in which it ran.
    """
    patience = Patience()
    found = [each for each in (_harm(hook, root, record, command, patience) for record in records) if each is not None]
    quarantined = [each for each in found if each.record.by]
    for holder, project in dict.fromkeys((each.record.holder, each.record.project) for each in quarantined):
        theirs = [each for each in quarantined if (each.record.holder, each.record.project) == (holder, project)]
        tell_holder(hook.board, theirs)
    return found


def _harm(
    hook: HookContext, root: str, record: WatchedFile, command: RunningCommand, patience: Patience
) -> Interference | None:
    """What happened to one file. Its record may change at the same time, and is read again then."""
    found = record
    while True:
        state = look(found.root, found.name)
        before = _last_known(found, command)
        if state.signature == before.signature and hook.agent not in found.beside.split():
            return None
        if not patience.waits(found, state):
            told = _judge(hook, found, state, before, command)
            if told is None or found.save():
                break
        newer = watched(record.path)
        if newer is None or newer.grant != record.grant:
            return None  # it has been released
        found = newer
    if not told:
        return None
    return Interference(found, state, name_from(root, found), is_shared=not found.by, before=before.signature)


def _last_known(record: WatchedFile, command: RunningCommand) -> Look:
    """What was in the place before the command, or what the holder left there since."""
    before = command.seen.get(record.path)
    return before if before and changed_at_in(record.seen) <= command.since else Look(record.seen)


def _judge(
    hook: HookContext, record: WatchedFile, state: DiskState, before: Look, command: RunningCommand
) -> bool | None:
    """Change the record as it must be; returns whether this agent is told. None if nothing is to be stored."""
    beside, now = record.beside.split(), state.fingerprint()
    is_nested = state.became(REPOSITORY_ABOVE, before.signature)
    if state.signature == record.seen and not record.by:  # its holder has accepted it since
        record.beside = " ".join(each for each in beside if each != hook.agent)
        return True if hook.agent in beside else None
    if is_as_left(record, state, now) and not is_nested:
        record.left(state, now, is_read=True)  # its holder has it back
        return False
    if now is not None and now == before.fingerprint and not is_nested:
        return None
    if not record.by and _holder_may_have_changed(record, state, running(), command.since):
        keep(record.path, record.holder)
        record.beside = " ".join(dict.fromkeys([*beside, hook.agent]))
        return True
    if state.kind in REACHABLE and not AgentState(record.holder).has_hooks:
        keep(record.path, "")  # it may be what the holder has saved just now
    record.by, record.beside = record.by or hook.agent, ""
    return True


def found_strays(
    hook: HookContext, found: Repository, names: list[str], records: list[WatchedFile]
) -> list[tuple[Candidate, WatchedFile]]:
    """The changed files that have uncommitted lines of others; their holders are told.

    `names` are as the disk spells them: nobody needs to be able to hold them.
    """
    if not names or not records:
        return []
    from .moved_contents import MOST_BYTES, Candidate, strays

    candidates, room = [], MOST_BYTES
    for name in names:
        try:
            contents = read_file(os.path.join(found.root, name))
        except OSError:
            continue  # it is gone, or not a file
        if len(contents) <= room:
            room -= len(contents)
            candidates.append(Candidate(found.root, name, contents))
    found_now, out = strays(candidates, records, hook.agent), []
    for candidate in candidates:
        origins = [record for stray, record in found_now if stray is candidate]
        new = known_strays.unknown(candidate.path, origins)
        for record in new:
            tell_of_stray(hook.board, candidate, record)
        shared = [(record, candidate.shared[record.path]) for record in origins]
        known_strays.remember(candidate.path, shared, records)
        out += [(candidate, record) for record in new]
    return out
