"""Messages of the guard to the holders of files.

A hook can be killed at any moment, and two hooks can notice the same thing. So a message is sent before the guard notes
that something was noticed, and whoever notices it again sends the same message, which the board takes once.
"""

from __future__ import annotations

from ..errors import Invalid
from ..names import checksum, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board


def tell(board: Board, holder: str, body: str, *, once: str, project: str = "") -> None:
    """Tell a holder what concerns its files. `once` says what has happened: about the same a holder is told once."""
    params = {
        "to": short(holder),
        "body": body,
        "importance": "high",
        "channel": "guard",
        "later": True,  # it holds a file, so it exists
        "project": project or board.project_names,
    }
    key = checksum(f"{once} {holder}".encode("utf-8", "surrogateescape"))
    try:
        board.call("messages.send", params, once=f"guard-{key:016x}")
    except Invalid as refused:
        if "already used" not in refused.message:
            raise  # otherwise another hook has told it, in other words
