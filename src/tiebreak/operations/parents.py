"""Parents and children: tasks that are parts of another task.

A parent says where a task belongs, and nothing else: it neither waits for its children nor holds them back. Whoever
wants that adds dependencies. A task and its parent are in the same project, and no task is a part of itself, however
many levels are between.

Why no circle is ever closed: whoever gives an existing task another parent holds the scope of the project's edges
exclusively. A new task cannot close one, because nothing is a part of it yet. Whoever writes the number of a parent to
a child shares the scope `PARENTS`, so the parent is not pruned meanwhile.
"""

from __future__ import annotations

from ..errors import Refused
from ..limits import LISTED
from ..model import Task, record
from ..names import FINAL
from . import operation
from .references import SHOWN, called, find
from .rows import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..names import Limit, Project, Ref
    from . import Transaction

_MOST_LEVELS = 1000
"""How many levels a search climbs, as a limit that no tree of work reaches."""


def refuse_circle(tx: Transaction, task: Task, parent: Task) -> None:
    """Refuse to make a task a part of itself, or of one of its own parts."""
    if task.number == parent.number:
        raise Refused(f"{called(task)} cannot be a part of itself")
    above = tx.first(
        "WITH RECURSIVE above (n) AS (SELECT CAST(:parent AS BIGINT) UNION "
        "SELECT tasks.parent FROM above JOIN tasks ON tasks.number = above.n WHERE tasks.parent IS NOT NULL) "
        "SELECT n FROM above WHERE n = :number",
        parent=parent.number,
        number=task.number,
    )
    if above is not None:
        raise Refused(f"{called(task)} cannot be a part of {called(parent)}, which is a part of it")


@operation("tasks.tree", writes=False, strangers=True)
def tree(
    tx: Transaction, *, project: Project = "", ref: Ref | None = None, every: bool = False, limit: Limit = LISTED
) -> list[Task]:
    """List tasks with their parents, each task directly before its children, which are in the order of their numbers.

    With `ref`, that task and everything below it; otherwise the newest `limit` open tasks of the project and whatever
    they are parts of. Finished tasks are listed only as parents of others, unless `every` is true.
    """
    if ref is not None:
        return _ordered(_below(tx, find(tx, ref, project), every, limit))
    from .tasks import listing

    newest = listing(tx, project=project, states=None if every else ["blocked", "pending", "claimed"], limit=limit)
    return _ordered(_with_parents(tx, {task.number: task for task in newest}))


def _below(tx: Transaction, top: Task, every: bool, limit: int) -> dict[int, Task]:
    """A task and its children, their children and so on, up to `limit` in all."""
    found, level = {top.number: top}, [top.number]
    while level and len(found) < limit:
        children: list[Task] = []
        for those, params in listed("n", level):
            rows = tx.all(
                f"SELECT {SHOWN} FROM tasks WHERE parent IN ({those}) ORDER BY number LIMIT :most",
                most=limit - len(found),
                **params,
            )
            children += [record(Task, row) for row in rows]
        level = [child.number for child in children if child.number not in found]
        found.update((child.number, child) for child in children[: limit - len(found)])
    return found if every else _unfinished_and_above(found, top)


def _unfinished_and_above(found: dict[int, Task], top: Task) -> dict[int, Task]:
    """Without the finished tasks that have no unfinished ones below them; the top stays."""
    kept = {top.number}
    for task in found.values():
        here: int | None = task.number if task.state not in FINAL else None
        while here is not None and here not in kept:
            kept.add(here)
            here = found[here].parent
    return {number: task for number, task in found.items() if number in kept}


def _with_parents(tx: Transaction, found: dict[int, Task]) -> dict[int, Task]:
    """Add the parents of these tasks, their parents and so on. A parent that was pruned is left out."""
    missing = {task.parent for task in found.values() if task.parent is not None} - set(found)
    for _ in range(_MOST_LEVELS):
        if not missing:
            break
        parents: list[Task] = []
        for those, params in listed("n", sorted(missing)):
            rows = tx.all(f"SELECT {SHOWN} FROM tasks WHERE number IN ({those})", **params)
            parents += [record(Task, row) for row in rows]
        found.update((task.number, task) for task in parents)
        missing = {task.parent for task in parents if task.parent is not None} - set(found)
    return found


def _ordered(found: dict[int, Task]) -> list[Task]:
    """Each task directly before its children; tasks whose parent is not among them come first by their numbers."""
    children: dict[int | None, list[int]] = {}
    for number in sorted(found, reverse=True):
        parent = found[number].parent
        children.setdefault(parent if parent in found else None, []).append(number)
    out: list[Task] = []
    left = children.get(None, [])
    while left:
        number = left.pop()
        out.append(found[number])
        left += children.get(number, [])
    return out
