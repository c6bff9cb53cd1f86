"""coord's protocol: its JSON-RPC at `POST /` and its agent card at `GET /.well-known/agent.json`.

Method names, parameters and answers have coord's form. The behaviour is that of tiebreak's operations: only the holder
extends or completes a claim, finished tasks stay finished, and the server filters and wakes waits. Every refusal is
coord's conflict error, -32001, and its `data` names the kind of refusal.

As at `/rpc`, the member `once` of a request makes a write safe to repeat. coord's own clients do not send it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from .. import __version__
from ..daemon.routes import CLIENT_HEADER, Problem, Response, RouteGroup, route
from ..daemon.rpc import (
    ANSWERS,
    METHOD,
    REFUSAL_OR_ERROR,
    REQUEST,
    RpcError,
    error_answer,
    error_data,
    failure_answer,
    one_or_many,
    parse_json,
    parse_request,
)
from ..daemon.security import result_or_raise
from ..daemon.service import WAIT_MS
from ..errors import Invalid, NotFound, Refused
from ..limits import MAX_ATTEMPTS, MAX_LIMIT, MAX_ONCE, MIN_ONCE, MOST_IN_A_BATCH, SHOWN
from ..model import encode, holder_id
from ..names import is_uuid, shown
from ..operations import find
from .advice import COORD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..daemon.routes import Request
    from ..daemon.service import Service
    from ..model import Agent, Task

GROUP = RouteGroup("coord protocol", "For clients of coord, unchanged.", COORD)
"""The heading of these routes in the documentation."""
CONFLICT = -32001
PROJECT = "default"
NOBODY = "coord"
"""The agent that posts and cancels when the request names none. coord's clients need not name one."""
SPELLINGS = {
    "agentId": "agent_id",
    "leaseSeconds": "lease_seconds",
    "postAck": "post_ack",
    "ackName": "ack_name",
    "ackPriority": "ack_priority",
    "ackPayload": "ack_payload",
    "nameContains": "name_contains",
    "waitMs": "wait_ms",
}
"""coord's parameters: the spelling of its JSON-RPC, and the spelling of its tools. Both are accepted."""
_encode = msgspec.json.Encoder().encode
_ONCE = (
    f"makes a write safe to repeat: {MIN_ONCE} to {MAX_ONCE} printable ASCII characters. Reads, agents/heartbeat and "
    "tasks/reclaim ignore it."
)
_REQUEST = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["string", "number", "null"]},
        "method": {"type": "string"},
        "params": {"type": ["object", "null"]},
        "once": {"description": _ONCE},
    },
}
_BATCH = {"type": "array", "minItems": 1, "maxItems": MOST_IN_A_BATCH, "items": _REQUEST}


class CoordCall(NamedTuple):
    """A parsed request, with what its method needs to answer it."""

    service: Service
    params: dict[str, Any]
    once: str | None
    request: Request | None
    """None in a batch, where no request may wait."""

    @property
    def project(self) -> Any:
        """The project. coord has no projects, so its clients get the default one."""
        return self.params.get("project", PROJECT)

    @property
    def task(self) -> str:
        """The id of the task. A key is refused, because claiming an unknown key would post a new task."""
        given = self.params.get("id")
        if not isinstance(given, str) or not is_uuid(given):
            raise Invalid(f"id: expected the UUID of a task, got {shown(given)}")
        return given

    @property
    def agent(self) -> Any:
        """The agent, for methods that need to know it."""
        if "agent_id" not in self.params:
            raise Invalid("agentId: required", hint="a claim is extended and completed by its holder alone")
        return self.params["agent_id"]

    def given(self, **names: str) -> dict[str, Any]:
        """The parameters that the request has, under the names of the operation."""
        return {ours: self.params[theirs] for ours, theirs in names.items() if theirs in self.params}

    async def run(self, operation: str, **params: Any) -> Any:
        """Run an operation in the project of this request."""
        return await self.service.call(operation, {"project": self.project, **params}, request=self.request)

    async def write(self, operation: str, **params: Any) -> Any:
        """Run the main operation of this request, with its idempotency key."""
        return await self.service.call(operation, {"project": self.project, **params}, once=self.once)


METHODS: dict[str, Callable[[CoordCall], Awaitable[Any]]] = {}
TITLES: dict[str, str] = {}


def method(
    name: str, title: str
) -> Callable[[Callable[[CoordCall], Awaitable[Any]]], Callable[[CoordCall], Awaitable[Any]]]:
    """Declare a function as a method of the protocol. The agent card lists it."""

    def declare(function: Callable[[CoordCall], Awaitable[Any]]) -> Callable[[CoordCall], Awaitable[Any]]:
        METHODS[name], TITLES[name] = function, title
        return function

    return declare


# ── Routes ───────────────────────────────────────────────────────────────────────────────────────────


