"""Tasks: posted by anybody, won by exactly one, finished by that one alone.

Who may do what: a claim is a grant (see `grants`), so extending, completing, failing and releasing are
fenced by holder, epoch and lease. Cancelling and retrying are decisions about the task, not about the
claim: anybody may take them, and a holder whose task was cancelled finds its next write refused.
Completed, failed and cancelled are final; only an explicit retry reopens the last two.

Expiry needs no sweeper: an expired claim counts as pending (as failed, when its attempts are used up) in
every read and can be won in every claim. `settle` only writes down what is already so.
"""

from __future__ import annotations

import os

from ..clock import SECOND, micros
from ..errors import Invalid, NotFound, Refused
from ..model import Task, columns, holder_id, record
from ..names import ANNOUNCEMENTS, FINAL, PRIORITIES, is_uuid, json_text, key, short, shown
from . import operation
from .events import append, contains, of_task, pattern
from .grants import EXTEND, FREE, GIVE_BACK, GRANT, by_name, fenced, lost, win, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import (
        AgentId,
        Attempts,
        Count,
        Epoch,
        Json,
        Key,
        Label,
        Lease,
        Limit,
        Name,
        Note,
        Number,
        Priority,
        Project,
        Ref,
        Seconds,
        State,
    )
    from . import Transaction

CLAIM_LEASE = 300.0
MAX_BACKOFF = 3600 * SECOND
SETTLE_AT_ONCE = 1000

_STORED = columns(Task)
_STATE = (
    "CASE WHEN state = 'claimed' AND until <= {now} "
    "THEN CASE WHEN attempts < max_attempts THEN 'pending' ELSE 'failed' END ELSE state END"
)
_LAPSED = "(state = 'claimed' AND until <= {now})"
# A task as it is to be seen: a lapsed claim has no holder any more.
_SHOWN = _STORED.replace(" state,", f" {_STATE},").replace(
    " holder, epoch, until,",
    f" CASE WHEN {_LAPSED} THEN NULL ELSE holder END, epoch, CASE WHEN {_LAPSED} THEN 0 ELSE until END,",
)
_READY = "state IN ('pending', 'claimed') AND ready_at <= {now} AND attempts < max_attempts"
_CLAIMED = ", state = 'claimed', attempts = attempts + 1, ready_at = 0, claimed_at = {now}, updated_at = {now}"
_WON = _STORED + ", displaced"
_ADDRESS = {
    "number": "number = :value",
    "id": "id = :value",
    "key": "project = :project AND key = :value",
}
_OPEN = "state NOT IN ('completed', 'failed', 'cancelled')"


# ── References ───────────────────────────────────────────────────────────────────────────────────────


def address(ref: str) -> tuple[str, Any]:
    """Which column a reference speaks of, and the value to look for."""
    if ref.startswith("#"):
        if not ref[1:].isdecimal() or len(ref) > 16:
            raise Invalid(f"ref: {shown(ref)} is not a task number such as #42")
        return "number", int(ref[1:])
    if is_uuid(ref):
        return "id", ref.lower()
    return "key", ref


def find(tx: Transaction, ref: str, project: str) -> Task:
    """The task that a reference names, as it is to be seen; raises `NotFound`."""
    task = _lookup(tx, ref, project)
    if task is None:
        where = f" in project {project}" if address(ref)[0] == "key" else ""
        raise NotFound(f"no task {shown(ref)}{where}", hint="`tb tasks --all` lists them")
    return task


def _lookup(tx: Transaction, ref: str, project: str) -> Task | None:
    column, value = address(ref)
    sql = f"SELECT {_SHOWN} FROM tasks WHERE {_ADDRESS[column]}"  # noqa: S608
    row = tx.first(sql, value=value, project=project)
    if row is None and column == "key":
        return _by_prefix(tx, ref.lower())
    return None if row is None else record(Task, row)


