"""Jobs: tasks that carry a command, and the operations of the workers that run them.

A job differs from other tasks only in what it carries (`command`, `settings`, a limit), and in that workers win, renew
and report jobs in batches, with one statement for a whole batch. The task's row is authoritative here too, and the
fence is the same: holder and epoch. A report whose epoch has passed changes nothing. What it said is stored in an event
(`job.orphaned`).

`settings` may hold secrets. Only the worker that wins the job gets them as they are. `jobs.inspect` masks what looks
secret, and no event, list or task record contains them.
"""

from __future__ import annotations

from ..clock import SECOND, micros
from ..errors import Invalid, NotFound, Refused
from ..job_fields import callee, masked, title
from ..limits import ATTEMPTS, BACKOFF, JOB_LEASE, MAX_NOTE
from ..model import Job, Task, columns, record
from ..names import FINAL, JOB, json_text
from . import in_its_project, keys_scope, operation
from .claims import COMPLETED, KEPT, complete_task, fail_task, release
from .events import append
from .expiry import end_of, update_dependents
from .grants import MINE_EACH, closing, keeping, remembering
from .picking import Filters, shared_queues_scope, win
from .references import FINISHED, STATE, by_key, called, find, lookup
from .rows import given, listed
from .tasks import add, keys_scope_if_keyed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import (
        AgentId,
        Attempts,
        Bounds,
        CommandOrCall,
        Count,
        Environ,
        Folder,
        GroupLimit,
        Json,
        Key,
        Label,
        Lasting,
        Lease,
        Moment,
        Name,
        NumberAndEpoch,
        Outcome,
        Priority,
        Project,
        Ref,
        Seconds,
        Size,
    )
    from . import Scope, Transaction
    from .expiry import Ended

_JOB = columns(Job)
_WON = f"{_JOB}, priority"
_ENDED = "number, id, project, name, kind, priority, epoch"


# ── Submitting ───────────────────────────────────────────────────────────────────────────────────────


@operation("jobs.submit", writes=True, strangers=False, scopes=keys_scope_if_keyed)
def submit(
    tx: Transaction,
    *,
    command: CommandOrCall,
    name: Name | None = None,
    agent: AgentId = "",
    project: Project = "",
    queue: Label = "default",
    priority: Priority = "normal",
    payload: Json | None = None,
    after: list[Ref] = [],  # noqa: B006  (never changed; a tuple would not be JSON)
    run_anyway: bool = False,
    key: Key | None = None,
    unique_for: Seconds | None = None,
    delay: Seconds = 0.0,
    at: Moment | None = None,
    max_attempts: Attempts = ATTEMPTS,
    backoff: Seconds = BACKOFF,
    tags: list[Label] = [],  # noqa: B006
    env: Environ = {},  # noqa: B006
    cwd: Folder | None = None,
    timeout: Lasting | None = None,
    grace: Seconds | None = None,
    limits: Bounds = {},  # noqa: B006
    cap: Size | None = None,
    limit: GroupLimit | None = None,
) -> Task:
    """Put a job on the board: a task of kind `job` with a command for a worker to run.

    If a job with the same key exists, that job is returned instead. With `unique_for`, this is so only while that job
    is open or younger than this; an older finished job loses its key to the new one. `limit` (`GROUP=N`) lets at most N
    jobs of a group be claimed at once. `env`, `cwd`, `timeout`, `grace`, `limits` and `cap` are passed to the worker.
    """
    if unique_for is not None and key is None:
        raise Invalid("unique_for: needs a key to tell which jobs are the same")
    known = None if key is None else by_key(tx, key, project)
    if known is not None and known.kind != JOB:
        raise Refused(f"key {key} belongs to #{known.number}, which is no job", hint="submit the job by another key")
    if known is not None and not _free_key(tx, known, unique_for):
        return by_key(tx, known.key or "", project) or known  # another call may have freed and reused the key just now
    settings = {"env": env, "cwd": cwd, "timeout": timeout, "grace": grace, "limits": limits, "cap": cap}
    settings = {name: value for name, value in settings.items() if value not in (None, {})}
    group, _, size = (limit or "=0").partition("=")
    due = max(tx.now + micros(delay) if delay else 0, micros(at) if at is not None else 0)
    return add(
        tx,
        after=after,
        agent=agent,
        project=project,
        kind=JOB,
        name=name or title(command),
        key=key,
        queue=queue,
        priority=priority,
        payload=json_text(payload),
        max_attempts=max_attempts,
        backoff=backoff,
        ready_at=due if due > tx.now else 0,
        run_anyway=run_anyway,
        tags=tags,
        about=None,
        command=json_text(command, "command"),
        callee=callee(command),
        settings=json_text(settings or None, "settings"),
        limit_group=group or None,
        limit_size=int(size),
    )


