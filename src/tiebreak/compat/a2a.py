"""The Agent2Agent protocol (A2A 1.0): JSON-RPC at `POST /a2a`, and the agent card at `/.well-known/agent-card.json`.

To A2A clients the whole board is one agent that takes work. A message becomes a task that anybody on the board may
claim, and the result of the task becomes its artifact. `tenant`, or the header `Tiebreak-Project`, names the project.
Errors follow the specification: a JSON-RPC error with an `ErrorInfo` in `data`, and HTTP status 200.

Differences from the specification:

- A blocking call answers after one minute at the latest, with the task in its current state.
- A task accepts no second message.
- A list covers only the newest 1000 tasks.
"""

from __future__ import annotations

import asyncio
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from .. import __version__
from ..daemon.routes import CLIENT_HEADER, Problem, Request, Response, RouteGroup, ref, route
from ..daemon.rpc import (
    INTERNAL,
    METHOD,
    REFUSAL_OR_ERROR,
    RpcError,
    error_answer,
    parse_json,
    parse_request,
)
from ..daemon.service import internal
from ..errors import Invalid, NotFound, Refused, TiebreakError
from ..limits import LONGEST_WAIT, MAX_LIMIT, MAX_TITLE, STREAM_HEARTBEAT
from ..names import FINAL, is_uuid, shown
from ..operations import find
from ..text import parse_rfc3339, rfc3339

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ..daemon.service import Service
    from ..model import Task

GROUP = RouteGroup("A2A protocol", "For agents that speak A2A.")
"""The heading of these routes in the documentation."""
VERSION = "1.0"
NOBODY = "a2a"
"""The agent that posts and cancels when the header `Tiebreak-Agent` is missing."""
STATES = {
    "blocked": "TASK_STATE_SUBMITTED",
    "pending": "TASK_STATE_SUBMITTED",
    "claimed": "TASK_STATE_WORKING",
    "completed": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "cancelled": "TASK_STATE_CANCELED",
}
_OTHERS = ("UNSPECIFIED", "INPUT_REQUIRED", "REJECTED", "AUTH_REQUIRED")
_HEADERS = {
    **CLIENT_HEADER,
    "A2A-Version": {"type": "string", "pattern": rf"^{re.escape(VERSION)}(\.|$)"},
    "Tiebreak-Agent": {"type": "string", "description": f"who posts and cancels (default: `{NOBODY}`)"},
    "Tiebreak-Project": {"type": "string", "description": "the project, unless `tenant` names it (default: `default`)"},
}
_SSE = b"text/event-stream; charset=utf-8"
_encode = msgspec.json.Encoder().encode


class A2AError(Exception):
    """An error that A2A defines."""

    CODES = {
        "TASK_NOT_FOUND": -32001,
        "TASK_NOT_CANCELABLE": -32002,
        "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
        "UNSUPPORTED_OPERATION": -32004,
        "CONTENT_TYPE_NOT_SUPPORTED": -32005,
        "VERSION_NOT_SUPPORTED": -32009,
    }

    def __init__(self, reason: str, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.code = self.CODES[reason]
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}
        self.data = [{**info, "metadata": metadata} if metadata else info]


class A2ACall:
    """A parsed JSON-RPC call, with its project and agent."""

    def __init__(self, service: Service, request: Request, rpc_id: Any, params: dict[str, Any]) -> None:
        self.service, self.request, self.rpc_id, self.params = service, request, rpc_id, params
        header = request.headers.get
        given = params.get("tenant") or header(b"tiebreak-project", b"default").decode("latin-1")
        self.project = find("tasks.get").checked({"ref": "x", "project": given})["project"]
        self.agent = header(b"tiebreak-agent", NOBODY.encode()).decode("latin-1")

    async def task(self) -> Task:
        """The task that the parameter `id` names."""
        given = self.params.get("id")
        if not isinstance(given, str):
            raise Invalid(f"id: the id of a task is required, got {shown(given)}")
        return await self.found(given)

    async def found(self, given: str) -> Task:
        """A task of this project, by its id."""
        missing = A2AError("TASK_NOT_FOUND", "Task not found", taskId=given[:100])
        if not is_uuid(given):
            raise missing
        try:
            task: Task = await self.service.call("tasks.get", {"ref": given, "project": self.project})
        except NotFound:
            raise missing from None
        if task.project != await self.service.call("projects.resolve", {"project": self.project}):
            raise missing
        return task

    def integer(self, name: str, low: int, high: int, default: int | None, where: dict[str, Any] | None = None) -> Any:
        """An integer parameter within these bounds, or the default."""
        value = (self.params if where is None else where).get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Invalid(f"{name}: a whole number from {low} to {high}, got {shown(value)}")
        return value


# ── The routes ───────────────────────────────────────────────────────────────────────────────────────────────


