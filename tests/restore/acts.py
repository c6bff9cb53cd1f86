"""What the tests of restoring do: open, back up and restore as one agent or another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiebreak
from tiebreak import Board
from tiebreak.engine.move.restoring import Restored, restore


def opened(address: str, agent: str = "alice") -> Board:
    """The board, as an agent opens it."""
    return tiebreak.open(address, agent=f"{agent}~1", project="demo")


def restored(file: Path, address: str, **options: Any) -> Restored:
    """Restore a backup; the board before is saved beside it, in a file that no test takes for a board."""
    saved = str(file.with_suffix(".saved"))
    return restore(str(file), address, agent="op~1", **{"save_to": saved, **options})


def names(board: Board, state: str) -> list[str]:
    """The names of all tasks in a state, in order."""
    return sorted(task.name for task in board.tasks.list(states=[state]))
