"""The mixed load of `endurance`, in a process of its own: all that clients do to a daemon, good and bad, at once.

Refusals as fast as they are answered; claims and completions; event streams that are read, read slowly, left hanging
and cut; hooks whose git is slow; tools of the Model Context Protocol; and another program that reads the file for a
while without letting go. What was answered is counted in memory that the measuring process reads.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
import uvloop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableSequence

COUNTED = ("refusals", "claims", "streams", "hooks", "tools")
"""What is counted, by its place in the shared memory."""
CLIENTS = {"refuser": 4, "worker": 2, "hook": 4, "tool": 1, "follower": 3, "sleeper": 3, "slow reader": 2}
"""How many clients do what, each over a connection of its own."""
AT_ONCE = 25
"""Refusals in one request: one by one they would wait for each commit of the others."""
SESSIONS = 40
"""How many sessions of agents the hooks come from."""
PROJECT = "endurance"
HELD = "lock:held"
HOLD, REST = 6.0, 4.0
"""Seconds for which the other program keeps its snapshot, and for which it lets the log be shortened."""
HANGS = 10.0
"""Seconds that a stream is left hanging."""


class Target(NamedTuple):
    """The daemon under load, and what belongs to it."""

    port: int
    token: str
    board: str
    repository: str


class _Cut(Exception):
    """The daemon closed the connection; the next request opens another one."""


class Line:
    """A keep-alive connection, opened anew when it was closed."""

    def __init__(self, target: Target, client: str) -> None:
        self._target = target
        self._client = client
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """One request, and the body of its answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._target.port)
        reader, writer = self._streams
        try:
            writer.write(head(self._target, method, path, self._client, body, **headers))
            answer = await reader.readuntil(b"\r\n\r\n")
            at = answer.lower().find(b"content-length: ")
            return await reader.readexactly(int(answer[at + 16 : answer.find(b"\r", at)]))
        except (OSError, asyncio.IncompleteReadError) as exc:
            self._streams = None
            writer.close()
            raise _Cut from exc


def head(target: Target, method: str, path: str, client: str, body: Any = None, **headers: str) -> bytes:
    """A whole request."""
    data = b"" if body is None else json.dumps(body).encode()
    said = {
        "Host": f"127.0.0.1:{target.port}",
        "Authorization": f"Bearer {target.token}",
        "Tiebreak-Client": client,
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data


def call(method: str, **params: Any) -> dict[str, Any]:
    """A call of an operation, as JSON-RPC."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"project": PROJECT, **params}}


class Mix:
    """All of it, until it is told to end."""

    def __init__(self, target: Target, counts: MutableSequence[int], seconds: float) -> None:
        self._target = target
        self._counts = counts
        self._end = time.monotonic() + seconds
        self._number = itertools.count()

    async def run(self) -> None:
        """Everything at once."""
        other = threading.Thread(target=self._other_program)
        other.start()
        turns: dict[str, Callable[[Line, str], Awaitable[None]]] = {
            "refuser": self._refuse,
            "worker": self._work,
            "hook": self._hook,
            "tool": self._tool,
            "follower": self._follow,
            "sleeper": self._leave_hanging,
            "slow reader": self._read_slowly,
        }
        await asyncio.gather(
            *(self._repeat(turns[kind], f"{kind[:4]}-{i}") for kind, many in CLIENTS.items() for i in range(many))
        )
        other.join()

    async def _repeat(self, turn: Callable[[Line, str], Awaitable[None]], name: str) -> None:
        line = Line(self._target, name)
        while time.monotonic() < self._end:
            with suppress(_Cut, OSError, asyncio.IncompleteReadError):
                await turn(line, name)

    def _count(self, what: str, times: int = 1) -> None:
        self._counts[COUNTED.index(what)] += times

    async def _refuse(self, line: Line, name: str) -> None:
        await line.ask("POST", "/rpc", [call("holds.take", resources=[HELD], agent=f"{name}~1")] * AT_ONCE)
        self._count("refusals", AT_ONCE)

    async def _work(self, line: Line, name: str) -> None:
        ref = f"work-{name}-{next(self._number)}"
        agent = f"{name}~1"
        await line.ask("POST", "/rpc", call("tasks.claim", ref=ref, agent=agent))
        await line.ask("POST", "/rpc", call("tasks.complete", ref=ref, agent=agent))
        self._count("claims")
        await asyncio.sleep(0.01)

    async def _hook(self, line: Line, name: str) -> None:
        about = {"session_id": f"{name}-{next(self._number) % SESSIONS}", "cwd": self._target.repository}
        for event in ("PreToolUse", "PostToolUse"):
            body = {**about, "hook_event_name": event, "tool_name": "Bash", "tool_use_id": "t1", "tool_response": "ok"}
            await line.ask("POST", f"/hooks/claude/{event}", {**body, "tool_input": {"command": "true"}})
            self._count("hooks")

    async def _tool(self, line: Line, name: str) -> None:
        params = {"name": "hold", "arguments": {"action": "take", "resources": [HELD]}}
        said = {"Accept": "application/json, text/event-stream", "Tiebreak_Agent": f"{name}~1"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        await line.ask("POST", "/mcp", message, Tiebreak_Project=PROJECT, **said)
        self._count("tools")
        await asyncio.sleep(0.02)

    async def _stream(self, name: str, query: str) -> socket.socket:
        """A stream of events on a connection whose buffer is small, so that what is not read stays with the daemon."""
        loop, opened = asyncio.get_running_loop(), socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.setblocking(False)
        await loop.sock_connect(opened, ("127.0.0.1", self._target.port))
        await loop.sock_sendall(opened, head(self._target, "GET", f"/events{query}", name))
        self._count("streams")
        return opened

    async def _follow(self, _: Line, name: str) -> None:
        """Follow for a moment, then leave as a program does that was killed."""
        opened = await self._stream(name, "?project=nobody")
        await asyncio.get_running_loop().sock_recv(opened, 65536)
        await asyncio.sleep(0.2)
        _cut(opened)

    async def _leave_hanging(self, _: Line, name: str) -> None:
        """Ask for everything, read nothing."""
        opened = await self._stream(name, "?after=0")
        await asyncio.sleep(min(HANGS, max(0.0, self._end - time.monotonic())))
        _cut(opened)

    async def _read_slowly(self, _: Line, name: str) -> None:
        opened = await self._stream(name, "?after=0")
        for _turn in range(50):
            await asyncio.get_running_loop().sock_recv(opened, 2048)
            await asyncio.sleep(0.1)
            if time.monotonic() > self._end:
                break
        opened.close()

    def _other_program(self) -> None:
        """Read the file without letting go, so that its log cannot be shortened meanwhile."""
        connection = apsw.Connection(self._target.board, flags=apsw.SQLITE_OPEN_READONLY)
        while time.monotonic() < self._end:
            connection.execute("BEGIN; SELECT count(*) FROM agents").fetchall()
            time.sleep(min(HOLD, max(0.0, self._end - time.monotonic())))
            connection.execute("ROLLBACK")
            time.sleep(min(REST, max(0.0, self._end - time.monotonic())))
        connection.close()


def _cut(opened: socket.socket) -> None:
    """Close it without a farewell: the other side gets a reset."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    opened.close()


def load(target: Target, counts: MutableSequence[int], seconds: float) -> None:
    """The whole life of the process."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Mix(target, counts, seconds).run())
