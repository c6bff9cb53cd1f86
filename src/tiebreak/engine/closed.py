"""What is said of a board that was closed because it moved, or that has not arrived yet (see `move`)."""

from __future__ import annotations

from ..errors import Unavailable


def closed(facts: dict[str, str], board: str) -> Unavailable:
    """Why nobody can use a board any more, or not yet."""
    if "moved" in facts:
        where = facts["moved"]
        reason = "board-moved-to-server" if "://" in where else "board-moved"
        return Unavailable(f"board {board}: moved to {where}", reason=reason, moved=where)
    return Unavailable(
        f"board {board}: is still arriving from {facts.get('arriving', 'elsewhere')}",
        reason="board-arriving",
    )