def _by_prefix(tx: Transaction, prefix: str) -> Task | None:
    if not 4 <= len(prefix) < 36 or not all(c in "0123456789abcdef-" for c in prefix):
        return None
    rows = tx.all(
        f"SELECT {_SHOWN} FROM tasks WHERE id >= :low AND id < :high ORDER BY id LIMIT 2",  # noqa: S608
        low=prefix,
        high=prefix + "g",
    )
    if len(rows) > 1:
        raise Invalid(f"ref: {shown(prefix)} is the beginning of more than one id", hint="use #number or more characters")
    return record(Task, rows[0]) if rows else None


def _called(task: Task) -> str:
    return f"#{task.number} {task.key or task.name!r}"


def new_id(now: int) -> str:
    """A UUID v7: sortable by the time it was made."""
    stamp, noise = now // 1000, bytearray(os.urandom(10))
    noise[0] = 0x70 | noise[0] & 0x0F
    noise[2] = 0x80 | noise[2] & 0x3F
    text = f"{stamp:012x}{noise.hex()}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# ── Posting ──────────────────────────────────────────────────────────────────────────────────────────


@operation("tasks.post", writes=True)
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
    max_attempts: Attempts = 3,
    backoff: Seconds = 1.0,
    tags: list[Label] = [],  # noqa: B006
    about: Ref | None = None,
) -> Task:
    """Put a task on the board. A key that is known already answers with the task that has it.

    `after` names tasks that must be completed first; with `run_anyway` it runs also when one of them
    failed. `backoff` is the wait before the second attempt, doubled with each further one. Announcements
    (kinds `ack`, `knowledge` and `decision`) are born completed.
    """
    if key is not None and (known := _lookup_key(tx, key, project)) is not None:
        return known
    blockers = _predecessors(tx, after, project, run_anyway)
    waiting = sum(before.state not in FINAL for before in blockers)
    born = "completed" if kind in ANNOUNCEMENTS else "blocked" if waiting else "pending"
    task = _insert(
        tx,
        project=project,
        kind=kind,
        name=name,
        key=key,
        queue=queue,
        priority=PRIORITIES.index(priority),
        state=born,
        payload=json_text(payload),
        max_attempts=max_attempts,
        backoff=micros(backoff),
        ready_at=tx.now + micros(delay) if delay and born != "completed" else 0,
        run_anyway=int(run_anyway),
        blockers=waiting if born == "blocked" else 0,
        tags=f" {' '.join(dict.fromkeys(tags))} " if tags else "",
        about=None if about is None else find(tx, about, project).id,
        created_by=agent,
        finished_at=tx.now if born == "completed" else 0,
    )
    for before in blockers:
        _link(tx, task.number, before.number)
    of_task(tx, "task.posted", task, agent=agent, note=f"about {about}" if about else None)
    return task


def _lookup_key(tx: Transaction, value: str, project: str) -> Task | None:
    row = tx.first(
        f"SELECT {_SHOWN} FROM tasks WHERE project = :project AND key = :key",  # noqa: S608
        project=project,
        key=value,
    )
    return None if row is None else record(Task, row)


def _insert(tx: Transaction, **values: Any) -> Task:
    """Add the row; a key keeps counting the epochs of its earlier, pruned tasks."""
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    row = tx.first(
        f"INSERT INTO tasks (id, epoch, created_at, updated_at, {names}) "  # noqa: S608
        "VALUES (:id, coalesce((SELECT epoch FROM marks WHERE marks.project = :project AND marks.key = :key), 0), "
        f"{{now}}, {{now}}, {marks}) RETURNING {_STORED}",
        id=new_id(tx.now),
        **values,
    )
    assert row is not None  # noqa: S101  (an INSERT either returns its row or raises)
    return record(Task, row)


def _predecessors(tx: Transaction, after: list[str], project: str, run_anyway: bool) -> list[Task]:
    found = {task.number: task for task in (find(tx, ref, project) for ref in after)}
    for task in found.values():
        if task.state in ("failed", "cancelled") and not run_anyway:
            raise Refused(
                f"cannot come after {_called(task)}, which is {task.state}", hint="retry that one first, or run anyway"
            )
    return list(found.values())


def _link(tx: Transaction, task: int, after: int) -> None:
    tx.all(
        "INSERT INTO edges (task, after) VALUES (:task, :after) ON CONFLICT DO NOTHING", task=task, after=after
    )


