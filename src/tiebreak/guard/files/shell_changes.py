"""After a shell command: finds the files that it changed, and whether another agent holds them.

A hook cannot know beforehand what a command will write. So before the command it looks at the places of all files that
others hold, also in other repositories, and remembers what is there (`interference`, `running_commands`). Afterwards it
looks at the same places again, and at what git reports as changed in the checkout of the command. A file whose inode
changed since then (its ctime) has changed while the command ran. If nobody holds it, this agent does from now on. If
another agent holds it, both agents are told, and it is put in quarantine unless a command of its holder ran, too.
"""

from __future__ import annotations

import os
import sys
import time

from ...agent_names import same_family
from ...checkouts import checkout_of
from ...errors import Lost
from ...fingerprints import digest
from ...globs import is_glob, overlap
from ...held_files import means_files_in, parts, path_of
from ...limits import HOLD_LEASE
from ...model import holder_id
from ...names import short
from ...repository import repository
from ...text import plain
from ..agent_notes import fitting, forget_notes, leave_notes, notes_for
from ..agent_state import AgentState, key
from ..commits.checkout_branch import begin, branch_of, notice
from ..commits.git_status import status_of
from ..guarded_file import guarded_files
from ..hook_call import Verdict
from ..live_holds import live_holds
from ..working_places import WorkingPlaces
from . import interference, read_set
from .disk_state import FILE, changed_since, inode_in, look
from .interference_report import Interference, report, report_strays, tell_holder, tell_of_other_checkout, together
from .left_contents import held_names, of_others, remember_left, watched_anywhere
from .missing_files import look_again, still_missing
from .running_commands import DEFAULT, RunningCommand, ended
from .unexplained_changes import note_unexplained
from .watched_files import WatchedFile, watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...model import Hold
    from ...repository import Repository
    from ..guarded_file import GuardedFile
    from ..hook_context import HookContext

MOST = 200
"""Most changed files that are held one by one; the number of the others is only reported."""
_FILE_CLOCK = 5
"""CLOCK_REALTIME_COARSE of Linux, which stamps files; `time` has no name for it."""


def before(hook: HookContext) -> Verdict:
    """Before a command: remember what others hold and left, and renew everything for as long as the command may run."""
    found = repository(hook.call.cwd)
    root = found.root if found else ""
    command = RunningCommand(hook.agent, hook.call.session, root, hook.call.seconds or DEFAULT)
    records = interference.look_before(hook, found, command)
    leave_notes(hook.state, look_at_branches(hook, found, records, None))
    if found is not None:
        command.branch = branch_of(found)
        look_again(found.root)
    if records:
        note_unexplained(hook.state, records)
    since = command.save(hook.state, hook.call.tool_use)
    hook.renew(seconds=command.seconds)
    _let_the_clock_move(since)
    return Verdict()


def _let_the_clock_move(mark: int) -> None:
    """Wait for the next tick of the clock that stamps files, so that later changes have a later time."""
    for _ in range(40):
        if sys.platform != "linux" or time.clock_gettime_ns(_FILE_CLOCK) > mark:
            return
        time.sleep(0.0005)


def after(hook: HookContext) -> Verdict:
    """After a command: find what it changed, and tell the agents."""
    hook.renew(seconds=0.0)
    marks = ended(hook)
    verdict = next((look_after(hook, command) for command in marks.commands()), Verdict())
    notes = fitting(notes_for(hook.state))
    verdict.context = "\n".join(each for each in (*notes, verdict.context) if each)
    verdict.when_told += [marks.forget, lambda: forget_notes(hook.state, notes)]
    return verdict


def look_after(hook: HookContext, command: RunningCommand) -> Verdict:
    """Find what a command changed that has ended. The session may be in another project by now."""
    hook = hook.at(command.root)
    holds = live_holds(hook.board)
    records = watched_anywhere(hook.board, holds)
    theirs = of_others(records, hook.agent)
    own = [each for each in records if each not in theirs]
    moved = _moved(own, command)
    relatives = interference.accept_own(hook, own, command)
    found = repository(command.root) if command.root else None
    theirs = _still_changed(theirs, found)
    harmed = interference.harmed(hook, command.root, theirs, command)
    verdict = Verdict(context=report(harmed, hook.agent))
    if found is not None:
        moved |= _moved([each.record for each in harmed if not each.is_shared], command)
        verdict = _look_in_checkout(hook, found, command, holds, theirs, harmed, moved, set(relatives))
    branches = look_at_branches(hook, found, records, command)
    verdict.context = "\n".join(each for each in (*relatives.values(), verdict.context, *branches) if each)
    return verdict


