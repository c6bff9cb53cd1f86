"""JSON-RPC 2.0 at `/rpc`: the method is the name of an operation, the parameters are its own.

Three things beside the specification: a member `once` in a request makes a write safe to repeat, a parameter
`wait_ms` makes a read wait for an answer that is not empty, and a batch is one transaction as soon as it writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import Invalid, Refused, TiebreakError
from ..limits import MAX_ONCE, MIN_ONCE, MOST_IN_A_BATCH
from ..model import encode
from ..names import shown
from ..operations import find
from .routes import Problem, Response, route
from .service import internal

if TYPE_CHECKING:
    from ..operations import Operation
    from .routes import Request
    from .service import Service

PARSE, REQUEST, METHOD, INTERNAL = -32700, -32600, -32601, -32603
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_REQUEST = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["string", "number", "null"]},
        "method": {"type": "string"},
        "params": {"type": ["object", "null"]},
        "once": {"type": ["string", "null"], "minLength": MIN_ONCE, "maxLength": MAX_ONCE},
    },
}
SCHEMA = {"oneOf": [_REQUEST, {"type": "array", "minItems": 1, "maxItems": MOST_IN_A_BATCH, "items": _REQUEST}]}


class Wrong(Exception):
    """A request that is not JSON-RPC, or that names no operation."""

    def __init__(self, code: int, message: str, number: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.number = number


@route(
    "POST",
    "/rpc",
    "Run one operation or a batch of them, as JSON-RPC 2.0.",
    body=SCHEMA,
    answers={
        200: "the answer, a refusal among them",
        204: "nothing to answer: notifications",
        400: "not JSON-RPC",
        429: "too many open waits",
    },
    strangers=True,
)
async def rpc(service: Service, request: Request) -> Response:
    """Answer a request or a batch."""
    try:
        message = parsed(request.body)
        _turn_ghosts_away(service, request, message)
        if type(message) is list:
            return await _batch(service, request, message)
        number, method, params, once = understood(message)
        once = _header_key(request) if once is None else once
    except Wrong as wrong:
        return Response(_encode(refused(wrong.number, wrong.code, str(wrong))), status=400)
    try:
        answer = _good(number, await service.run(_operation(method, number), params, once, request))
    except Wrong as wrong:
        answer = refused(number, wrong.code, str(wrong))
    except Problem:
        raise
    except Exception as exc:
        answer = failed(number, exc, request.id)
    return Response(_encode(answer)) if "id" in message else Response(status=204)


def _turn_ghosts_away(service: Service, request: Request, message: Any) -> None:
    """A try that arrives after a later one of the same call: nobody waits for its answer, so it must do nothing."""
    given = request.headers.get(b"tiebreak-try", b"1")
    number = int(given) if given.isdigit() and len(given) < 6 else 1
    if number == 1 and not service.tries:
        return
    for one in message if type(message) is list else [message]:
        key = one.get("once") if type(one) is dict else None
        if isinstance(key, str) and key and service.overtaken(f"{_project_of(one)}\n{key[:128]}", number):
            raise Problem(409, Refused("a later try of this call has come already"))


def _project_of(message: dict[str, Any]) -> str:
    """The project that a request names: a key belongs to one."""
    params = message.get("params")
    named = params.get("project") if type(params) is dict else None
    return named[:64] if isinstance(named, str) else ""


def parsed(body: bytes) -> Any:
    """The JSON in a body."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise Wrong(PARSE, f"not JSON: {exc}") from None


def _header_key(request: Request) -> str | None:
    given = request.headers.get(b"idempotency-key")
    return None if given is None else given.decode("latin-1")


async def _batch(service: Service, request: Request, messages: list[Any]) -> Response:
    """All in one transaction, if one of them writes; each answered by itself."""
    if not 1 <= len(messages) <= MOST_IN_A_BATCH:
        raise Wrong(REQUEST, f"a batch has 1 to {MOST_IN_A_BATCH} requests, this one has {len(messages)}")
    answers: list[Any] = [None] * len(messages)
    calls, places = [], []
    for i, message in enumerate(messages):
        try:
            number, method, params, once = understood(message)
            calls.append((_operation(method, number), _without_wait(params), once))
            places.append((i, number))
        except Wrong as wrong:
            answers[i] = refused(wrong.number, wrong.code, str(wrong))
        except TiebreakError as exc:
            answers[i] = failed(message.get("id"), exc, request.id)
    for (i, number), answer in zip(places, await _all(service, calls), strict=True):
        broken = isinstance(answer, BaseException)
        answers[i] = failed(number, answer, request.id) if broken else _good(number, answer)
    wanted = [a for a, m in zip(answers, messages, strict=True) if not isinstance(m, dict) or "id" in m]
    return Response(_encode(wanted)) if wanted else Response(status=204)


async def _all(service: Service, calls: list[Any]) -> list[Any]:
    if any(operation.writes for operation, _, _ in calls):
        try:
            return await service.write(calls)
        except TiebreakError as exc:
            return [exc] * len(calls)
    answers = []
    for operation, params, _ in calls:
        try:
            answers.append(await service.read(operation, params))
        except Problem:
            raise
        except Exception as exc:
            answers.append(exc)
    return answers


def _without_wait(params: dict[str, Any]) -> dict[str, Any]:
    if "wait_ms" in params:
        raise Invalid("wait_ms: not in a batch, whose answers come together")
    return params


def understood(message: Any) -> tuple[Any, str, dict[str, Any], str | None]:
    """The parts of one request; `Wrong` when it is none."""
    if type(message) is not dict:
        raise Wrong(REQUEST, f"a request is an object, got {shown(message)}")
    number = message.get("id")
    if isinstance(number, (dict, list, bool)):
        raise Wrong(REQUEST, "id: text, a number or null")
    if message.get("jsonrpc") != "2.0":
        raise Wrong(REQUEST, 'jsonrpc: must be "2.0"', number)
    method = message.get("method")
    if not isinstance(method, str):
        raise Wrong(REQUEST, "method: text is required", number)
    params = message.get("params")
    if params is None:
        params = {}
    elif type(params) is not dict:
        raise Wrong(REQUEST, "params: an object with the operation's parameters by name", number)
    return number, method, params, message.get("once")


def _operation(method: str, number: Any) -> Operation[..., Any]:
    try:
        return find(method)
    except Invalid as exc:
        raise Wrong(METHOD, exc.message, number) from None


def _good(number: Any, answer: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": encode(answer)}


def refused(number: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    """An answer that says no."""
    error = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": number, "error": error}


def failed(number: Any, error: BaseException, request: str) -> dict[str, Any]:
    """The answer for an operation that refused, with all its facts; a mistake of ours is logged and named so."""
    if not isinstance(error, TiebreakError):
        ours = internal(error, request)
        return refused(number, INTERNAL, ours.message, facts(ours))
    return refused(number, error.rpc_code, error.message, facts(error))


def facts(error: TiebreakError) -> dict[str, Any]:
    """What travels beside the message."""
    return {name: value for name, value in error.to_dict().items() if name != "message"}