@operation("tasks.depend", writes=True)
def depend(
    tx: Transaction, *, ref: Ref, after: list[Ref], agent: AgentId = "", project: Project = ""
) -> Task:
    """Let a task that nobody has started come after others; a circle is refused."""
    tx.serialize("edges", project)
    task = find(tx, ref, project)
    if task.state not in ("blocked", "pending"):
        raise Refused(f"{_called(task)} is {task.state} already")
    before = [b for b in _predecessors(tx, after, project, False) if not _linked(tx, task.number, b.number)]
    for b in before:
        _refuse_circle(tx, task, b)
        _link(tx, task.number, b.number)
    waiting = sum(b.state not in FINAL for b in before)
    if waiting:
        row = tx.first(
            "UPDATE tasks SET state = 'blocked', blockers = blockers + :waiting, updated_at = {now} "
            f"WHERE number = :number AND state IN ('blocked', 'pending') RETURNING {_STORED}",
            waiting=waiting,
            number=task.number,
        )
        if row is None:
            raise Refused(f"{_called(task)} was claimed meanwhile")
        task = record(Task, row)
    if before:
        of_task(tx, "task.linked", task, agent=agent, note="after " + ", ".join(f"#{b.number}" for b in before))
    return task


def _linked(tx: Transaction, task: int, after: int) -> bool:
    return tx.first("SELECT 1 FROM edges WHERE task = :task AND after = :after", task=task, after=after) is not None


def _refuse_circle(tx: Transaction, task: Task, before: Task) -> None:
    circle = tx.first(
        "WITH RECURSIVE earlier (number) AS (SELECT :before UNION "
        "SELECT edges.after FROM edges JOIN earlier ON edges.task = earlier.number) "
        "SELECT 1 FROM earlier WHERE number = :task",
        before=before.number,
        task=task.number,
    )
    if circle is not None:
        raise Refused(f"{_called(task)} cannot come after {_called(before)}: that would be a circle")


# ── Claiming ─────────────────────────────────────────────────────────────────────────────────────────


@operation("tasks.claim", writes=True)
def claim(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    lease: Lease = CLAIM_LEASE,
    create: bool = True,
) -> Task:
    """Win a ready task, or learn who has it.

    With `create`, a key that nobody has posted yet is posted and won in one step, so that agents need
    not agree on who posts.
    """
    column, value = address(ref)
    won = _win(tx, column, value, agent, project, lease)
    if won is None and column == "key":
        task = _lookup(tx, ref, project)
        if task is None and create:
            post(tx, name=ref, key=key(ref), agent=agent, project=project)
        elif task is not None and task.key != ref:
            column, value = "number", task.number
        won = _win(tx, column, value, agent, project, lease)
    if won is None:
        raise _not_won(tx, find(tx, ref, project), agent)
    return won


def _win(tx: Transaction, column: str, value: Any, agent: str, project: str, lease: float) -> Task | None:
    where = f"{_ADDRESS[column]} AND {_READY}"
    row = win(tx, "tasks", _CLAIMED, where, _WON, agent=agent, lease=lease, value=value, project=project)
    return None if row is None else _granted(tx, row)


def _granted(tx: Transaction, row: tuple[Any, ...]) -> Task:
    """Write down a grant, and first the lapse of the one that it replaced."""
    task = record(Task, row[:-1])
    if row[-1] is not None:
        of_task(tx, "task.expired", task, agent=row[-1], epoch=task.epoch - 1)
    of_task(tx, "task.claimed", task, agent=holder_id(task), epoch=task.epoch, until=row[Task._fields.index("until")])
    return task