@route(
    "GET",
    "/.well-known/agent-card.json",
    "The agent card of A2A: what this server is and what it can do.",
    group=GROUP,
    strangers=True,
)
async def card(service: Service, request: Request) -> Response:
    """The agent card of this board."""
    host = request.headers.get(b"host", b"localhost").decode("latin-1")
    modes = ["text/plain", "application/json"]
    skill = {
        "id": "board",
        "name": "Take work",
        "description": "Puts a task on a shared board, where exactly one of many agents claims and does it.",
        "tags": ["tasks", "coordination"],
    }
    return Response(
        _encode(
            {
                "name": "tiebreak",
                "description": "A board of tasks that parallel agents claim, one winner each.",
                "version": __version__,
                "supportedInterfaces": [
                    {"url": f"http://{host}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": VERSION}
                ],
                "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
                "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
                "securityRequirements": [{"schemes": {"token": {"list": []}}}],
                "defaultInputModes": modes,
                "defaultOutputModes": modes,
                "skills": [skill],
            }
        )
    )


@route(
    "POST",
    "/a2a",
    "A2A 1.0 by JSON-RPC: messages become tasks. The header `A2A-Version: 1.0` is required.",
    body={"type": "object", "description": "one JSON-RPC request"},
    body_required=True,
    headers=_HEADERS,
    required=("A2A-Version",),
    answers={200: "the answer, an error or a stream of answers", 400: "not JSON-RPC", 429: "too many open waits"},
    content={"application/json": ref("Answer"), "text/event-stream": {"type": "string"}},
    error=REFUSAL_OR_ERROR,
    group=GROUP,
    strangers=True,
)
async def a2a(service: Service, request: Request) -> Response:
    """Run one call. Errors are answered with HTTP 200, as A2A requires."""
    try:
        rpc_id, method, params, _ = parse_request(parse_json(request.body))
    except RpcError as exc:
        return Response(_encode(error_answer(exc.rpc_id, exc.code, str(exc))), status=400)
    try:
        _check_version(request)
        if method not in METHODS:
            raise _unknown(method)
        return await METHODS[method](A2ACall(service, request, rpc_id, params))
    except RpcError as exc:
        answer = error_answer(rpc_id, exc.code, str(exc))
    except A2AError as exc:
        answer = error_answer(rpc_id, exc.code, str(exc), exc.data)
    except Invalid as exc:
        answer = error_answer(rpc_id, Invalid.rpc_code, exc.message)
    except Problem:
        raise
    except TiebreakError as exc:
        answer = error_answer(rpc_id, INTERNAL, exc.message)
    except Exception as exc:
        answer = error_answer(rpc_id, INTERNAL, internal(exc, request.id).message)
    return Response(_encode(answer))


def _check_version(request: Request) -> None:
    # 0.3 is what the specification assumes without the header.
    given = request.headers.get(b"a2a-version", b"").decode("latin-1").strip() or "0.3"
    if given.split(".")[:2] != VERSION.split("."):
        raise A2AError("VERSION_NOT_SUPPORTED", f"A2A-Version: this agent speaks {VERSION}, not {given[:20]!a}")


def _unknown(method: str) -> Exception:
    if "PushNotificationConfig" in method:
        return A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", "this agent sends no push notifications")
    if method == "GetExtendedAgentCard":
        return A2AError("UNSUPPORTED_OPERATION", "this agent has no extended card")
    return RpcError(METHOD, f"no method {shown(method)}")


def _result(call: A2ACall, result: Any) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": call.rpc_id, "result": result})


# ── The methods ──────────────────────────────────────────────────────────────────────────────────────────────


async def _send(call: A2ACall) -> Response:
    """`SendMessage`: post a task, and wait for its end unless `returnImmediately` is set."""
    configuration = call.params.get("configuration")
    configuration = {} if configuration is None else configuration
    if not isinstance(configuration, dict):
        raise Invalid("configuration: an object is required")
    if configuration.get("taskPushNotificationConfig"):
        raise A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", "this agent sends no push notifications")
    history = call.integer("historyLength", 0, 1000, None, configuration)
    task = await _post(call)
    if not configuration.get("returnImmediately") and task.state not in FINAL:
        task = await _ended(call, task)
    return Response(_result(call, {"task": task_object(task, history)}))


async def _post(call: A2ACall) -> Task:
    message = _message(call.params.get("message"))
    if message.get("taskId"):
        known = await call.found(str(message["taskId"]))
        raise A2AError("UNSUPPORTED_OPERATION", "a task takes no further messages", taskId=known.id)
    key = _digest(call.project, call.agent, _encode(message).decode())
    context = message.setdefault("contextId", str(UUID(key)))
    posted: Task = await call.service.call(
        "tasks.post",
        {
            "name": _name(message),
            "payload": {"a2a": message},
            "tags": [_tag(context)],
            "agent": call.agent,
            "project": call.project,
        },
        once=f"a2a-{key}",  # the same message sent again is the same task
    )
    return posted


