"""The OpenAPI document, made from the table of routes and from the declared operations, so that it forgets none.

A route tells its statuses, an operation its parameters and what it returns. What is added here is what they have in
common: the one form of an error, the statuses that come before any route is looked at, and the shapes of records.
"""

from __future__ import annotations

from functools import cache
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from .. import __version__, errors
from ..model import RECORDS
from ..names import MAX_LIST, PRIORITIES, RULES
from ..operations import every
from .routes import ROUTES, headings
from .rpc import MOST_IN_A_BATCH
from .service import LONGEST_WAIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..operations import Operation
    from .routes import Route

    Schema = dict[str, Any]

ABOUT = (
    "The operations of a tiebreak board over HTTP. `POST /rpc` runs each of them by its name (`x-operations` lists "
    "them), `GET /events` tells what happens, and what other programs expect is there beside them. "
    "Each GET can be asked with HEAD too."
)
ERRORS = tuple(
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.TiebreakError) and kind is not errors.TiebreakError
)
EVERYWHERE = {
    400: "The request is wrong: the message says where.",
    401: "The token is missing or wrong.",
    403: "A page of another site asks, and may not.",
    405: "The path is known, the method is not; `Allow` lists those it has.",
    408: "The request did not arrive in time; there is no body.",
    413: "The body is too large.",
    415: "The body is not declared as `application/json`.",
    421: "`Host` is not a name of this daemon.",
    431: "Too many headers, or too large ones; there is no body.",
    503: "The board cannot be used now, or the daemon is shutting down: try again.",
}
"""What every route can answer, before it is asked or when the board is gone."""
_WITHOUT_BODY = (202, 204, 408, 431)
_HEADERS = {401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After", 503: "Retry-After"}


@cache
def document() -> Schema:
    """The whole document."""
    return described(ROUTES, every().values())


def described(routes: Iterable[Route], operations: Iterable[Operation[..., Any]]) -> Schema:
    """These routes and these operations as an OpenAPI document."""
    routes, operations = list(routes), list(operations)
    paths: dict[str, dict[str, Any]] = {}
    for route in sorted(routes, key=lambda each: (each.path, each.method)):
        paths.setdefault(route.path, {})[route.method.lower()] = _of_route(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "tiebreak", "version": __version__, "description": ABOUT, "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": name} for name in headings(routes)],
        "paths": paths,
        "components": {
            "schemas": {**_records(), **_messages(operations)},
            "responses": {
                str(status): _answer(status, text, _error_body(status)) for status, text in EVERYWHERE.items()
            },
            "securitySchemes": {"token": _TOKEN},
        },
        "x-operations": {each.name: _of_operation(each) for each in operations},
    }


_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "Over TCP. On the unix socket the kernel vouches for the user, and no token is needed.",
}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


# ── Routes ───────────────────────────────────────────────────────────────────────────────────────────────────


def statuses(route: Route) -> dict[int, str]:
    """All that a route can answer, in order."""
    unknown = {404: "There is no such thing."} if "{" in route.path else {}
    return dict(sorted({**EVERYWHERE, **unknown, **route.answers}.items()))


def _of_route(route: Route) -> Schema:
    words = [word.strip("{}").replace(".", "").replace("-", "_") for word in route.words if word]
    made: Schema = {
        "operationId": "_".join([route.method.lower(), *words]),
        "summary": route.text,
        "tags": [route.group],
        "parameters": _parameters(route),
        "responses": {str(status): _response(route, status, text) for status, text in statuses(route).items()},
    }
    if route.body is not None:
        body = _ref("Body") if route.path == "/rpc" else route.body
        made["requestBody"] = {"required": route.path == "/rpc", "content": {"application/json": {"schema": body}}}
    if not route.strangers:
        made["x-strangers"] = False
        made["description"] = "Wants the token under `--open` too."
    return made


def _parameters(route: Route) -> list[Schema]:
    within = [word[1:-1] for word in route.words if word.startswith("{")]
    found: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in within
    ]
    for name, schema in route.query.items():
        rest = {key: value for key, value in schema.items() if key != "description"}
        found.append({"name": name, "in": "query", "schema": rest})
        if "description" in schema:
            found[-1]["description"] = schema["description"]
    return found


def _response(route: Route, status: int, text: str) -> Schema:
    if status not in route.answers and status in EVERYWHERE:
        return {"$ref": f"#/components/responses/{status}"}
    return _answer(status, text, _content(route, status))


