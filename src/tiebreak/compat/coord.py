"""coord's protocol: its JSON-RPC at `/` and its card at `/.well-known/agent.json`.

Only names and shapes are coord's; what happens is what our operations do. So a claim is extended and completed by
its holder alone, what is finished stays finished, and a wait is filtered and woken by the server. Every refusal is
coord's conflict, -32001; `data` tells which one.

`once` in a request makes a write safe to repeat, as at `/rpc`; coord's own clients do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from .. import __version__
from ..daemon.routes import Problem, Response, route
from ..daemon.rpc import (
    METHOD,
    MOST_IN_A_BATCH,
    REQUEST,
    SCHEMA,
    RpcError,
    error_answer,
    error_data,
    failure_answer,
    parse_json,
    parse_request,
)
from ..daemon.security import result_or_raise
from ..daemon.service import LONGEST_WAIT
from ..errors import Invalid, NotFound, Refused
from ..model import encode, holder_id
from ..names import is_uuid, shown
from ..operations import find

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..daemon.routes import Request
    from ..daemon.service import Service
    from ..model import Agent, Task

GROUP = "coord protocol"
"""The heading of these routes in the documentation."""
CONFLICT = -32001
PROJECT = "default"
NOBODY = "coord"
"""Who posts and cancels when the client does not say: coord does not ask."""
MOST = 1000
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
"""coord's parameters, as its wire and as its tools write them; null is the same as not given."""
_encode = msgspec.json.Encoder().encode


class CoordCall(NamedTuple):
    """One request that was parse_request, and what is needed to answer it."""

    service: Service
    params: dict[str, Any]
    once: str | None
    request: Request | None
    """None in a batch, whose answers come together."""

    @property
    def project(self) -> Any:
        """The namespace that is meant; coord has one for each daemon."""
        return self.params.get("project", PROJECT)

    @property
    def task(self) -> str:
        """The task that is meant. coord knows ids only, so a key that is unknown is never posted by mistake."""
        given = self.params.get("id")
        if not isinstance(given, str) or not is_uuid(given):
            raise Invalid(f"id: expected the UUID of a task, got {shown(given)}")
        return given

    @property
    def agent(self) -> Any:
        """Who acts, where that decides."""
        if "agent_id" not in self.params:
            raise Invalid("agentId: required", hint="a claim is extended and completed by its holder alone")
        return self.params["agent_id"]

    def given(self, **names: str) -> dict[str, Any]:
        """The parameters that are there, under the operation's own names."""
        return {ours: self.params[theirs] for ours, theirs in names.items() if theirs in self.params}

    async def run(self, operation: str, **params: Any) -> Any:
        """Run an operation in this request's project."""
        return await self.service.call(operation, {"project": self.project, **params}, request=self.request)

    async def write(self, operation: str, **params: Any) -> Any:
        """Run the one operation that this request is about; it may be repeated with the same `once`."""
        return await self.service.call(operation, {"project": self.project, **params}, once=self.once)


METHODS: dict[str, Callable[[CoordCall], Awaitable[Any]]] = {}
TITLES: dict[str, str] = {}


def method(
    name: str, title: str
) -> Callable[[Callable[[CoordCall], Awaitable[Any]]], Callable[[CoordCall], Awaitable[Any]]]:
    """Declare a function as a method of the protocol; the card lists it."""

    def declare(function: Callable[[CoordCall], Awaitable[Any]]) -> Callable[[CoordCall], Awaitable[Any]]:
        METHODS[name], TITLES[name] = function, title
        return function

    return declare


# ── Routes ───────────────────────────────────────────────────────────────────────────────────────────


@route(
    "POST",
    "/",
    "Speak coord's JSON-RPC: tasks/send, get, list, claim, extend, complete, cancel, reclaim; agents/heartbeat, list.",
    body=SCHEMA,
    answers={
        200: "the answer, a refusal among them",
        204: "nothing to answer: notifications",
        400: "not JSON-RPC",
        429: "too many open waits",
    },
    group=GROUP,
    strangers=True,
)
async def coord(service: Service, request: Request) -> Response:
    """Answer a request, or a batch in the order of its requests."""
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
    answers = [(each, await _one_of_many(service, request, each)) for each in message]
    wanted = [answer for each, answer in answers if not isinstance(each, dict) or "id" in each]
    return Response(_encode(wanted)) if wanted else Response(status=204)


async def _one_of_many(service: Service, request: Request, message: Any) -> dict[str, Any]:
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
        return error_answer(rpc_id, CONFLICT, exc.message, error_data(exc))
    except Exception as exc:
        return failure_answer(rpc_id, exc, request.id)
    return {"jsonrpc": "2.0", "id": rpc_id, "result": result}


@route(
    "GET", "/.well-known/agent.json", "coord's card: who answers here, and what it can do.", group=GROUP, strangers=True
)
async def card(service: Service, request: Request) -> Response:
    """The same for everybody who may ask at all."""
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
    """Attempts are not counted by coord, so a lapsed claim never ends a task that came this way."""
    given = call.given(name="name", kind="kind", priority="priority", payload="payload")
    agent = call.params.get("agent_id", NOBODY)
    return _task(await call.write("tasks.post", agent=agent, max_attempts=MOST, **given))


@method("tasks/get", "Show a task")
async def get(call: CoordCall) -> Any:
    """Null when there is none."""
    try:
        return _task(await call.run("tasks.get", ref=call.task))
    except NotFound:
        return None


