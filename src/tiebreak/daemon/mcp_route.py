"""`POST /mcp`: the tools of `tiebreak.mcp` over the streamable HTTP transport of the Model Context Protocol.

Both generations of the protocol are supported: with and without an `initialize` handshake.

The daemon has checked Host, Origin, token and sizes before a request arrives here, so the checks of the SDK are turned
off. The server keeps no MCP sessions: each request names its agent in its headers and is answered with one JSON body.
The SDK is imported by the first request, on a thread, so a daemon that never gets one starts quickly and stays small.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..aio import AsyncBoard
from ..board import Board
from ..errors import Invalid
from ..names import RESOURCE_TYPES
from ..names import agent as check_agent
from ..names import resource as check_resource
from .routes import CLIENT_HEADER, LANGUAGE_MODELS, Problem, Request, Response, ref, route
from .rpc import REFUSAL_OR_ERROR
from .service_engine import ServiceEngine

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from ..engine.protocol import Engine
    from .service import Service

NOBODY = "the caller has no name"
HINT = "set the header Tiebreak-Agent to NAME~SESSION (and Tiebreak-Project) where this server is configured"
_board: ContextVar[AsyncBoard] = ContextVar("board")
"""The board as seen by the agent of the current request."""


@route(
    "POST",
    "/mcp",
    "Six tools for language models, by the Model Context Protocol. The header `Tiebreak-Agent` names the agent.",
    body={"type": "object", "description": "one JSON-RPC message of the Model Context Protocol"},
    body_required=True,
    headers={
        **CLIENT_HEADER,
        "Tiebreak-Agent": {"type": "string", "description": "who calls: `name` or `name~session`"},
        "Tiebreak-Project": {"type": "string", "description": "a project's name (default: `default`)"},
    },
    answers={
        200: "the answer, a refusal among them",
        202: "nothing to answer: a notification",
        400: "not a message of this protocol",
        404: "no such method",
        406: "Accept: must allow application/json",
        429: "too many open waits",
        503: "the MCP SDK is not installed",
    },
    content={"application/json": ref("Answer")},
    error=REFUSAL_OR_ERROR,
    group=LANGUAGE_MODELS,
    strangers=True,
)
async def mcp(service: Service, request: Request) -> Response:
    """Answer one message. When the client disconnects, the call is cancelled."""
    manager = await service.threaded(_manager)
    _board.set(AsyncBoard(RequestBoard(ServiceEngine(service), request), service.callers))
    # A call that may wait counts towards the limit of open waits, as on every other route.
    with service.waiters.slot(request.client) if b'"wait"' in request.body else nullcontext():
        answering = asyncio.ensure_future(_answer(manager(), request))
        gone = asyncio.ensure_future(request.gone())
        try:
            await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise Problem(400, Invalid("the client has hung up"), close=True)
            return answering.result()
        finally:
            for task in (answering, gone):
                task.cancel()
            await asyncio.gather(answering, gone, return_exceptions=True)


def _manager() -> Callable[[], Any]:
    try:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings
    except ModuleNotFoundError:
        from ..installation import missing_extra

        raise missing_extra("mcp: the MCP SDK is not installed", "mcp") from None
    from ..mcp.server import server

    off = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    made = server(_board.get)
    return lambda: StreamableHTTPSessionManager(made, json_response=True, stateless=True, security_settings=off)


async def _answer(manager: Any, request: Request) -> Response:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async with manager.run():
        await manager.handle_request(_scope(request), _receiving(request), send)
    start = sent[0]
    headers = dict(start["headers"])
    kind = headers.pop(b"content-type", b"application/json")
    headers.pop(b"content-length", None)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Response(body, status=int(start["status"]), type=kind, headers=tuple(headers.items()))


def _scope(request: Request) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": request.method,
        "path": request.path,
        "raw_path": request.path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": request.query_string,
        "headers": list({b"accept": b"*/*", **request.headers, b"content-type": b"application/json"}.items()),
        "client": None,
        "server": None,
        "state": {},
    }


def _receiving(request: Request) -> Callable[[], Any]:
    """An ASGI `receive` that gives the body, which has arrived already, and then blocks."""
    left = [{"type": "http.request", "body": request.body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if left:
            return left.pop()
        await asyncio.Event().wait()  # `mcp` watches for a disconnect and cancels this
        raise AssertionError

    return receive


class RequestBoard(Board):
    """The board as seen by the agent that a request names in its headers. File names are relative to its repository."""

    def __init__(self, engine: Engine, request: Request) -> None:
        super().__init__(engine)
        self._headers = request.headers

    @property
    def agent(self) -> str:
        """The agent in the header `Tiebreak-Agent`."""
        given = self._headers.get(b"tiebreak-agent", b"").decode("latin-1")
        if not given:
            raise Invalid(NOBODY, hint=HINT)
        return check_agent(given, "Tiebreak-Agent")

    @property
    def project(self) -> str:
        """The project in the header `Tiebreak-Project`, else `default`."""
        from ..names import project

        return project(self._headers.get(b"tiebreak-project", b"default").decode("latin-1"), "Tiebreak-Project")

    def root(self) -> str:
        """A path without files: the agent's files may be on another machine, so none is ever read."""
        return "/dev/null"

    def checkout(self) -> str:
        """Nothing: in which checkout the agent works is not known here, so its holds count in all of them."""
        return ""

    def resource(self, text: str) -> str:
        """The canonical name of a resource. Text without a type is a path from the root of the agent's repository."""
        if ":" not in text or text.partition(":")[0] not in RESOURCE_TYPES:
            text = f"file:{text}"
        return check_resource(text)