def _answer(status: int, text: str, content: Schema) -> Schema:
    answer: Schema = {"description": text[:1].upper() + text[1:]}
    if status in _HEADERS:
        answer["headers"] = {_HEADERS[status]: {"schema": {"type": "string"}}}
    return {**answer, "content": content} if content else answer


def _error_body(status: int) -> Schema:
    if status in _WITHOUT_BODY:
        return {}
    content: Schema = {"application/json": {"schema": _ref("Error")}}
    if status == 400:  # from below all routes
        content["text/plain"] = {"schema": {"type": "string", "description": "what came was not even HTTP"}}
    return content


def _content(route: Route, status: int) -> Schema:
    """What comes with a status: as the table says, else an error or any JSON."""
    if status in _WITHOUT_BODY:
        return {}
    kind, schema = _BODIES.get((route.method, route.path), ("application/json", {}))
    if status < 400:
        return {kind: {"schema": schema}}
    content = _error_body(status)
    if status in route.answers and (schema is _ANSWERS or schema is _ANSWER):
        content["application/json"] = {"schema": {"anyOf": [_ref("Refusal"), _ref("Error")]}}
    return content


_ANSWERS = {"anyOf": [_ref("Answer"), {"type": "array", "minItems": 1, "items": _ref("Answer")}]}
_ANSWER = _ref("Answer")
_TEXT = {"type": "string"}
_BODIES: dict[tuple[str, str], tuple[str, Schema]] = {
    ("POST", "/rpc"): ("application/json", _ANSWERS),
    ("POST", "/"): ("application/json", _ANSWERS),
    ("POST", "/mcp"): ("application/json", _ANSWER),
    ("POST", "/a2a"): ("application/json", _ANSWER),
    ("GET", "/events"): ("text/event-stream", _TEXT),
    ("GET", "/metrics"): ("text/plain", _TEXT),
    ("GET", "/docs"): ("text/html", _TEXT),
    ("GET", "/backup"): ("application/vnd.sqlite3", {}),
    ("GET", "/openapi.json"): ("application/json", {"type": "object", "required": ["openapi", "info", "paths"]}),
    ("GET", "/health"): ("application/json", _ref("Health")),
    ("POST", "/doctor"): ("application/json", {"type": "array", "items": _ref("Finding")}),
}
"""What the good answers of a route are, where that is not just some JSON."""


# ── Operations ───────────────────────────────────────────────────────────────────────────────────────────────


def text_of(thing: Any) -> str:
    """What something says of itself, without the indentation of the source."""
    return cleandoc(thing.__doc__ or "")


def required(operation: Operation[..., Any], name: str) -> bool:
    """Whether a parameter must be given: an empty default stands for what only the caller can know."""
    return bool(operation.defaults.get(name, "") == "")


def _of_operation(operation: Operation[..., Any]) -> Schema:
    return {
        "summary": text_of(operation).partition("\n")[0],
        "description": text_of(operation),
        "writes": operation.writes,
        "request": _ref(operation.name),
        "result": result(operation.returns),
    }


