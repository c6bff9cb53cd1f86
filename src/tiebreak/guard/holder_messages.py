"""Messages of the guard to the holders of files."""

from __future__ import annotations

from ..names import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board


def tell(board: Board, holder: str, body: str) -> None:
    """Tell a holder what concerns its files."""
    board.messages.send(
        to=short(holder),
        body=body,
        importance="high",
        channel="guard",
        later=True,  # it holds a file, so it exists
    )
