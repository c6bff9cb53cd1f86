"""`tb mcp`: the MCP server that agent clients start."""

from __future__ import annotations

from .parser import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .parser import Args


@command(
    "mcp",
    "Serve the board as seven MCP tools, over standard input and output.",
    example="tb mcp",
)
def mcp(context: Context, _: Args) -> None:
    """Started by an agent client, not by hand; ends with the client. Needs no daemon."""
    import asyncio

    try:
        import mcp.server.stdio  # noqa: F401
    except ModuleNotFoundError:
        from ..installation import missing_extra

        raise missing_extra("mcp: the MCP SDK is not installed", "mcp") from None
    asyncio.run(_serve(context))


async def _serve(context: Context) -> None:
    from mcp.server.stdio import stdio_server

    from ..aio import AsyncBoard
    from ..mcp.server import server

    board = AsyncBoard(context.board)
    made = server(lambda: board)
    try:
        async with stdio_server() as (incoming, outgoing):
            await made.run(incoming, outgoing, made.create_initialization_options())
    finally:
        await board.close()
