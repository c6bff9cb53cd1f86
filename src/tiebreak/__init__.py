"""tiebreak: when N agents reach for the same thing, exactly one wins, and everyone can see who.

    import tiebreak

    board = tiebreak.open()
    board.tasks.post(name="fix the login bug", key="login-bug")
    with board.claim("login-bug") as claim:      # tiebreak.Lost if somebody else has it
        ...                                      # renewed in the background, completed at the end

Everything public is named here and loaded on first use: agents start the command line thousands of
times a day, and an import nobody needs is time they wait.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .board import Board, open
    from .errors import (
        Deadlock,
        Fenced,
        Invalid,
        Lost,
        NotFound,
        Refused,
        TiebreakError,
        TimedOut,
        Unauthorised,
        Unavailable,
    )
    from .functions import job
    from .handles import Claim, Holding
    from .model import Agent, Event, Hold, Message, Task, Wait

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Board",
    "Claim",
    "Deadlock",
    "Event",
    "Fenced",
    "Hold",
    "Holding",
    "Invalid",
    "Lost",
    "Message",
    "NotFound",
    "Refused",
    "Task",
    "TiebreakError",
    "TimedOut",
    "Unauthorised",
    "Unavailable",
    "Wait",
    "job",
    "open",
]

_HOMES = {
    "board": ("Board", "open"),
    "functions": ("job",),
    "handles": ("Claim", "Holding"),
    "model": ("Agent", "Event", "Hold", "Message", "Task", "Wait"),
}


def __getattr__(name: str) -> object:
    """Load a public name from its module on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'tiebreak' has no attribute {name!r}")
    from importlib import import_module

    home = next((m for m, names in _HOMES.items() if name in names), "errors")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found
