"""The OpenAPI document, generated from the table of routes and from the declared operations.

A route declares what it takes and answers; an operation declares its parameters and its result. This module adds what
they have in common: the form of an error, the statuses that any route can have, and the schemas of records. The
schema of a request allows all that the server accepts. A fuzzer that needs narrower schemas narrows them itself.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..limits import LONGEST_WAIT, MOST_IN_A_BATCH
from ..operations import description
from .routes import ONCE, ROUTES, Public, groups
from .routes import ref as _ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..operations.description import OperationDescription, RecordDescription
    from .routes import Route, Schema

ABOUT = (
    "The operations of a tiebreak board over HTTP. JSON-RPC runs each of them by its name (`x-operations` lists "
    "them), a stream tells what happens, and further routes speak the protocols of other programs. "
    "Each GET route also answers HEAD, and tells errors as a page to a client that accepts text/html."
)
EVERYWHERE = {
    400: "The request is wrong: the message says where.",
    401: "The token is missing or wrong.",
    403: "`Origin` is another site: its pages may not use this daemon.",
    405: "The path is known, the method is not; `Allow` lists those it has.",
    408: "The request did not arrive in time; there is no body.",
    413: "The body is too large.",
    415: "The body is not declared as `application/json`.",
    421: "`Host` is not a name of this daemon.",
    431: "Too many headers, or too large ones; there is no body.",
    503: "The board cannot be used now, or the daemon is shutting down: try again.",
}
"""The statuses that every route can have: those sent before a handler runs, and 503."""
_WITHOUT_BODY = (202, 204, 408, 431)
_HEADERS = {401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After", 503: "Retry-After"}


@cache
def document() -> Schema:
    """The whole document."""
    return described(ROUTES, description.operations())


def described(routes: Iterable[Route], operations: list[OperationDescription]) -> Schema:
    """These routes and these operations as an OpenAPI document."""
    routes = list(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in sorted(routes, key=lambda each: (each.path, each.method)):
        paths.setdefault(route.path, {})[route.method.lower()] = _route(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tiebreak",
            "version": __version__,
            "description": ABOUT,
            **_LICENSE_AND_CONTACT,
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": group.heading, "description": group.text} for group in groups(routes)],
        "paths": paths,
        "components": {
            "schemas": {**{each.name: _record(each) for each in description.records()}, **_messages(operations)},
            "responses": {
                str(status): _answer(status, text, _error_body(status)) for status, text in EVERYWHERE.items()
            },
            "securitySchemes": {"token": _TOKEN},
        },
        "x-operations": {each.name: _operation(each) for each in operations},
    }


_LICENSE_AND_CONTACT = {
    "license": {"name": "MIT License", "identifier": "MIT"},
    "contact": {"name": "The maintainers of tiebreak"},
}
_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "Over TCP. On the unix socket the kernel vouches for the user, and no token is needed.",
}


# ── Routes ───────────────────────────────────────────────────────────────────────────────────────────────────


def statuses(route: Route) -> dict[int, str]:
    """All statuses of a route, in order."""
    unknown = {404: "There is no such thing."} if "{" in route.path else {}
    return dict(sorted({**EVERYWHERE, **unknown, **route.answers}.items()))


def _route(route: Route) -> Schema:
    words = [word.strip("{}").replace(".", "").replace("-", "_") for word in route.words if word]
    made: Schema = {
        "operationId": "_".join([route.method.lower(), *words]),
        "summary": route.text,
        "description": _who(route),
        "tags": [route.group.heading],
        "parameters": _parameters(route),
        "responses": {str(status): _response(route, status, text) for status, text in statuses(route).items()},
    }
    if route.body is not None:
        content = {"application/json": {"schema": route.body}}
        made["requestBody"] = {"required": route.body_required, "content": content}
    if not route.strangers:
        made["x-strangers"] = False
    return made


def _who(route: Route) -> str:
    """Who may use a route, in words."""
    told = ["Needs no token under `--open`." if route.strangers else "Needs the token even under `--open`."]
    if route.public is not Public.NO:
        told.append(f"Can be read without a token by {route.public.value}.")
    if route.browsers:
        told.append("A browser that is signed in may read it.")
    return " ".join(told)


def _parameters(route: Route) -> list[Schema]:
    within = [word[1:-1] for word in route.words if word.startswith("{")]
    found: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in within
    ]
    for place, declared in (("query", route.query), ("header", route.headers)):
        for name, schema in declared.items():
            rest = {key: value for key, value in schema.items() if key != "description"}
            found.append({"name": name, "in": place, "schema": rest})
            if "description" in schema:
                found[-1]["description"] = schema["description"]
            if name in route.required:
                found[-1]["required"] = True
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
    if status == 400:  # sent by uvicorn, which calls no route then
        content["text/plain"] = {"schema": {"type": "string", "description": "what came was not even HTTP"}}
    return content


def _content(route: Route, status: int) -> Schema:
    """The content of a response: what the route declares if it succeeds, else an error."""
    if status in _WITHOUT_BODY:
        return {}
    if status < 400:
        return {kind: {"schema": schema} for kind, schema in route.content.items()}
    content = _error_body(status)
    if status in route.answers:
        content["application/json"] = {"schema": route.error}
    return content


# ── Operations ───────────────────────────────────────────────────────────────────────────────────────────────


def _operation(operation: OperationDescription) -> Schema:
    return {
        "summary": operation.summary,
        "description": operation.text,
        "writes": operation.writes,
        "request": _ref(operation.name),
        "result": description.answer_schema(operation.returns, _ref),
    }


def params(operation: OperationDescription) -> Schema:
    """The JSON Schema of an operation's parameters."""
    found = {each.name: each.schema for each in operation.parameters}
    needed = [each.name for each in operation.parameters if each.required or each.filled]
    if not operation.writes:
        found["wait_ms"] = {"type": "integer", "minimum": 0, "maximum": int(LONGEST_WAIT * 1000), "default": 0}
    return {"type": "object", "properties": found, "required": needed, "additionalProperties": False}


