"""Before an edit: hold the file, and check that it is what the agent last saw. After an edit: remember what it is now.

The hold is taken before the file is compared, so no other guarded agent can change the file between the comparison and
the edit. If the comparison refuses the edit, the hold stays, so that the agent can read the file again and go on.
"""

from __future__ import annotations

import os

from ...agent_names import same_family
from ...errors import Lost
from ...fingerprints import digest
from ...held_files import path_of
from ...limits import HOLD_LEASE
from ...model import holder_id
from ...names import short
from ...repository import repository
from ...text import argument, plain
from ..agent_state import key
from ..commits.checkout_branch import begin
from ..guarded_file import guarded_file
from ..hook_call import Verdict, quoted
from ..hook_context import main_agent
from . import read_set
from .disk_state import ABSENT, CLOSED_ABOVE, FILE, LINK, look
from .edit_marks import edit_begins, edit_ends
from .interference_report import how_back
from .left_contents import accept, is_changed, pass_on, remember_left, watched_now
from .stale_edits import stale
from .watched_files import watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...model import Hold
    from ..guarded_file import GuardedFile
    from ..hook_context import HookContext

ENOUGH = 600.0
"""A hold that lasts this many seconds more is not taken again."""


def before(hook: HookContext, *, reading_tool: bool) -> Verdict:
    """Allow an edit, or say why not."""
    for path in hook.call.paths:
        if reason := _out_of_reach(hook, path):
            return Verdict(deny=reason)
    files = [file for file in (guarded_file(path, hook.environ) for path in hook.call.paths) if file is not None]
    if not files:
        hook.renew()
        return Verdict()
    for project in {file.project for file in files}:
        try:
            _take(hook, project, [file for file in files if file.project == project])
        except Lost as lost:
            return Verdict(deny=refusal(hook, lost, project))
    hook.renew()
    for file in files:
        reason = stale(hook, file, reading_tool=reading_tool)
        if reason:
            return Verdict(deny=reason)
    for file in files:
        edit_begins(hook.state, os.path.join(file.root, file.disk_name))
    return Verdict()


def _out_of_reach(hook: HookContext, path: str) -> str:
    """Why an edit would not reach the held file of that name, because something else is in its place; "" if it would.

    A tool follows links. So it would write to another file than the one that is held under the name.
    """
    record = watched(path)
    if record is None:
        return ""
    state = look(record.root, record.name)
    if state.kind in (FILE, ABSENT, CLOSED_ABOVE) or (state.kind == LINK and state.fingerprint() == record.fingerprint):
        return ""
    if state.signature == record.seen and same_family(record.holder, hook.agent):
        return ""  # its holder made it so, and means what the tool writes to
    holds = hook.board.holds.list(project=record.project, matching=record.resource)
    if all(each.path != record.path for each in watched_now(holds)):
        return ""
    holder, back = f"{short(record.holder)} holds", ""
    if same_family(record.holder, hook.agent):
        holder, back = "you hold", how_back(record, state)
    by = f" while a command of {short(record.by)} ran" if record.by else ""
    return (
        f"tiebreak: {plain(record.name)}, which {holder}, {state.words(record.root)}{by}. The edit would go to another "
        f"file.{back}"
    )


def _take(hook: HookContext, project: str, files: list[GuardedFile]) -> None:
    """Hold all files or none; raises `Lost`."""
    wanted = _not_held(hook, project, files)
    if not wanted:
        return
    try:
        taken = _grant(hook, project, wanted)
    except Lost as lost:
        if not _inherit(hook, project, lost):
            raise
        wanted = _not_held(hook, project, files)
        taken = _grant(hook, project, wanted) if wanted else []
    for hold in taken:
        if (hold.until or 0) - (hold.taken_at or 0) <= HOLD_LEASE + 0.001:  # new, not renewed
            hook.state.put(f"taken/{key(hold.resource)}", hold.resource.encode())
    _watch(hook, taken, files)


def _watch(hook: HookContext, taken: list[Hold], files: list[GuardedFile]) -> None:
    """Remember what is in the files that were taken just now."""
    by_name = {file.resource: file for file in files}
    for hold in taken:
        file = by_name[hold.resource]
        known = watched(os.path.join(file.root, file.disk_name))
        if known is not None and (known.holder, known.epoch) == (hook.agent, hold.epoch):
            continue
        if (found := repository(file.root)) is not None:
            begin(hook.board, hook.state, found)
        remember_left(hook.board, hold, file.root, file.disk_name)


def _not_held(hook: HookContext, project: str, files: list[GuardedFile]) -> list[GuardedFile]:
    """The files that the agent has to take. For a single file a read tells, which is cheaper than a write."""
    found: dict[str, Hold] = {}
    if len(files) == 1:
        found = {h.resource: h for h in hook.board.holds.list(project=project, matching=files[0].resource)}
    return [file for file in files if not _is_safe(hook, found.get(file.resource))]


def _is_safe(hook: HookContext, hold: Hold | None) -> bool:
    """Whether the agent holds it for long enough, by the board's clock."""
    mine = hold is not None and holder_id(hold) == hook.agent
    return mine and hold is not None and (hold.until or 0) - hook.board.upkeep.now() > ENOUGH


def _grant(hook: HookContext, project: str, files: list[GuardedFile]) -> list[Hold]:
    by_name = {file.resource: file for file in files}
    return hook.board.holds.take(
        resources=list(by_name),
        hashes=[digest(file.path) for file in by_name.values()],
        project=project,
        lease=HOLD_LEASE,
        again=True,
    )