def params(operation: Operation[..., Any]) -> Schema:
    """The JSON Schema of an operation's parameters."""
    found: dict[str, Schema] = {}
    for name, kind in operation.parameters.items():
        found[name] = _of_kind(kind)
        if not required(operation, name):
            found[name]["default"] = operation.defaults[name]
    needed = [name for name in found if required(operation, name)]
    if not operation.writes:
        found["wait_ms"] = {"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT, "default": 0}
    return {"type": "object", "properties": found, "required": needed, "additionalProperties": False}


_LABEL = "[A-Za-z0-9_][A-Za-z0-9._:/+@-]{0,63}"
_CLOSER: dict[str, Schema] = {
    "Name": {"minLength": 1},
    "Note": {"minLength": 1},
    "Text": {"minLength": 1},
    "Label": {"pattern": f"^{_LABEL}$"},
    "Project": {"pattern": f"^{_LABEL}$"},
    "AgentId": {"pattern": f"^{_LABEL}(~[A-Za-z0-9._-]{{1,64}})?$"},
    "Resource": {"pattern": f"^((lock|seat|pool):{_LABEL}|file:[A-Za-z0-9._*/-]+)$"},
    "Key": {"pattern": r"^[A-Za-z0-9._:/+@-]+$"},
    "Ref": {"pattern": r"^#?[A-Za-z0-9._:/+@-]+$", "minimum": 1, "maximum": 2**53},
    "Seconds": {"pattern": "^[0-9]{1,6}(ms|s|m|h|d|w)?$", "minimum": 0, "maximum": 315_360_000},
    "Lease": {"pattern": "^[0-9]{1,3}(s|m|h)$", "minimum": 1, "maximum": 604_800},
    "Number": {"maximum": 2**53},
    "Epoch": {"maximum": 2**53},
}
"""More than the rules say: what a program that makes up calls needs to make up sensible ones."""


def _of_kind(kind: str) -> Schema:
    if kind.endswith(" | None"):
        return {"anyOf": [_of_kind(kind[:-7]), {"type": "null"}]}
    if kind.startswith("list["):
        return {"type": "array", "maxItems": MAX_LIST, "items": _of_kind(kind[5:-1])}
    return {**RULES[kind].schema, **_CLOSER.get(kind, {}), "description": RULES[kind].doc}


def result(kind: str) -> Schema:
    """The JSON Schema of what an operation returns."""
    if kind.endswith(" | None"):
        return {"anyOf": [result(kind[:-7]), {"type": "null"}]}
    if kind.startswith("list["):
        return {"type": "array", "items": result(kind[5:-1])}
    return _ref(kind) if kind in RECORDS else dict(_FIELDS[kind])


_FIELDS: dict[str, Schema] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "Holder": {"type": "string"},
    "Time": {"type": "string", "format": "date-time"},
    "Priority": {"enum": list(PRIORITIES)},
    "Words": {"type": "array", "items": {"type": "string"}},
    "Json": {},
}


def fields(record: type) -> dict[str, str]:
    """What a record has on the wire: each field and its kind."""
    found = {}
    for name, kind in record.__annotations__.items():
        found[name] = kind
        if name in ("holder", "agent") and kind.startswith("Holder"):
            found["session"] = "str | None"
    return found


def _records() -> dict[str, Schema]:
    return {name: _of_record(record) for name, record in RECORDS.items()}


def _of_record(record: type) -> Schema:
    found = fields(record)
    shapes = {name: result(kind) for name, kind in found.items()}
    return {"type": "object", "description": text_of(record), "properties": shapes, "required": list(found)}


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────

_ID = {"type": ["string", "number", "null"], "description": "comes back with the answer; without it there is none"}
_ONCE = {
    "type": "string",
    "pattern": "^[ -~]{8,128}$",
    "description": "makes a write safe to repeat: the second time it is answered as the first time",
}
_TWO = {"const": "2.0"}


def _messages(operations: list[Operation[..., Any]]) -> dict[str, Schema]:
    """All bodies that are no records: each operation's request, and what the answers look like."""
    call = {"anyOf": [_ref(each.name) for each in operations]}
    batch = {"type": "array", "minItems": 1, "maxItems": MOST_IN_A_BATCH, "items": _ref("Call")}
    return {
        **{each.name: _call(each) for each in operations},
        "Call": call,
        "Body": {"anyOf": [_ref("Call"), {**batch, "description": "all in one transaction if one of them writes"}]},
        "Answer": {"oneOf": [_ref("Result"), _ref("Refusal")]},
        "Result": _object(jsonrpc=_TWO, id=_ID, result={}),
        "Refusal": _object(jsonrpc=_TWO, id=_ID, error=_RPC_ERROR),
        "Error": {**_object(error=_WHICH, message=_TEXT), "description": "why not, and perhaps what to do"},
        "Health": _object(healthy={"const": True}, written={"type": "number"}, up_seconds=_SOME, pid=_COUNT),
        "Finding": _object(level=_TEXT, what=_TEXT, details={}),
    }


def _call(operation: Operation[..., Any]) -> Schema:
    once = {"once": _ONCE} if operation.writes else {}
    made = _object(jsonrpc=_TWO, method={"const": operation.name}, params=params(operation))
    made["properties"].update({"id": _ID, **once})
    if not params(operation)["required"]:
        made["required"].remove("params")
    return {**made, "title": operation.name, "description": text_of(operation)}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


_SOME = {"type": "number", "minimum": 0}
_COUNT = {"type": "integer", "minimum": 1}
_WHICH = {"enum": [kind.__name__ for kind in ERRORS]}
_RPC_ERROR = _object(code={"type": "integer"}, message=_TEXT)
_RPC_ERROR["properties"]["data"] = {
    **_object(error=_WHICH),
    "description": "the error's name, perhaps a hint, and the facts: who has it, until when, by which grant",
}