def _record(record: RecordDescription) -> Schema:
    shapes = {name: description.answer_schema(kind, _ref) for name, kind in record.fields.items()}
    return {"type": "object", "description": record.text, "properties": shapes, "required": list(shapes)}


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────

_ID = {"type": ["string", "number", "null"], "description": "comes back with the answer; without it there is none"}
_ONCE = {**ONCE, "type": ["string", "null"]}
_TEXT = {"type": "string"}
_VERSION_2 = {"const": "2.0"}


def _messages(operations: list[OperationDescription]) -> dict[str, Schema]:
    """The schemas of requests and responses: one request for each operation, results and errors."""
    call = {"anyOf": [_ref(each.name) for each in operations]}
    batch = {
        "type": "array",
        "minItems": 1,
        "maxItems": MOST_IN_A_BATCH,
        "items": _ref("Call"),
        "description": "in one transaction where possible, if one of them writes",
    }
    return {
        **{each.name: _call(each) for each in operations},
        "Call": call,
        "Body": {"anyOf": [_ref("Call"), batch]},
        "Answer": {"oneOf": [_ref("Result"), _ref("Refusal")]},
        "Result": _object(jsonrpc=_VERSION_2, id=_ID, result={}),
        "OperationAnswer": {"oneOf": [_ref("OperationResult"), _ref("Refusal")]},
        "OperationResult": _object(jsonrpc=_VERSION_2, id=_ID, result=_any_result(operations)),
        "Refusal": _object(jsonrpc=_VERSION_2, id=_ID, error=_RPC_ERROR),
        "Error": {**_object(error=_ERROR_NAME, message=_TEXT), "description": "why not, and perhaps what to do"},
    }


def _any_result(operations: list[OperationDescription]) -> Schema:
    """The results of all operations, each schema once."""
    kinds = {each.returns.text: each.returns for each in operations}
    anything = {"type": ["object", "array"], "items": {}, "description": "JSON of the operation's own form"}
    shapes = [description.answer_schema(kinds[text], _ref) or anything for text in sorted(kinds)]
    return {"anyOf": shapes, "description": "`x-operations` tells which one an operation returns"}


def _call(operation: OperationDescription) -> Schema:
    once = {"once": _ONCE} if operation.writes else {}
    made = _object(jsonrpc=_VERSION_2, method={"const": operation.name}, params=params(operation))
    made["properties"].update({"id": _ID, **once})
    if not params(operation)["required"]:
        made["required"].remove("params")
        made["properties"]["params"] = {"anyOf": [params(operation), {"type": "null"}]}
    return {**made, "title": operation.name, "description": operation.text}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


_ERROR_NAME = {"type": "string", "enum": [each.name for each in description.error_kinds()]}
_RPC_ERROR = _object(code={"type": "integer"}, message=_TEXT)
_RPC_ERROR["properties"]["data"] = {
    **_object(error=_ERROR_NAME),
    "description": "the error's name, perhaps a hint, and the facts: who has it, until when, by which grant",
}