def _free_key(tx: Transaction, known: Task, unique_for: float | None) -> bool:
    """Free the key of an old job if the job is finished; the key keeps its epoch."""
    if unique_for is None or known.state not in FINAL or tx.now - micros(known.created_at) < micros(unique_for):
        return False
    this = {"number": known.number, "key": known.key}
    over = "number = :number AND key = :key AND finished_at > 0"
    if tx.first(f"SELECT number FROM tasks WHERE {over} {{lock}}", **this) is None:
        return False
    tx.all(remembering(over), **this)
    tx.all(f"UPDATE tasks SET key = NULL WHERE {over}", **this)
    return True


def _keys_scope_if_any_keyed(params: dict[str, Any]) -> list[Scope]:
    keyed = any(isinstance(job, dict) and job.get("key") is not None for job in params["jobs"])
    return [keys_scope(params["project"])] if keyed else []


@operation("jobs.submit_many", writes=True, strangers=False, scopes=_keys_scope_if_any_keyed)
def submit_many(tx: Transaction, *, jobs: list[Json], agent: AgentId = "", project: Project = "") -> list[Task]:
    """Put several jobs on the board, all or none; each is an object with the parameters of `jobs.submit`."""
    checked = []
    for i, job in enumerate(jobs):
        if not isinstance(job, dict):
            raise Invalid(f"jobs[{i}]: expected an object with the parameters of jobs.submit")
        try:
            checked.append(submit.checked({"agent": agent, "project": project, **job}))
        except Invalid as exc:
            raise Invalid(f"jobs[{i}]: {exc.message}", hint=exc.own_hint, reason=exc.reason) from None
    return [submit(tx, **in_its_project(tx, submit, params)) for params in checked]


# ── Working ──────────────────────────────────────────────────────────────────────────────────────────


def _restore_settings(tx: Transaction, jobs: list[dict[str, Any]]) -> None:
    """Put the settings back into a stored answer: they are stored with the task and nowhere else."""
    import json

    for job in jobs:
        row = tx.first(
            "SELECT settings FROM tasks WHERE number = :number AND id = :id", number=job["number"], id=job["id"]
        )
        job["settings"] = json.loads(row[0]) if row and row[0] else None


@operation(
    "jobs.next", writes=True, strangers=False, withheld=("settings", _restore_settings), scopes=shared_queues_scope
)
def next_jobs(
    tx: Transaction,
    *,
    agent: AgentId = "",
    project: Project = "",
    queues: list[Label] | None = None,
    tags: list[Label] | None = None,
    calls: list[Key] | None = None,
    commands: bool | None = None,
    count: Count = 1,
    lease: Lease = JOB_LEASE,
) -> list[Job]:
    """Win the next jobs, up to `count`, with all that is needed to run them: highest priority first, then oldest.

    With `calls`, only jobs that call one of these functions, and with `commands` also jobs that have a command; without
    `calls`, only jobs that have a command. With `tags`, only jobs that have one of them. Nothing is taken from a paused
    queue nor beyond a limit.
    """
    wanted = _wanted(project, queues, tags, calls, commands)
    if wanted is None:
        return []
    rows = win(tx, wanted, agent=agent, count=count, lease=lease, returning=_WON)
    rows.sort(key=lambda row: (-row[-1], row[0]))
    return [_record_grant(tx, row) for row in rows]


def _wanted(
    project: str, queues: list[str] | None, tags: list[str] | None, calls: list[str] | None, commands: bool | None
) -> Filters | None:
    """The jobs that a worker may run, from the parameters of `jobs.next`; None if there can be none."""
    callees = list(dict.fromkeys(calls or []))
    if commands or (commands is None and calls is None):
        callees.append("")
    if not callees or queues == [] or tags == []:
        return None
    queues = None if queues is None else list(dict.fromkeys(queues))
    return Filters(project, queues=queues, tags=tags, callees=callees)


