"""References and columns: how callers name a task, and how reads show its row.

Expiry needs no sweeper: a task whose claim has lapsed can be won again, so every read shows it as pending. A task whose
attempts are used up cannot be won, and it has not failed until that is written, so reads show it as claimed. Both are
marked as lapsed. This rule is written once, here, as `STATE`.
"""

from __future__ import annotations

from ..errors import Invalid, NotFound
from ..model import Task, columns, record
from ..names import is_uuid, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import Transaction

LAPSED = "(state = 'claimed' AND until <= {now})"
WINNABLE = f"({LAPSED} AND attempts < max_attempts)"
"""A condition: the claim has lapsed and the task has another attempt."""
STORED = columns(Task).replace(" lapsed", f" CASE WHEN {LAPSED} THEN 1 ELSE 0 END AS lapsed")
"""A task's columns as they are stored."""
STATE = f"CASE WHEN {WINNABLE} THEN 'pending' ELSE state END"
SHOWN = STORED.replace(" state,", f" {STATE},").replace(
    " holder, epoch, until,",
    f" CASE WHEN {WINNABLE} THEN NULL ELSE holder END, epoch, CASE WHEN {WINNABLE} THEN 0 ELSE until END,",
)
"""A task's columns as reads show them: a task that can be won again has no holder."""
FINISHED = "ready_at = 0, finished_at = {now}, updated_at = {now}"
"""What every end of a task changes, besides the end of its grant."""
HIDDEN_IF_LIMITED = "aside = CASE WHEN limit_group IS NULL THEN 0 ELSE 1 END"
"""What is written when a task may become ready: one with a limit is hidden until its group is reconsidered."""
BY_COLUMN = {
    "number": "number = :value",
    "id": "id = :value",
    "key": "project = :project AND key = :value",
}
"""The condition that finds a task by each column that `column_and_value` names."""


def column_and_value(ref: str) -> tuple[str, Any]:
    """The column that a reference is compared with, and the value to search for."""
    if ref.startswith("#"):
        if not ref[1:].isdecimal() or len(ref) > 16:
            raise Invalid(f"ref: {shown(ref)} is not a task number such as #42")
        return "number", int(ref[1:])
    if is_uuid(ref):
        return "id", ref.lower()
    return "key", ref


def find(tx: Transaction, ref: str, project: str, lock: str = "") -> Task:
    """The task that a reference names, as reads show it; raises `NotFound`.

    With `lock` (`{share}` or `{lock}`) the row is locked until this transaction ends.
    """
    task = lookup(tx, ref, project, lock)
    if task is None:
        where = f" in project {project}" if column_and_value(ref)[0] == "key" else ""
        raise NotFound(f"no task {shown(ref)}{where}", reason="task-unknown")
    return task


def lookup(tx: Transaction, ref: str, project: str, lock: str = "") -> Task | None:
    """The task that a reference names, or None. A key takes precedence over the beginning of an id."""
    column, value = column_and_value(ref)
    task = _by(tx, column, value, project, lock)
    if task is None and column == "key" and (task := _by_prefix(tx, ref.lower(), project)) and lock:
        return _by(tx, "number", task.number, project, lock)
    return task


def by_key(tx: Transaction, key: str, project: str) -> Task | None:
    """The task that has this key, or None."""
    return _by(tx, "key", key, project)


def _by(tx: Transaction, column: str, value: Any, project: str, lock: str = "") -> Task | None:
    row = tx.first(
        f"SELECT {SHOWN} FROM tasks WHERE {BY_COLUMN[column]} {lock}",
        value=value,
        project=project,
    )
    return None if row is None else record(Task, row)


def tagged(param: str = "tag") -> str:
    """A condition: the task has the tag in this parameter, which has a blank on both sides like the stored tags."""
    return f"tags <> '' AND {{position}}(tags, :{param}) > 0"


def _by_prefix(tx: Transaction, prefix: str, project: str) -> Task | None:
    if not 4 <= len(prefix) < 36 or not all(c in "0123456789abcdef-" for c in prefix):
        return None
    rows = tx.all(
        f"SELECT {SHOWN} FROM tasks WHERE id >= :low AND id < :high AND project || '' = :project ORDER BY id LIMIT 2",
        low=prefix,
        high=prefix + "g",
        project=project,
    )
    if len(rows) > 1:
        raise Invalid(
            f"ref: {shown(prefix)} is the beginning of more than one id",
            hint="use #number or more characters",
        )
    return record(Task, rows[0]) if rows else None


def called(task: Task) -> str:
    """The task's number and name, for messages."""
    return f"#{task.number} {task.key or task.name!r}"
