"""Exporting: the tasks of a project as entries, in the form that `tasks.import` takes.

An entry names other tasks by their ids, and only tasks that the same export has: whoever imports all pages finds every
reference. Jobs and questions are left out, and so is what belongs to this board alone: claims, attempts, times and
events.

Each page is one moment. A task that changes between two pages is exported as it was when its page was read, so a
caller that needs every reference to be there drops those that no page had. This module only reads.
"""

from __future__ import annotations

from ..clock import SECOND
from ..limits import ATTEMPTS, BACKOFF, LISTED, MAX_LIST
from ..model import Task, record, row_of
from ..names import FINAL, STATES
from ..task_entries import KINDS_LEFT_OUT
from ..text import moment
from . import operation
from .importing import IMPORTED
from .references import SHOWN, STATE
from .rows import listed
from .tasks import stored_states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import Json, Limit, Number, Project, State
    from . import Transaction

_MOST_BYTES = 2 * 1024 * 1024
"""About how large a page may become, whatever its limit is. It has one task at least."""
_LEFT_OUT = ", ".join(f"'{kind}'" for kind in KINDS_LEFT_OUT)
_SIZE = (
    "coalesce(length(body), 0) + coalesce(length(payload), 0) + coalesce(length(result), 0) + coalesce((SELECT "
    "sum(length(messages.body)) FROM messages WHERE messages.task = tasks.number), 0)"
)


@operation("tasks.export", writes=False, strangers=True)
def export(
    tx: Transaction,
    *,
    project: Project = "",
    states: list[State] | None = None,
    after: Number = 0,
    limit: Limit = LISTED,
) -> Json:
    """Return tasks as entries for `tasks.import`, in the order of their numbers, with their comments.

    The answer is `{entries, next, cut}`. For the next page, `after` is `next`, which is null at the end. `cut` lists
    the numbers of tasks with more comments than an entry may have: only the newest are exported. Without `states`, all
    tasks are exported. Jobs and questions are not, nor is a dependency on one.
    """
    wanted = f"project = :project AND kind NOT IN ({_LEFT_OUT}) AND max_attempts > 0"
    chosen = [f"{wanted} AND {state}" for state in stored_states(states)]
    numbers, more = _page(tx, chosen, project, after, limit)
    rows: list[tuple[Any, ...]] = []
    for these, params in listed("n", numbers):
        rows += tx.all(f"SELECT {SHOWN}, backoff, run_anyway FROM tasks WHERE number IN ({these})", **params)
    tasks = {row[0]: (record(Task, row[:-2]), row[-2], row[-1]) for row in rows}
    others = _Others(project, states)
    parents = others.parents(tx, sorted({task.parent for task, _, _ in tasks.values() if task.parent}))
    before = others.before(tx, numbers)
    comments, cut = _comments(tx, numbers)
    entries = []
    for number, (task, backoff, anyway) in sorted(tasks.items()):
        entry = _entry(tx, task, backoff, anyway)
        entry["parent"] = parents.get(task.parent or 0)
        entry["after"] = before.get(number)
        entry["comments"] = comments.get(number)
        entries.append({field: value for field, value in entry.items() if value is not None})
    return {"entries": entries, "next": numbers[-1] if more else None, "cut": cut}


def _page(tx: Transaction, chosen: list[str], project: str, after: int, limit: int) -> tuple[list[int], bool]:
    """The numbers of the next tasks, and whether there are more."""
    found: dict[int, int] = {}
    for where in chosen:
        found.update(
            tx.all(
                f"SELECT number, {_SIZE} FROM tasks WHERE {where} AND number > :after ORDER BY number LIMIT :most",
                project=project,
                after=after,
                most=limit + 1,
            )
        )
    numbers: list[int] = []
    size = 0
    for number in sorted(found):
        size += found[number]
        if len(numbers) == limit or (numbers and size > _MOST_BYTES):
            return numbers, True
        numbers.append(number)
    return numbers, False


