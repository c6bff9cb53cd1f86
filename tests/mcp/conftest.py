"""Fixtures for the MCP tools: the official client, over both transports and both generations of the protocol."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

import tiebreak
from tests.cli.command import TB
from tests.daemons import Serving
from tiebreak import Board
from tiebreak.aio import AsyncBoard
from tiebreak.mcp.server import server

ERAS = {"old": "legacy", "new": "2026-07-28"}
PATIENCE = 100.0
Scenario = Callable[[Client], Awaitable[None]]


class Tools:
    """A server with the tools, and how its clients get there."""

    def __init__(self, board: Board, connect: Callable[[str], Any]) -> None:
        self.board = board
        """The same board, as bob sees it."""
        self._connect = connect

    def drive(self, scenario: Scenario, agent: str = "ada~1") -> None:
        """Let a client do something, as ada."""

        async def run() -> None:
            async with asyncio.timeout(PATIENCE), self._connect(agent) as client:
                await scenario(client)

        asyncio.run(run())


def _over_stdio(folder: Path, mode: str) -> Callable[[str], Any]:
    def connect(agent: str) -> Any:
        named = {"TIEBREAK_BOARD": str(folder / "board.db"), "TIEBREAK_AGENT": agent, "TIEBREAK_PROJECT": "demo"}
        started = StdioServerParameters(command=TB, args=["mcp"], env={**os.environ, **named}, cwd=folder)
        return Client(stdio_client(started), mode=mode)

    return connect


def over_http(url: str, mode: str, token: str, **more: str) -> Callable[[str], Any]:
    """Clients of a daemon."""

    @asynccontextmanager
    async def connect(agent: str) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {token}", "Tiebreak-Agent": agent, "Tiebreak-Project": "demo", **more}
        headers = {name: value for name, value in headers.items() if value}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client

    return connect


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One daemon for a module: its first request imports the SDK."""
    made = Serving(tmp_path_factory.mktemp("daemon"))
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture(params=list(ERAS.values()), ids=list(ERAS))
def mode(request: pytest.FixtureRequest) -> str:
    """An era of the protocol."""
    return str(request.param)


@pytest.fixture(params=["stdio", "http"])
def tools(request: pytest.FixtureRequest, mode: str, tmp_path: Path) -> Iterator[Tools]:
    """Every way to the tools of a fresh board."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)  # paths are named from the top of a repository
    if request.param == "stdio":
        with tiebreak.open(tmp_path / "board.db", agent="bob~1", project="demo") as board:
            yield Tools(board, _over_stdio(tmp_path, mode))
        return
    made = Serving(tmp_path)
    try:
        made.start()
        with tiebreak.open(tmp_path / "board.db", agent="bob~1", project="demo") as board:
            yield Tools(board, over_http(made.url, mode, made.token))
    finally:
        made.close()


@pytest.fixture
def near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tools]:
    """The tools in this very process: for what does not depend on the way."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "board.db"

    @asynccontextmanager
    async def connect(agent: str) -> AsyncIterator[Client]:
        board = AsyncBoard(tiebreak.open(path, agent=agent, project="demo"))
        try:
            async with Client(server(lambda: board), mode="2026-07-28") as client:
                yield client
        finally:
            await board.close()

    with tiebreak.open(path, agent="bob~1", project="demo") as board:
        yield Tools(board, connect)


async def good(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a call that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.structured_content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def bad(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a call that must be refused says."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    assert isinstance(result.structured_content, dict)
    assert result.structured_content["next"], "a refusal says what to do next"
    return result.structured_content
