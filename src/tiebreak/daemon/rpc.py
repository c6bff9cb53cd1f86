"""JSON-RPC 2.0 at `POST /rpc`: each operation is a method of the same name with the same parameters.

Three extensions to the specification:

- The member `once` of a request is an idempotency key. It makes a write safe to repeat.
- The parameter `wait_ms` makes a read wait until its answer is not empty.
- A batch that contains a write runs in one transaction where the engine can (see `Engine.batch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import Invalid, Refused, TiebreakError
from ..limits import MAX_ONCE, MOST_IN_A_BATCH
from ..model import encode
from ..names import shown
from ..operations import find
from .advice import REQUESTS, body_of
from .routes import CLIENT_HEADER, ERROR, OPERATIONS, Problem, Response, ref, route
from .service import internal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..operations import Operation
    from .routes import Request, Schema
    from .service import Service

PARSE, REQUEST, METHOD, INTERNAL = -32700, -32600, -32601, -32603
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_HEADERS = {
    **CLIENT_HEADER,
    "Idempotency-Key": {"type": "string", "description": "`once`, for a single request that has no such member"},
    "Tiebreak-Try": {"type": "string", "description": "which try of the same call this is: 1, 2, …"},
}
ANSWERS = {
    200: "the answer, a refusal among them",
    204: "nothing to answer: notifications",
    400: "not JSON-RPC",
    429: "too many open waits",
}
"""The statuses of a route where JSON-RPC is spoken, also in batches."""
REFUSAL_OR_ERROR = {"anyOf": [ref("Refusal"), ERROR]}


def one_or_many(name: str) -> dict[str, Schema]:
    """The content of an answer to one request or to a batch: one such schema, or an array of them."""
    return {"application/json": {"anyOf": [ref(name), {"type": "array", "minItems": 1, "items": ref(name)}]}}


class RpcError(Exception):
    """A JSON-RPC error for a request that is malformed or names no operation."""

    def __init__(self, code: int, message: str, rpc_id: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.rpc_id = rpc_id


@route(
    "POST",
    "/rpc",
    "Run one operation or a batch of them, as JSON-RPC 2.0.",
    body=ref("Body"),
    body_required=True,
    headers=_HEADERS,
    answers={**ANSWERS, 409: "a later try of the same call has arrived already"},
    content=one_or_many("OperationAnswer"),
    error=REFUSAL_OR_ERROR,
    group=OPERATIONS,
    strangers=True,
)
async def rpc(service: Service, request: Request) -> Response:
    """Run one request or a batch."""
    try:
        message = parse_json(request.body)
        _refuse_superseded_try(service, request, message)
        if type(message) is list:
            return await _batch(service, request, message)
        rpc_id, method, params, once = parse_request(message)
        once = request.once if once is None else once
    except RpcError as exc:
        return Response(_encode(error_answer(exc.rpc_id, exc.code, str(exc))), status=400)
    try:
        answer = _result_answer(rpc_id, await service.run(_operation(method, rpc_id), params, once, request))
    except RpcError as exc:
        answer = error_answer(rpc_id, exc.code, str(exc))
    except Problem:
        raise
    except Exception as exc:
        answer = failure_answer(rpc_id, exc, request.id)
    return Response(_encode(answer)) if "id" in message else Response(status=204)


def _refuse_superseded_try(service: Service, request: Request, message: Any) -> None:
    """Raise `Problem` 409 for a try that arrives after a later try of the same call.

    The client has given up on the earlier try and no longer reads its answer, so it must not change anything.
    """
    given = request.headers.get(b"tiebreak-try", b"1")
    number = int(given) if given.isdigit() and len(given) < 6 else 1
    if number == 1 and not service.tries:
        return
    for one in message if type(message) is list else [message]:
        key = one.get("once") if type(one) is dict else None
        if isinstance(key, str) and key and service.superseded(f"{_project_of(one)}\n{key[:MAX_ONCE]}", number):
            raise Problem(409, Refused("a later try of this call has arrived already"))


def _project_of(message: dict[str, Any]) -> str:
    """The project that a request names. An idempotency key is unique within its project."""
    params = message.get("params")
    named = params.get("project") if type(params) is dict else None
    return named[:64] if isinstance(named, str) else ""


def parse_json(body: bytes) -> Any:
    """Decode a body. Raises `RpcError` when it is not JSON."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise RpcError(PARSE, f"not JSON: {exc}") from None


