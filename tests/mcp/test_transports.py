"""What differs between the two transports: the process of `tb mcp`, and a daemon with many clients."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from mcp.client.client import Client

import tiebreak
from tests.cli.command import TB
from tests.daemons import Serving
from tiebreak import Board
from tiebreak.installation import adding

from .conftest import PATIENCE, Tools, bad, good, over_http

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}


def called(tool: str, **arguments: Any) -> dict[str, Any]:
    return {**CALL, "params": {"name": tool, "arguments": arguments}}


def until(condition: Any) -> None:
    end = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < end, "it never happened"
        sleep(0.01)


def as_seen_by(daemon: Serving, agent: str) -> Board:
    return tiebreak.open(daemon.board, agent=agent, project="demo")


def test_without_the_sdk_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['mcp'] = None; sys.argv = ['tb', 'mcp']; from tiebreak.program import launch; launch()"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert made.returncode == 3
    assert adding("mcp") in made.stderr
    assert "Traceback" not in made.stderr


def test_no_other_command_imports_the_sdk(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-X", "importtime", TB, "--board", str(tmp_path / "b.db"), "status"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert made.returncode == 0, made.stderr
    assert not [line for line in made.stderr.splitlines() if "mcp" in line or "pydantic" in line]


def test_the_command_ends_when_its_client_goes(tmp_path: Path) -> None:
    with subprocess.Popen([TB, "--board", str(tmp_path / "b.db"), "mcp"], stdin=subprocess.PIPE) as started:
        assert started.stdin is not None
        started.stdin.close()
        assert started.wait(timeout=100) == 0


def test_a_client_without_a_name_is_told_how_to_set_one(daemon: Serving, mode: str) -> None:
    async def scenario(client: Client) -> None:
        refusal = await bad(client, "look")
        assert "Tiebreak-Agent" in refusal["details"]["hint"]

    with as_seen_by(daemon, "bob~1") as board:
        Tools(board, over_http(daemon.url, mode, daemon.token)).drive(scenario, agent="")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_there_is_no_session_to_listen_to_or_to_end(daemon: Serving, method: str) -> None:
    assert daemon.ask(method, "/mcp").status == 405


def test_two_clients_of_a_daemon_are_two_agents(daemon: Serving, mode: str) -> None:
    with as_seen_by(daemon, "bob~1") as board:
        made = Tools(board, over_http(daemon.url, mode, daemon.token))
        lock = f"lock:two-{mode}"

        async def first(client: Client) -> None:
            await good(client, "hold", action="take", resources=[lock])

        async def second(client: Client) -> None:
            assert (await bad(client, "hold", action="take", resources=[lock]))["holder"] == "ada"

        made.drive(first, agent="ada~1")
        made.drive(second, agent="eve~1")


def raw(daemon: Serving, body: dict[str, Any], **headers: str) -> socket.socket:
    """Ask, and leave the answer unread."""
    data = json.dumps(body).encode()
    sent = {
        "Host": f"127.0.0.1:{daemon.port}",
        "Authorization": f"Bearer {daemon.token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Tiebreak-Agent": "gone~1",
        "Tiebreak-Project": "demo",
        "Content-Length": str(len(data)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    connection = socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE)
    connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + data)
    return connection


def test_a_client_that_disconnects_leaves_the_wait_queue(daemon: Serving) -> None:
    with as_seen_by(daemon, "bob~1") as board:
        board.holds.take(resources=["lock:left"])
        with raw(daemon, called("hold", action="take", resources=["lock:left"], wait=50)):
            until(lambda: board.waits.list(matching="lock:left"))
        until(lambda: not board.waits.list(matching="lock:left"))
        board.holds.release(resources=["lock:left"])
        # Its last try may still be under way; what that wins is given back.
        assert board.take("lock:left", wait=PATIENCE)


def test_an_open_daemon_takes_no_command_by_way_of_a_tool(tmp_path: Path) -> None:
    made = Serving(tmp_path, "--open")
    try:
        made.start()

        async def scenario(client: Client) -> None:
            await good(client, "post", name="a task")
            await bad(client, "post", name="a command", kind="job", payload={"command": "true"})

        with as_seen_by(made, "bob~1") as board:
            for era in ("legacy", "2026-07-28"):
                Tools(board, over_http(made.url, era, "", Authorization="")).drive(scenario)
            assert [task.name for task in board.tasks.list(kind="job")] == []
    finally:
        made.close()


def test_ten_clients_reach_for_one_task_and_one_wins(daemon: Serving) -> None:
    with as_seen_by(daemon, "bob~1") as board:
        task = board.tasks.post(name="contested")
        won: list[str] = []

        async def reach(agent: str) -> None:
            async with over_http(daemon.url, "2026-07-28", daemon.token)(agent) as client:
                result = await client.call_tool("claim", {"ref": task.id})
                won.extend([agent] if not result.is_error else [])

        async def all_at_once() -> None:
            await asyncio.gather(*(reach(f"agent-{i}~1") for i in range(10)))

        asyncio.run(all_at_once())
        assert len(won) == 1
        assert board.tasks.get(ref=task.id).holder == won[0].partition("~")[0]


def test_a_model_whose_checkout_is_not_known_holds_the_file_in_all_of_them(daemon: Serving) -> None:
    bob = as_seen_by(daemon, "bob~1")

    async def scenario(client: Client) -> None:
        await good(client, "hold", action="take", resources=["mine.py", "file://here/own.py"])
        bob.holds.take(resources=["file://there/own.py"])
        with pytest.raises(tiebreak.Lost):
            bob.holds.take(resources=["file://there/mine.py"])

    Tools(bob, over_http(daemon.url, "2026-07-28", daemon.token)).drive(scenario)
