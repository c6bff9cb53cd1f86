"""Claims: exactly one agent wins a task, and only that agent works on it and finishes it.

A claim is a grant (see `grants`), so the task's row is authoritative: extending, completing, failing and releasing are
always fenced by holder and epoch in the condition of the write. Attempts are counted when a task is won, so that a task
that kills its workers ends at last.

A lapsed claim can be won like a free task. Until another agent wins it, or the lapse is written, its holder may still
renew or finish it.
"""

from __future__ import annotations

from ..clock import SECOND, micros
from ..errors import Fenced, Refused
from ..limits import CLAIM_LEASE, MAX_BACKOFF
from ..model import Task, holder_id, record
from ..names import FINAL, JOB, json_text, short
from ..names import key as check_key
from ..text import span
from . import changeable, edges_scope, keys_scope, operation
from .deferred_work import do_step, projects_with_work
from .events import refuse_task, task_event
from .expiry import apply_due_changes, end_of, expire_before, expire_one, forfeit_one, update_dependents
from .grants import LIVE, MINE, closing, fenced, giving_back, granted_by, holding, keeping, lost, winning
from .references import (
    BY_COLUMN,
    DIGITS,
    FINISHED,
    STORED,
    called,
    column_and_value,
    find,
    is_question,
    lookup,
    settled,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..names import AgentId, Epoch, Json, Lease, Name, Note, Priority, Project, Ref
    from . import Scope, Transaction

TRIES = 10
"""How often a claim is tried while the task looks free but another agent takes it in between."""

ASK_AGAIN = 1.0
"""Seconds after which to ask again while other projects have deferred work."""
READY = "state IN ('pending', 'claimed') AND ready_at <= {now} AND attempts < max_attempts"
CLAIMED = (
    "state = 'claimed', attempts = attempts + 1, ready_at = 0, claimed_at = {now}, updated_at = {now}, "
    "progress = NULL, aside = 0, look_at = {fresh} + :lease"
)
KEPT = "updated_at = {now}, look_at = CASE WHEN look_at > {fresh} + :lease THEN {fresh} + :lease ELSE look_at END"
"""What a renewal changes beside the grant. `look_at` changes only if the lease ends earlier, to spare its index."""
WON = STORED + ", displaced"
COMPLETED = f"state = 'completed', result = :result, reason = NULL, {FINISHED}"
_TOUCHED = "updated_at = {now}"
_UNTIL = Task.fields.index("until")
# One statement wins a task without a limit. For a task with one, the claims of its group are counted first.
_WIN = {
    column: winning("tasks", f"{this} AND {READY} AND limit_group IS NULL", WON, CLAIMED)
    for column, this in BY_COLUMN.items()
}
_WIN_LIMITED = winning("tasks", f"number = :number AND {READY}", WON, CLAIMED)


def _may_post(params: dict[str, Any]) -> list[Scope]:
    """The scope of a claim that may post its task: a key that no task has yet is posted by the claim."""
    may = params.get("create") is not False and column_and_value(params["ref"])[0] == "key"
    return [keys_scope(params["project"])] if may else []


def _refuse_if_held(
    tx: Transaction, *, ref: str, agent: str, project: str, lease: float = CLAIM_LEASE, create: bool | None = None
) -> None:
    """Refuse the call at once, before it waits for the write lock, if a committed grant holds the task."""
    column, value = column_and_value(ref)
    if column == DIGITS:
        column, value = settled(tx, ref, project)
    row = tx.first(
        f"SELECT {STORED}, {granted_by('tasks.project', 'tasks.id', 'tasks.epoch')} FROM tasks "
        f"WHERE {BY_COLUMN[column]} AND {LIVE}",
        value=value,
        project=project,
    )
    if row is not None and (task := record(Task, row[:-1])).state == "claimed" and not _dead(tx, task):
        raise _refusal(tx, task, agent, since=row[-1])


@operation("tasks.claim", writes=True, strangers=True, precheck=_refuse_if_held, scopes=_may_post)
def claim(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    lease: Lease = CLAIM_LEASE,
    create: bool | None = None,
) -> Task:
    """Win a ready task, or learn who holds it.

    A key that no task has yet is posted and won in one step, so that agents need not agree on who posts it; the task
    then has equal `created_at` and `claimed_at`. Refused if the key is one slip away from a known one (one letter, or
    only case, and the same digits), unless `create` is true. If `create` is false, nothing is posted. A number is never
    posted.
    """
    column, value = column_and_value(ref)
    if column == DIGITS:
        column, value = settled(tx, ref, project)
        ref = f"#{value}"
    won = _win(tx, column, value, agent, project, lease)
    written = 0
    try:
        for _ in range(TRIES):
            if won is not None:
                return won
            _refuse_if_held(tx, ref=ref, agent=agent, project=project)
            task = _find_or_post(tx, ref, agent, project, create)
            written += _bring_up_to_date(tx, task)
            won = _win(tx, "number", task.number, agent, project, lease) or _win_limited(tx, task.number, agent, lease)
            if won is None and not _free_by_now(tx, task := find(tx, f"#{task.number}", project)):
                raise _refusal(tx, task, agent)
    except Refused as refusal:
        refusal.kept = written > 0  # commit the lapses and ends that the refusal reports
        raise
    raise Refused(
        f"{called(task)} could not be won: others keep taking it", reason="task-waits", state=task.state, id=task.id
    )


def _find_or_post(tx: Transaction, ref: str, agent: str, project: str, create: bool | None) -> Task:
    """Find the task to claim; post it if no task has this key yet and the key has no slip."""
    task = lookup(tx, ref, project)
    if task is not None:
        return task
    column, value = column_and_value(ref)
    if create is False or column != "key":
        return find(tx, ref, project)  # raises `NotFound`
    from .tasks import post

    key = check_key(value, "ref")
    if create is None:
        from .near_keys import refuse_near

        tx.serialize("near keys", project)  # two claims that are near each other do not both post
        refuse_near(tx, key, project)
    return post(tx, name=key, key=key, agent=agent, project=project)


def _bring_up_to_date(tx: Transaction, task: Task) -> int:
    """Write the lapses and ends that may make a task winnable or finish it; how many there were."""
    if task.state == "blocked":
        from .dependencies import resolve_blocked

        # It may wait for a claim that has lapsed, or for a task whose end has not reached it yet.
        return expire_before(tx, task.number) + resolve_blocked(tx, task.number)
    if task.state == "claimed" and not task.lapsed:
        return forfeit_one(tx, task, why) if (why := _dead(tx, task)) else 0
    return expire_one(tx, task.number) if task.state == "claimed" else 0  # its last attempt


def _dead(tx: Transaction, task: Task) -> str:
    """How it is known that the holder is dead; "" if it is not known."""
    from .death import claimed_by_dead

    return claimed_by_dead(tx, task)


def _unfinished(tx: Transaction, task: Task) -> list[int]:
    from .dependencies import unfinished

    return unfinished(tx, task.number)


def _free_by_now(tx: Transaction, task: Task) -> bool:
    """Whether a task that was just lost is free by now: on PostgreSQL, others write between two statements."""
    if is_question(task):
        return False
    if task.state == "pending":
        return micros(task.ready_at or 0) <= tx.now
    return task.state == "blocked" and not _unfinished(tx, task)


def _win_limited(tx: Transaction, number: int, agent: str, lease: float) -> Task | None:
    """Win a task whose group has room; None for a task without a limit, which `_win` has already tried."""
    from .concurrency import refuse_if_full

    if not refuse_if_full(tx, number):
        return None
    row = tx.first(_WIN_LIMITED, number=number, agent=agent, lease=micros(lease))
    return None if row is None else record_grant(tx, row)


def _win(tx: Transaction, column: str, value: Any, agent: str, project: str, lease: float) -> Task | None:
    row = tx.first(_WIN[column], agent=agent, lease=micros(lease), value=value, project=project)
    return None if row is None else record_grant(tx, row)


def record_grant(tx: Transaction, row: tuple[Any, ...]) -> Task:
    """Write the events of a claim: first the lapse of the claim that it replaced, if any."""
    task = record(Task, row[:-1])
    if row[-1] is not None:
        task_event(tx, "task.expired", task, state="pending", agent=row[-1], epoch=task.epoch - 1)
    task_event(
        tx,
        "task.claimed",
        task,
        agent=holder_id(task),
        epoch=task.epoch,
        until=row[_UNTIL],
    )
    return task


def _refusal(tx: Transaction, task: Task, agent: str, since: int | None = None) -> Refused:
    holder = holder_id(task)
    note = f"held by {short(holder)}" if task.state == "claimed" and holder else task.state
    refuse_task(tx, "task.refused", task, agent=agent, epoch=task.epoch, note=note)
    if task.state == "claimed" and holder:
        until = micros(task.until or 0)
        return lost(
            tx,
            called(task),
            task.id,
            project=task.project,
            agent=agent,
            holder=holder,
            until=until,
            epoch=task.epoch,
            since=since,
            reason="task-is-yours" if holder == agent else "task-held",
            has_other_rules=task.kind == JOB,
            id=task.id,
            number=task.number,
        )
    if is_question(task) and task.state not in FINAL:
        return Refused(
            f"{called(task)} is a question to a person, which nobody can claim",
            reason="task-is-question",
            id=task.id,
            number=task.number,
        )
    if task.state == "blocked":
        from .dependencies import numbers_shown

        waits = numbers_shown(_unfinished(tx, task))
        return Refused(f"{called(task)} is blocked by {waits}", reason="task-waits", state=task.state, id=task.id)
    if task.state == "pending":
        left = (task.ready_at or 0.0) - tx.now / SECOND
        return Refused(
            f"{called(task)} is not ready for another {span(left)}",
            reason="task-waits",
            state=task.state,
            id=task.id,
            left=left,
            ready_at=task.ready_at,
        )
    by = f" by {task.holder}" if task.holder else ""
    return Refused(
        f"{called(task)} is {task.state}{by} already",
        reason="task-completed" if task.state == "completed" else "task-ended",
        state=task.state,
        epoch=task.epoch,
        number=task.number,
    )


@operation(
    "tasks.claim_many", writes=True, strangers=True, scopes=lambda params: [edges_scope(params["project"], shared=True)]
)
def claim_many(
    tx: Transaction,
    *,
    refs: list[Ref],
    agent: AgentId = "",
    project: Project = "",
    lease: Lease = CLAIM_LEASE,
) -> list[Task]:
    """Win as many of these tasks as are free, in one step; the answer has only those that were won."""
    found = {task.number: task for task in (lookup(tx, ref, project) for ref in refs) if task is not None}
    won = {number: _win_or_none(tx, found[number], agent, project, lease) for number in sorted(found)}
    return [task for number in found if (task := won[number]) is not None]


def _win_or_none(tx: Transaction, task: Task, agent: str, project: str, lease: float) -> Task | None:
    try:
        won = _win(tx, "number", task.number, agent, project, lease) or _win_limited(tx, task.number, agent, lease)
        if won is None and task.state == "claimed" and _bring_up_to_date(tx, task):
            won = _win(tx, "number", task.number, agent, project, lease)
    except Refused:  # its group is full
        won = None
    if won is None:
        refuse_task(tx, "task.refused", task, agent=agent, epoch=task.epoch)
    return won


def change_as_holder(
    tx: Transaction,
    making: Callable[..., str],
    also: str,
    *,
    ref: str,
    agent: str,
    project: str,
    epoch: int,
    **params: Any,
) -> Task:
    """Change a task as its holder, or raise the refusal that explains why the fence stopped the write.

    `making` is the function of `grants` that makes the statement: `keeping`, `giving_back`, `closing` or `writing`.
    """
    column, value = settled(tx, ref, project)
    statement = making("tasks", f"{BY_COLUMN[column]} AND state = 'claimed'", STORED, also)
    row = tx.first(statement, agent=agent, epoch=epoch, value=value, project=project, **params)
    if row is not None:
        return record(Task, row)
    raise stale(tx, find(tx, f"#{value}" if column == "number" else ref, project), agent, epoch)


def lock_as_holder(tx: Transaction, *, ref: str, agent: str, project: str, epoch: int) -> Task:
    """Lock a task as its holder, for a write to another table; the claim cannot end before this transaction does."""
    column, value = settled(tx, ref, project)
    row = tx.first(holding(BY_COLUMN[column], STORED), value=value, project=project, agent=agent, epoch=epoch)
    if row is None:
        raise stale(tx, find(tx, ref, project), agent, epoch)
    return record(Task, row)


def stale(tx: Transaction, task: Task, agent: str, epoch: int) -> Refused:
    """The refusal for a write that the fence stopped. It is also remembered for the log."""
    refuse_task(tx, "task.fenced", task, agent=agent, epoch=epoch, note=task.state)
    if task.state in FINAL:
        by = f" by {task.holder}" if task.holder and holder_id(task) != agent else ""
        return Fenced(
            f"{called(task)} is {task.state}{by} already, nothing was written",
            reason="task-completed",
            holder=task.holder,
            epoch=task.epoch,
            state=task.state,
        )
    row = tx.first("SELECT holder, epoch, until FROM tasks WHERE number = :number", number=task.number)
    return fenced(
        called(task),
        agent=agent,
        epoch=epoch,
        row=row or (None, 0, 0),
        now=tx.now,
        reason="claim-over",
        number=task.number,
    )


@operation("tasks.extend", writes=True, strangers=True)
def extend(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
    lease: Lease = CLAIM_LEASE,
) -> Task:
    """Renew a claim for another lease, counted from now."""
    task = change_as_holder(tx, keeping, KEPT, ref=ref, agent=agent, project=project, epoch=epoch, lease=micros(lease))
    task_event(tx, "task.extended", task, agent=agent, epoch=task.epoch, until=micros(task.until or 0))
    return task


@operation("tasks.check", writes=False, strangers=True)
def check(tx: Transaction, *, ref: Ref, agent: AgentId = "", project: Project = "", epoch: Epoch = 0) -> Task:
    """Return the task if this agent holds it by the grant with this epoch and the lease has not run out.

    Use it before a side effect that the board cannot fence. The claim may still be lost a moment later. It does not
    tell whether the agent's session was replaced as coordinator.
    """
    column, value = settled(tx, ref, project)
    row = tx.first(
        f"SELECT {STORED} FROM tasks WHERE {BY_COLUMN[column]} AND state = 'claimed' AND until > {{now}} AND {MINE}",
        value=value,
        project=project,
        agent=agent,
        epoch=epoch,
    )
    if row is None:
        raise stale(tx, find(tx, ref, project), agent, epoch)
    return record(Task, row)


@operation("tasks.complete", writes=True, strangers=True)
def complete(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
    result: Json | None = None,
    ack: bool = False,
    ack_name: Name | None = None,
    ack_priority: Priority = "normal",
    ack_payload: Json | None = None,
) -> Task:
    """Complete a claimed task. With `ack`, an announcement about it is posted in the same step."""
    task = complete_task(tx, ref=ref, agent=agent, project=project, epoch=epoch, result=result)
    update_dependents(tx, [end_of(task)])
    if ack:
        from .tasks import post

        post(
            tx,
            name=ack_name or f"done: {task.name}"[:200],
            agent=agent,
            project=task.project,
            kind="ack",
            priority=ack_priority,
            payload=ack_payload,
            about=task.id,
        )
    return task


def complete_task(tx: Transaction, *, ref: str, agent: str, project: str, epoch: int, result: Any) -> Task:
    """Complete a claimed task; the caller has to call `update_dependents`."""
    task = change_as_holder(
        tx, closing, COMPLETED, ref=ref, agent=agent, project=project, epoch=epoch, result=json_text(result)
    )
    task_event(tx, "task.completed", task, agent=agent, epoch=task.epoch)
    return task


_RETRYING = f"state = 'pending', reason = :reason, result = :result, ready_at = :ready_at, {_TOUCHED}"
_FAILED = f"state = 'failed', reason = :reason, result = :result, {FINISHED}"


@operation("tasks.fail", writes=True, strangers=True)
def fail(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
    reason: Note | None = None,
    retry: bool = True,
    result: Json | None = None,
) -> Task:
    """Report that an attempt failed. With attempts left and `retry`, the task becomes ready again after a backoff.

    The wait is a random time between half and all of `backoff`, which doubles with each attempt. So tasks that failed
    together are not retried together.
    """
    task = fail_task(tx, ref=ref, agent=agent, project=project, epoch=epoch, reason=reason, retry=retry, result=result)
    if task.state == "failed":
        update_dependents(tx, [end_of(task)])
    return task


def fail_task(
    tx: Transaction,
    *,
    ref: str,
    agent: str,
    project: str,
    epoch: int,
    reason: str | None,
    retry: bool,
    result: Any,
) -> Task:
    """Write a failed attempt; if it was the last one, the caller has to call `update_dependents`."""
    before = find(tx, ref, project, "{lock}")
    again = retry and before.attempts < before.max_attempts
    wait = _backoff(tx, before) if again else 0
    ready_at = tx.now + wait if wait else 0
    task = change_as_holder(
        tx,
        giving_back if again else closing,
        _RETRYING if again else _FAILED,
        ref=f"#{before.number}",
        agent=agent,
        project=project,
        epoch=epoch,
        reason=reason,
        result=json_text(result),
        ready_at=ready_at,
    )
    event = "task.retrying" if again else "task.failed"
    task_event(tx, event, task, agent=agent, epoch=task.epoch, note=reason, until=ready_at)
    return task


def _backoff(tx: Transaction, task: Task) -> int:
    row = tx.first("SELECT backoff FROM tasks WHERE number = :number", number=task.number)
    base = row[0] if row else 0
    longest = max(base, micros(MAX_BACKOFF))
    return jitter(int(min(longest, base << min(task.attempts - 1, 40))) if task.attempts else base)


def jitter(wait: int) -> int:
    """A random duration between half of a wait and all of it."""
    import random

    return wait - random.randint(0, wait // 2)  # noqa: S311  (spreads retries, no secret)


@operation("tasks.release", writes=True, strangers=True)
def release(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
    reason: Note | None = None,
) -> Task:
    """Give a claim back at once, without using up the attempt."""
    also = f"state = 'pending', attempts = attempts - 1, {_TOUCHED}"
    task = change_as_holder(tx, giving_back, also, ref=ref, agent=agent, project=project, epoch=epoch)
    task_event(tx, "task.released", task, agent=agent, epoch=task.epoch, note=reason)
    return task


@operation("tasks.due", writes=False, strangers=True)
def due(tx: Transaction, *, project: Project | None = "") -> float | None:
    """Return in how many seconds a delayed or claimed task may become ready by time alone; None if there is none.

    A claim that is renewed meanwhile does not become ready: then ask again. The answer is 0 while the project has
    deferred work (see `tasks.cascade`), and at most 1 while another project has some, which may concern this one.
    """
    here = "TRUE" if project is None else "project = :project"
    if left := projects_with_work(tx, None):
        return 0.0 if project is None or project in left else min(ASK_AGAIN, _due(tx, here, project) or ASK_AGAIN)
    return _due(tx, here, project)


def _due(tx: Transaction, here: str, project: str | None) -> float | None:
    row = tx.first(
        f"SELECT (SELECT min(ready_at) FROM tasks WHERE {here} AND state = 'pending' AND ready_at > 0), "
        f"(SELECT min(look_at) FROM tasks WHERE {here} AND state = 'claimed'{changeable(tx)})",
        project=project,
    )
    moments = [moment for moment in row or () if moment is not None]
    return max(0, min(moments) - tx.now) / SECOND if moments else None


@operation("tasks.sweep", writes=True, strangers=True)
def sweep(tx: Transaction, *, project: Project | None = "") -> int:
    """Write the lapses of claims whose lease ran out, do one step of deferred work, and return the number of lapses.

    It only makes events timely: no other operation depends on it.
    """
    if do_step(tx, project):
        for each in projects_with_work(tx, project):
            tx.report_deferred_work(each)
    if project is not None:
        return apply_due_changes(tx, project)[0]
    rows = tx.all(
        "SELECT project FROM tasks WHERE state = 'claimed' AND look_at <= {now} UNION "
        "SELECT project FROM tasks WHERE state = 'pending' AND ready_at > 0 AND ready_at <= {now} ORDER BY project"
    )
    return sum(apply_due_changes(tx, each)[0] for (each,) in rows)
