"""Fixtures for security tests: raw connections to a daemon, and a daemon in this process with adjustable limits."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.daemons import PATIENCE, InProcessDaemon, Serving

from .fuzzing import Line, furnished, unharmed

Value = str | bytes | list[str] | None
"""What a header says; a list: it is given that often; None: it is missing."""
Headers = Mapping[str, Value]


class Seen(NamedTuple):
    """An answer, with all its headers in their order."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        """One header; "" when it is missing."""
        return next((value for given, value in self.headers if given == name), "")

    @property
    def message(self) -> str:
        """What an error says."""
        return str(json.loads(self.body)["message"])


class Door:
    """Where a daemon lets clients in over TCP. Every answer that comes through it is looked at."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token

    def ask(self, method: str, target: str, changes: Headers | None = None, body: bytes | None = None) -> Seen:
        """One request on a connection of its own: a good one but for the changes to its headers."""
        with self.open() as knocking:
            knocking.sendall(self.head(method, target, changes, body) + (body or b""))
            return self.answer(knocking, method)

    def rpc(self, method: str, changes: Headers | None = None, **params: Any) -> Any:
        """The whole answer to a call of an operation."""
        return json.loads(self.ask("POST", "/rpc", changes, call(method, **params)).body)

    def wait(self, client: str = "", **params: Any) -> socket.socket:
        """Begin a long wait for something that does not happen; hang up to end it."""
        body = call("events.read", **{"after": 10**9, "project": None, "wait_ms": 60_000, **params})
        return self.begin("POST", "/rpc", {"Tiebreak-Client": client}, body)

    def begin(
        self, method: str, target: str, changes: Headers | None = None, body: bytes | None = None
    ) -> socket.socket:
        """Send a request and leave its answer unread."""
        knocking = self.open()
        knocking.sendall(self.head(method, target, changes, body) + (body or b""))
        return knocking

    def waiters(self) -> int:
        """How many wait, as the daemon itself counts them."""
        found = re.search(rb"^tiebreak_waiters (\d+)$", self.ask("GET", "/metrics").body, re.M)
        assert found
        return int(found[1])

    def open(self) -> socket.socket:
        """A connection on which nothing has been said."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def head(self, method: str, target: str, changes: Headers | None = None, body: bytes | None = None) -> bytes:
        """The head of a good request, with changes."""
        said: dict[str, Value] = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.token}"}
        if body is not None:
            said |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [f"{method} {target} HTTP/1.1".encode()]
        for name, value in {**said, **(changes or {})}.items():
            values = value if isinstance(value, list) else [] if value is None else [value]
            lines += [name.encode() + b": " + (v if isinstance(v, bytes) else v.encode()) for v in values]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def answer(self, knocking: socket.socket, method: str = "GET") -> Seen:
        """Read an answer, of a stream only the beginning; it has what every answer has to have."""
        response = http.client.HTTPResponse(knocking, method=method)
        response.begin()
        headers = [(name.lower(), value) for name, value in response.getheaders()]
        endless = response.status == 200 and ("content-type", "text/event-stream; charset=utf-8") in headers
        seen = Seen(response.status, headers, b"" if endless else response.read())
        self.look_at(seen)
        return seen

    def look_at(self, seen: Seen) -> None:
        """No page may read it, nobody may guess its type or keep it, and it does not tell the token."""
        assert not [name for name, _ in seen.headers if name.startswith("access-control-")], seen
        for name, value in (("x-content-type-options", "nosniff"), ("cache-control", "no-store")):
            assert [said for given, said in seen.headers if given == name] == [value], seen
        assert not self.token or self.token.encode() not in seen.body, seen
        assert not self.token or self.token not in str(seen.headers), seen


def call(method: str, number: int = 1, **params: Any) -> bytes:
    """A call of an operation, as JSON-RPC."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def door_of(daemon: Serving | InProcessDaemon) -> Door:
    """The door of a daemon."""
    return Door(daemon.port, daemon.token)


def ended(knocking: socket.socket) -> bytes:
    """Everything that still comes until the daemon hangs up; fails if it does not."""
    knocking.settimeout(PATIENCE)
    came = b""
    with suppress(ConnectionError):
        while piece := knocking.recv(65536):
            came += piece
    return came


Starting = Callable[..., InProcessDaemon]


@contextmanager
def _starting(state: Path) -> Iterator[Starting]:
    """A way to start daemons in this process; they end with the context."""
    started: list[InProcessDaemon] = []

    def start(**settings: Any) -> InProcessDaemon:
        started.append(InProcessDaemon(**{"address": "127.0.0.1:0", **settings}))
        return started[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", os.fspath(state))
        try:
            yield start
        finally:
            for each in started:
                each.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starting]:
    """Start a daemon in this process with these settings; it ends with the test."""
    with _starting(tmp_path / "state") as starting:
        yield starting


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """The door of a daemon that gives a request three seconds to arrive: a busy machine needs one now and then."""
    with _starting(tmp_path_factory.mktemp("hasty")) as starting:
        yield door_of(starting(receipt=3.0))


# ── What the fuzz tests share ────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon whose board is not empty."""
    with furnished(tmp_path_factory.mktemp("fuzzed")) as made:
        yield made


@pytest.fixture
def daemon(running: Serving) -> Iterator[Serving]:
    """A daemon that must be as well after the test as before."""
    with unharmed(running) as made:
        yield made


@pytest.fixture
def line(daemon: Serving) -> Line:
    """A connection to it."""
    return Line(daemon)
