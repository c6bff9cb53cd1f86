"""The program: what puts the parts together that know nothing of each other.

Command line, daemon, workers, sessions and other programs' protocols are packages of their own. This one stands above
all of them. It is what `tb` runs, it adds the commands of `compat` to the command line, and its command `serve` makes
a daemon with the routes of `compat`, with workers and with whoever drains queued handoffs.
"""

from __future__ import annotations

from ..cli import GROUPS, add_commands, find, launch, main, names

__all__ = ["GROUPS", "find", "launch", "main", "names"]


def _serve() -> None:
    from . import serve  # noqa: F401  (declares the command)


def _coord() -> None:
    from ..compat import coord_commands  # noqa: F401  (declares the command)


def _coordination() -> None:
    from ..compat import gptme  # noqa: F401  (declares the command)


add_commands("The board", {"serve": _serve})
add_commands("Compatibility", {"coord": _coord, "coordination": _coordination})
