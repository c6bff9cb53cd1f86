"""The parts of uvicorn that `daemon/http_protocol.py` and `daemon/server.py` use and that are not its public interface.

A new version of uvicorn may change them without notice. Each test names one such part and says what the daemon needs it
for, so a failure here tells what to look at before the bound in `pyproject.toml` is raised.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tiebreak.daemon.http_protocol import HttpProtocol

CALLBACKS = {
    "connection_made": "refuses other users and too many connections",
    "data_received": "counts the bytes of a request",
    "on_message_begin": "starts the deadline of a request",
    "on_headers_complete": "checks the headers and the request target",
    "on_body": "limits the bodies of pipelined requests",
    "on_message_complete": "ends the deadline of a request",
    "_start_asgi_task": "remembers which request is running",
    "connection_lost": "ends the running request",
}
"""Methods that the daemon overrides: uvicorn must call them, or the daemon's checks are silently skipped."""
OF_A_CONNECTION = {
    "loop": "the clock of the deadline",
    "connections": "the number of open connections",
    "app_state": "carries the peer to the application",
    "transport": "sends, closes, and tells whether it is closing",
    "url": "the request target",
    "headers": "the headers of the request that arrives",
    "pipeline": "the requests that wait behind the running one",
    "flow": "resumes reading",
    "cycle": "the request that arrived last, and its response",
}
OF_A_CYCLE = {
    "body": "limits the bodies of pipelined requests",
    "response_started": "a request whose response has started is not ended for being slow",
    "response_complete": "nothing is sent after a complete response",
    "disconnected": "tells a running request that its client has gone",
    "message_event": "wakes a running request whose client has gone",
}
OF_THE_SERVER = {
    "connections": "all open connections, to end slow ones and to drain",
    "tasks": "all running requests, to drain",
    "default_headers": "the headers of every response",
}


class Transport(asyncio.Transport):
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def recorded(name: str, called: list[str]) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any) -> Any:
        called.append(name)
        return getattr(HttpToolsProtocol, name)(self, *arguments)

    return method


REQUEST = b"POST /path HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"


class Served:
    """A connection on which two requests have arrived together. The first is answered, and then the second."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.scopes: list[Any] = []
        self.state = ServerState()
        self.go_on = asyncio.Event()

    async def run(self) -> Served:
        options: dict[str, Any] = {"lifespan": "off", "log_config": None, "ws": "none", "proxy_headers": False}
        config = uvicorn.Config(self._app, interface="asgi3", **options)
        config.load()
        self.transport = Transport()
        methods = {name: recorded(name, self.called) for name in CALLBACKS if hasattr(HttpToolsProtocol, name)}
        self.protocol: Any = type("Recorder", (HttpToolsProtocol,), methods)(config, self.state, {"peer": "somebody"})
        self.protocol.connection_made(self.transport)
        self.protocol.data_received(REQUEST + REQUEST)
        self.waiting = len(getattr(self.protocol, "pipeline", ()))
        self.cycle = getattr(self.protocol, "cycle", None)
        self.go_on.set()
        while tasks := getattr(self.state, "tasks", None):
            await asyncio.gather(*tasks)
        self.protocol.connection_lost(None)
        return self

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


@pytest.fixture(scope="module")
def served() -> Served:
    async def serve() -> Served:
        return await Served().run()

    return asyncio.run(serve())


def gone(what: str, why: str) -> str:
    return f"uvicorn {uvicorn.__version__}: {what} is gone; daemon/http_protocol.py and daemon/server.py need it: {why}"


@pytest.mark.parametrize("name", CALLBACKS)
def test_uvicorn_still_calls_what_the_daemon_overrides(served: Served, name: str) -> None:
    assert hasattr(HttpToolsProtocol, name), gone(f"HttpToolsProtocol.{name}", CALLBACKS[name])
    assert name in served.called, f"uvicorn {uvicorn.__version__} no longer calls {name}: {CALLBACKS[name]}"


@pytest.mark.parametrize("name", OF_A_CONNECTION)
def test_a_connection_still_has_what_the_daemon_reads(served: Served, name: str) -> None:
    assert hasattr(served.protocol, name), gone(f"HttpToolsProtocol.{name}", OF_A_CONNECTION[name])


@pytest.mark.parametrize("name", OF_A_CYCLE)
def test_a_request_still_has_what_the_daemon_reads(served: Served, name: str) -> None:
    assert hasattr(served.cycle, name), gone(f"RequestResponseCycle.{name}", OF_A_CYCLE[name])


@pytest.mark.parametrize("name", OF_THE_SERVER)
def test_the_state_of_a_server_still_has_what_the_daemon_reads(served: Served, name: str) -> None:
    assert hasattr(served.state, name), gone(f"ServerState.{name}", OF_THE_SERVER[name])


def test_a_connection_can_still_be_told_to_finish() -> None:
    assert hasattr(HttpToolsProtocol, "shutdown"), gone("HttpToolsProtocol.shutdown", "drains a connection")


def test_the_second_of_two_requests_still_waits_in_the_pipeline(served: Served) -> None:
    assert served.waiting == 1
    assert served.called.count("_start_asgi_task") == 2
    assert [scope["path"] for scope in served.scopes] == ["/path", "/path"]


def test_the_application_still_gets_the_peer_from_the_state_of_the_connection(served: Served) -> None:
    assert served.scopes[0]["state"] == {"peer": "somebody"}


def test_everything_that_the_daemon_takes_from_uvicorn_is_listed_here(served: Served) -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(HttpProtocol)))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()")
    }
    inherited = {name for name in used if hasattr(served.protocol, name)} - {"__init__"}
    assert inherited == {*CALLBACKS, *OF_A_CONNECTION}