class _Others:
    """The tasks that tasks refer to; only those that are exported, too.

    That is decided here and not by the statements: with so many conditions, a planner would rather begin with all
    exported tasks than with the few that are named.
    """

    _COLUMNS = f"tasks.id, project, kind, max_attempts, {STATE}"

    def __init__(self, project: str, states: list[str] | None) -> None:
        self._project = project
        self._states = STATES if states is None else states

    def _has(self, project: str, kind: str, max_attempts: int, state: str) -> bool:
        here = project == self._project and kind not in KINDS_LEFT_OUT and max_attempts > 0
        return here and state in self._states

    def parents(self, tx: Transaction, numbers: list[int]) -> dict[int, str]:
        """The id of each of these tasks."""
        found: dict[int, str] = {}
        for these, params in listed("n", numbers):
            rows = tx.all(f"SELECT number, {self._COLUMNS} FROM tasks WHERE number IN ({these})", **params)
            found.update((number, id_) for number, id_, *facts in rows if self._has(*facts))
        return found

    def before(self, tx: Transaction, numbers: list[int]) -> dict[int, list[str]]:
        """For each of these tasks the ids of those that it comes after."""
        found: dict[int, list[str]] = {}
        for these, params in listed("n", numbers):
            rows = tx.all(
                f"SELECT edges.task, {self._COLUMNS} FROM edges JOIN tasks ON tasks.number = edges.after "
                f"WHERE edges.task IN ({these}) ORDER BY edges.task, edges.after",
                **params,
            )
            for number, id_, *facts in rows:
                if self._has(*facts):
                    found.setdefault(number, []).append(id_)
        return found


def _comments(tx: Transaction, numbers: list[int]) -> tuple[dict[int, list[dict[str, str]]], list[int]]:
    """The comments on each task, and the tasks that have more than an entry may have."""
    counts: dict[int, int] = {}
    for these, params in listed("n", numbers):
        counts.update(tx.all(f"SELECT task, count(*) FROM messages WHERE task IN ({these}) GROUP BY task", **params))
    rows: list[tuple[Any, ...]] = []
    for these, params in listed("n", [number for number, count in counts.items() if count <= MAX_LIST]):
        rows += tx.all(
            f"SELECT number, task, sender, body, sent_at FROM messages WHERE task IN ({these}) ORDER BY number",
            **params,
        )
    cut = sorted(number for number, count in counts.items() if count > MAX_LIST)
    for number in cut:
        newest = (
            "SELECT number, task, sender, body, sent_at FROM messages WHERE task = :task "
            "ORDER BY number DESC LIMIT :most"
        )
        rows += reversed(tx.all(newest, task=number, most=MAX_LIST))
    found: dict[int, list[dict[str, str]]] = {}
    for _, task, sender, body, at in rows:
        comment = {"author": sender.removesuffix(IMPORTED), "text": body, "at": moment(at)}
        found.setdefault(task, []).append(comment)
    return found, cut


def _entry(tx: Transaction, task: Task, backoff: int, anyway: int) -> dict[str, Any]:
    """A task as an entry, without what refers to it. What has its usual value is None."""
    ended = task.state in FINAL
    due = row_of(task)[_READY_AT]
    return {
        "id": task.id,
        "number": task.number,
        "key": task.key,
        "name": task.name,
        "body": task.body,
        "kind": _unless(task.kind, "task"),
        "priority": _unless(task.priority, "normal"),
        "queue": _unless(task.queue, "default"),
        "tags": list(task.tags) or None,
        "payload": task.payload,
        "state": task.state,
        "reason": task.reason if ended else None,
        "result": task.result if ended else None,
        "run_anyway": True if anyway else None,
        "max_attempts": _unless(task.max_attempts, ATTEMPTS),
        "backoff": _unless(backoff / SECOND, BACKOFF),
        "at": moment(due) if due > tx.now and not ended else None,
    }


_READY_AT = Task.fields.index("ready_at")


def _unless(value: Any, usual: Any) -> Any:
    return None if value == usual else value
