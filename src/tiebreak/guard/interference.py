"""What happens to the files of others while an agent's command runs: looked for by their names, before and after it.

A file that is not as its holder left it goes into quarantine, and both agents are told (`interference_report`).
"""

from __future__ import annotations

import os

from ..agent_names import same_family
from ..checkouts import checkout_of
from ..fingerprints import read_file
from ..globs import is_glob, overlap
from ..held_files import means_files_in, path_of
from ..model import holder_id
from . import known_strays, running_commands
from .disk_state import FILE, REACHABLE, REPOSITORY_ABOVE, look
from .git_status import status_of
from .guarded_file import guarded_files
from .interference_report import Interference, name_from, tell_holder, tell_of_stray
from .left_contents import accept, held_names, remember_left, watched_now
from .safety_copies import keep
from .working_places import WorkingPlaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Hold
    from ..repository import Repository
    from .guarded_file import GuardedFile
    from .hook_context import HookContext
    from .moved_contents import Candidate
    from .running_commands import RunningCommand
    from .watched_files import WatchedFile


def look_before(hook: HookContext, found: Repository, command: RunningCommand) -> None:
    """Remember what is at the places of all held files, in this checkout and in others."""
    holds = hook.board.holds.list()
    records = watched_now(holds)
    records += _begin_to_watch(hook, found, holds, {each.path for each in records})
    for record in records:
        state = look(record.root, record.name)
        is_own = same_family(record.holder, hook.agent)
        content = ""
        if not is_own and state.signature != record.seen:
            is_left = not record.by and state.kind in REACHABLE
            content = (keep(record.path, record.holder) if is_left else state.fingerprint()) or ""
        command.seen[record.path] = (state.signature, content)


def _begin_to_watch(hook: HookContext, found: Repository, holds: list[Hold], known: set[str]) -> list[WatchedFile]:
    """Make records of files that others hold here without hooks: by their names, or by globs that match them."""
    checkout = checkout_of(found)
    theirs = [hold for hold in holds if not same_family(holder_id(hold) or "", hook.agent)]
    wanted = list(held_names(theirs, checkout).items())
    globs = [hold for hold in theirs if means_files_in(hold.resource, checkout) and is_glob(path_of(hold.resource))]
    places = WorkingPlaces(hook.board)
    globs = [hold for hold in globs if places.works_in(holder_id(hold) or "", found.root)]
    if globs:
        for file in guarded_files(status_of(found.root) or (), found.root, hook.board.project_names, checkout):
            wanted += [(file.disk_name, hold) for hold in globs if overlap(file.name, path_of(hold.resource))]
    return [
        remember_left(hold, found.root, name, known=False)
        for name, hold in wanted
        if os.path.join(found.root, name) not in known and places.works_in(holder_id(hold) or "", found.root)
    ]


def accept_own(hook: HookContext, records: list[WatchedFile], command: RunningCommand) -> None:
    """What this agent's command changed in its own files is what it left, unless another's may have destroyed it."""
    for record in records:
        state = look(record.root, record.name)
        signature, _ = command.seen.get(record.path, (record.seen, ""))
        if state.signature == signature:
            continue
        if record.by:
            keep(record.path, record.holder)  # its holder has to look at it all the same
        elif state.kind == FILE or next(running_commands.of_others(hook.agent, record.root), None) is None:
            accept(record)


def harmed(
    hook: HookContext, found: Repository, records: list[WatchedFile], command: RunningCommand
) -> list[Interference]:
    """The files of others that changed during the command and are not as their holders left them."""
    out = []
    for record in records:
        signature, content = command.seen.get(record.path, ("", ""))
        state = look(record.root, record.name)
        if not signature or state.signature == signature:
            continue
        now = state.fingerprint()
        is_nested = state.became(REPOSITORY_ABOVE, signature)
        if now is not None and now == record.fingerprint and not is_nested:
            record.by, record.seen = "", state.signature  # its holder has it back
            record.save()
        elif now is None or now != content or is_nested:
            words = state.words(record.root)
            _quarantine(hook, record, content, words)
            out.append(Interference(record, words, name_from(found.root, record)))
    return out


def _quarantine(hook: HookContext, record: WatchedFile, content: str, words: str) -> None:
    """Keep a file from being committed, and tell its holder. `content` is what was there before, if it is known."""
    if not record.by:
        record.fingerprint = content or record.fingerprint
    record.by = record.by or hook.agent
    record.save()
    tell_holder(hook.board, record, words)


def found_strays(
    hook: HookContext, found: Repository, files: list[GuardedFile], records: list[WatchedFile]
) -> list[tuple[Candidate, WatchedFile]]:
    """The changed files that have uncommitted lines of others; their holders are told."""
    if not files or not records:
        return []
    from .moved_contents import LARGEST, MOST_BYTES, Candidate, strays

    candidates, room = [], MOST_BYTES
    for file in files:
        try:
            contents = read_file(file.path, LARGEST)
        except OSError:
            continue  # it is gone, or not a file
        room -= len(contents)
        if room < 0:
            break
        candidates.append(Candidate(found.root, file.disk_name, contents))
    found_now, out = strays(candidates, records, hook.agent), []
    for candidate in candidates:
        origins = [record for stray, record in found_now if stray is candidate]
        out += [(candidate, record) for record in known_strays.remember(candidate.path, origins)]
    for candidate, record in out:
        tell_of_stray(hook.board, candidate, record)
    return out
