"""VS Code: it gets the MCP server only. Its agents are guarded by the git hooks."""

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
    """Its settings files: the path, how to merge, and what must be in it."""
    server = {"type": "stdio", "command": "tb", "args": ["mcp"]}
    return [(".vscode/mcp.json", "json", {"servers": {"tiebreak": server}})]