def _digest(*words: str) -> str:
    return blake2b("\0".join(words).encode(errors="replace"), digest_size=16).hexdigest()


def _message(given: Any) -> dict[str, Any]:
    """Check a message. Returns the fields that the task keeps."""
    if not isinstance(given, dict):
        raise Invalid("message: an object is required")
    for name in ("messageId", "contextId", "taskId"):
        value = given.get(name, "")
        if not isinstance(value, str) or len(value) > 200 or (name == "messageId" and not value):
            raise Invalid(f"message.{name}: text of at most 200 characters, got {shown(value)}")
    if given.get("role") not in ("ROLE_USER", "ROLE_AGENT"):
        raise Invalid(f"message.role: ROLE_USER is expected, got {shown(given.get('role'))}")
    parts = given.get("parts")
    if not isinstance(parts, list) or not parts:
        raise Invalid("message.parts: at least one part is required")
    for part in parts:
        _check_part(part)
    kept = ("messageId", "contextId", "taskId", "role", "parts", "metadata", "extensions", "referenceTaskIds")
    return {name: given[name] for name in kept if given.get(name)}


def _check_part(part: Any) -> None:
    if not isinstance(part, dict):
        raise Invalid(f"message.parts: a part is an object, got {shown(part)}")
    if "raw" in part or "url" in part:
        raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", "only text and data are taken, no files")
    if "data" not in part and not isinstance(part.get("text"), str):
        raise Invalid("message.parts: a part has text or data")


def _name(message: dict[str, Any]) -> str:
    """The name of the task: the beginning of the first text part, in one line."""
    texts = [part["text"] for part in message["parts"] if isinstance(part.get("text"), str)]
    words = "".join(c if c.isprintable() else " " for c in (texts or [""])[0][:1000]).split()
    return " ".join(words)[:MAX_TITLE].strip() or f"message {message['messageId'][:100].strip()!a}"


def _tag(context: str) -> str:
    return f"a2a:{_digest(context)}"


async def _ended(call: A2ACall, task: Task) -> Task:
    """Wait for the end of the task. Returns its current state when the time is up or the client disconnects."""
    get = find("tasks.get")
    params = {"ref": task.id, "project": call.project}

    def ask() -> Any:
        now = call.service.engine.run(get, params)
        return now if now.state in FINAL else None

    with call.service.waiters.slot(call.request.client):
        ended = await call.service.waiters.wait(ask, ("a2a", task.id), LONGEST_WAIT, call.request.gone)
    return ended or await call.found(task.id)


async def _get(call: A2ACall) -> Response:
    history = call.integer("historyLength", 0, 1000, None)
    return Response(_result(call, task_object(await call.task(), history)))


async def _list(call: A2ACall) -> Response:
    """`ListTasks`: a page of tasks, the most recently changed first."""
    size, after = call.integer("pageSize", 1, 100, 50), _cursor(call.params.get("pageToken"))
    history = call.integer("historyLength", 0, 1000, None)
    filters: dict[str, Any] = {"project": call.project, "limit": MAX_LIMIT}
    if call.params.get("contextId"):
        filters["tag"] = _tag(str(call.params["contextId"]))
    if call.params.get("status"):
        filters["states"] = _states(call.params["status"])
    since = call.params.get("statusTimestampAfter")
    earliest = parse_rfc3339(since) if isinstance(since, str) else 0.0
    found = [] if filters.get("states") == [] else await call.service.call("tasks.list", filters)
    found = sorted((t for t in found if t.updated_at >= earliest), key=_position, reverse=True)
    left = [t for t in found if _position(t) < after]
    page = left[:size]
    whole = bool(call.params.get("includeArtifacts"))
    answer = {
        "tasks": [task_object(task, history, artifacts=whole) for task in page],
        "nextPageToken": "{}.{}".format(*_position(page[-1])) if len(left) > size else "",
        "pageSize": size,
        "totalSize": len(found),
    }
    return Response(_result(call, answer))


def _position(task: Task) -> tuple[float, float]:
    return round(task.updated_at * 1_000_000), task.number


def _cursor(token: Any) -> tuple[float, float]:
    if not token:
        return float("inf"), float("inf")
    at, _, number = token.partition(".") if isinstance(token, str) else ("", "", "")
    if not (at.isascii() and at.isdigit() and number.isascii() and number.isdigit() and len(token) < 60):
        raise Invalid(f"pageToken: expected a value of nextPageToken, got {shown(token)}")
    return int(at), int(number)


def _states(status: Any) -> list[str]:
    known = [ours for ours, theirs in STATES.items() if theirs == status]
    if not known and status not in [f"TASK_STATE_{other}" for other in _OTHERS]:
        raise Invalid(f"status: a state of A2A 1.0, got {shown(status)}")
    return known