def parse_object(body: bytes) -> dict[str, Any]:
    """Decode the body of a route that takes an object or nothing. Raises `Invalid` if it is something else."""
    try:
        given = parse_json(body) if body else {}
    except RpcError as exc:
        raise Invalid(str(exc)) from None
    if not isinstance(given, dict):
        raise Invalid("the body must be a JSON object")
    return given


async def _batch(service: Service, request: Request, messages: list[Any]) -> Response:
    """Answer each request of a batch. If one of them writes, all run together, as one batch of the engine."""
    if not 1 <= len(messages) <= MOST_IN_A_BATCH:
        raise RpcError(REQUEST, f"a batch has 1 to {MOST_IN_A_BATCH} requests, this one has {len(messages)}")
    answers: list[Any] = [None] * len(messages)
    calls, places = [], []
    for i, message in enumerate(messages):
        try:
            rpc_id, method, params, once = parse_request(message)
            calls.append((_operation(method, rpc_id), _without_wait(params), once))
            places.append((i, rpc_id))
        except RpcError as exc:
            answers[i] = error_answer(exc.rpc_id, exc.code, str(exc))
        except TiebreakError as exc:
            answers[i] = failure_answer(message.get("id"), exc, request.id)
    for (i, rpc_id), answer in zip(places, await _all(service, calls), strict=True):
        broken = isinstance(answer, BaseException)
        answers[i] = failure_answer(rpc_id, answer, request.id) if broken else _result_answer(rpc_id, answer)
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
        raise Invalid("wait_ms: not allowed in a batch, because its answers are sent together")
    return params


def parse_request(message: Any) -> tuple[Any, str, dict[str, Any], str | None]:
    """Split one request into its id, method, parameters and key. Raises `RpcError` when it is malformed."""
    if type(message) is not dict:
        raise RpcError(REQUEST, f"a request is an object, got {shown(message)}")
    rpc_id = message.get("id")
    if isinstance(rpc_id, (dict, list, bool)):
        raise RpcError(REQUEST, "id: text, a number or null")
    if message.get("jsonrpc") != "2.0":
        raise RpcError(REQUEST, 'jsonrpc: must be "2.0"', rpc_id)
    method = message.get("method")
    if not isinstance(method, str):
        raise RpcError(REQUEST, "method: text is required", rpc_id)
    params = message.get("params")
    if params is None:
        params = {}
    elif type(params) is not dict:
        raise RpcError(REQUEST, "params: an object with the operation's parameters by name", rpc_id)
    return rpc_id, method, params, message.get("once")


def _operation(method: str, rpc_id: Any) -> Operation[..., Any]:
    try:
        return find(method)
    except Invalid as exc:
        raise RpcError(METHOD, exc.message, rpc_id) from None


def _result_answer(rpc_id: Any, answer: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": rpc_id, "result": encode(answer)}


def error_answer(rpc_id: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    """A JSON-RPC response with an error."""
    error = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": rpc_id, "error": error}


def failure_answer(
    rpc_id: Any, error: BaseException, request: str, words: Mapping[str, str] = REQUESTS
) -> dict[str, Any]:
    """The JSON-RPC response for an operation that raised. A bug in the daemon is logged and shown as internal error."""
    if not isinstance(error, TiebreakError):
        ours = internal(error, request)
        return error_answer(rpc_id, INTERNAL, ours.message, error_data(ours))
    return error_answer(rpc_id, error.rpc_code, error.message, error_data(error, words))


def error_data(error: TiebreakError, words: Mapping[str, str] = REQUESTS) -> dict[str, Any]:
    """The member `data` of an error: everything that the error knows except its message."""
    return {name: value for name, value in body_of(error, words).items() if name != "message"}