@operation("jobs.next_retry", writes=False, strangers=False)
def next_retry(
    tx: Transaction,
    *,
    project: Project = "",
    queues: list[Label] | None = None,
    tags: list[Label] | None = None,
    calls: list[Key] | None = None,
    commands: bool | None = None,
) -> float | None:
    """Return in how many seconds the next retry is due among the jobs that `jobs.next` selects; None if there is none.

    A retry is a job that was tried, failed, and waits for its next attempt. Jobs that were never tried do not count,
    nor do jobs in a paused queue.
    """
    wanted = _wanted(project, queues, tags, calls, commands)
    if wanted is None:
        return None
    # A retry that is due counts until `jobs.next` has seen it: a caller that asks after a claim misses none.
    where, params = wanted.retries()
    row = tx.first(f"SELECT min(ready_at) FROM tasks WHERE {where}", **params)
    return max(0, row[0] - tx.now) / SECOND if row and row[0] is not None else None


_PLACE = {name: at for at, name in enumerate(_WON.split(", "))}


def _record_grant(tx: Transaction, row: tuple[Any, ...]) -> Job:
    """Write the event of a claim. A ready job has no holder, so there is no lapse to write."""
    append(
        tx,
        "task.claimed",
        row[_PLACE["project"]],
        subject=row[_PLACE["id"]],
        name=row[_PLACE["name"]],
        kind=JOB,
        state="claimed",
        priority=row[_PLACE["priority"]],
        agent=row[_PLACE["holder"]],
        epoch=row[_PLACE["epoch"]],
        until=row[_PLACE["until"]],
    )
    return record(Job, row[:-1])


@operation("jobs.heartbeat", writes=True, strangers=False)
def heartbeat(
    tx: Transaction,
    *,
    grants: list[NumberAndEpoch],
    agent: AgentId = "",
    project: Project = "",
    lease: Lease = JOB_LEASE,
) -> Json:
    """Renew all these claims for another lease, counted from now, and return those that are lost.

    Each lost claim is `{number, epoch, reason}`. The reason is the task's state (`pending`, `completed`, `failed`,
    `cancelled` …), `lost` if another agent has claimed it, or `gone` if it does not exist any more. Nothing changes
    hands, so this leaves no event.
    """
    held = set()
    for table, params in given(("n", "e"), sorted(grants)):
        rows = tx.all(
            keeping("tasks", _EACH, "number, epoch", KEPT, table, "given", MINE_EACH),
            agent=agent,
            lease=micros(lease),
            **params,
        )
        held.update(rows)
    return [_missing(tx, number, epoch, agent) for number, epoch in grants if (number, epoch) not in held]


_EACH = "number = given.n AND state = 'claimed'"


def _missing(tx: Transaction, number: int, epoch: int, agent: str) -> dict[str, Any]:
    row = tx.first(
        f"SELECT {STATE}, project, id, name, kind FROM tasks WHERE number = :number",
        number=number,
    )
    if row is None:
        return {"number": number, "epoch": epoch, "reason": "gone"}
    state, project, id_, name, kind = row
    tx.refuse("task.fenced", project=project, subject=id_, name=name, kind=kind, agent=agent, epoch=epoch, note=state)
    return {"number": number, "epoch": epoch, "reason": "lost" if state == "claimed" else state}


# ── Reporting ────────────────────────────────────────────────────────────────────────────────────────


@operation("jobs.report", writes=True, strangers=False)
def report(tx: Transaction, *, outcomes: list[Outcome], agent: AgentId = "", project: Project = "") -> Json:
    """Report the outcomes of several attempts; one answer for each: `{number, epoch, accepted, state, reason}`.

    Each outcome is fenced like `tasks.complete`, `tasks.fail` and, if it is `drained`, `tasks.release`. An outcome that
    comes too late is not applied. All that it said is stored in an event `job.orphaned`.
    """
    first: dict[int, int] = {}
    for i, outcome in enumerate(outcomes):
        if outcome["ok"] and not outcome["drained"]:
            first.setdefault(outcome["number"], i)
    together, ended = _complete(tx, [outcomes[i] for i in first.values()], agent)
    answers = []
    for i, outcome in enumerate(outcomes):
        if first.get(outcome["number"]) == i and (outcome["number"], outcome["epoch"]) in together:
            answers.append(_answer(outcome, "completed"))
        else:
            answers.append(_report_one(tx, outcome, agent, project, ended))
    update_dependents(tx, ended)
    return answers


def _answer(outcome: dict[str, Any], state: str | None, reason: str | None = None) -> dict[str, Any]:
    return {
        "number": outcome["number"],
        "epoch": outcome["epoch"],
        "accepted": reason is None,
        "state": state,
        "reason": reason,
    }