def _not_won(tx: Transaction, task: Task, agent: str) -> Refused:
    holder = holder_id(task)
    tx.refuse(
        "task.refused",
        project=task.project,
        subject=task.id,
        name=task.name,
        kind=task.kind,
        agent=agent,
        epoch=task.epoch,
        note=f"held by {short(holder)}" if task.state == "claimed" and holder else task.state,
    )
    if task.state == "claimed" and holder:
        mine = holder == agent
        hint = f"`tb extend '#{task.number}'` keeps it" if mine else f"`tb why '#{task.number}'` tells more; `tb next` finds other work"
        until = micros(task.until or 0)
        return lost(_called(task), agent=agent, holder=holder, until=until, epoch=task.epoch, now=tx.now, hint=hint)
    if task.state == "blocked":
        rows = tx.all(
            "SELECT tasks.number FROM edges JOIN tasks ON tasks.number = edges.after "
            f"WHERE edges.task = :number AND {_OPEN} ORDER BY tasks.number",
            number=task.number,
        )
        return Refused(f"{_called(task)} is blocked by {', '.join(f'#{n}' for (n,) in rows)}", state=task.state)
    if task.state == "pending":
        return Refused(f"{_called(task)} is not ready yet", state=task.state, ready_at=task.ready_at)
    by = f" by {task.holder}" if task.holder else ""
    return Refused(f"{_called(task)} is {task.state}{by} already", state=task.state, epoch=task.epoch)


@operation("tasks.claim_many", writes=True)
def claim_many(
    tx: Transaction, *, refs: list[Ref], agent: AgentId = "", project: Project = "", lease: Lease = CLAIM_LEASE
) -> list[Task]:
    """Win as many of these tasks as are free, in one step; those not won are left out."""
    won = []
    for ref in refs:
        column, value = address(ref)
        task = _win(tx, column, value, agent, project, lease)
        if task is not None:
            won.append(task)
        elif column == "id":
            tx.refuse("task.refused", project=project, subject=value, agent=agent)
    return won


@operation("tasks.next", writes=True)
def next_ready(
    tx: Transaction,
    *,
    agent: AgentId = "",
    project: Project = "",
    kind: Label | None = None,
    queue: Label | None = None,
    tag: Label | None = None,
    count: Count = 1,
    lease: Lease = CLAIM_LEASE,
) -> list[Task]:
    """Win the next ready tasks, up to `count`: highest priority first, then oldest; none is an empty list."""
    _settle(tx, project)
    where = ["state = 'pending'", "ready_at = 0", "project = :project"]
    where += [f"{column} = :{column}" for column, v in (("kind", kind), ("queue", queue)) if v is not None]
    if tag is not None:
        where.append("tags LIKE :tag ESCAPE '!'")
    rows = tx.all(
        f"WITH picked AS MATERIALIZED (SELECT number AS n FROM tasks WHERE {' AND '.join(where)} "  # noqa: S608
        "ORDER BY priority DESC, number LIMIT :count {skip_locked}) "
        f"UPDATE tasks SET {GRANT}{_CLAIMED} FROM picked WHERE number = picked.n AND {_READY} AND {FREE} RETURNING {_WON}",
        project=project,
        kind=kind,
        queue=queue,
        tag=None if tag is None else f"% {tag.replace('_', '!_')} %",
        count=count,
        agent=agent,
        lease=micros(lease),
    )
    tasks = [_granted(tx, row) for row in rows]
    return sorted(tasks, key=lambda t: (-PRIORITIES.index(t.priority), t.number))


def _settle(tx: Transaction, project: str) -> None:
    """Write down what time has done: claims that lapsed, delays that are over."""
    due = tx.first(
        "SELECT EXISTS (SELECT 1 FROM tasks WHERE project = :project AND state = 'claimed' AND until <= {now}), "
        "EXISTS (SELECT 1 FROM tasks WHERE project = :project AND state = 'pending' AND ready_at > 0 AND ready_at <= {now})",
        project=project,
    )
    lapsed, ready = due or (0, 0)
    if lapsed:
        _expire(tx, project)
    if ready:
        tx.all(
            "UPDATE tasks SET ready_at = 0 WHERE number IN (SELECT number FROM tasks WHERE project = :project "
            "AND state = 'pending' AND ready_at > 0 AND ready_at <= {now} ORDER BY ready_at LIMIT :most {skip_locked})",
            project=project,
            most=SETTLE_AT_ONCE,
        )


