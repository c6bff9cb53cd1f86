"""Workron's REST interface: `/jobs` and `/workers`. A job is a task of kind `job`; a worker is an agent.

Fencing: Workron's workers report with the id of the job only. There a worker that was presumed dead can end the run of
the worker that replaced it. Here the id in the answer to a claim is `ID~EPOCH`. A worker sends it back unchanged, as
Workron's workers do. A report with an old epoch is refused with 409 and kept as a late report. A worker may also use
the plain id together with `worker_id`, and name its grant by `epoch` or `attempt`. A plain id without `worker_id` is
refused.

Three more differences from Workron, on purpose:

- The next job is the one with the highest priority, then the oldest.
- A job fails when a job that it depends on fails.
- A worker that is silent for as long as its lease loses its job because its lease runs out, even while no daemon runs.

Every route under `/jobs` is closed to strangers (see `operations.strangers`), because these routes change jobs or show
command lines, which may contain secrets. The routes for workers do neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..daemon.routes import ONCE_HEADER, Response, RouteGroup, route
from ..errors import Fenced, Invalid, NotFound
from ..job_fields import written
from ..kinds import RULES
from ..limits import ATTEMPTS, JOB_LEASE, LISTED, MAX_ATTEMPTS, MAX_LABEL, MAX_LIST, MAX_TEXT
from ..model import encode, holder_id
from ..names import JOB, PRIORITIES, agent, shown
from .advice import WORKRON

if TYPE_CHECKING:
    from ..daemon.routes import Request
    from ..daemon.service import Service
    from ..model import Agent, Task

GROUP = RouteGroup("Workron protocol", "For clients and workers of Workron, unchanged.", WORKRON)
"""The heading of these routes in the documentation."""
NOBODY = "workron"
"""The agent that submits jobs, and that reports for a grant that nobody holds any more."""
MARK = "~"
"""Separates the id and the epoch in the id that a claim returns."""
PROGRAM = "worker"
"""The program name of agents that registered as workers."""
STATUSES = {
    "pending": ["pending"],
    "blocked": ["blocked"],
    "running": ["claimed"],
    "done": ["completed"],
    "failed": ["failed", "cancelled"],
}
_STATUS = {state: status for status, states in STATUSES.items() for state in states}
_NORMAL = PRIORITIES.index("normal")
_PROJECT = {"project": {**RULES["Project"].schema, "default": "default"}}
_WORKER = {"worker_id": {**RULES["AgentId"].schema, "description": "who reports"}}
_GRANT = {
    **_WORKER,
    "epoch": {**RULES["Epoch"].schema, "description": "the grant that is meant, as the claim told it"},
    "attempt": {**RULES["Number"].schema, "description": "the attempt that is meant, as the claim told it"},
}
_REASON = {"reason": {**RULES["Note"].schema, "description": "why it failed"}}
_STALE = "it is not this worker's job, or not any more"


class JobSubmission(msgspec.Struct):
    """The body of `POST /jobs`. Other fields that Workron's clients send are ignored."""

    command: str
    depends_on: list[str] | None = None
    priority: int | None = None
    queue_name: str | None = None
    max_retries: int | None = None


class WorkerRegistration(msgspec.Struct):
    """The body of `POST /workers/register`."""

    id: str


class JobReport(msgspec.Struct):
    """The body of a report: done, fail or heartbeat."""

    worker_id: str | None = None
    epoch: int | None = None
    attempt: int | None = None
    reason: str | None = None


_SUBMITTED = {
    "type": "object",
    "required": ["command"],
    "properties": {
        "command": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
        "depends_on": {"type": ["array", "null"], "maxItems": MAX_LIST, "items": {"type": "string"}},
        "priority": {"type": ["integer", "null"], "description": "below 0 low, 0 normal, 1 high, above urgent"},
        "queue_name": {"type": ["string", "null"], "maxLength": MAX_LABEL},
        "max_retries": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_ATTEMPTS},
    },
}


def _report_body(fields: dict[str, Any]) -> dict[str, Any]:
    """The schema of a report that has these fields in its body. There a field may also be null, unlike in a query."""
    properties = {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in fields.items()}
    return {"type": "object", "properties": properties}


_REGISTERED = {"type": "object", "required": ["id"], "properties": {"id": _WORKER["worker_id"]}}


# ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────────


