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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...board import Board
    from .disk_state import DiskState
    from .moved_contents import Candidate
    from .watched_files import WatchedFile

SHOWN = 12


class Interference:
    """One held file, and what happened to it."""

    __slots__ = ("before", "is_shared", "name", "record", "signature", "words")

    def __init__(
        self, record: WatchedFile, state: DiskState, name: str, *, is_shared: bool = False, before: str = ""
    ) -> None:
        self.record = record
        self.words = state.words(record.root)
        self.signature = state.signature
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
    return f"{each.record.path} {each.record.epoch} {each.record.seen} {each.before} {each.signature}"


def _told_of_one(board: Board, each: Interference) -> str:
    record = each.record
    until = "It cannot be committed before you have read it again."
    if not AgentState(record.holder).has_hooks:
        until = f"If that was you, `tb renew {argument(record.path)}` says so; it cannot be committed before."
    back = f" What you left is kept: `tb recover {argument(record.path)}` brings it back." if is_kept(record) else ""
    return (
        f"{plain(record.name)} {each.words} while a shell command of {short(board.agent)} ran and you hold it. "
        f"{until}{back}"
    )


def _told_of_many(board: Board, found: list[Interference]) -> str:
    named = ", ".join(
        plain(each.record.name) + ("" if each.words == "changed" else f" {each.words}") for each in found[:SHOWN]
    )
    kept = any(is_kept(each.record) for each in found)
    back = " `tb recover` lists what is kept, and `tb recover FILE` brings back what you left." if kept else ""
    return (
        f"{len(found)} files that you hold changed while a shell command of {short(board.agent)} ran: "
        f"{named}{_more(found)}. They cannot be committed before you have read them again.{back}"
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
    changed, back = state.words(record.root), _bring_back(record, left)
    return f"tiebreak: {plain(record.name)}, which you hold, {changed} while your command and {ran} ran.{back}"


def _bring_back(record: WatchedFile, left: str) -> str:
    """The command that brings back what the holder had left, with that fingerprint; "" if there is no copy of it."""
    copy = safety_copies.find(record.path, left)
    if copy is None:
        return ""
    return f" `tb recover {argument(record.path)} --copy {copy.short}` brings back what you had left."


def words_by_relative(record: WatchedFile, state: DiskState, agents: list[str], left: str) -> str:
    """What a main agent or sub-agent is told about its file: it changed while the other one's command ran.

    `agents` are that one, and all others whose commands ran.
    """
    changed, names = state.words(record.root), " and ".join(map(short, agents))
    ran = f"while {'a shell command' if len(agents) == 1 else 'shell commands'} of {names} ran"
    return f"tiebreak: {plain(record.name)}, which you hold, {changed} {ran}.{_bring_back(record, left)}"


def words_to_relative(record: WatchedFile, state: DiskState) -> str:
    """What the main agent or sub-agent is told whose command it was."""
    held = f"which {short(record.holder)} of the same session holds"
    return f"tiebreak: {plain(record.name)}, {held}, {state.words(record.root)} while that command ran."


def words_unexplained(record: WatchedFile, state: DiskState) -> str:
    """What the holder is told about a file that changed while no command is known to have run."""
    changed = state.words(record.root)
    after = "changed after you left it" if changed == "changed" else changed
    back = f" `tb recover {argument(record.path)}` brings back what you left." if is_kept(record) else ""
    return f"{plain(record.name)}, which you hold, {after}, by nobody that tiebreak knows.{back}"


# ── Told to the agent whose command ran ──────────────────────────────────────────────────────────────


def report(found: list[Interference]) -> str:
    """What the agent whose command ran is told."""
    shared, others = [each for each in found if each.is_shared], [each for each in found if not each.is_shared]
    return "\n".join(filter(None, (_report(others), _report_shared(shared))))


def _report(found: list[Interference]) -> str:
    if not found:
        return ""
    return (
        "tiebreak: these files changed while that command ran, and other agents hold them: "
        f"{_listed(found)}. They cannot be committed, and their holders were "
        f"told. If your command changed them, undo that by hand{_recover(found)}; ask with "
        f"`tb send {short(found[0].record.holder)} …`."
    )


def _report_shared(found: list[Interference]) -> str:
    if not found:
        return ""
    holders = " and ".join(dict.fromkeys(short(each.record.holder) for each in found))
    return (
        f"tiebreak: these files, which others hold, changed while your command and one of {holders} ran: "
        f"{_listed(found)}. The holders are told. If it was your command, ask with "
        f"`tb send {short(found[0].record.holder)} …` what to do."
    )


def _listed(found: list[Interference]) -> str:
    return ", ".join(map(_called, found[:SHOWN])) + _more(found)


def _called(each: Interference) -> str:
    words = "" if each.words == "changed" else f"{each.words}, "
    return f"{plain(each.name)} ({words}held by {short(each.record.holder)})"


def _recover(found: list[Interference]) -> str:
    kept = [each for each in found if each.record.by and is_kept(each.record)]
    return f", or with `tb recover {argument(kept[0].record.path)}`" if kept else ""


def is_kept(record: WatchedFile) -> bool:
    """Whether there is a copy of what the holder left."""
    return safety_copies.find(record.path, record.written) is not None


def report_strays(found: list[tuple[Candidate, WatchedFile]]) -> str:
    """What the agent is told whose command made other files from the holder's lines."""
    if not found:
        return ""
    named = ", ".join(
        f"{plain(each.name)} (from {plain(record.name)}, held by {short(record.holder)})"
        for each, record in found[:SHOWN]
    )
    return (
        f"tiebreak: after that command, these files have uncommitted lines of other agents: {named}{_more(found)}. "
        "They cannot be committed, and the holders were told. Undo it if your command moved or copied them."
    )


def _more(things: list[Interference] | list[tuple[Candidate, WatchedFile]]) -> str:
    return f" and {len(things) - SHOWN} more" if len(things) > SHOWN else ""
