"""`tb mcp`: the MCP server that agent clients start."""

from __future__ import annotations

from ..errors import TiebreakError, Unavailable
from .parser import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..aio import AsyncBoard
    from .context import Context
    from .parser import Args

AGAIN = 5.0
"""Seconds until the next try on a board that cannot be reached."""


@command(
    "mcp",
    "Serve the board as seven MCP tools, over standard input and output.",
    example="tb mcp",
)
def mcp(context: Context, _: Args) -> None:
    """Started by an agent client, not by hand; ends with the client. Needs no daemon.

    What the agent holds is given back when a client that `tb` knows by name has ended, and not when this server has.
    """
    import asyncio

    try:
        import mcp.server.stdio  # noqa: F401
    except ModuleNotFoundError:
        from ..installation import missing_extra

        raise missing_extra("mcp: the MCP SDK is not installed", "mcp") from None
    asyncio.run(_serve(context))


async def _serve(context: Context) -> None:
    import asyncio

    from mcp.server.stdio import stdio_server

    from ..aio import AsyncBoard
    from ..mcp.server import server

    board = AsyncBoard(context.board)
    made = server(lambda: board)
    binding = asyncio.create_task(_bind(board))
    try:
        async with stdio_server() as (incoming, outgoing):
            await made.run(incoming, outgoing, made.create_initialization_options())
    finally:
        binding.cancel()
        await board.close()


async def _bind(board: AsyncBoard) -> None:
    """Tell the board that the client is the agent. Not this server: a client may start another one and go on."""
    import asyncio
    import os
    from functools import partial

    from ..agent_names import own_client
    from ..boot_history import remember_boot

    found = own_client(board.sync.agent, os.environ)
    if found is None:
        return  # it is not certain that the agent ends with any process
    remember_boot()
    (host, boot, pid, started), client = found
    announce = partial(board.sync.agents.announce, host=host, boot=boot, pid=pid, started=started, bound=True)
    while True:
        try:
            await board.run(partial(announce, program=client))
            return
        except Unavailable:
            await asyncio.sleep(AGAIN)
        except TiebreakError:
            return  # each call of a tool is told the same
