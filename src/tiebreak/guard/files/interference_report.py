"""What is told when an agent's command ran and files of others changed: to their holders, and to that agent.

Both are told when a file changed, and not who changed it: the holder may have saved it at the same time.
"""

from __future__ import annotations

import os

from ...names import short
from ...text import argument, plain
from ..agent_state import AgentState
from ..holder_messages import tell
from . import safety_copies
from .disk_state import ABSENT, FILE
from .left_contents import may_give_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...board import Board
    from .disk_state import DiskState
    from .moved_contents import Candidate
    from .watched_files import WatchedFile

SHOWN = 12
"""Most files that one message names."""
ROOM = 500
"""Most characters of their names, so that what to do fits behind them. The first one is named in any case."""
FEW = 3
"""Most paths in one command."""


class Interference:
    """One held file, and what happened to it."""

    __slots__ = ("before", "is_shared", "name", "record", "state", "words")

    def __init__(
        self, record: WatchedFile, state: DiskState, name: str, *, is_shared: bool = False, before: str = ""
    ) -> None:
        self.record = record
        self.state = state
        self.words = state.words(record.root)
        self.before = before
        """The signature of what was there before the command."""
        self.name = name
        """The file as the agent whose command ran would write it."""
        self.is_shared = is_shared
        """Whether a command of the holder ran, too, which may have changed the file itself."""


def name_from(root: str, record: WatchedFile) -> str:
    """How an agent names a held file whose command ran in the checkout at `root`; "" is outside of any."""
    if record.root == root:
        return record.name
    return os.path.relpath(record.path, root) if root else record.path


# ── Told to the holder ───────────────────────────────────────────────────────────────────────────────


def tell_holder(board: Board, found: list[Interference]) -> None:
    """Tell the holder of these files, in one message, what happened to them and how it gets back what it left."""
    record = found[0].record
    tell(
        board,
        record.holder,
        _told_of_one(board, found[0]) if len(found) == 1 else _told_of_many(board, found),
        once="\n".join(sorted(map(_identity, found))) + f" {board.agent}",
        project=record.project,
    )


def _identity(each: Interference) -> str:
    return f"{each.record.path} {each.record.epoch} {each.record.seen} {each.before} {each.state.signature}"


def _told_of_one(board: Board, each: Interference) -> str:
    record = each.record
    until, accept = f"It cannot be committed before you {_needs([each])}.", ""
    if not AgentState(record.holder).has_hooks:
        until = f"If that was you, `tb renew {_path(record)}` says so; it cannot be committed before."
    elif _can_be_accepted(each):
        accept = f" `tb renew {_path(record)}` accepts that it is gone."
    return (
        f"{plain(record.name)} {each.words} while a shell command of {short(board.agent)} ran, and you hold it. "
        f"{until}{how_back(record, each.state)}{accept}"
    )


def _needs(found: list[Interference]) -> str:
    """What the holder has to do with these files before they can be committed."""
    them = "it" if len(found) == 1 else "them"
    are_files = {each.state.kind == FILE for each in found}
    if len(are_files) > 1:
        return "have read them again, and have those back that are gone"
    return f"have read {them} again" if True in are_files else f"have {them} back"


def _can_be_accepted(each: Interference) -> bool:
    """Whether `tb renew` of the file accepts that it is gone."""
    return each.state.kind == ABSENT and os.path.isdir(each.record.root)


def _told_of_many(board: Board, found: list[Interference]) -> str:
    named = together((plain(each.record.name), "" if each.words == "changed" else each.words) for each in found)
    accept = " `tb renew FILE` accepts that a file is gone." if any(map(_can_be_accepted, found)) else ""
    roots = dict.fromkeys(_quoted(each.record.root) for each in found if _is_kept(each.record))
    back = f" `tb recover {' '.join(roots)}` lists what is kept, and how each file comes back."
    return (
        f"{len(found)} files that you hold changed while a shell command of {short(board.agent)} ran: "
        f"{named}. They cannot be committed before you {_needs(found)}.{back if roots else ''}{accept}"
    )


def tell_of_other_checkout(board: Board, record: WatchedFile) -> None:
    """Tell the holder of a file that it changed in a checkout in which the holder does not work."""
    tell(
        board,
        record.holder,
        f"{plain(record.name)} changed in the checkout {plain(record.root)} while a shell command of "
        f"{short(board.agent)} ran, and you hold it in all checkouts. Yours is not touched; the other one cannot be "
        "committed while you hold it.",
        once=f"{record.path} {record.epoch} {board.agent}",
        project=record.project,
    )


def tell_of_stray(board: Board, candidate: Candidate, record: WatchedFile) -> None:
    """Tell the holder that another file has its uncommitted lines."""
    tell(
        board,
        record.holder,
        f"While a shell command of {short(board.agent)} ran, {plain(candidate.name)} got uncommitted lines of "
        f"{plain(record.name)}, which you hold. Nobody else can commit it while you hold them.",
        once=f"{candidate.path} {candidate.identity} {record.path} {record.epoch} {board.agent}",
        project=record.project,
    )


def words_beside(record: WatchedFile, state: DiskState, others: list[str], left: str) -> str:
    """What the holder is told about a file that changed while its own command and those of others ran.

    `left` is the fingerprint of what it had left before.
    """
    theirs = " and ".join(map(short, others))
    ran = f"one of {theirs}" if len(others) == 1 else f"those of {theirs}"
    changed, back = state.words(record.root), how_back(record, state, left)
    return f"tiebreak: {plain(record.name)}, which you hold, {changed} while your command and {ran} ran.{back}"


