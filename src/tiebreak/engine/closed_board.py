"""The error for a closed board: one that was moved elsewhere, or one whose move is not complete (see `move`)."""

from __future__ import annotations

from ..errors import Unavailable


def closed(facts: dict[str, str], board: str) -> Unavailable:
    """The error that says where a closed board went, or from where it is still being copied."""
    if "moved" in facts:
        where = facts["moved"]
        reason = "board-moved-to-server" if "://" in where else "board-moved"
        return Unavailable(f"board {board}: moved to {where}", reason=reason, moved=where)
    return Unavailable(
        f"board {board}: is still arriving from {facts.get('arriving', 'elsewhere')}",
        reason="board-arriving",
    )
