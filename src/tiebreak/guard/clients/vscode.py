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
DESKTOP = True


def files(*, tools: bool = True) -> list[tuple[str, str, Any]]:
    """Its settings files: the path, how to merge, and what must be in it; `tools` are those of the MCP server."""
    server = {"type": "stdio", "command": "tb", "args": ["mcp"]}
    return [(".vscode/mcp.json", "json", {"servers": {"tiebreak": server}})] if tools else []
