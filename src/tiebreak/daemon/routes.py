"""The table of HTTP routes, and the request and response types of their handlers.

A handler declares its route once, with `@route`. The application, the OpenAPI document and the security tests read the
table, so a new route is access-checked, documented and tested without further code.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Invalid, TiebreakError, Unavailable
from ..limits import MAX_ONCE, MIN_ONCE
from .advice import PAGES, REQUESTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from .service import Service

    Handler = Callable[["Service", "Request"], Awaitable["Response"]]
    Schema = dict[str, Any]

JSON = b"application/json"
HTML = b"text/html; charset=utf-8"


class Request:
    """A request that has passed all access checks, with its whole body."""

    __slots__ = ("_receive", "body", "headers", "id", "method", "parameters", "path", "peer", "query_string", "user")

    def __init__(self, scope: Mapping[str, Any], receive: Any, headers: dict[bytes, bytes], number: str) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: bytes = scope["query_string"]
        self.headers = headers
        self.id = number
        self.peer: str = scope["state"]["peer"]
        self.user: Callable[[], int | None] = scope["state"]["user"]
        """Finds out which user of this machine asks, where that is known."""
        self.body = b""
        self.parameters: dict[str, str] = {}
        self._receive = receive

    @property
    def client(self) -> str:
        """Identifies the client for limits: its connection, and the name that it gives itself in `Tiebreak-Client`."""
        name = self.headers.get(b"tiebreak-client", b"")[:100].decode("latin-1")
        return f"{self.peer}/{name}"

    @property
    def once(self) -> str | None:
        """The idempotency key in the header `Idempotency-Key`."""
        given = self.headers.get(b"idempotency-key")
        return None if given is None else given.decode("latin-1")

    def query(self) -> dict[str, str]:
        """The query parameters. Raises `Invalid` when one is given twice."""
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
        """Wait until the client closes the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Response:
    """The answer of a handler: a whole body, or a stream of pieces."""

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
    """An exception that ends a request with an HTTP status. The body is the error as JSON."""

    def __init__(self, status: int, error: TiebreakError, *headers: tuple[bytes, bytes], close: bool = False) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers
        self.close = close


def problem_of(error: TiebreakError) -> Problem:
    """The HTTP status of a refusal, for routes that report refusals by their status."""
    from ..errors import Fenced, Lost, NotFound, Refused, TimedOut

    by_kind = ((NotFound, 404), (Lost, 409), (Fenced, 409), (Refused, 409), (Invalid, 400), (TimedOut, 408))
    status = next((status for kind, status in by_kind if isinstance(error, kind)), 503)
    headers = ((b"retry-after", b"1"),) if isinstance(error, Unavailable) else ()
    return Problem(status, error, *headers)


class RouteGroup(NamedTuple):
    """Routes that the documentation lists together."""

    heading: str
    text: str
    """What they are for, in one sentence."""
    words: Mapping[str, str] = REQUESTS
    """What a refused client of these routes can do next (see `tiebreak.advice`)."""


OPERATIONS = RouteGroup("Operations", "All that can be done on a board, by JSON-RPC.")
EVENTS = RouteGroup("Events", "What happens on a board, as it happens.")
ADMINISTRATION = RouteGroup("Administration", "Health, metrics, findings and backups.")
HOOKS = RouteGroup("Agent client hooks", "What coding agents ask before and after their tools run.")
LANGUAGE_MODELS = RouteGroup("Language models", "The tools of the Model Context Protocol.")
BROWSER = RouteGroup("Browser", "Pages for people, and how a browser is signed in for them.", PAGES)
DOCUMENTATION = RouteGroup("Documentation", "This description, for programs and for people.")
OWN_GROUPS = (OPERATIONS, EVENTS, ADMINISTRATION, HOOKS, LANGUAGE_MODELS, BROWSER, DOCUMENTATION)


def ref(name: str) -> Schema:
    """A reference to a schema that the OpenAPI document has under this name."""
    return {"$ref": f"#/components/schemas/{name}"}


ANY_JSON: dict[str, Schema] = {"application/json": {}}
ERROR = ref("Error")
ONCE = {
    "type": "string",
    "pattern": f"^[ -~]{{{MIN_ONCE},{MAX_ONCE}}}$",
    "description": "makes a write safe to repeat: the second time it is answered as the first time",
}
ONCE_HEADER = {"Idempotency-Key": ONCE}
"""For routes that write with `Request.once`."""
CLIENT_HEADER = {
    "Tiebreak-Client": {"type": "string", "description": "a name for this client, by which its open waits are counted"}
}
"""For routes that wait as `Request.client`."""