def _moved(records: list[WatchedFile], command: RunningCommand) -> set[int]:
    """The inodes of files that were in these places before the command, and are not now."""
    watched_before = [each for each in records if each.path in command.seen]
    before = {inode_in(command.seen[each.path].signature) for each in watched_before}
    return before - {look(each.root, each.name).inode for each in watched_before} - {0}


def _still_changed(records: list[WatchedFile], found: Repository | None) -> list[WatchedFile]:
    """These records, without those of files that their holders never had in a checkout and that are clean there now."""
    never_had = [each for each in records if each.by and not each.is_worked_on]
    doubtful = [each for each in never_had if found and each.root == found.root]
    status = status_of(doubtful[0].root) if doubtful else None
    if status is None:
        return records
    over = [each for each in doubtful if each.name not in status]
    for each in over:
        each.forget()
    return [each for each in records if each not in over]


def look_at_branches(
    hook: HookContext, found: Repository | None, records: list[WatchedFile], command: RunningCommand | None
) -> list[str]:
    """Look at HEAD in this checkout, and in all that have held files; returns what to tell this agent.

    `command` is this agent's command that has just ended, if there is one.
    """
    told = notice(hook.board, found, command) if found is not None else []
    here = found.root if found is not None else ""
    for root, project in {each.root: each.project for each in records if each.root != here}.items():
        other = repository(root)
        if other is not None and other.root == root:
            told += notice(hook.board_in(project), other, command)
    return told


def _look_in_checkout(
    hook: HookContext,
    found: Repository,
    command: RunningCommand,
    holds: list[Hold],
    theirs: list[WatchedFile],
    harmed: list[Interference],
    moved: set[int],
    told: set[str],
) -> Verdict:
    """Look at what git reports as changed in the checkout in which a command ran, but for paths that were `told`."""
    status = status_of(found.root)
    names = _changed(hook, found, status or [], command, holds, moved)
    names = _without_obstacles(found.root, names, {each.path for each in theirs} | told, harmed)
    strays = interference.found_strays(hook, found, names, theirs)
    taken = {candidate.name for candidate, _ in strays}
    names = [name for name in names if name not in taken]
    files = guarded_files(names, found.root, hook.board.project_names, checkout_of(found))
    verdict = _hold_or_report(hook, found, files, holds, harmed)
    verdict.context = "\n".join(each for each in (verdict.context, report_strays(strays)) if each)
    if status is None:
        verdict.warning = "tiebreak: git status failed here, so only files that somebody holds were checked"
    return verdict


def _without_obstacles(root: str, names: list[str], held: set[str], harmed: list[Interference]) -> list[str]:
    """These names, without what is in the place of a held file or above it: nobody holds an obstacle.

    Nor does anybody hold what is inside of a folder or repository that the command has put there.
    """
    in_the_way = {each for path in held for each in _up(root, path)}
    lost = {each.record.path for each in harmed} | {each.state.above for each in harmed if each.state.above}
    paths = ((name, os.path.join(root, name)) for name in names)
    return [name for name, path in paths if path not in in_the_way and lost.isdisjoint(_up(root, path))]


def _up(root: str, path: str) -> Iterator[str]:
    """A path, and the folders above it up to the top of the checkout."""
    while path.startswith(f"{root}/"):
        yield path
        path = os.path.dirname(path)


def _changed(
    hook: HookContext,
    found: Repository,
    status: list[str],
    command: RunningCommand,
    holds: list[Hold],
    moved: set[int],
) -> list[str]:
    """The names of the files that were written while the command ran, and held files under new names, by inode."""
    missing = still_missing(found.root, status)
    own = held_names((hold for hold in holds if holder_id(hold) == hook.agent), found)
    own_here = {name for name in own if _is_known_here(os.path.join(found.root, name))}
    return [
        name
        for name in sorted({*status, *own_here} - missing)
        if changed_since(found.root, name, command.since) or _inode(found.root, name) in moved
    ]


def _is_known_here(path: str) -> bool:
    """Whether a held file is in this checkout, or its holder has worked on it here."""
    return os.path.lexists(path) or watched(path) is not None


def _inode(root: str, name: str) -> int:
    state = look(root, name)
    return state.inode if state.kind == FILE else 0


