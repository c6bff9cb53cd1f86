"""After a shell command: finds the files that it changed, and whether another agent holds them.

A hook cannot know beforehand what a command will write. So the time before the command is remembered. Afterwards two
kinds of files are checked: those that git reports as changed, and those that somebody holds. A file whose inode changed
after that time (its ctime) has changed while the command ran. If nobody holds it, this agent does from now on. If
another agent holds it, it is put in quarantine, and both agents are told. They are told when it changed and not who
changed it: the holder may have saved it at the same time.
"""

from __future__ import annotations

import os
import time

from ..agent_names import same_family
from ..checkouts import checkout_of
from ..errors import Lost
from ..fingerprints import digest
from ..globs import is_glob, overlap, unescape
from ..held_files import means_files_in, parts, path_of
from ..limits import HOLD_LEASE
from ..model import holder_id
from ..names import short
from ..repository import repository
from ..text import plain
from . import read_set
from .agent_state import key
from .guarded_file import guarded_files
from .hook_call import Verdict
from .quarantine import quarantine, quarantined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Hold
    from .guarded_file import GuardedFile
    from .hook_context import HookContext

MOST = 200
"""Most changed files that are held one by one; the number of the others is only reported."""
SHOWN = 12
DEFAULT = 600.0
"""Seconds that a command may run if the client does not say."""


def before(hook: HookContext) -> Verdict:
    """Before a command: remember the time, and renew everything for as long as the command may run."""
    hook.state.put(_start_mark(hook), b"")
    hook.renew(seconds=hook.call.seconds or DEFAULT)
    _let_the_clock_move(hook.state.moment(_start_mark(hook)))
    return Verdict()


def _let_the_clock_move(mark: int) -> None:
    """Wait for the next tick of the clock that stamps files, so that later changes have a later time."""
    ticking = getattr(time, "CLOCK_REALTIME_COARSE", None)
    for _ in range(40):
        if ticking is None or time.clock_gettime_ns(ticking) > mark:
            return
        time.sleep(0.0005)


def _start_mark(hook: HookContext) -> str:
    return f"shell-{key(hook.call.tool_use or 'the only one')}"


def after(hook: HookContext) -> Verdict:
    """After a command: find what it changed, and tell the agents."""
    since = hook.state.moment(_start_mark(hook))
    hook.state.forget(_start_mark(hook))
    hook.renew(seconds=0.0)
    found = repository(hook.call.cwd)
    if not since or found is None:
        return Verdict()
    checkout = checkout_of(found)
    holds = [hold for hold in hook.board.holds.list() if means_files_in(hold.resource, checkout)]
    status = status_of(found.root)
    names = {*(status or ()), *_held_names(holds)}
    changed = [name for name in names if _changed_since(found.root, name, since)]
    verdict = _hold_or_report(
        hook, guarded_files(sorted(changed), found.root, hook.board.project_names, checkout), holds
    )
    if status is None:
        verdict.warning = "tiebreak: git status failed here, so only files that somebody holds were checked"
    return verdict


def _held_names(holds: list[Hold]) -> Iterator[str]:
    for hold in holds:
        if not is_glob(name := path_of(hold.resource)):  # files that match a glob are known when git reports them
            yield "/".join(unescape(part) for part in name.split("/"))


