"""Makes an MCP server of the tools, with the official SDK.

Importing the SDK is most of the start-up time of `tb mcp`, so nothing else in the package imports this module early.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server import Server

from .. import __version__
from ..errors import TiebreakError
from .calls import call
from .rendering import error
from .tools import INSTRUCTIONS, PARAMETERS, TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server import ServerRequestContext

    from ..aio import AsyncBoard


def server(board: Callable[[], AsyncBoard]) -> Server[Any]:
    """An MCP server. `board` returns the board for the agent of the current call, or raises a refusal."""
    declared = [types.Tool.model_validate(tool) for tool in TOOLS]

    async def listed(_: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=declared)

    async def called(_: ServerRequestContext[Any], asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            return _result(await call(board(), asked.name, asked.arguments or {}))
        except TiebreakError as problem:
            return _result(error(problem), failed=True)

    return Server(
        "tiebreak",
        version=__version__,
        title="tiebreak",
        instructions=INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=called,
        get_tool_input_schema=PARAMETERS.get,
    )


def _result(answer: dict[str, Any], *, failed: bool = False) -> types.CallToolResult:
    """The answer twice, as MCP recommends: structured, and as text for clients that read only text."""
    text = types.TextContent(type="text", text=json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
    return types.CallToolResult(content=[text], structured_content=answer, is_error=failed)