@method("tasks/list", "List tasks, or wait for one that matches")
async def listing(call: CoordCall) -> Any:
    """Newest first. With `wait_ms` and nothing to show, the answer comes with the first match, or empty."""
    given = call.given(kind="kind", priority="priority", name_contains="name_contains", wait_ms="wait_ms")
    if "state" in call.params:
        given["states"] = [call.params["state"]]
    if "wait_ms" in given and call.request is None:
        raise Invalid("wait_ms: not in a batch, whose answers come together")
    if "wait_ms" in given:
        given["wait_ms"] = _at_most(LONGEST_WAIT, given["wait_ms"])
    found = await call.run("tasks.list", limit=_at_most(MOST, call.params.get("limit", 50)), **given)
    return [_task(task) for task in found]


@method("tasks/claim", "Win a task for the length of a lease")
async def claim(call: CoordCall) -> Any:
    """One wins; the others learn who."""
    return _task(await call.write("tasks.claim", ref=call.task, agent=call.agent, create=False, **_lease(call)))


@method("tasks/extend", "Keep a claim for another lease")
async def extend(call: CoordCall) -> Any:
    """For the holder alone."""
    task = await call.write("tasks.extend", ref=call.task, agent=call.agent, **_lease(call))
    return {"ok": True, "lease_until": encode(task)["until"]}


@method("tasks/complete", "Finish a claimed task, perhaps with an announcement")
async def complete(call: CoordCall) -> Any:
    """For the holder alone. The announcement is posted in the same transaction, and links back to the task."""
    params = {"ref": call.task, "agent": call.agent, "project": call.project, **call.given(result="result")}
    if not call.params.get("post_ack"):
        await call.write("tasks.complete", **params)
        return {"ok": True, "ack": None}
    params |= {"ack": call.params["post_ack"], "ack_priority": call.params.get("ack_priority", "high")}
    params |= {"ack_payload": _linked(call.params.get("ack_payload"), call.task), **call.given(ack_name="ack_name")}
    about = {"about": call.task, "kind": "ack", "limit": 1, "project": None}
    _, acks = await _together(call.service, ("tasks.complete", params, call.once), ("tasks.list", about, None))
    return {"ok": True, "ack": _task(acks[0])}


@method("tasks/cancel", "CoordCall a task off")
async def cancel(call: CoordCall) -> Any:
    """What is finished stays finished."""
    await call.write("tasks.cancel", ref=call.task, agent=call.params.get("agent_id", NOBODY))
    return {"ok": True}


@method("tasks/reclaim", "Return lapsed claims to the board")
async def reclaim(call: CoordCall) -> Any:
    """The tasks whose claims were written down as lapsed by this request; nothing depends on it."""
    sweep = ("tasks.sweep", {"project": call.project}, None)
    before, count = await _together(call.service, ("events.last", {}, None), sweep)
    if not count:
        return []
    lapses = await call.run("events.read", after=before, event="task.expired", limit=MOST)
    return [_task(await call.run("tasks.get", ref=subject)) for subject in dict.fromkeys(e.subject for e in lapses)]


async def _together(service: Service, *calls: tuple[str, dict[str, Any], str | None]) -> list[Any]:
    """Run operations in one transaction; raises the first refusal."""
    answers = await service.write([(find(name), params, once) for name, params, once in calls])
    return [result_or_raise(answer) for answer in answers]


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────


@method("agents/heartbeat", "Give a sign of life")
async def heartbeat(call: CoordCall) -> Any:
    """A name is announced when it is new, so that a heartbeat leaves no event."""
    agent = call.params.get("id", call.params.get("agent_id", ""))
    known = await call.run("agents.heartbeat", agent=agent)
    if "name" in call.params and call.params["name"] != known.program:
        await call.run("agents.announce", agent=agent, program=call.params["name"])
    return {"ok": True}


@method("agents/list", "List who is here")
async def agents(call: CoordCall) -> Any:
    """Most recently seen first."""
    found = await call.run("agents.list")
    claimed = await call.run("tasks.list", states=["claimed"], limit=MOST)
    tasks = {holder_id(task): task.id for task in reversed(claimed)}
    return [_agent(agent, tasks.get(agent.id)) for agent in found if agent.id != NOBODY]


# ── Shapes ───────────────────────────────────────────────────────────────────────────────────────────


def _task(task: Task) -> dict[str, Any]:
    """A task as coord shows it: who has it and until when only while somebody has it."""
    shown = encode(task)
    holder = holder_id(task)
    names = ("id", "name", "kind", "priority", "state", "payload", "result", "created_at", "updated_at")
    out = {**{name: shown[name] for name in names}, "claimed_by": holder}
    if holder is not None and shown["claimed_at"]:
        out["claimed_at"] = shown["claimed_at"]
    if shown["until"]:
        out["lease_until"] = shown["until"]
    return out


def _agent(agent: Agent, task: str | None) -> dict[str, Any]:
    shown = encode(agent)
    return {
        "id": agent.id,
        "name": agent.program or agent.id,
        "first_seen": shown["joined_at"],
        "last_seen": shown["seen_at"],
        "current_task": task,
    }


def _lease(call: CoordCall) -> dict[str, Any]:
    """The shortest lease of coord is a second, and who asks for 0 gets that."""
    given = call.given(lease="lease_seconds")
    return {"lease": 1} if given == {"lease": 0} and type(given["lease"]) is int else given


def _linked(payload: Any, task: str) -> Any:
    """An announcement says which task it is about, unless its author has."""
    if payload is None:
        return {"fixed_bug_id": task}
    return {"fixed_bug_id": task, **payload} if isinstance(payload, dict) else payload


def _at_most(limit: int, value: Any) -> Any:
    """Too much is cut, as coord does; what is no rpc_id at all is refused by the operation."""
    return min(limit, value) if type(value) is int else value
