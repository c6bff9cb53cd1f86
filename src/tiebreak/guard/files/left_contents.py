"""What holders left in their files: who writes the records and the safety copies, and when.

The holder's own hooks write them: when the hold is taken, after each edit, and after each command. Before a command of
anybody else, the files of holders that have no hooks are looked at, too. What changes while somebody else's command
runs is taken for what the holder left only if a command of the holder ran as well (see `interference`).
"""

from __future__ import annotations

import os

from ...agent_names import same_family
from ...checkouts import checkout_of
from ...globs import is_glob, unescape
from ...held_files import means_files_in, path_of
from ...model import holder_id
from ...names import short
from ...repository import repository
from ...text import argument, plain
from ..agent_notes import leave_notes
from ..agent_state import AgentState, key
from ..holder_messages import tell
from ..live_holds import live_holds
from ..working_places import note_place
from .disk_state import ABSENT, FILE, REACHABLE, changed_at_in, is_executable, look
from .safety_copies import find, keep
from .watched_files import WatchedFile, all_watched, update, watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...board import Board
    from ...model import Hold
    from ...repository import Repository
    from .disk_state import DiskState
    from .safety_copies import SafetyCopy

MOST_PROJECTS = 10
"""Most further projects whose held files are looked at."""


def remember_left(board: Board, hold: Hold, root: str, name: str, *, known: bool = True) -> WatchedFile:
    """The file is as its holder left it: keep a copy of it, and end a quarantine.

    `known`: the holder is known to work in this checkout. If another agent holds the file in another project, the
    record stays that one's, and both are told.
    """
    holder = holder_id(hold) or ""
    made = WatchedFile(root, name, project=hold.project, resource=hold.resource, holder=holder, epoch=hold.epoch)
    other = watched(made.path)
    if other is not None and _is_held_in_another_project(board, other, made):
        _tell_of_another_project(board, other, made)
        return other
    if known:
        note_place(AgentState(holder), root)
    made.left(*_now(made))
    if made.seen == ABSENT and not known and hold.hash not in (None, ABSENT) and not _is_recorded(hold):
        made.fingerprint, made.seen = hold.hash or "", ""  # the board knows that it was there, and the records are lost
    made.replace()
    return made


def _is_recorded(hold: Hold) -> bool:
    """Whether the file is known in any checkout of this machine: then it may be in that one alone."""
    return any((each.project, each.resource) == (hold.project, hold.resource) for each in watched_now([hold]))


def _is_held_in_another_project(board: Board, other: WatchedFile, made: WatchedFile) -> bool:
    if other.root != made.root or other.project == made.project or same_family(other.holder, made.holder):
        return False  # with another root, it was in a repository that is gone
    return bool(_current([other], board.holds.list(project=other.project, matching=other.resource)))


def _tell_of_another_project(board: Board, other: WatchedFile, made: WatchedFile) -> None:
    """Tell both holders of a file, once."""
    once = f"{made.path} {other.project} {other.holder} {other.epoch} {made.project} {made.holder} {made.epoch}"
    state, told = AgentState(made.holder), f"shared/{key(once)}"
    if state.moment(told) == 0:
        tell(board, other.holder, _words_of_another_project(other, made), once=once, project=other.project)
        leave_notes(state, [f"tiebreak: {_words_of_another_project(made, other)}"])
        state.put(told, b"")


def _words_of_another_project(record: WatchedFile, other: WatchedFile) -> str:
    return (
        f"{plain(record.name)}, which you hold in project {record.project}, is held by {short(other.holder)} in "
        f"project {other.project}, too: holds of two projects do not exclude each other. "
        f"`tb recover --list {argument(record.path)}` shows what is kept of it."
    )


def remember_here(board: Board, holds: list[Hold], root: str) -> None:
    """An agent without hooks holds files in the checkout at `root`, and says that their contents are its own."""
    found = repository(root)
    if found is None:
        return
    for hold in holds:
        note_place(AgentState(holder_id(hold) or ""), found.root)
    for name, hold in held_names(holds, found).items():
        remember_left(board, hold, found.root, name)


def accept(record: WatchedFile, beside: str = "", *, is_read: bool = False) -> None:
    """What is there now is what the holder left, although the commands of the agents `beside` ran, too.

    `is_read`: the holder has only read it, so it is accepted, but `tb recover` brings back what the holder left.
    """
    now, fingerprint = _now(record, is_read=is_read)

    def change(found: WatchedFile) -> bool:
        by = found.by if look(record.root, record.name).signature != now.signature else ""
        found.left(now, fingerprint, is_read=is_read)
        found.by, found.beside = by, beside  # if it has changed since, a quarantine is not about what the holder left
        return True

    update(record, change)