@route(
    "POST",
    "/",
    "coord's JSON-RPC: tasks/send, get, list, claim, extend, complete, cancel, reclaim; agents/heartbeat, list.",
    body={"oneOf": [_REQUEST, _BATCH]},
    body_required=True,
    headers=CLIENT_HEADER,
    answers=ANSWERS,
    content=one_or_many("Answer"),
    error=REFUSAL_OR_ERROR,
    group=GROUP,
    strangers=True,
)
async def coord(service: Service, request: Request) -> Response:
    """Run one request, or the requests of a batch in their order."""
    try:
        message = parse_json(request.body)
        if type(message) is not list:
            request_parts = parse_request(message)
            answer: Any = await _answer(service, request, *request_parts)
            return Response(_encode(answer)) if "id" in message else Response(status=204)
        if not 1 <= len(message) <= MOST_IN_A_BATCH:
            raise RpcError(REQUEST, f"a batch has 1 to {MOST_IN_A_BATCH} requests, this one has {len(message)}")
    except RpcError as exc:
        return Response(_encode(error_answer(exc.rpc_id, exc.code, str(exc))), status=400)
    answers = [(each, await _batch_answer(service, request, each)) for each in message]
    wanted = [answer for each, answer in answers if not isinstance(each, dict) or "id" in each]
    return Response(_encode(wanted)) if wanted else Response(status=204)


async def _batch_answer(service: Service, request: Request, message: Any) -> dict[str, Any]:
    try:
        request_parts = parse_request(message)
    except RpcError as exc:
        return error_answer(exc.rpc_id, exc.code, str(exc))
    return await _answer(service, request, *request_parts, alone=False)


async def _answer(
    service: Service,
    request: Request,
    rpc_id: Any,
    name: str,
    given: dict[str, Any],
    once: str | None,
    alone: bool = True,
) -> dict[str, Any]:
    if name not in METHODS:
        return error_answer(rpc_id, METHOD, f"method not found: {shown(name)}")
    params = {SPELLINGS.get(key, key): value for key, value in given.items() if value is not None}
    try:
        result = await METHODS[name](CoordCall(service, params, once, request if alone else None))
    except Problem:
        raise
    except Refused as exc:
        return error_answer(rpc_id, CONFLICT, exc.message, error_data(exc, COORD))
    except Exception as exc:
        return failure_answer(rpc_id, exc, request.id, COORD)
    return {"jsonrpc": "2.0", "id": rpc_id, "result": result}


@route(
    "GET",
    "/.well-known/agent.json",
    "coord's agent card: what this server is and what it can do.",
    group=GROUP,
    strangers=True,
)
async def card(service: Service, request: Request) -> Response:
    """The agent card: the same for every client."""
    capabilities = {"streaming": False, "pushNotifications": False, "longPoll": True, "leasedClaims": True}
    facts = {
        "name": "tiebreak",
        "version": __version__,
        "description": "When several agents reach for the same thing, exactly one wins. Speaks coord's JSON-RPC.",
        "url": "/",
        "capabilities": capabilities,
        "skills": [{"id": name, "name": title} for name, title in TITLES.items()],
    }
    return Response(_encode(facts))


# ── Tasks ────────────────────────────────────────────────────────────────────────────────────────────


@method("tasks/send", "Post a task")
async def send(call: CoordCall) -> Any:
    """Post a task. coord does not count attempts, so the task gets many: lapsed claims should not fail it."""
    given = call.given(name="name", kind="kind", priority="priority", payload="payload")
    agent = call.params.get("agent_id", NOBODY)
    return _task(await call.write("tasks.post", agent=agent, max_attempts=MAX_ATTEMPTS, **given))


@method("tasks/get", "Show a task")
async def get(call: CoordCall) -> Any:
    """The task, or null if there is none."""
    try:
        return _task(await call.run("tasks.get", ref=call.task))
    except NotFound:
        return None


@method("tasks/list", "List tasks, or wait for one that matches")
async def listing(call: CoordCall) -> Any:
    """Matching tasks, newest first. With `wait_ms`, an empty list waits for the first match."""
    given = call.given(kind="kind", priority="priority", name_contains="name_contains", wait_ms="wait_ms")
    if "state" in call.params:
        given["states"] = [call.params["state"]]
    if "wait_ms" in given and call.request is None:
        raise Invalid("wait_ms: not allowed in a batch, because its answers are sent together")
    if "wait_ms" in given:
        given["wait_ms"] = _at_most(WAIT_MS, given["wait_ms"])
    found = await call.run("tasks.list", limit=_at_most(MAX_LIMIT, call.params.get("limit", SHOWN)), **given)
    return [_task(task) for task in found]


@method("tasks/claim", "Win a task for the length of a lease")
async def claim(call: CoordCall) -> Any:
    """Claim a task. If another agent holds it, the error names that agent."""
    return _task(await call.write("tasks.claim", ref=call.task, agent=call.agent, create=False, **_lease(call)))