def _expire(tx: Transaction, project: str) -> int:
    rows = tx.all(
        f"SELECT {_STORED} FROM tasks WHERE project = :project AND state = 'claimed' AND until <= {{now}} "  # noqa: S608
        "ORDER BY until LIMIT :most {skip_locked}",
        project=project,
        most=SETTLE_AT_ONCE,
    )
    for old in (record(Task, row) for row in rows):
        again = old.attempts < old.max_attempts
        row = tx.first(
            f"UPDATE tasks SET state = :state, {GIVE_BACK}, updated_at = {{now}}, reason = :reason, "  # noqa: S608
            f"finished_at = :finished WHERE number = :number AND epoch = :epoch AND {_LAPSED} RETURNING {_STORED}",
            state="pending" if again else "failed",
            reason=None if again else f"the lease of attempt {old.attempts} of {old.max_attempts} ran out",
            finished=0 if again else tx.now,
            number=old.number,
            epoch=old.epoch,
        )
        if row is not None:
            task = record(Task, row)
            of_task(tx, "task.expired", task, agent=holder_id(old), epoch=old.epoch, note=task.reason)
            if not again:
                _release_dependents(tx, task)
    return len(rows)


# ── Working on a claim ───────────────────────────────────────────────────────────────────────────────


def _as_holder(
    tx: Transaction, change: str, *, ref: str, agent: str, project: str, epoch: int, **params: Any
) -> Task:
    """Change a task as its holder, or explain why the fence did not let it pass."""
    column, value = address(ref)
    task = None
    if column == "key":
        task = find(tx, ref, project)
        column, value = "number", task.number
    where = f"{_ADDRESS[column]} AND state = 'claimed'"
    row = write(tx, "tasks", change, where, _STORED, agent=agent, epoch=epoch, value=value, project=project, **params)
    if row is not None:
        return record(Task, row)
    raise _stale(tx, task or find(tx, ref, project), agent, epoch)


def _stale(tx: Transaction, task: Task, agent: str, epoch: int) -> Refused:
    tx.refuse(
        "task.fenced",
        project=task.project,
        subject=task.id,
        name=task.name,
        kind=task.kind,
        agent=agent,
        epoch=epoch,
        note=task.state,
    )
    if task.state in FINAL and holder_id(task) != agent:
        by = f" by {task.holder}" if task.holder else ""
        return fenced_final(task, by)
    if task.state in FINAL:
        return fenced_final(task, "")
    row = tx.first("SELECT holder, epoch, until FROM tasks WHERE number = :number", number=task.number)
    return fenced(
        _called(task),
        agent=agent,
        epoch=epoch,
        row=row or (None, 0, 0),  # type: ignore[arg-type]
        now=tx.now,
        again=f"`tb claim '#{task.number}'` takes it again if it is free",
    )


def fenced_final(task: Task, by: str) -> Refused:
    """The refusal for a write to a task that is over."""
    from ..errors import Fenced

    return Fenced(
        f"{_called(task)} is {task.state}{by} already, nothing was written",
        holder=task.holder,
        epoch=task.epoch,
        state=task.state,
    )


@operation("tasks.extend", writes=True)
def extend(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
    lease: Lease = CLAIM_LEASE,
) -> Task:
    """Keep a claim for another lease, counted from now."""
    change = f"{EXTEND}, updated_at = {{now}}"
    task = _as_holder(tx, change, ref=ref, agent=agent, project=project, epoch=epoch, lease=micros(lease))
    of_task(tx, "task.extended", task, agent=agent, epoch=task.epoch, until=micros(task.until or 0))
    return task


_FINISHED = "displaced = NULL, until = 0, ready_at = 0, finished_at = {now}, updated_at = {now}"


@operation("tasks.complete", writes=True)
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
    """Finish a claimed task. With `ack`, an announcement about it is posted in the same step."""
    change = f"state = 'completed', result = :result, reason = NULL, {_FINISHED}"
    task = _as_holder(tx, change, ref=ref, agent=agent, project=project, epoch=epoch, result=json_text(result))
    of_task(tx, "task.completed", task, agent=agent, epoch=task.epoch)
    _release_dependents(tx, task)
    if ack:
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