def _now(record: WatchedFile, *, is_read: bool = False) -> tuple[DiskState, str | None]:
    """What is there now, and its fingerprint; a copy is kept, of what was only read as nobody's."""
    now = look(record.root, record.name)
    kept = keep(record.path, "" if is_read else record.holder) if now.kind in REACHABLE else None
    return now, kept or now.fingerprint()


def is_as_left(record: WatchedFile, state: DiskState, fingerprint: str | None) -> bool:
    """Whether what is there is what the holder left: the same contents, and as executable as before.

    `fingerprint` is that of what is there now. If a command of the holder has changed the file in quarantine, it does
    not have back what it left before.
    """
    if fingerprint is None or fingerprint != record.fingerprint or record.own not in ("", fingerprint):
        return False
    kinds = {state.kind, record.seen.partition(" ")[0]}
    return kinds != {FILE} or is_executable(state.signature) == is_executable(record.seen)


def accept_removed(agent: str, root: str, removed: list[str]) -> None:
    """An agent has committed that these files are removed: that is how it leaves them, if they are its own."""
    for name in removed:
        record = watched(os.path.join(root, name)) if not os.path.lexists(os.path.join(root, name)) else None
        if record is not None and same_family(record.holder, agent) and not record.by:
            accept(record, record.beside)


def is_changed(record: WatchedFile) -> bool:
    """Whether a file is in quarantine, or not as its holder left it."""
    return bool(record.by) or look(record.root, record.name).signature != record.seen


def may_give_back(record: WatchedFile, agent: str, copy: SafetyCopy) -> bool:
    """Whether an agent may put a copy in the place of a file that another agent holds.

    That is the agent whose command changed it, if the copy is what the holder left, or has read since, and the holder
    has not gone on in quarantine.
    """
    if not same_family(record.by, agent) or record.own not in ("", copy.fingerprint):
        return False
    kept = (find(record.path, each) for each in (record.fingerprint, record.written))
    wanted = (copy.fingerprint, copy.is_executable)
    return any(each is not None and (each.fingerprint, each.is_executable) == wanted for each in kept)


def watched_now(holds: Iterable[Hold]) -> list[WatchedFile]:
    """The records whose hold is still current on the board."""
    return _current(all_watched(), holds)


def pass_on(hold: Hold, giver: str) -> None:
    """A hold has passed to another agent of the same session, which goes on with what the giver left."""
    for record in all_watched():
        if (record.project, record.resource, record.holder) == (hold.project, hold.resource, giver):
            record.holder, record.epoch = holder_id(hold) or "", hold.epoch
            record.save()


def watched_anywhere(board: Board, holds: Iterable[Hold]) -> list[WatchedFile]:
    """The same, also of other projects on the board; `holds` are those of its own."""
    records = all_watched()
    others = dict.fromkeys(each.project for each in sorted(records, key=_changed_at, reverse=True))
    for hold in holds:
        others.pop(hold.project, None)
    more = [hold for name in list(others)[:MOST_PROJECTS] for hold in live_holds(board, name)]
    return _current(records, [*holds, *more])


def _changed_at(record: WatchedFile) -> int:
    return changed_at_in(record.seen)


def _current(records: list[WatchedFile], holds: Iterable[Hold]) -> list[WatchedFile]:
    current = {(hold.project, hold.resource, holder_id(hold), hold.epoch) for hold in holds}
    return [each for each in records if (each.project, each.resource, each.holder, each.epoch) in current]


def of_others(records: list[WatchedFile], agent: str) -> list[WatchedFile]:
    """The records of files that others hold than this agent, its main agent and its sub-agents."""
    return [each for each in records if not same_family(each.holder, agent)]


def held_names(holds: Iterable[Hold], found: Repository) -> dict[str, Hold]:
    """The files that are held by their own names, relative to the repository, as the disk spells them."""
    checkout = checkout_of(found)
    files = [hold for hold in holds if means_files_in(hold.resource, checkout) and not is_glob(path_of(hold.resource))]
    return {disk_name(found.root, hold.resource): hold for hold in files}


def disk_name(root: str, resource: str) -> str:
    """The path of a held file as the disk spells it, or did when the file was there.

    The board escapes what would be a glob, and composes accents (NFC).
    """
    name = "/".join(map(unescape, path_of(resource).split("/")))
    if name.isascii() or os.path.lexists(os.path.join(root, name)):
        return name
    from unicodedata import normalize

    spelled = ""
    for part in name.split("/"):
        names = () if part.isascii() else _names_in(os.path.join(root, spelled))
        spelled = os.path.join(spelled, next((each for each in names if normalize("NFC", each) == part), part))
    if os.path.lexists(os.path.join(root, spelled)):
        return spelled
    decomposed = normalize("NFD", name)  # if a record says that the file was there by this name
    return decomposed if watched(os.path.join(root, decomposed)) is not None else name


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