def _hold_or_report(
    hook: HookContext, found: Repository, files: list[GuardedFile], holds: list[Hold], harmed: list[Interference]
) -> Verdict:
    mine: list[tuple[GuardedFile, Hold]] = []
    taken: list[GuardedFile] = []
    relatives: list[tuple[GuardedFile, str]] = []
    checkout = checkout_of(found)
    here = [hold for hold in holds if means_files_in(hold.resource, checkout)]
    by_name = {path_of(hold.resource): hold for hold in sorted(here, key=lambda hold: parts(hold.resource))}
    for file in _others_first(hook, files, here)[:MOST]:
        hold = by_name.get(file.name)
        if hold is not None and holder_id(hold) == hook.agent:
            mine.append((file, hold))
            continue
        if hold is not None and hold.hash is not None and digest(file.path) == hold.hash:
            continue  # its contents are the same
        try:
            _take(hook, found, file)
            taken.append(file)
        except Lost as lost:
            if same_family(_holder(lost), hook.agent):
                relatives.append((file, str(lost.holder)))
                words = f"tiebreak: {plain(file.name)}, which you hold, changed while a shell command of"
                leave_notes(AgentState(_holder(lost)), [f"{words} {short(hook.agent)} ran."])
            else:
                harmed.append(_held_by_another(hook, file, lost))
    _renew_own(hook, mine)
    return Verdict(context=_report(hook, taken, relatives, harmed, len(files) - MOST))


def _take(hook: HookContext, found: Repository, file: GuardedFile) -> None:
    """Hold a file that this agent's command changed; raises `Lost`."""
    took = hook.board.holds.take(resources=[file.resource], hashes=[digest(file.path)], lease=HOLD_LEASE, again=True)
    hook.state.put(f"taken/{key(file.resource)}", file.resource.encode())
    begin(hook.board, hook.state, found)
    for hold in took:
        remember_left(hook.board, hold, found.root, file.disk_name)


def _renew_own(hook: HookContext, mine: list[tuple[GuardedFile, Hold]]) -> None:
    for file, hold in mine:
        read_set.remember_own(hook.state, file.path)
        if watched(file.path) is None:
            remember_left(hook.board, hold, file.root, file.disk_name)
    if mine:
        hashes = [digest(file.path) for file, _ in mine]
        hook.renew(resources=[hold.resource for _, hold in mine], hashes=hashes)


def _others_first(hook: HookContext, files: list[GuardedFile], holds: list[Hold]) -> list[GuardedFile]:
    """If there are too many to check, those that other agents hold come first."""
    if len(files) <= MOST:
        return files
    others = [path_of(hold.resource) for hold in holds if holder_id(hold) != hook.agent]
    names, globs = set(others), [name for name in others if is_glob(name)]

    def is_free(file: GuardedFile) -> bool:
        return file.name not in names and not any(overlap(file.name, glob) for glob in globs)

    return sorted(files, key=is_free)


def _holder(lost: Lost) -> str:
    return f"{lost.holder}~{lost.data.get('session')}"


def _held_by_another(hook: HookContext, file: GuardedFile, lost: Lost) -> Interference:
    """A changed file that was not watched: held in another checkout, or by a glob that matches it."""
    holder = _holder(lost)
    known = watched(file.path)
    if known is None or (known.by, known.holder, known.epoch) != (hook.agent, holder, lost.epoch):
        resource, project = str(lost.data["resource"]), hook.board.project
        known = WatchedFile(
            file.root, file.disk_name, project=project, resource=resource, holder=holder, epoch=lost.epoch
        )
        known.by = hook.agent
        known.replace()
        found = Interference(known, look(known.root, known.name), file.disk_name)
        if WorkingPlaces(hook.board).works_in(holder, file.root):
            tell_holder(hook.board, [found])
        else:
            tell_of_other_checkout(hook.board, known)
    return Interference(known, look(known.root, known.name), file.disk_name)


def _report(
    hook: HookContext,
    taken: list[GuardedFile],
    relatives: list[tuple[GuardedFile, str]],
    harmed: list[Interference],
    more: int,
) -> str:
    lines = [report(harmed, hook.agent)] if harmed else []
    if taken:
        named = together((plain(file.name), "") for file in taken)
        lines.append(f"tiebreak: while that command ran, {named} changed; you hold them now.")
    if relatives:
        named = together((plain(file.name), f"held by {holder}") for file, holder in relatives)
        lines.append(f"tiebreak: files of your main agent or sub-agents changed while that command ran: {named}.")
    if more > 0:
        lines.append(f"tiebreak: {more} more files changed, which are not held for you.")
    return "\n".join(lines)
