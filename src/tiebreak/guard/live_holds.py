"""All live holds of a project. One that the guard does not know is one that it does not protect."""

from __future__ import annotations

from ..errors import Refused
from ..limits import MAX_HOLDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board
    from ..model import Hold


def live_holds(board: Board, project: str = "") -> list[Hold]:
    """The holds of a project, by default of the board's own; raises `Refused` if there are too many to know all."""
    found = board.holds.list(project=project or board.project_names, limit=MAX_HOLDS)
    if len(found) == MAX_HOLDS:
        raise Refused(
            f"this project has {MAX_HOLDS:,} holds or more, and not all of them can be checked",
            hint="`tb holds` lists them; hold folders (`tb hold 'src/**'`) instead of their files",
        )
    return found