class Public(Enum):
    """Who may read a route without the token and without a cookie."""

    NO = "nobody"
    LOOPBACK = "programs on the daemon's machine"
    WITH_CODE = "whoever has the one-time code that the route asks for"


class Route(NamedTuple):
    """One declared route."""

    method: str
    path: str
    handler: Handler
    text: str
    """What it does, in one sentence, for the documentation."""
    body: Schema | None
    """The JSON Schema of the body, or None for a route without one."""
    query: dict[str, Schema]
    """The query parameters, each with its JSON Schema."""
    answers: dict[int, str]
    """The statuses of this route, in addition to those that every route can have."""
    strangers: bool
    """Whether it needs no token under `--open`. The operations that it runs may still need one."""
    group: RouteGroup
    """Where the documentation lists it."""
    body_required: bool = False
    """Whether an empty body is refused."""
    headers: dict[str, Schema] = {}
    """The request headers that only some routes read, each with its JSON Schema."""
    required: tuple[str, ...] = ()
    """The query parameters and headers without which a request is refused."""
    content: dict[str, Schema] = ANY_JSON
    """The body of a successful answer: its content type, or each that it can have, with its JSON Schema."""
    error: Schema = ERROR
    """The JSON Schema of the body of the errors in `answers`."""
    browsers: bool = False
    """Whether a browser that is signed in may read it. Such a route must not change anything."""
    public: Public = Public.NO
    """Who may read it without the token and without a cookie."""
    acting: bool = False
    """Whether a browser that is signed in for acting may use it. It then runs operations as the owner would."""

    @property
    def words(self) -> list[str]:
        """The segments of the path. A segment in braces is a parameter."""
        return self.path.strip("/").split("/")


ROUTES: list[Route] = []


def route(
    method: str,
    path: str,
    text: str,
    *,
    group: RouteGroup,
    strangers: bool,
    body: Schema | None = None,
    body_required: bool = False,
    query: dict[str, Schema] | None = None,
    headers: dict[str, Schema] | None = None,
    required: tuple[str, ...] = (),
    answers: dict[int, str] | None = None,
    content: dict[str, Schema] = ANY_JSON,
    error: Schema = ERROR,
    browsers: bool = False,
    public: Public = Public.NO,
    acting: bool = False,
) -> Callable[[Handler], Handler]:
    """Declare a function as the handler of a route.

    `strangers` has no default, so that no route is opened to strangers by omission. `browsers` and `public` are for
    routes that are read with GET alone.
    """
    if method != "GET" and (browsers or public is not Public.NO):
        raise ValueError(f"{method} {path}: only GET can be read by browsers or without a token")

    def declare(handler: Handler) -> Handler:
        parts = (method, path, handler, text, body, query or {}, answers or {200: "done"})
        more = (body_required, headers or {}, required, content, error, browsers)
        ROUTES.append(Route(*parts, strangers, group, *more, public=public, acting=acting))
        return handler

    return declare


def groups(routes: Iterable[Route]) -> list[RouteGroup]:
    """The groups of routes, in the order of the documentation: the daemon's own first, then those of other packages."""
    found = {each.group.heading: each.group for each in routes}
    return [*OWN_GROUPS, *(found[name] for name in sorted(found) if found[name] not in OWN_GROUPS)]


class RouteTable:
    """Finds the route of a request: by its exact path, else segment by segment."""

    def __init__(self, routes: list[Route]) -> None:
        self._exact = {(each.method, each.path): each for each in routes if "{" not in each.path}
        self._others = [each for each in routes if "{" in each.path]
        self._all = routes

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route and the parameters in its path. Raises `Problem` 404 or 405."""
        found = self._exact.get((method, path))
        if found is not None:
            return found, {}
        for each in self._others:
            parameters = _match(each, path)
            if each.method == method and parameters is not None:
                return each, parameters
        allowed = sorted({each.method for each in self._all if each.path == path or _match(each, path) is not None})
        if not allowed:
            raise Problem(404, Invalid(f"no such route: {path[:100]!a}", hint="GET /docs lists all routes"))
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