def status_of(root: str) -> list[str] | None:
    """The changed and untracked files that git reports, relative to the repository; None if git fails."""
    import subprocess

    words = ["git", "-C", root, "--no-optional-locks", "status", "--porcelain=v1", "-z", "--no-renames", "-uall"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode:
        return None
    return [os.fsdecode(line[3:]) for line in done.stdout.split(b"\0") if len(line) > 3]


def _changed_since(root: str, name: str, since: int) -> bool:
    """Whether a file was written, replaced or removed since then, by the ctime of its inode."""
    path = os.path.join(root, name)
    try:
        return os.stat(path, follow_symlinks=False).st_ctime_ns > since
    except OSError:
        pass  # it is gone: the ctime of its folder tells when
    try:
        return os.stat(os.path.dirname(path)).st_ctime_ns > since
    except OSError:
        return False


def _hold_or_report(hook: HookContext, files: list[GuardedFile], holds: list[Hold]) -> Verdict:
    mine: list[tuple[GuardedFile, str]] = []
    taken: list[GuardedFile] = []
    theirs: list[tuple[GuardedFile, str]] = []
    by_name = {path_of(hold.resource): hold for hold in sorted(holds, key=lambda hold: parts(hold.resource))}
    for file in _others_first(hook, files, holds)[:MOST]:
        hold = by_name.get(file.name)
        if hold is not None and holder_id(hold) == hook.agent:
            mine.append((file, hold.resource))
            continue
        if hold is not None and hold.hash is not None and digest(file.path) == hold.hash:
            continue  # its contents are the same
        try:
            hook.board.holds.take(resources=[file.resource], hashes=[digest(file.path)], lease=HOLD_LEASE, again=True)
            hook.state.put(f"taken/{key(file.resource)}", file.resource.encode())
            taken.append(file)
        except Lost as lost:
            _held_by_another(hook, file, lost, taken, theirs)
    for file, _ in mine:
        read_set.remember_own(hook.state, file.path)
    if mine:
        hashes = [digest(file.path) for file, _ in mine]
        hook.renew(resources=[resource for _, resource in mine], hashes=hashes)
    return Verdict(context=_report(taken, theirs, len(files) - MOST))


def _others_first(hook: HookContext, files: list[GuardedFile], holds: list[Hold]) -> list[GuardedFile]:
    """If there are too many to check, those that other agents hold come first."""
    if len(files) <= MOST:
        return files
    others = [path_of(hold.resource) for hold in holds if holder_id(hold) != hook.agent]
    names, globs = set(others), [name for name in others if is_glob(name)]

    def is_free(file: GuardedFile) -> bool:
        return file.name not in names and not any(overlap(file.name, glob) for glob in globs)

    return sorted(files, key=is_free)


def _held_by_another(
    hook: HookContext, file: GuardedFile, lost: Lost, taken: list[GuardedFile], theirs: list[tuple[GuardedFile, str]]
) -> None:
    holder = f"{lost.holder}~{lost.data.get('session')}"
    if same_family(holder, hook.agent):
        taken.append(file)
        return
    theirs.append((file, lost.holder))
    known = quarantined(file.path)
    if known == (hook.agent, holder, lost.epoch):
        return  # reported already
    quarantine(file.path, by=hook.agent, holder=holder, epoch=lost.epoch)
    hook.board.messages.send(
        to=lost.holder,
        body=f"{file.name} changed while a shell command of {short(hook.agent)} ran and you hold it. It cannot be "
        "committed before you have read it again.",
        importance="high",
        channel="guard",
        later=True,  # it holds the file, so it exists
    )


def _report(taken: list[GuardedFile], theirs: list[tuple[GuardedFile, str]], more: int) -> str:
    lines = []
    if theirs:
        names = ", ".join(f"{plain(file.name)} (held by {holder})" for file, holder in theirs[:SHOWN])
        lines.append(
            f"tiebreak: these files changed while that command ran, and other agents hold them: {names}"
            f"{_and_more(theirs)}. They cannot be committed, and their holders were told. If your command changed "
            f"them, undo that by hand; ask with `tb send {theirs[0][1]} …`."
        )
    if taken:
        names = ", ".join(plain(file.name) for file in taken[:SHOWN])
        lines.append(f"tiebreak: while that command ran, {names}{_and_more(taken)} changed; you hold them now.")
    if more > 0:
        lines.append(f"tiebreak: {more} more files changed, which are not held for you.")
    return "\n".join(lines)


def _and_more(things: list[GuardedFile] | list[tuple[GuardedFile, str]]) -> str:
    return f" and {len(things) - SHOWN} more" if len(things) > SHOWN else ""
