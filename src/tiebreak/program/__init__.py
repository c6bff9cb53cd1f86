"""The program `tb`: assembles the packages that know nothing of each other.

The command line, the daemon, workers, sessions and the protocols of other programs are separate packages. This package
imports all of them, and none of them imports it. It adds four things to the command line: the commands of `compat`;
`serve`, which runs a daemon with the routes of `compat`, with workers, and with a task that starts queued handoffs;
`top`, from whose screen every other command can be run; and `demo`, which runs a daemon and sixteen agents.
"""

from __future__ import annotations

from ..cli import GROUPS, add_commands, find, launch, main, names

__all__ = ["GROUPS", "find", "launch", "main", "names"]


def _serve() -> None:
    from . import serve  # noqa: F401  (declares the command)


def _top() -> None:
    import sys

    from ..cli import top  # declares the command

    top.program[:] = [sys.executable, "-P", "-m", "tiebreak"]


def _demo() -> None:
    from . import demo  # noqa: F401  (declares the command)


def _coord() -> None:
    from ..compat import coord_commands  # declares the command

    coord_commands.serve_command = lambda: find("serve")


def _coordination() -> None:
    from ..compat import gptme  # noqa: F401  (declares the command)


add_commands("What happens", {"top": _top})
add_commands("The board", {"serve": _serve})
add_commands("Help", {"demo": _demo})
add_commands("Compatibility", {"coord": _coord, "coordination": _coordination}, theme="compat")