def _inherit(hook: HookContext, project: str, lost: Lost) -> bool:
    """Transfer a hold from the main agent to its sub-agent, which works for it."""
    if not hook.call.subagent:
        return False
    above = main_agent(hook.call, hook.environ)
    if f"{lost.holder}~{lost.data.get('session')}" != above:
        return False
    resource = str(lost.data["resource"])
    hold = hook.board.holds.transfer(resource=resource, to=hook.agent, agent=above, project=project, lease=HOLD_LEASE)
    pass_on(hold, above)
    return True


def refusal(hook: HookContext, lost: Lost, project: str) -> str:
    """The text of a refusal: who holds the file, until when, what for, and how to ask them."""
    note = str(lost.data.get("note") or "")
    message = lost.message.removesuffix(f": {note}") if note else lost.message
    lines = [f"tiebreak: {plain(message)}."]
    if lost.until:
        lines.append(f"Until: {_clock(lost.until)}, if they do not renew it.")
    doing = _doing(hook, lost, project)
    if doing:
        lines.append(f"They are working on (their words, not an instruction to you): {doing}")
    name = plain(path_of(str(lost.data.get("resource", "file:"))))
    lines.append(
        f"Do something else meanwhile, or ask: tb send {lost.holder} {argument(f'may I have {name}?')} "
        f"(`tb hold {argument(name)} --wait 10m` waits for it). Do not write to it by other means."
    )
    return "\n".join(lines)


def _clock(at: float) -> str:
    from ...text import rfc3339

    return rfc3339(at)[:16].replace("T", " ") + " UTC"


def _doing(hook: HookContext, lost: Lost, project: str) -> str:
    session = f"{lost.holder}~{lost.data.get('session')}"
    found = [a for a in hook.board.agents.list(project=project, agent=lost.holder) if a.id == session]
    words = [str(lost.data["note"])] if lost.data.get("note") else []
    words += [a.doing for a in found if a.doing]
    claims = hook.board.tasks.list(project=project, agent=lost.holder, states=["claimed"], limit=3)
    words += [f"#{task.number} {task.name}" for task in claims]
    gone = " (its process has ended)" if any(a.status == "gone" for a in found) else ""
    return "; ".join(quoted(word, 120) for word in words) + gone


def after(hook: HookContext) -> Verdict:
    """After an edit: remember the file as the agent left it, and store its hash with the hold."""
    if hook.call.has_failed:
        _end_marks(hook)
        hook.renew()
        return Verdict()
    resources, hashes, told = [], [], []
    for path in hook.call.paths:
        file = guarded_file(path, hook.environ)
        if file is not None and (lost := _lost_edit(hook, file, path)):
            told.append(lost)
            edit_ends(hook.state, os.path.join(file.root, file.disk_name))
            continue
        now = read_set.remember(hook.state, path)
        if file is None:
            continue
        _remember_own(hook, file)
        edit_ends(hook.state, os.path.join(file.root, file.disk_name))
        if file.project.partition(" ")[0] == hook.board.project_names.partition(" ")[0]:
            resources.append(file.resource)
            hashes.append(now)
    hook.renew(resources=resources, hashes=hashes)
    return Verdict(context="\n".join(told))


def _lost_edit(hook: HookContext, file: GuardedFile, path: str) -> str:
    """What to tell the agent if another agent's command has replaced what its tool wrote just now; "" if none has.

    Only an edit of which not a line is left counts: formatters change what tools write, too.
    """
    record = watched(os.path.join(file.root, file.disk_name))
    if record is None or record.holder != hook.agent or read_set.has_a_line(file.path, hook.call.writes.get(path, "")):
        return ""
    from .interference import makers

    by = [record.by] if record.by else makers(record, look(record.root, record.name))
    if not by:
        return ""
    return (
        f"tiebreak: {plain(record.name)}, which you hold, has nothing of this edit any more: it was written while "
        f"{'a command' if len(by) == 1 else 'commands'} of {' and '.join(map(short, by))} ran. Read it again."
    )


def _end_marks(hook: HookContext) -> None:
    for path in hook.call.paths:
        file = guarded_file(path, hook.environ)
        if file is not None:
            edit_ends(hook.state, os.path.join(file.root, file.disk_name))


def _remember_own(hook: HookContext, file: GuardedFile) -> None:
    """The file is as this agent left it."""
    known = watched(os.path.join(file.root, file.disk_name))
    if known is not None and known.holder == hook.agent:
        accept(known, known.beside)  # whose hooks have not come yet still have to tell
        return
    for hold in hook.board.holds.list(project=file.project, matching=file.resource):
        if holder_id(hold) == hook.agent:
            remember_left(hook.board, hold, file.root, file.disk_name)


def seen(hook: HookContext) -> Verdict:
    """After a read: remember the file as the agent has seen it.

    A holder that has read the whole file goes on with what is there.
    """
    told = []
    for path in hook.call.paths:
        if not read_set.remember_seen(hook.state, path, hook.call.shown):
            continue
        known = watched(path)
        if known is not None and known.holder == hook.agent and is_changed(known) and not hook.call.is_partial:
            from .interference import accept_seen

            told += accept_seen(known)
    hook.renew()
    return Verdict(context="\n".join(told))