@operation("tasks.fail", writes=True)
def fail(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
    reason: Note | None = None,
    retry: bool = True,
) -> Task:
    """Report that an attempt failed. With attempts left and `retry`, it becomes ready again after a backoff."""
    before = find(tx, ref, project)
    if retry and before.attempts < before.max_attempts:
        wait = _backoff(tx, before)
        change = f"state = 'pending', reason = :reason, ready_at = :ready_at, {GIVE_BACK}, updated_at = {{now}}"
        ready_at = tx.now + wait if wait else 0
        task = _as_holder(
            tx, change, ref=f"#{before.number}", agent=agent, project=project, epoch=epoch, reason=reason, ready_at=ready_at
        )
        of_task(tx, "task.retrying", task, agent=agent, epoch=task.epoch, note=reason, until=ready_at)
        return task
    change = f"state = 'failed', reason = :reason, {_FINISHED}"
    task = _as_holder(tx, change, ref=f"#{before.number}", agent=agent, project=project, epoch=epoch, reason=reason)
    of_task(tx, "task.failed", task, agent=agent, epoch=task.epoch, note=reason)
    _release_dependents(tx, task)
    return task


def _backoff(tx: Transaction, task: Task) -> int:
    row = tx.first("SELECT backoff FROM tasks WHERE number = :number", number=task.number)
    base = row[0] if row else 0
    return min(MAX_BACKOFF, base << min(task.attempts - 1, 40)) if task.attempts else base


@operation("tasks.release", writes=True)
def release(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
    reason: Note | None = None,
) -> Task:
    """Give a claim back at once, without using the attempt up."""
    change = f"state = 'pending', attempts = attempts - 1, {GIVE_BACK}, updated_at = {{now}}"
    task = _as_holder(tx, change, ref=ref, agent=agent, project=project, epoch=epoch)
    of_task(tx, "task.released", task, agent=agent, epoch=task.epoch, note=reason)
    return task


# ── Deciding about a task ────────────────────────────────────────────────────────────────────────────


@operation("tasks.cancel", writes=True)
def cancel(
    tx: Transaction, *, ref: Ref, agent: AgentId = "", project: Project = "", reason: Note | None = None
) -> Task:
    """Call a task off, also while somebody works on it; what is finished stays finished."""
    task = find(tx, ref, project)
    cancelled = _cancel(tx, task.number, reason)
    if cancelled is None:
        raise Refused(f"{_called(task)} is {task.state} already", state=task.state)
    of_task(tx, "task.cancelled", cancelled, agent=agent, epoch=cancelled.epoch, note=reason)
    _release_dependents(tx, cancelled)
    return cancelled


def _cancel(tx: Transaction, number: int, reason: str | None) -> Task | None:
    row = tx.first(
        f"UPDATE tasks SET state = 'cancelled', reason = :reason, holder = NULL, blockers = 0, {_FINISHED} "  # noqa: S608
        f"WHERE number = :number AND {_STATE} IN ('blocked', 'pending', 'claimed') RETURNING {_STORED}",
        number=number,
        reason=reason,
    )
    return None if row is None else record(Task, row)


def _release_dependents(tx: Transaction, ended: Task) -> None:
    """Let those that come after a finished task go on, or cancel them with it."""
    tx.serialize("edges", ended.project)
    ends = [ended]
    while ends:
        end = ends.pop()
        rows = tx.all(
            "SELECT tasks.number, run_anyway FROM edges JOIN tasks ON tasks.number = edges.task "
            "WHERE edges.after = :number AND state = 'blocked' ORDER BY tasks.number",
            number=end.number,
        )
        for number, run_anyway in rows:
            if end.state == "completed" or run_anyway:
                _unblock(tx, number)
            else:
                reason = f"comes after {_called(end)}, which was {end.state}"
                cancelled = _cancel(tx, number, reason[:1000])
                if cancelled is not None:
                    of_task(tx, "task.cancelled", cancelled, note=reason[:1000])
                    ends.append(cancelled)


def _unblock(tx: Transaction, number: int) -> None:
    row = tx.first(
        "UPDATE tasks SET blockers = blockers - 1, updated_at = {now}, "
        "state = CASE WHEN blockers > 1 THEN 'blocked' ELSE 'pending' END "
        f"WHERE number = :number AND state = 'blocked' RETURNING {_STORED}",
        number=number,
    )
    if row is not None and (task := record(Task, row)).state == "pending":
        of_task(tx, "task.ready", task)


