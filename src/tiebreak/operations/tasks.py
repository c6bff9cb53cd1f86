"""Tasks: posting, cancelling, retrying and listing them.

Cancelling and retrying are decisions about the task, not about a claim: any agent may make them, and a holder whose
task was cancelled finds its next write refused by the fence. Completed, failed and cancelled are final. Only an
explicit retry reopens a failed or cancelled task. Winning a task and working on it is in `claims`.

The task's row is authoritative: each decision is written under the condition that the row still has the state that it
is about. Retrying also locks the task's predecessors and shares the scope of the project's edges, so the number of open
predecessors cannot change while it is counted. A task with a key is added under the scope of the project's keys, so no
task that had the key is pruned meanwhile, and the key's epochs continue.
"""

from __future__ import annotations

import os

from ..clock import micros
from ..errors import Invalid, Refused
from ..limits import ATTEMPTS, BACKOFF, LISTED
from ..model import Task, record
from ..names import ANNOUNCEMENTS, FINAL, JOB, OF_SCHEDULES, PRIORITIES, QUESTION, json_text, short
from . import PARENTS, asks_for_no_job, edges_scope, keys_scope, operation, scope
from .dependencies import (
    cancel_row,
    find_predecessors,
    finish_dependents,
    link,
    lock_deferred_work,
    refuse_ended_badly,
    runs_anyway,
    unfinished,
)
from .events import contains, task_event
from .expiry import end_of, expire_one, update_dependents
from .grants import beginning, by_name, giving_back
from .references import (
    ASIDE_IF_READY,
    SHOWN,
    STORED,
    WAITS_FOR_PERSON,
    WINNABLE,
    by_key,
    called,
    find,
    find_here,
    lookup,
    tagged,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import (
        AgentId,
        Attempts,
        Json,
        Key,
        Label,
        Limit,
        Name,
        Note,
        Number,
        Priority,
        Project,
        Ref,
        Seconds,
        State,
        Text,
    )
    from . import Scope, Transaction


def _post_scopes(params: dict[str, Any]) -> list[Scope]:
    """The scopes of a call that adds a task with a key, or with a parent, which is not pruned meanwhile."""
    parents = [scope(PARENTS, shared=True)] if params.get("parent") is not None else []
    return [*keys_scope_if_keyed(params), *parents]


def keys_scope_if_keyed(params: dict[str, Any]) -> list[Scope]:
    """The scope of a call that adds a task with a key: no task that had the key before is pruned meanwhile."""
    return [keys_scope(params["project"])] if params.get("key") is not None else []


@operation("tasks.post", writes=True, strangers=asks_for_no_job, scopes=_post_scopes)
def post(
    tx: Transaction,
    *,
    name: Name,
    agent: AgentId = "",
    project: Project = "",
    kind: Label = "task",
    priority: Priority = "normal",
    queue: Label = "default",
    payload: Json | None = None,
    key: Key | None = None,
    after: list[Ref] = [],  # noqa: B006  (never changed; a tuple would not be JSON)
    run_anyway: bool = False,
    delay: Seconds = 0.0,
    max_attempts: Attempts = ATTEMPTS,
    backoff: Seconds = BACKOFF,
    tags: list[Label] = [],  # noqa: B006
    about: Ref | None = None,
    body: Text | None = None,
    parent: Ref | None = None,
) -> Task:
    """Put a task on the board. If a task with the same key exists, that task is returned instead.

    `body` is its description, and `parent` the task that it is a part of. A parent neither waits for its children nor
    holds them back.

    `after` names tasks that must be completed first; with `run_anyway` the task runs even if one of them failed or was
    cancelled. `backoff` is the wait before the second attempt and doubles with each further one. Announcements (kinds
    `ack`, `knowledge` and `decision`) are completed from the start.
    """
    if kind == QUESTION:
        raise Invalid("kind: a question to a person is asked, not posted", reason="question-posted")
    if key is not None and (known := by_key(tx, key, project)) is not None:
        return known
    if parent is not None:
        tx.serialize(PARENTS, shared=True)
    return add(
        tx,
        after=after,
        agent=agent,
        note=f"about {about}" if about else None,
        project=project,
        kind=kind,
        name=name,
        key=key,
        queue=queue,
        priority=priority,
        payload=json_text(payload),
        max_attempts=max_attempts,
        backoff=backoff,
        ready_at=tx.now + micros(delay) if delay else 0,
        run_anyway=run_anyway,
        tags=tags,
        about=None if about is None else find(tx, about, project).id,
        body=body,
        parent=None if parent is None else find_here(tx, parent, project, "parent").number,
    )


def add(
    tx: Transaction,
    *,
    after: list[str],
    agent: str,
    note: str | None = None,
    project: str,
    kind: str,
    priority: str,
    backoff: float,
    ready_at: int,
    run_anyway: bool,
    tags: list[str],
    **columns: Any,
) -> Task:
    """Add a task whose key no other task has. All tasks, including jobs and questions, are added here."""
    if (key := columns.get("key")) is not None:
        if kind != JOB and key.startswith(OF_SCHEDULES):
            raise Invalid(f"key: keys that begin with {OF_SCHEDULES} belong to the jobs of schedules")
        tx.serialize("keys", project, shared=True)
    blockers = find_predecessors(tx, after, project, run_anyway)
    waiting = sum(before.state not in FINAL for before in blockers)
    born = "completed" if kind in ANNOUNCEMENTS else "blocked" if waiting else "pending"
    task = _insert(
        tx,
        project=project,
        kind=kind,
        priority=PRIORITIES.index(priority),
        state=born,
        backoff=micros(backoff),
        ready_at=0 if born == "completed" else ready_at,
        run_anyway=int(run_anyway),
        blockers=waiting if born == "blocked" else 0,
        tags=f" {' '.join(dict.fromkeys(tags))} " if tags else "",
        created_by=agent,
        finished_at=tx.now if born == "completed" else 0,
        aside=int(columns.get("limit_group") is not None) if columns["max_attempts"] else WAITS_FOR_PERSON,
        **columns,
    )
    for before in blockers:
        link(tx, task.number, before.number)
    task_event(tx, "task.posted", task, agent=agent, note=note)
    return task


def _insert(tx: Transaction, **values: Any) -> Task:
    """Insert the row; its epochs continue after those of pruned tasks that had the same key."""
    columns = tuple(values)
    if columns not in _INSERTS:  # there are two, for plain tasks and for jobs
        _INSERTS[columns] = beginning(columns, STORED)
    row = tx.first(_INSERTS[columns], id=new_id(tx.now), **values)
    assert row is not None  # noqa: S101  (an INSERT either returns its row or raises)
    return record(Task, row)


_INSERTS: dict[tuple[str, ...], str] = {}


def new_id(now: int) -> str:
    """A UUID v7, which sorts by the time at which it was made."""
    stamp, noise = now // 1000, bytearray(os.urandom(10))
    noise[0] = 0x70 | noise[0] & 0x0F
    noise[2] = 0x80 | noise[2] & 0x3F
    text = f"{stamp:012x}{noise.hex()}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@operation("tasks.cancel", writes=True, strangers=True)
def cancel(
    tx: Transaction, *, ref: Ref, agent: AgentId = "", project: Project = "", reason: Note | None = None
) -> Task:
    """Cancel a task, even while an agent works on it; a finished task is refused."""
    task = find(tx, ref, project)
    cancelled = cancel_row(tx, task.number, reason)
    if cancelled is None:
        task = find(tx, f"#{task.number}", project)
        raise Refused(f"{called(task)} is {task.state} already", state=task.state)
    task_event(tx, "task.cancelled", cancelled, agent=agent, epoch=cancelled.epoch, note=reason)
    update_dependents(tx, [end_of(cancelled)])
    return cancelled


def _shares_edges(params: dict[str, Any]) -> list[Scope]:
    return [edges_scope(params["project"], shared=True)]


@operation("tasks.retry", writes=True, strangers=False, scopes=_shares_edges)
def retry(tx: Transaction, *, ref: Ref, agent: AgentId = "", project: Project = "", reason: Note | None = None) -> Task:
    """Reopen a failed or cancelled task with all its attempts again; its epochs continue.

    Refused while a task that it comes after is failed or cancelled, unless it was posted with `run_anyway`: retry that
    task first.
    """
    number = (found := find(tx, ref, project)).number
    tx.serialize("edges", found.project, shared=True)  # its predecessors do not change while they are counted
    lock_deferred_work(tx, found)
    before = _locked_predecessors(tx, number)
    task = find(tx, f"#{number}", project, "{lock}")
    if task.lapsed and task.state == "claimed" and expire_one(tx, number):
        task = find(tx, f"#{number}", project)
    if task.state not in ("failed", "cancelled"):
        raise Refused(
            f"{called(task)} is {task.state}; only failed or cancelled tasks can be retried", state=task.state
        )
    refuse_ended_badly(before, runs_anyway(tx, number))
    finish_dependents(tx, task)  # otherwise some dependents would never learn of the end that is undone here
    waiting = len(unfinished(tx, number))
    row = tx.first(_REOPEN, number=number, state="blocked" if waiting else "pending", waiting=waiting)
    reopened = record(Task, row) if row else task
    task_event(tx, "task.reopened", reopened, agent=agent, epoch=reopened.epoch, note=reason)
    return reopened


def _locked_predecessors(tx: Transaction, number: int) -> list[Task]:
    """The predecessors of a task, locked: an end that is being written now is seen here, or sees the reopened task."""
    rows = tx.all("SELECT after FROM edges WHERE task = :number ORDER BY after", number=number)
    found = [lookup(tx, f"#{before}", "", "{share}") for (before,) in rows]
    return [task for task in found if task is not None]  # a pruned predecessor is done


_REOPEN = giving_back(
    "tasks",
    "number = :number",
    STORED,
    "state = :state, attempts = 0, ready_at = 0, finished_at = 0, blockers = :waiting, updated_at = {now}, "
    + ASIDE_IF_READY,
    fence="state IN ('failed', 'cancelled')",
)


@operation("tasks.retry_many", writes=True, strangers=False, scopes=_shares_edges)
def retry_many(
    tx: Transaction,
    *,
    agent: AgentId = "",
    project: Project = "",
    states: list[State] = ["failed"],  # noqa: B006
    kind: Label | None = None,
    queue: Label | None = None,
    tag: Label | None = None,
    name_contains: Name | None = None,
    reason: Note | None = None,
    limit: Limit = LISTED,
) -> list[Task]:
    """Reopen the failed (or cancelled) tasks that match all the given filters; if more than `limit` do, the newest.

    A task that comes after a task which stays failed or cancelled is not reopened.
    """
    if not set(states) <= {"failed", "cancelled"}:
        raise Invalid("states: only failed or cancelled tasks can be retried")
    found = listing(
        tx, project=project, states=states, kind=kind, queue=queue, tag=tag, name_contains=name_contains, limit=limit
    )
    reopened: dict[int, Task] = {}
    left = sorted(task.number for task in found)
    while left:
        refused = []
        for number in left:
            try:
                reopened[number] = retry(tx, ref=f"#{number}", agent=agent, project=project, reason=reason)
            except Refused:
                refused.append(number)
        if len(refused) == len(left):  # no further predecessor was reopened
            break
        left = refused
    return [reopened[number] for number in sorted(reopened)]


@operation("tasks.get", writes=False, strangers=True)
def get(tx: Transaction, *, ref: Ref, project: Project = "") -> Task:
    """Return one task."""
    return find(tx, ref, project)


@operation("tasks.list", writes=False, strangers=True)
def listing(
    tx: Transaction,
    *,
    project: Project | None = "",
    states: list[State] | None = None,
    kind: Label | None = None,
    queue: Label | None = None,
    priority: Priority | None = None,
    tag: Label | None = None,
    agent: AgentId | None = None,
    name_contains: Name | None = None,
    about: Ref | None = None,
    parent: Ref | None = None,
    before: Number | None = None,
    limit: Limit = LISTED,
) -> list[Task]:
    """List the tasks that match all the given filters, newest first; for the next page, `before` is the last number."""
    given = {
        "project": project,
        "kind": kind,
        "queue": queue,
        "priority": None if priority is None else PRIORITIES.index(priority),
        "about": None if about is None else find(tx, about, project or "").id,
        "parent": None if parent is None else find(tx, parent, project or "").number,
    }
    where = [f"{column} = :{column}" for column, value in given.items() if value is not None]
    if tag is not None:
        where.append(tagged())
    if agent is not None:
        where.append(f"{by_name('holder')} AND NOT {WINNABLE}")
    if name_contains is not None:
        where.append(contains("name"))
    if before is not None:
        where.append("number < :before")
    found: dict[int, Task] = {}
    for state in stored_states(states):
        rows = tx.all(
            f"SELECT {SHOWN} FROM tasks WHERE {' AND '.join([*where, state])} ORDER BY number DESC LIMIT :limit",
            tag=f" {tag} ",
            who=agent and short(agent),
            name_contains=name_contains and name_contains.lower(),
            before=before,
            limit=limit,
            **given,
        )
        found.update((row[0], record(Task, row)) for row in rows)
    return [found[number] for number in sorted(found, reverse=True)[:limit]]


def stored_states(states: list[str] | None) -> list[str]:
    """Conditions that together select the tasks that reads show in these states; each of them matches an index."""
    if states is None:
        return [_OPEN, *(f"{_ENDED} AND state = '{state}'" for state in FINAL)]
    wanted = [f"{_ENDED if state in FINAL else _OPEN} AND state = '{state}'" for state in states]
    wanted = [each + (f" AND NOT {WINNABLE}" if "'claimed'" in each else "") for each in wanted]
    return [*wanted, WINNABLE] if "pending" in states else wanted


_OPEN = "finished_at = 0"
_ENDED = "finished_at > 0"