@route(
    "POST",
    "/jobs",
    "Submit a job: a command for some worker to run.",
    body=_SUBMITTED,
    body_required=True,
    query=_PROJECT,
    headers=ONCE_HEADER,
    answers={201: "the job", 409: "a dependency has failed already"},
    group=GROUP,
    strangers=False,
)
async def submit(service: Service, request: Request) -> Response:
    """Submit a job. Retries have no backoff, as in Workron."""
    query = _query(request, _PROJECT)
    given = _read(request.body, JobSubmission)
    params = {
        "command": given.command,
        "agent": NOBODY,
        "project": query.get("project", "default"),
        "priority": PRIORITIES[max(0, min(_NORMAL + (given.priority or 0), len(PRIORITIES) - 1))],
        "queue": given.queue_name or "default",
        "max_attempts": ATTEMPTS if given.max_retries is None else given.max_retries,
        "after": [_split(each)[0] for each in given.depends_on or []],
        "backoff": 0.0,
    }
    try:
        task = await service.call("jobs.submit", params, once=request.once)
    except NotFound as missing:
        raise Invalid(f"depends_on: {missing.message}") from None
    return await _answer(service, task, 201)


@route(
    "GET",
    "/jobs",
    "List jobs, newest first.",
    query={
        **_PROJECT,
        "status": {"type": "string", "enum": list(STATUSES)},
        "queue_name": RULES["Label"].schema,
        "worker_id": RULES["AgentId"].schema,
        "before": {"type": "string", "description": "page on: only jobs older than the one with this id"},
        "limit": {**RULES["Limit"].schema, "default": LISTED},
    },
    answers={200: "an array of jobs", 404: "`before` names no job"},
    group=GROUP,
    strangers=False,
)
async def jobs(service: Service, request: Request) -> Response:
    """The jobs that match all filters."""
    query = _query(request, ("project", "status", "queue_name", "worker_id", "before", "limit"))
    status, project = query.get("status"), query.get("project", "default")
    if status is not None and status not in STATUSES:
        raise Invalid(f"status: one of {', '.join(STATUSES)}, got {shown(status)}")
    params = {
        "project": project,
        "kind": JOB,
        "states": STATUSES[status] if status else None,
        "queue": query.get("queue_name"),
        "agent": query.get("worker_id"),
        "before": (await _find(service, _split(query["before"])[0], project)).number if "before" in query else None,
        "limit": _integer(query, "limit", LISTED),
    }
    found = await service.call("tasks.list", params)
    return Response(msgspec.json.encode([await _job(service, task) for task in found]))


@route(
    "GET",
    "/jobs/next",
    "Claim the next job: highest priority first, then the oldest. "
    f"The claim lasts {JOB_LEASE:g} s unless heartbeats renew it.",
    query={**_WORKER, **_PROJECT, "queue_name": RULES["Label"].schema},
    headers=ONCE_HEADER,
    required=("worker_id",),
    answers={200: "the job, which is this worker's now", 204: "nothing to do"},
    group=GROUP,
    strangers=False,
)
async def claim(service: Service, request: Request) -> Response:
    """Claim the next job, or answer 204 if there is none."""
    query = _query(request, ("worker_id", "project", "queue_name"))
    params = {
        "agent": _who(query.get("worker_id")),
        "project": query.get("project", "default"),
        "queues": [query["queue_name"]] if "queue_name" in query else None,
        "lease": JOB_LEASE,
    }
    if request.method == "HEAD":  # without a body the client would not learn which job it claimed
        return Response(status=204)
    won = await service.call("jobs.next", params, once=request.once)
    if not won:
        return Response(status=204)
    told = await _job(service, await _find(service, won[0].id, won[0].project))
    return Response(msgspec.json.encode({**told, "id": f"{won[0].id}{MARK}{won[0].epoch}", "epoch": won[0].epoch}))


@route(
    "GET",
    "/jobs/{id}",
    "One job.",
    query=_PROJECT,
    answers={200: "the job", 404: "no such job"},
    group=GROUP,
    strangers=False,
)
async def job(service: Service, request: Request) -> Response:
    """One job, by its id."""
    query = _query(request, _PROJECT)
    ref, _ = _split(request.parameters["id"])
    return await _answer(service, await _find(service, ref, query.get("project", "default")))


@route(
    "POST",
    "/jobs/{id}/done",
    "Report that a job is done.",
    body=_report_body(_GRANT),
    query={**_PROJECT, **_GRANT},
    headers=ONCE_HEADER,
    answers={200: "the job, done", 404: "no such job", 409: _STALE},
    group=GROUP,
    strangers=False,
)
async def done(service: Service, request: Request) -> Response:
    """Complete the job. Jobs that depend on it may become ready."""
    return await _report(service, request, ok=True)


@route(
    "POST",
    "/jobs/{id}/fail",
    "Report that a job failed; it is pending again while retries are left.",
    body=_report_body({**_GRANT, **_REASON}),
    query={**_PROJECT, **_GRANT, **_REASON},
    headers=ONCE_HEADER,
    answers={200: "the job, pending or failed", 404: "no such job", 409: _STALE},
    group=GROUP,
    strangers=False,
)
async def fail(service: Service, request: Request) -> Response:
    """Fail the job. It is pending again while it has attempts left."""
    return await _report(service, request, ok=False)


