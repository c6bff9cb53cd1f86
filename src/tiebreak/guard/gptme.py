"""gptme: the MCP server only; its agents are guarded by git, and speak `tb coordination` besides."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "gptme"
MARKS = ("gptme.toml",)
PROGRAMS = ("gptme",)
HOMES = (".config/gptme",)
SKILLS = ""


def files() -> list[tuple[str, str, Any]]:
    """What it reads: a file, how to merge, and what has to be in there."""
    server = '[[mcp.servers]]\nname = "tiebreak"\nenabled = true\ncommand = "tb"\nargs = ["mcp"]\n'
    return [("gptme.toml", "toml", ["[mcp]\nenabled = true\n\n" + server, server])]
