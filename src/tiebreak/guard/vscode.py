"""VS Code: the MCP server only; its agents are guarded by git."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "vscode"
MARKS = (".vscode",)
PROGRAMS = ("code",)
HOMES = ()
SKILLS = ""


def files() -> list[tuple[str, str, Any]]:
    """What it reads: a file, how to merge, and what has to be in there."""
    server = {"type": "stdio", "command": "tb", "args": ["mcp"]}
    return [(".vscode/mcp.json", "json", {"servers": {"tiebreak": server}})]
