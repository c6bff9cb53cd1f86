"""The ASGI application: runs the same checks on every request, in the same order, then the handler of its route."""

from __future__ import annotations

import logging
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from ..advice import advice
from ..errors import Invalid, TiebreakError, Unavailable
from ..limits import MAX_BODY
from . import (  # noqa: F401  (each declares its routes)
    admin_routes,
    event_stream,
    hook_route,
    mcp_route,
    pages,
    rpc,
    web,
)
from .advice import REQUESTS, body_of
from .http_protocol import CACHE_CONTROL, CACHED
from .routes import HTML, JSON, ROUTES, Problem, Request, Response, RouteTable, problem_of
from .service import internal
from .web import refusal_page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .service import Service

log = logging.getLogger("tiebreak")
_numbers = count(1)


class App:
    """Serves all declared routes: the daemon's own, and those of other packages that have been imported."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._table = RouteTable(ROUTES)
        self._prefix = f"{int(service.began * 1000) & 0xFFFFFFFF:08x}-"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        began = perf_counter()
        number = f"{self._prefix}{next(_numbers):x}"
        try:
            response = await self._answer(scope, receive, number)
        except Problem as problem:
            response = self._refusal(problem, scope)
        except TiebreakError as exc:
            response = self._refusal(problem_of(exc), scope)
        except Exception as exc:
            response = self._refusal(Problem(500, internal(exc, number)), scope)
        requests = self._service.metrics.requests
        requests[response.status] = requests.get(response.status, 0) + 1
        if response.status >= 400 or log.isEnabledFor(logging.DEBUG):
            self._log(scope, response, number, perf_counter() - began)
        await _send(send, response, number, scope)

    async def _answer(self, scope: Any, receive: Any, number: str) -> Response:
        headers = dict(scope["headers"])
        service = self._service
        peer, user = scope["state"]["peer"], scope["state"]["user"]
        if len(headers) < len(scope["headers"]):
            _refuse_repeated(scope["headers"])
        method = scope["method"]
        service.access.check(headers, peer)
        try:
            route, parameters = self._table.find("GET" if method == "HEAD" else method, scope["path"])
        except Problem:
            service.access.check_route(None, method, headers, peer, user)
            raise
        service.access.check_route(route, method, headers, peer, user)
        if service.draining:
            raise Problem(503, Unavailable("this daemon is shutting down"), (b"retry-after", b"1"), close=True)
        request = Request(scope, receive, headers, number)
        request.parameters = parameters
        if route.body is not None:
            request.body = await _body(headers, receive)
        elif headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
            request.body = await _body(headers, receive)
            if request.body:
                raise Invalid("this route takes no body")
        try:
            return await route.handler(service, request)
        except Problem as problem:
            return self._refusal(problem, scope, route.group.words)
        except TiebreakError as exc:
            return self._refusal(problem_of(exc), scope, route.group.words)

    def _refusal(self, problem: Problem, scope: Any, words: Mapping[str, str] = REQUESTS) -> Response:
        """The answer to a refused request: JSON for programs, a page for browsers."""
        if problem.error.reason == "token-missing":
            problem.error.data["token_file"] = self._service.access.token_file
        closing = ((b"connection", b"close"),) if problem.close else ()
        headers = (*problem.headers, *closing)
        if scope["method"] in ("GET", "HEAD") and b"text/html" in dict(scope["headers"]).get(b"accept", b""):
            page = refusal_page.refusal(problem, advice(problem.error, words), self._service.access.url)
            return Response(page.encode(), status=problem.status, type=HTML, headers=(*headers, *refusal_page.POLICY))
        body = msgspec.json.encode(body_of(problem.error, words))
        return Response(body, status=problem.status, headers=headers)

    def _log(self, scope: Any, response: Response, number: str, took: float) -> None:
        facts = {
            "request": number,
            "method": scope["method"],
            "path": scope["path"],
            "status": response.status,
            "ms": round(took * 1000, 2),
            "peer": scope["state"]["peer"],
        }
        log.log(logging.INFO if response.status >= 400 else logging.DEBUG, "request", extra={"facts": facts})


_ONCE = frozenset((b"host", b"origin", b"authorization", b"content-type", b"content-length", b"idempotency-key"))


def _refuse_repeated(headers: list[tuple[bytes, bytes]]) -> None:
    """Raise `Problem` 400 when a header that matters for access or framing is repeated.

    Two programs that read such a request may each take a different value.
    """
    seen = set()
    for name, _ in headers:
        if name in seen and name in _ONCE:
            raise Problem(400, Invalid(f"header {name.decode()}: given twice"), close=True)
        seen.add(name)


async def _body(headers: dict[bytes, bytes], receive: Any) -> bytes:
    """The whole body. Raises `Problem` 415 or 413. `http_protocol` enforces the deadline for its arrival."""
    kind = headers.get(b"content-type")
    if kind is not None and kind.partition(b";")[0].strip().lower() != JSON:
        raise Problem(415, Invalid("Content-Type: only application/json is understood"), close=True)
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MAX_BODY:
        raise _too_large()
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise _too_large()
    if message["type"] == "http.disconnect":
        raise Problem(400, Invalid("the request ended before its body"), close=True)
    if body and kind is None:
        raise Problem(415, Invalid("Content-Type: must be application/json"), close=True)
    return body


def _too_large() -> Problem:
    return Problem(413, Invalid(f"the body is larger than {MAX_BODY} bytes"), close=True)


async def _send(send: Any, response: Response, number: str, scope: Any) -> None:
    head_only = scope["method"] == "HEAD"
    headers = [(b"x-request-id", number.encode()), *response.headers]
    if scope["path"].startswith(CACHED) and not any(name == CACHE_CONTROL for name, _ in headers):
        headers.insert(0, (CACHE_CONTROL, b"no-store"))  # a refusal
    if response.status != 204:
        headers.append((b"content-type", response.type))
    if response.stream is None:
        if response.status != 204:
            headers.append((b"content-length", str(len(response.body)).encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if head_only else response.body})
        return
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if not head_only:
        async for piece in response.stream:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