@route(
    "POST",
    "/jobs/{id}/heartbeat",
    f"Renew the claim of a running job for another {JOB_LEASE:g} s.",
    body=_report_body(_GRANT),
    query={**_PROJECT, **_GRANT},
    headers=ONCE_HEADER,
    answers={200: "the job, running", 404: "no such job", 409: _STALE + ": stop working on it"},
    group=GROUP,
    strangers=False,
)
async def heartbeat(service: Service, request: Request) -> Response:
    """Renew the claim. A worker whose job was lost or cancelled gets 409."""
    task, worker, epoch, _ = await _parse_report(service, request)
    params = {"grants": [[task.number, epoch]], "agent": worker, "project": task.project, "lease": JOB_LEASE}
    gone = await service.call("jobs.heartbeat", params, once=request.once)
    if gone:
        raise await _fenced(service, task, f"it is {gone[0]['reason']}, and not this worker's any more")
    return await _answer(service, await _find(service, task.id, task.project))


async def _report(service: Service, request: Request, ok: bool) -> Response:
    """Record the outcome as the worker of the report, fenced by the epoch of its grant."""
    task, worker, epoch, reason = await _parse_report(service, request)
    if ok and reason is not None:
        raise Invalid("reason: only a failure has one")
    outcome = {"number": task.number, "epoch": epoch, "ok": ok, "reason": reason}
    params = {"outcomes": [outcome], "agent": worker, "project": task.project}
    [answer] = await service.call("jobs.report", params, once=request.once)
    if not answer["accepted"]:
        raise await _fenced(service, task, answer["reason"])
    return await _answer(service, await _find(service, task.id, task.project))


async def _parse_report(service: Service, request: Request) -> tuple[Task, str, int, str | None]:
    """The job, worker, epoch and reason of a report, from its path, query and body."""
    query = _query(request, ("project", "worker_id", "epoch", "attempt", "reason"))
    said = _read(request.body, JobReport)
    ref, token = _split(request.parameters["id"])
    worker = _agreed("worker_id", query.get("worker_id"), said.worker_id)
    epoch = _agreed("epoch", _agreed("epoch", _integer(query, "epoch"), said.epoch), token)
    attempt = _agreed("attempt", _integer(query, "attempt"), said.attempt)
    reason = _agreed("reason", query.get("reason"), said.reason)
    if worker is None and token is None:
        raise Invalid("worker_id: required (which worker?)", hint="or use the id that the claim told, ID~EPOCH")
    task = await _find(service, ref, query.get("project", "default"))
    if attempt is not None:
        epoch = _of_attempt(task, attempt, epoch)
    if worker is None:
        worker = holder_id(task) if task.epoch == epoch else None
    if not (epoch or task.epoch):
        raise await _fenced(service, task, "nobody has claimed it yet")
    return task, _who(worker or NOBODY), epoch or task.epoch, reason


def _split(id: str) -> tuple[str, int | None]:
    """Split an id into the id of the job and the epoch, which is None in a plain id."""
    ref, mark, epoch = id.partition(MARK)
    if not mark:
        return id, None
    if not (epoch.isascii() and epoch.isdecimal()) or len(epoch) > 15 or not int(epoch):
        raise Invalid(f"id: {shown(id)} names no grant", hint="ID, or ID~EPOCH as the claim told it")
    return ref, int(epoch)


async def _fenced(service: Service, task: Task, why: str) -> Fenced:
    """The error for a report whose grant is not the current one."""
    now = await _find(service, task.id, task.project)
    return Fenced(why, hint="stop working on it", holder=now.holder, epoch=now.epoch, state=now.state)


def _of_attempt(task: Task, attempt: int, epoch: int | None) -> int:
    """The epoch of an attempt. Both come from one row, so the epoch still fences the write that follows."""
    if task.attempts != attempt or epoch not in (None, 0, task.epoch):
        raise Fenced(
            f"attempt {attempt} is not the current one ({task.attempts}), nothing was written",
            hint="stop working on it",
            holder=task.holder,
            epoch=task.epoch,
        )
    return task.epoch


async def _find(service: Service, ref: str, project: str) -> Task:
    task: Task = await service.call("tasks.get", {"ref": ref, "project": project})
    if task.kind != JOB:
        raise NotFound(f"no job {shown(ref)} in project {project}")
    return task


async def _answer(service: Service, task: Task, status: int = 200) -> Response:
    return Response(msgspec.json.encode(await _job(service, task)), status=status)


