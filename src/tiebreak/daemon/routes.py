"""The table of routes. Each one is declared here and nowhere else: the app, the OpenAPI document and the security
tests are made from it, so a new route is guarded, described and tested without a further line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Invalid, TiebreakError, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from .service import Service

    Handler = Callable[["Service", "Request"], Awaitable["Response"]]

JSON = b"application/json"


class Request:
    """What a handler gets: a request that has passed all checks, its body complete."""

    __slots__ = ("_receive", "body", "headers", "id", "method", "parameters", "path", "peer", "query_string")

    def __init__(self, scope: Mapping[str, Any], receive: Any, headers: dict[bytes, bytes], number: str) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: bytes = scope["query_string"]
        self.headers = headers
        self.id = number
        self.peer: str = scope["state"]["peer"]
        self.body = b""
        self.parameters: dict[str, str] = {}
        self._receive = receive

    @property
    def client(self) -> str:
        """Who asks, for limits: the name that the client gives itself, within what the connection tells."""
        name = self.headers.get(b"tiebreak-client", b"")[:100].decode("latin-1")
        return f"{self.peer}/{name}"

    def query(self) -> dict[str, str]:
        """The parameters after the question mark; a repeated one is refused."""
        from urllib.parse import parse_qsl

        try:
            pairs = parse_qsl(
                self.query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50
            )
        except ValueError:
            raise Invalid("query: not a valid query string") from None
        found = dict(pairs)
        if len(found) < len(pairs):
            raise Invalid("query: a parameter is given twice")
        return found

    async def gone(self) -> None:
        """Sleep until the client hangs up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Response:
    """What a handler gives back: a whole body, or a stream of pieces."""

    __slots__ = ("body", "headers", "status", "stream", "type")

    def __init__(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        type: bytes = JSON,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        stream: AsyncIterator[bytes] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.type = type
        self.headers = headers
        self.stream = stream


class Problem(Exception):
    """Ends a request with an HTTP status; the body says why, in the form that every error has."""

    def __init__(self, status: int, error: TiebreakError, *headers: tuple[bytes, bytes], close: bool = False) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers
        self.close = close


def problem_of(error: TiebreakError) -> Problem:
    """The status that a refusal has on routes where the status is the answer."""
    from ..errors import Fenced, Lost, NotFound, Refused, TimedOut

    by_kind = ((NotFound, 404), (Lost, 409), (Fenced, 409), (Refused, 409), (Invalid, 400), (TimedOut, 408))
    status = next((status for kind, status in by_kind if isinstance(error, kind)), 503)
    headers = ((b"retry-after", b"1"),) if isinstance(error, Unavailable) else ()
    return Problem(status, error, *headers)


class Route(NamedTuple):
    """One way in."""

    method: str
    path: str
    handler: Handler
    text: str
    """What it is for, in one sentence."""
    body: dict[str, Any] | None
    """The JSON Schema of the body; None when it takes none."""
    query: dict[str, dict[str, Any]]
    """The parameters after the question mark, each with its JSON Schema."""
    answers: dict[int, str]
    """The statuses it can have beside those that every route can have."""
    strangers: bool
    """Whether it is open without a token under `--open`; the operations that it runs decide about the rest."""

    @property
    def words(self) -> list[str]:
        """The path, cut at its slashes; a word in braces is a parameter."""
        return self.path.strip("/").split("/")


ROUTES: list[Route] = []


def route(
    method: str,
    path: str,
    text: str,
    *,
    strangers: bool,
    body: dict[str, Any] | None = None,
    query: dict[str, dict[str, Any]] | None = None,
    answers: dict[int, str] | None = None,
) -> Callable[[Handler], Handler]:
    """Declare a function as the handler of a route; whether strangers may use it has no default."""

    def declare(handler: Handler) -> Handler:
        ROUTES.append(Route(method, path, handler, text, body, query or {}, answers or {200: "done"}, strangers))
        return handler

    return declare


class Table:
    """Finds the route of a request: by the whole path, else word by word."""

    def __init__(self, routes: list[Route]) -> None:
        self._exact = {(each.method, each.path): each for each in routes if "{" not in each.path}
        self._others = [each for each in routes if "{" in each.path]
        self._all = routes

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route and its parameters; `Problem` 404 or 405."""
        found = self._exact.get((method, path))
        if found is not None:
            return found, {}
        for each in self._others:
            parameters = _match(each, path)
            if each.method == method and parameters is not None:
                return each, parameters
        allowed = sorted({each.method for each in self._all if each.path == path or _match(each, path) is not None})
        if not allowed:
            raise Problem(404, Invalid(f"no such route: {path[:100]!a}", hint="GET /docs tells what there is"))
        allow = ", ".join(allowed).encode()
        raise Problem(405, Invalid(f"{method} is not a method of {path[:100]!a}"), (b"allow", allow))


def _match(each: Route, path: str) -> dict[str, str] | None:
    words = path.strip("/").split("/")
    if len(words) != len(each.words):
        return None
    parameters = {}
    for wanted, word in zip(each.words, words, strict=True):
        if wanted.startswith("{") and word:
            parameters[wanted[1:-1]] = word
        elif wanted != word:
            return None
    return parameters
