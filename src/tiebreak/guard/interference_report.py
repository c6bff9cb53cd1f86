"""What is told when an agent's command ran and files of others changed: to their holders, and to that agent.

Both are told when a file changed, and not who changed it: the holder may have saved it at the same time.
"""

from __future__ import annotations

import os

from ..names import short
from ..text import plain
from . import safety_copies
from .holder_messages import tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board
    from .moved_contents import Candidate
    from .watched_files import WatchedFile

SHOWN = 12


class Interference:
    """One held file, and what happened to it."""

    __slots__ = ("name", "record", "words")

    def __init__(self, record: WatchedFile, words: str, name: str) -> None:
        self.record = record
        self.words = words
        self.name = name
        """The file as the agent whose command ran would write it."""


def name_from(root: str, record: WatchedFile) -> str:
    """How an agent in the checkout at `root` names a held file."""
    return record.name if record.root == root else os.path.relpath(record.path, root)


def tell_holder(board: Board, record: WatchedFile, words: str) -> None:
    """Tell the holder what happened to its file, and how it gets back what it left."""
    back = f" What you left is kept: `tb recover {_argument(record.name)}` brings it back." if _is_kept(record) else ""
    tell(
        board,
        record.holder,
        f"{record.name} {words} while a shell command of {short(board.agent)} ran and you hold it. It cannot be "
        f"committed before you have read it again.{back}",
    )


def tell_of_stray(board: Board, candidate: Candidate, record: WatchedFile) -> None:
    """Tell the holder that another file has its uncommitted lines."""
    tell(
        board,
        record.holder,
        f"While a shell command of {short(board.agent)} ran, {candidate.name} got uncommitted lines of "
        f"{record.name}, which you hold. Nobody else can commit it while you hold them.",
    )


def _argument(name: str) -> str:
    import shlex

    return shlex.quote(name)


def report(found: list[Interference]) -> str:
    """What the agent whose command ran is told."""
    if not found:
        return ""
    return (
        "tiebreak: these files changed while that command ran, and other agents hold them: "
        f"{', '.join(map(_called, found[:SHOWN]))}{_more(found)}. They cannot be committed, and their holders were "
        f"told. If your command changed them, undo that by hand{_recover(found)}; ask with "
        f"`tb send {short(found[0].record.holder)} …`."
    )


def _called(each: Interference) -> str:
    words = "" if each.words == "changed" else f"{each.words}, "
    return f"{plain(each.name)} ({words}held by {short(each.record.holder)})"


def _recover(found: list[Interference]) -> str:
    kept = [each for each in found if each.record.by and _is_kept(each.record)]
    return f", or with `tb recover {_argument(kept[0].name)}`" if kept else ""


def _is_kept(record: WatchedFile) -> bool:
    return safety_copies.find(record.path, record.fingerprint) is not None


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