def _complete(tx: Transaction, outcomes: list[dict[str, Any]], agent: str) -> tuple[set[tuple[int, int]], list[Ended]]:
    """Complete those tasks that the fence lets pass; returns them by number and epoch, and as ended tasks."""
    by_result: dict[tuple[int, str | None], list[int]] = {}
    for outcome in outcomes:
        by_result.setdefault((outcome["epoch"], json_text(outcome["result"])), []).append(outcome["number"])
    complete = _complete_by_result if len(by_result) <= _FEW_RESULTS else _complete_each
    rows = complete(tx, by_result, agent)
    rows.sort()
    for _, id_, project, name, kind, priority, epoch in rows:
        append(
            tx,
            "task.completed",
            project,
            subject=id_,
            name=name,
            kind=kind,
            state="completed",
            priority=priority,
            agent=agent,
            epoch=epoch,
        )
    return {(row[0], row[-1]) for row in rows}, [(row[0], row[2], "completed") for row in rows]


_FEW_RESULTS = 3
"""Up to this many different results it is faster to run one statement for each result."""


def _complete_by_result(
    tx: Transaction, by_result: dict[tuple[int, str | None], list[int]], agent: str
) -> list[tuple[Any, ...]]:
    rows = []
    for (epoch, result), numbers in by_result.items():
        for these, params in listed("n", sorted(numbers)):
            rows += tx.all(
                closing("tasks", f"number IN ({these}) AND state = 'claimed'", _ENDED, COMPLETED),
                agent=agent,
                epoch=epoch,
                result=result,
                **params,
            )
    return rows


def _complete_each(
    tx: Transaction, by_result: dict[tuple[int, str | None], list[int]], agent: str
) -> list[tuple[Any, ...]]:
    rows = []
    ends = sorted((number, epoch, result) for (epoch, result), numbers in by_result.items() for number in numbers)
    for table, params in given(("n", "e", "r"), ends):
        also = f"state = 'completed', result = given.r, reason = NULL, {FINISHED}"
        rows += tx.all(
            closing("tasks", _EACH, _ENDED, also, table, "given", MINE_EACH),
            agent=agent,
            **params,
        )
    return rows


def _report_one(
    tx: Transaction, outcome: dict[str, Any], agent: str, project: str, ended: list[Ended]
) -> dict[str, Any]:
    """Write one outcome; if the task has ended, it is added to `ended`."""
    params = {"ref": f"#{outcome['number']}", "agent": agent, "project": project, "epoch": outcome["epoch"]}
    try:
        if outcome["drained"]:
            task = release(tx, **params, reason=outcome["reason"] or "its worker shuts down")
        elif outcome["ok"]:
            task = complete_task(tx, **params, result=outcome["result"])
        else:
            task = fail_task(tx, **params, reason=outcome["reason"], retry=outcome["retry"], result=outcome["result"])
    except (Refused, NotFound) as refusal:
        return _orphaned(tx, outcome, agent, project, refusal.message)
    if task.state in FINAL:
        ended.append(end_of(task))
    return _answer(outcome, task.state)


def _orphaned(tx: Transaction, outcome: dict[str, Any], agent: str, project: str, why: str) -> dict[str, Any]:
    """Store an outcome that came too late in an event, so that no work is lost without a trace."""
    task = lookup(tx, f"#{outcome['number']}", project)
    said = {name: outcome[name] for name in ("ok", "result", "reason", "retry", "drained")}
    append(
        tx,
        "job.orphaned",
        project if task is None else task.project,
        subject=None if task is None else task.id,
        name=None if task is None else task.name,
        kind=None if task is None else task.kind,
        state=None if task is None else task.state,
        agent=agent,
        epoch=outcome["epoch"],
        note=why[:MAX_NOTE],
        data={"number": outcome["number"], **said},
    )
    return _answer(outcome, None if task is None else task.state, why)


@operation("jobs.inspect", writes=False, strangers=False)
def inspect(tx: Transaction, *, ref: Ref, project: Project = "") -> Json:
    """Show how a job will run: its command, limit and settings. Values that look secret are masked."""
    task = find(tx, ref, project)
    [(stored, backoff, group, size)] = tx.all(
        "SELECT settings, backoff, limit_group, limit_size FROM tasks WHERE number = :number", number=task.number
    )
    if task.command is None:
        raise Refused(f"{called(task)} is no job: it has no command", state=task.state)
    return {
        "number": task.number,
        "id": task.id,
        "command": task.command,
        "settings": masked(stored),
        "backoff": backoff / SECOND,
        "limit": f"{group}={size}" if group else None,
        "progress": task.progress,
    }
