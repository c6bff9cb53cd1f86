"""References and columns: how callers name a task, and how reads show its row.

A reference is one of these:

- `#42`: the task with this number. Numbers count through the whole board.
- `42`: the same, because a shell takes `#42` for a comment. If no task has the number, but one of the project has it as
  its key, that task is meant. If both exist and differ, the reference is refused: neither is more likely.
- `key:42`: the task whose key is made of digits alone, whatever numbers exist.
- An id, or the beginning of one that no other id has.
- Anything else is a key.

Expiry needs no sweeper: a task whose claim has lapsed can be won again, so every read shows it as pending. A task whose
attempts are used up cannot be won, and it has not failed until that is written, so reads show it as claimed. Both are
marked as lapsed. This rule is written once, here, as `STATE`.
"""

from __future__ import annotations

from ..errors import Invalid, NotFound
from ..model import Task, columns, record
from ..names import MOST_DIGITS, is_digits, is_uuid, key_of, number_of, shown

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
WAITS_FOR_QUEUE = 2
"""The value of `aside` for a hidden task of a paused queue."""
WAITS_FOR_PERSON = 3
"""The value of `aside` for a question, which no search for the next task finds."""
OPEN = {
    "claimed": ("state = 'claimed' AND until > {now}", f"{LAPSED} AND attempts >= max_attempts"),
    "ready": (
        "state = 'pending' AND ready_at = 0 AND aside = 0",
        f"state = 'pending' AND ready_at = 0 AND aside > 0 AND aside <> {WAITS_FOR_PERSON}",
        WINNABLE,
    ),
    "delayed": ("state = 'pending' AND ready_at > 0",),
    "blocked": ("state = 'blocked'",),
}
"""Conditions by which open tasks are counted. Each has its own index, so that counting reads no rows of the table."""
ASIDE_IF_READY = (
    f"aside = CASE WHEN max_attempts = 0 THEN {WAITS_FOR_PERSON} WHEN limit_group IS NULL THEN 0 ELSE 1 END"
)
"""What is written when a task may become ready.

One with a limit is hidden until its group is reconsidered, and a question is always hidden.
"""
BY_COLUMN = {
    "number": "number = :value",
    "id": "id = :value",
    "key": "project = :project AND key = :value",
}
"""The condition that finds a task by each column that `column_and_value` names."""
DIGITS = "digits"
"""What `column_and_value` answers for a number without `#`, which is no column: see `settled`."""


def column_and_value(ref: str) -> tuple[str, Any]:
    """The column that a reference is compared with, and the value to search for."""
    if ref.startswith("#"):
        return "number", number_of(ref)
    if is_digits(ref):
        return DIGITS, ref
    if is_uuid(ref):
        return "id", ref.lower()
    return "key", key_of(ref)


def settled(tx: Transaction, ref: str, project: str) -> tuple[str, Any]:
    """Like `column_and_value`, but always a unique column of a task's row; raises `NotFound` for an unknown key."""
    column, value = column_and_value(ref)
    if column in ("number", "id"):
        return column, value
    return "number", find(tx, ref, project).number


def find(tx: Transaction, ref: str, project: str, lock: str = "") -> Task:
    """The task that a reference names, as reads show it; raises `NotFound`.

    With `lock` (`{share}` or `{lock}`) the row is locked until this transaction ends.
    """
    task = lookup(tx, ref, project, lock)
    if task is not None:
        return task
    column = column_and_value(ref)[0]
    if column == DIGITS:
        raise NotFound(
            f"no task #{ref}, and none in project {project} has the key {ref}", reason="number-unknown", key=ref
        )
    where = f" in project {project}" if column == "key" else ""
    raise NotFound(f"no task {shown(ref)}{where}", reason="task-unknown")


def find_here(tx: Transaction, ref: str, project: str, what: str, lock: str = "") -> Task:
    """Like `find`, but a task of another project is refused."""
    task = find(tx, ref, project, lock)
    if task.project != project:
        raise Invalid(f"{what}: {called(task)} is in project {task.project}, not in {project}")
    return task


def lookup(tx: Transaction, ref: str, project: str, lock: str = "") -> Task | None:
    """The task that a reference names, or None. A key takes precedence over the beginning of an id."""
    column, value = column_and_value(ref)
    if column in ("number", "id"):
        return _by(tx, column, value, project, lock)
    task = _by_digits(tx, value, project) if column == DIGITS else _by(tx, column, value, project, lock)
    if task is None and value == ref:
        task = _by_prefix(tx, ref.lower(), project)
    elif column == "key":
        return task
    return _by(tx, "number", task.number, project, lock) if task is not None and lock else task


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


def _by_digits(tx: Transaction, digits: str, project: str) -> Task | None:
    """The task that has this number, else the one that has it as its key."""
    is_number = digits[0] != "0" and len(digits) <= MOST_DIGITS  # ids of our time begin with a zero
    numbered = _by(tx, "number", int(digits), project) if is_number else None
    keyed = _by(tx, "key", digits, project)
    if numbered is not None and keyed is not None and numbered.number != keyed.number:
        raise Invalid(
            f"{digits} is the number of {called(numbered)} and the key of {called(keyed)}",
            hint=f"use '#{numbered.number}' or '#{keyed.number}'; key:{digits} is the key, too",
        )
    return keyed if numbered is None else numbered


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
            f"{shown(prefix)} is the beginning of more than one id",
            hint="use #number or more characters",
        )
    return record(Task, rows[0]) if rows else None


def called(task: Task) -> str:
    """The task's number and name, for messages."""
    return f"#{task.number} {task.key or task.name!r}"


def is_question(task: Task) -> bool:
    """Whether a person has to answer this task. Older boards have ordinary tasks whose kind is `question`, too."""
    return task.max_attempts == 0