@operation("tasks.retry", writes=True)
def retry(
    tx: Transaction, *, ref: Ref, agent: AgentId = "", project: Project = "", reason: Note | None = None
) -> Task:
    """Reopen a failed or cancelled task with a fresh set of attempts; its epochs go on counting."""
    task = find(tx, ref, project)
    row = tx.first(
        f"UPDATE tasks SET state = 'pending', {GIVE_BACK}, attempts = 0, ready_at = 0, finished_at = 0, "  # noqa: S608
        f"updated_at = {{now}} WHERE number = :number AND {_STATE} IN ('failed', 'cancelled') RETURNING {_STORED}",
        number=task.number,
    )
    if row is None:
        raise Refused(f"{_called(task)} is {task.state}; only failed or cancelled tasks can be retried", state=task.state)
    reopened = record(Task, row)
    of_task(tx, "task.reopened", reopened, agent=agent, epoch=reopened.epoch, note=reason)
    return reopened


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────────


@operation("tasks.get", writes=False)
def get(tx: Transaction, *, ref: Ref, project: Project = "") -> Task:
    """One task."""
    return find(tx, ref, project)


@operation("tasks.list", writes=False)
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
    before: Number | None = None,
    limit: Limit = 100,
) -> list[Task]:
    """Tasks that match all the given filters, newest first; page on with `before` = the last number seen."""
    given = {
        "project": project,
        "kind": kind,
        "queue": queue,
        "priority": None if priority is None else PRIORITIES.index(priority),
        "about": None if about is None else find(tx, about, project or "").id,
    }
    where = [f"{column} = :{column}" for column, value in given.items() if value is not None]
    marks: dict[str, Any] = {}
    if states is not None:
        marks = {f"state{i}": state for i, state in enumerate(states)}
        asked = ", ".join(f":{mark}" for mark in marks) or "NULL"
        # The stored state narrows the search by index; the state to be seen decides.
        where.append(f"(state IN ({asked}) OR {_LAPSED}) AND {_STATE} IN ({asked})")
    if tag is not None:
        where.append("tags LIKE :tag ESCAPE '!'")
    if agent is not None:
        where.append(by_name("holder"))
    if name_contains is not None:
        where.append(contains("name"))
    if before is not None:
        where.append("number < :before")
    rows = tx.all(
        f"SELECT {_SHOWN} FROM tasks WHERE {' AND '.join(where) or 'TRUE'} "  # noqa: S608
        "ORDER BY number DESC LIMIT :limit",
        tag=None if tag is None else f"% {tag.replace('_', '!_')} %",
        who=agent and short(agent),
        name_contains=pattern(name_contains),
        before=before,
        limit=limit,
        **given,
        **marks,
    )
    return [record(Task, row) for row in rows]


@operation("tasks.after", writes=False)
def predecessors(tx: Transaction, *, ref: Ref, project: Project = "") -> list[Task]:
    """The tasks that a task comes after."""
    task = find(tx, ref, project)
    shown_columns = _SHOWN
    rows = tx.all(
        f"SELECT {shown_columns} FROM tasks WHERE number IN "  # noqa: S608
        "(SELECT after FROM edges WHERE edges.task = :number) ORDER BY number",
        number=task.number,
    )
    return [record(Task, row) for row in rows]


@operation("tasks.due", writes=False)
def due(tx: Transaction, *, project: Project = "") -> float | None:
    """In how many seconds a delayed or claimed task becomes ready by time alone; None if there is none."""
    row = tx.first(
        "SELECT (SELECT min(ready_at) FROM tasks WHERE project = :project AND state = 'pending' AND ready_at > 0), "
        "(SELECT min(until) FROM tasks WHERE project = :project AND state = 'claimed')",
        project=project,
    )
    moments = [moment for moment in row or () if moment is not None]
    return max(0, min(moments) - tx.now) / SECOND if moments else None


@operation("tasks.sweep", writes=True)
def sweep(tx: Transaction, *, project: Project = "") -> int:
    """Write down the claims that have lapsed; only makes events timely, nothing depends on it."""
    return _expire(tx, project)