def how_back(record: WatchedFile, state: DiskState, left: str = "") -> str:
    """A sentence for the holder, with the command that brings back what it left; "" if there is no copy of that.

    With the fingerprint `left`, it is what it had left before. If something is in the place of the file that `tb
    recover` does not replace, the command writes a new file.
    """
    copy = safety_copies.find(record.path, left or record.written)
    if copy is None:
        return ""
    command = f"tb recover {_path(record)}" + (f" --copy {copy.short}" if left else "")
    what = "what you had left" if left else "what you left"
    return (
        f" `{command} --into PATH` writes {what} to a new file."
        if state.obstacle
        else f" `{command}` brings back {what}."
    )


def _path(record: WatchedFile) -> str:
    return _quoted(record.path)


def _quoted(path: str) -> str:
    """A path as a shell takes it, but without a double quote: a prompt shows messages between those."""
    word = argument(path)
    if '"' not in word:
        return word
    return "'" + plain(path).replace("'", r"'\''").replace('"', r"'$(printf '\042')'") + "'"


def words_by_relative(record: WatchedFile, state: DiskState, agents: list[str], left: str) -> str:
    """What a main agent or sub-agent is told about its file: it changed while the other one's command ran.

    `agents` are that one, and all others whose commands ran.
    """
    changed, names = state.words(record.root), " and ".join(map(short, agents))
    ran = f"while {'a shell command' if len(agents) == 1 else 'shell commands'} of {names} ran"
    return f"tiebreak: {plain(record.name)}, which you hold, {changed} {ran}.{how_back(record, state, left)}"


def words_to_relative(record: WatchedFile, state: DiskState) -> str:
    """What the main agent or sub-agent is told whose command it was."""
    held = f"which {short(record.holder)} of the same session holds"
    return f"tiebreak: {plain(record.name)}, {held}, {state.words(record.root)} while that command ran."


def words_unexplained(record: WatchedFile, state: DiskState) -> str:
    """What the holder is told about a file that changed while no command is known to have run."""
    changed = state.words(record.root)
    after = "changed after you left it" if changed == "changed" else changed
    return f"{plain(record.name)}, which you hold, {after}, by nobody that tiebreak knows.{how_back(record, state)}"


# ── Told to the agent whose command ran ──────────────────────────────────────────────────────────────


def report(found: list[Interference], agent: str) -> str:
    """What the agent whose command ran is told."""
    shared, others = [each for each in found if each.is_shared], [each for each in found if not each.is_shared]
    return "\n".join(filter(None, (_report(others, agent), _report_shared(shared))))


def _report(found: list[Interference], agent: str) -> str:
    if not found:
        return ""
    return (
        "tiebreak: these files changed while that command ran, and other agents hold them: "
        f"{_listed(found)}. They cannot be committed, and their holders were "
        f"told. If your command changed them, undo that by hand{_recover(found, agent)}; ask with {_ask(found)}."
    )


def _report_shared(found: list[Interference]) -> str:
    if not found:
        return ""
    holders = " and ".join(dict.fromkeys(short(each.record.holder) for each in found))
    return (
        f"tiebreak: these files, which others hold, changed while your command and one of {holders} ran: "
        f"{_listed(found)}. The holders are told. If it was your command, ask with {_ask(found)} what to do."
    )


def _ask(found: list[Interference]) -> str:
    return " or ".join(dict.fromkeys(f"`tb send {short(each.record.holder)} …`" for each in found))


def _listed(found: list[Interference]) -> str:
    return together((plain(each.name), _what_happened(each)) for each in found)


def _what_happened(each: Interference) -> str:
    return ("" if each.words == "changed" else f"{each.words}, ") + f"held by {short(each.record.holder)}"


def _recover(found: list[Interference], agent: str) -> str:
    """How this agent may give back what the holders left, as far as it may."""
    records = [each.record for each in found if not each.state.obstacle and _may_give_back(each.record, agent)]
    if len(records) > FEW:
        roots = " ".join(dict.fromkeys(_quoted(each.root) for each in records))
        return f", or with `tb recover FILE` for each (`tb recover {roots}` lists them)"
    return f", or with `tb recover {' '.join(map(_path, records))}`" if records else ""


def _may_give_back(record: WatchedFile, agent: str) -> bool:
    copy = safety_copies.find(record.path, record.written)
    return copy is not None and may_give_back(record, agent, copy)


def _is_kept(record: WatchedFile) -> bool:
    """Whether there is a copy of what the holder left."""
    return safety_copies.find(record.path, record.written) is not None


def report_strays(found: list[tuple[Candidate, WatchedFile]]) -> str:
    """What the agent is told whose command made other files from the holder's lines."""
    if not found:
        return ""
    named = together(
        (plain(each.name), f"from {plain(record.name)}, held by {short(record.holder)}") for each, record in found
    )
    return (
        f"tiebreak: after that command, these files have uncommitted lines of other agents: {named}. "
        "They cannot be committed, and the holders were told. Undo it if your command moved or copied them."
    )


def together(named: Iterable[tuple[str, str]]) -> str:
    """Names, each with what is said of it; those with the same words together, and as many as there is room for."""
    groups: dict[str, list[str]] = {}
    for name, words in named:
        groups.setdefault(words, []).append(name)
    shown, room, count = [], ROOM, 0
    for words, names in groups.items():
        room, kept = room - len(words), []
        for name in names:
            room -= len(name)
            if count and (room < 0 or count >= SHOWN):
                break
            kept.append(name)
            count += 1
        if kept:
            shown.append(", ".join(kept) + (f" ({words})" if words else ""))
    more = sum(map(len, groups.values())) - count
    return ", ".join(shown) + (f" and {more} more" if more else "")