@method("tasks/extend", "Keep a claim for another lease")
async def extend(call: CoordCall) -> Any:
    """Renew a claim. Only its holder may."""
    task = await call.write("tasks.extend", ref=call.task, agent=call.agent, **_lease(call))
    return {"ok": True, "lease_until": encode(task)["until"]}


@method("tasks/complete", "Finish a claimed task, perhaps with an announcement")
async def complete(call: CoordCall) -> Any:
    """Complete a claimed task. Only its holder may.

    The announcement is posted in the same transaction and has the id of the task in its payload.
    """
    params = {"ref": call.task, "agent": call.agent, "project": call.project, **call.given(result="result")}
    if not call.params.get("post_ack"):
        await call.write("tasks.complete", **params)
        return {"ok": True, "ack": None}
    params |= {"ack": call.params["post_ack"], "ack_priority": call.params.get("ack_priority", "high")}
    params |= {"ack_payload": _linked(call.params.get("ack_payload"), call.task), **call.given(ack_name="ack_name")}
    about = {"about": call.task, "kind": "ack", "limit": 1, "project": None}
    _, acks = await _together(call.service, ("tasks.complete", params, call.once), ("tasks.list", about, None))
    return {"ok": True, "ack": _task(acks[0])}


@method("tasks/cancel", "Call a task off")
async def cancel(call: CoordCall) -> Any:
    """Cancel a task. A finished task stays as it is."""
    await call.write("tasks.cancel", ref=call.task, agent=call.params.get("agent_id", NOBODY))
    return {"ok": True}


@method("tasks/reclaim", "Return lapsed claims to the board")
async def reclaim(call: CoordCall) -> Any:
    """Record lapsed claims now, and list their tasks. Not needed for correctness: a claim takes over lapsed ones."""
    sweep = ("tasks.sweep", {"project": call.project}, None)
    before, count = await _together(call.service, ("events.last", {}, None), sweep)
    if not count:
        return []
    lapses = await call.run("events.read", after=before, event="task.expired", limit=MAX_LIMIT)
    return [_task(await call.run("tasks.get", ref=subject)) for subject in dict.fromkeys(e.subject for e in lapses)]


async def _together(service: Service, *calls: tuple[str, dict[str, Any], str | None]) -> list[Any]:
    """Run operations in one transaction, or raise the first refusal."""
    answers = await service.write([(find(name), params, once) for name, params, once in calls])
    return [result_or_raise(answer) for answer in answers]


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────


@method("agents/heartbeat", "Give a sign of life")
async def heartbeat(call: CoordCall) -> Any:
    """Record that an agent is alive. Only a new name is announced, so other heartbeats leave no event."""
    agent = call.params.get("id", call.params.get("agent_id", ""))
    known = await call.run("agents.heartbeat", agent=agent)
    if "name" in call.params and call.params["name"] != known.program:
        await call.run("agents.announce", agent=agent, program=call.params["name"])
    return {"ok": True}


@method("agents/list", "List who is here")
async def agents(call: CoordCall) -> Any:
    """All agents, the most recently seen first."""
    found = await call.run("agents.list")
    claimed = await call.run("tasks.list", states=["claimed"], limit=MAX_LIMIT)
    tasks = {holder_id(task): task.id for task in reversed(claimed)}
    return [_agent(agent, tasks.get(agent.id)) for agent in found if agent.id != NOBODY]


# ── Shapes ───────────────────────────────────────────────────────────────────────────────────────────


def _task(task: Task) -> dict[str, Any]:
    """A task in coord's form. `claimed_at` and `lease_until` are left out when nobody holds the task."""
    encoded = encode(task)
    holder = holder_id(task)
    names = ("id", "name", "kind", "priority", "state", "payload", "result", "created_at", "updated_at")
    out = {**{name: encoded[name] for name in names}, "claimed_by": holder}
    if holder is not None and encoded["claimed_at"]:
        out["claimed_at"] = encoded["claimed_at"]
    if encoded["until"]:
        out["lease_until"] = encoded["until"]
    return out


def _agent(agent: Agent, task: str | None) -> dict[str, Any]:
    encoded = encode(agent)
    return {
        "id": agent.id,
        "name": agent.program or agent.id,
        "first_seen": encoded["joined_at"],
        "last_seen": encoded["seen_at"],
        "current_task": task,
    }


def _lease(call: CoordCall) -> dict[str, Any]:
    """The requested lease. As in coord, 0 means one second."""
    given = call.given(lease="lease_seconds")
    return {"lease": 1} if given == {"lease": 0} and type(given["lease"]) is int else given


def _linked(payload: Any, task: str) -> Any:
    """Add the id of the task to the payload of an announcement, unless the payload has one."""
    if payload is None:
        return {"fixed_bug_id": task}
    return {"fixed_bug_id": task, **payload} if isinstance(payload, dict) else payload


def _at_most(limit: int, value: Any) -> Any:
    """Reduce a value to the limit, as coord does. The operation refuses what is not an integer."""
    return min(limit, value) if type(value) is int else value
