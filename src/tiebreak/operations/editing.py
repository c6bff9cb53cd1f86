"""Editing: changing what a task says, whoever holds it.

What a task says (its name, description, priority, queue, tags and parent) belongs to nobody, so everybody may change
it. A claim is not affected: holder, epoch and lease stay as they are. Fields that are not given stay as they are.

Two people who rewrite the same description at once must not overwrite each other. Whoever gives the text that was
edited (`was`) is refused if the description is another one by now. The task's row is locked before it is read. The
event has the text that was overwritten, so nothing is lost.
"""

from __future__ import annotations

from ..errors import Invalid, Refused
from ..limits import MAX_LIST
from ..model import Task, record, row_of
from ..names import JOB, PRIORITIES
from . import PARENTS, edges_scope, operation, scope
from .events import task_event
from .parents import refuse_circle
from .references import STORED, WAITS_FOR_QUEUE, called, find, find_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, AnyText, Label, Name, Priority, Project, Ref, Text
    from . import Scope, Transaction


def _edit_scopes(params: dict[str, Any]) -> list[Scope]:
    """Changing a parent excludes other changes of parents, and changing a queue excludes pausing it."""
    above = [edges_scope(params["project"]), scope(PARENTS, shared=True)]
    scopes = above if params.get("parent") is not None else []
    return scopes + ([scope("queues", params["project"], shared=True)] if params.get("queue") is not None else [])


@operation("tasks.edit", writes=True, strangers=True, scopes=_edit_scopes)
def edit(
    tx: Transaction,
    *,
    ref: Ref,
    agent: AgentId = "",
    project: Project = "",
    name: Name | None = None,
    body: Text | None = None,
    no_body: bool = False,
    was: AnyText | None = None,
    priority: Priority | None = None,
    queue: Label | None = None,
    tags: list[Label] = [],  # noqa: B006  (never changed; a tuple would not be JSON)
    no_tags: list[Label] = [],  # noqa: B006
    parent: Ref | None = None,
    no_parent: bool = False,
) -> Task:
    """Change what a task says; what is not given stays as it is.

    `tags` are added and `no_tags` removed; `no_body` and `no_parent` remove the description and the parent. With `was`,
    the call is refused unless the description still is this text (empty: there is none). Whoever holds the task
    keeps it.
    """
    if (body is not None and no_body) or (parent is not None and no_parent):
        raise Invalid(f"{'body' if no_body else 'parent'}: given and removed in the same call")
    task = find(tx, ref, project)
    above = None
    if parent is not None:
        tx.serialize("edges", task.project)
        tx.serialize(PARENTS, shared=True)
        above = find_here(tx, parent, task.project, "parent")
    if queue is not None:
        tx.serialize("queues", task.project, shared=True)
    task = find(tx, f"#{task.number}", project, "{lock}")
    if above is not None:
        refuse_circle(tx, task, above)
    if was is not None and was != (task.body or ""):
        raise Refused(
            f"the description of {called(task)} was changed meanwhile", reason="body-changed", number=task.number
        )
    wanted = {
        "name": name or task.name,
        "body": None if no_body else body or task.body,
        "priority": PRIORITIES.index(priority or task.priority),
        "queue": queue or task.queue,
        "tags": _tags(task, tags, no_tags),
        "parent": None if no_parent else above.number if above else task.parent,
    }
    return _write(tx, task, wanted, agent)


def _tags(task: Task, add: list[str], remove: list[str]) -> str:
    kept = dict.fromkeys(tag for tag in (*task.tags, *add) if tag not in remove)
    if len(kept) > MAX_LIST:
        raise Invalid(f"tags: {len(kept)} in all, the limit is {MAX_LIST}")
    return f" {' '.join(kept)} " if kept else ""


def _write(tx: Transaction, task: Task, wanted: dict[str, Any], agent: str) -> Task:
    before = dict(zip(Task.fields, row_of(task), strict=True))
    changed = {field: value for field, value in wanted.items() if value != before[field]}
    if not changed:
        return task
    if task.kind == JOB and {"priority", "queue"} & set(changed):
        _refuse_limited(tx, task)
    row = tx.first(_EDIT, number=task.number, **wanted)
    edited = record(Task, row) if row else task
    told: dict[str, Any] = {field: [getattr(task, field), getattr(edited, field)] for field in changed}
    if "body" in told:
        told["body"] = [task.body]  # what was overwritten; the task has the new text
    if "tags" in told:
        told["tags"] = [sorted({*task.tags} - {*edited.tags}), sorted({*edited.tags} - {*task.tags})]
    task_event(
        tx,
        "task.edited",
        edited,
        agent=agent,
        note=", ".join("description" if field == "body" else field for field in changed),
        data=told,
    )
    return find(tx, f"#{task.number}", task.project)


_SHOWN_ELSEWHERE = f"aside = CASE WHEN aside = {WAITS_FOR_QUEUE} AND queue <> :queue THEN 0 ELSE aside END"
"""A hidden task of a paused queue is hidden no more if it leaves that queue."""
_EDIT = (
    "UPDATE tasks SET name = :name, body = :body, priority = :priority, queue = :queue, tags = :tags, "
    "parent = :parent, updated_at = {now}, " + _SHOWN_ELSEWHERE + " WHERE number = :number RETURNING " + STORED
)


def _refuse_limited(tx: Transaction, task: Task) -> None:
    """Refuse to reorder a job with a limit: which jobs of its group are visible was decided by queue and priority."""
    row = tx.first("SELECT limit_group FROM tasks WHERE number = :number", number=task.number)
    if row is not None and row[0] is not None:
        raise Refused(f"{called(task)} is in group {row[0]}, which has a limit: its queue and priority stay")
