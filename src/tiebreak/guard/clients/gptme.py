"""gptme: it gets the MCP server only. Its agents are guarded by the git hooks, and can use `tb coordination`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "gptme"
MARKS = ("gptme.toml",)
PROGRAMS = ("gptme",)
HOMES = (".config/gptme",)
SKILLS = ""
DESKTOP = False


def files(*, tools: bool = True) -> list[tuple[str, str, Any]]:
    """Its settings files: the path, how to merge, and what must be in it; `tools` are those of the MCP server."""
    server = '[[mcp.servers]]\nname = "tiebreak"\nenabled = true\ncommand = "tb"\nargs = ["mcp"]\n'
    return [("gptme.toml", "toml", ["[mcp]\nenabled = true\n\n" + server, server])] if tools else []