async def _cancel(call: A2ACall) -> Response:
    task = await call.task()
    try:
        if task.state in FINAL:
            raise Refused(f"it is {task.state}")
        params = {"ref": task.id, "project": call.project, "agent": call.agent, "reason": "cancelled by A2A"}
        task = await call.service.call("tasks.cancel", params)
    except Refused as exc:
        raise A2AError("TASK_NOT_CANCELABLE", f"Task cannot be canceled: {exc.message}", taskId=task.id) from None
    return Response(_result(call, task_object(task)))


async def _subscribe(call: A2ACall) -> Response:
    """`SubscribeToTask`: stream the changes of a task that has not ended."""
    seen = await call.service.call("events.last", {})
    task = await call.task()
    if task.state in FINAL:
        raise A2AError("UNSUPPORTED_OPERATION", f"the task has ended: it is {task.state}", taskId=task.id)
    slot = call.service.waiters.slot(call.request.client)
    return Response(type=_SSE, stream=_stream(call, task, seen, slot))


async def _send_and_stream(call: A2ACall) -> Response:
    seen = await call.service.call("events.last", {})
    task = await _post(call)
    slot = call.service.waiters.slot(call.request.client)
    return Response(type=_SSE, stream=_stream(call, task, seen, slot))


async def _stream(call: A2ACall, task: Task, seen: int, slot: Any) -> AsyncIterator[bytes]:
    """The task, then each change of its status, until it ends, the daemon stops or the client disconnects."""
    service, read = call.service, find("events.read")
    with slot:
        gone = asyncio.ensure_future(call.request.gone())
        try:
            yield _event(call, {"task": task_object(task)})
            while task.state not in FINAL and not gone.done() and not service.draining:
                params = read.checked({"after": seen, "subject": task.id, "project": call.project})
                found = await service.waiters.wait(
                    lambda params=params: service.engine.run(read, params),  # type: ignore[misc]
                    ("events.read", _encode(params)),
                    STREAM_HEARTBEAT,
                    lambda: asyncio.shield(gone),
                )
                if not found:
                    yield b": still here\n\n"
                    continue
                seen, before = found[-1].number, task
                task = await call.found(task.id)
                for change in _changes(before, task):
                    yield _event(call, change)
        finally:
            gone.cancel()


def _event(call: A2ACall, result: Any) -> bytes:
    return b"data: " + _result(call, result) + b"\n\n"


def _changes(before: Task, task: Task) -> list[dict[str, Any]]:
    now = task_object(task)
    ids = {"taskId": task.id, "contextId": now["contextId"]}
    out: list[dict[str, Any]] = []
    if task.state in FINAL:
        out += [{"artifactUpdate": {**ids, "artifact": each, "lastChunk": True}} for each in now.get("artifacts", [])]
    if (task.state, task.epoch) != (before.state, before.epoch):
        out.append({"statusUpdate": {**ids, "status": now["status"]}})
    return out


METHODS: dict[str, Callable[[A2ACall], Awaitable[Response]]] = {
    "SendMessage": _send,
    "SendStreamingMessage": _send_and_stream,
    "GetTask": _get,
    "ListTasks": _list,
    "CancelTask": _cancel,
    "SubscribeToTask": _subscribe,
}


# ── Shapes ───────────────────────────────────────────────────────────────────────────────────────────────────


def task_object(task: Task, history: int | None = None, *, artifacts: bool = True) -> dict[str, Any]:
    """A task in the form of A2A, whether or not it was posted through A2A."""
    payload = task.payload if isinstance(task.payload, dict) else {}
    message = payload.get("a2a") if isinstance(payload.get("a2a"), dict) else None
    context = str((message or {}).get("contextId") or task.id)
    made: dict[str, Any] = {"id": task.id, "contextId": context, "status": _status(task, context)}
    if artifacts and task.state == "completed" and task.result is not None:
        part = {"text": task.result} if isinstance(task.result, str) else {"data": task.result}
        made["artifacts"] = [{"artifactId": "result", "name": "result", "parts": [part]}]
    if history != 0:
        sent = message or {"messageId": task.id, "role": "ROLE_USER", "parts": [{"text": task.name}]}
        made["history"] = [{**sent, "contextId": context, "taskId": task.id}]
    return made


def _status(task: Task, context: str) -> dict[str, Any]:
    status: dict[str, Any] = {"state": STATES[task.state], "timestamp": rfc3339(task.updated_at)}
    if task.reason and task.state in ("failed", "cancelled"):
        status["message"] = {
            "messageId": f"{task.id}-{task.epoch}",
            "role": "ROLE_AGENT",
            "parts": [{"text": task.reason}],
            "contextId": context,
            "taskId": task.id,
        }
    return status