async def _job(service: Service, task: Task) -> dict[str, Any]:
    """A job in Workron's form, with its epoch in addition."""
    times = encode(task)
    before = await service.call("tasks.after", {"ref": task.id, "project": task.project})
    return {
        "id": task.id,
        "command": "" if task.command is None else written(task.command),
        "status": _STATUS[task.state],
        "created_at": times["created_at"],
        "started_at": times["claimed_at"],
        "done_at": times["finished_at"],
        "max_retries": task.max_attempts,
        "attempts": task.attempts,
        "depends_on": [each.id for each in before],
        "priority": PRIORITIES.index(task.priority) - _NORMAL,
        "queue_name": task.queue,
        "worker_id": holder_id(task),
        "epoch": task.epoch,
    }


# ── Workers ──────────────────────────────────────────────────────────────────────────────────────────


@route(
    "POST",
    "/workers/register",
    "Register a worker.",
    body=_REGISTERED,
    body_required=True,
    query=_PROJECT,
    headers=ONCE_HEADER,
    answers={201: "the worker"},
    group=GROUP,
    strangers=True,
)
async def register(service: Service, request: Request) -> Response:
    """Register a worker. It may register again at any time."""
    query = _query(request, _PROJECT)
    params = {"agent": _who(_read(request.body, WorkerRegistration).id), "project": query.get("project", "default")}
    found = await service.call("agents.announce", {**params, "program": PROGRAM}, once=request.once)
    return Response(msgspec.json.encode(_worker(found, found.seen_at)), status=201)


@route(
    "POST",
    "/workers/{id}/heartbeat",
    "Report that a worker is alive.",
    body={"type": "object"},
    query=_PROJECT,
    answers={200: "the worker", 404: "no such worker: it has to register"},
    group=GROUP,
    strangers=True,
)
async def alive(service: Service, request: Request) -> Response:
    """Record that the worker is alive. This renews no claims: each job has its own heartbeat."""
    query = _query(request, _PROJECT)
    _read(request.body, dict)
    who, project = agent(request.parameters["id"], "id"), query.get("project", "default")
    known = await service.call("agents.list", {"project": project, "agent": who})
    if not any(each.id == who and each.program == PROGRAM for each in known):
        raise NotFound(f"no worker {shown(who)} in project {project}", hint="POST /workers/register first")
    found = await service.call("agents.heartbeat", {"agent": who, "project": project})
    return Response(msgspec.json.encode(_worker(found, found.seen_at)))


@route(
    "GET",
    "/workers",
    "List the workers, most recently seen first.",
    query=_PROJECT,
    answers={200: "an array"},
    group=GROUP,
    strangers=True,
)
async def workers(service: Service, request: Request) -> Response:
    """The agents that registered as workers."""
    query = _query(request, _PROJECT)
    known = await service.call("agents.list", {"project": query.get("project", "default")})
    now = await service.call("upkeep.now", {})
    return Response(msgspec.json.encode([_worker(each, now) for each in known if each.program == PROGRAM]))


def _worker(found: Agent, now: float) -> dict[str, Any]:
    """A worker in Workron's form. The board stores no addresses, resources or tags of workers."""
    times = encode(found)
    here = found.status != "gone" and now - found.seen_at <= JOB_LEASE
    return {
        "id": found.id,
        "exec_addr": "",
        "resources": {},
        "tags": [],
        "status": "active" if here else "offline",
        "last_heartbeat": times["seen_at"],
        "registered_at": times["joined_at"],
    }


# ── Reading requests ─────────────────────────────────────────────────────────────────────────────────


def _read(body: bytes, kind: Any) -> Any:
    """Decode the body as this type. An empty body is an empty object."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise Invalid(f"invalid body: {exc}") from None


def _query(request: Request, known: Any) -> dict[str, str]:
    found = request.query()
    for name in found:
        if name not in known:
            raise Invalid(f"unknown parameter {shown(name)}", hint=f"there are: {', '.join(known)}")
    return found


def _integer(query: dict[str, str], name: str, default: int | None = None) -> int | None:
    given = query.get(name)
    if given is None:
        return default
    if not (given.isascii() and given.isdecimal()) or len(given) > 16:
        raise Invalid(f"{name}: expected a whole number, got {shown(given)}")
    return int(given)


def _agreed(name: str, first: Any, second: Any) -> Any:
    """The value, which may be given in several places. Raises `Invalid` when they differ."""
    if first is not None and second is not None and first != second:
        raise Invalid(f"{name}: given twice, as {shown(first)} and {shown(second)}")
    return second if first is None else first


def _who(worker: str | None) -> str:
    """The name of the worker, checked."""
    if not worker:
        raise Invalid("worker_id: required (which worker?)")
    return agent(worker, "worker_id")
