"""Graphs: which tasks come before and after a task, directly or indirectly. This module only reads."""

from __future__ import annotations

from ..limits import SENTENCES
from ..model import Task, encode, record
from . import operation
from .references import SHOWN, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..names import Json, Limit, Project, Ref
    from . import Transaction

_FIELDS = ("number", "id", "name", "kind", "queue", "state", "reason", "holder", "attempts", "max_attempts", "progress")


@operation("jobs.graph", writes=False, strangers=True)
def graph(tx: Transaction, *, ref: Ref, project: Project = "", limit: Limit = SENTENCES) -> Json:
    """Return the tasks that a task comes after and those that come after it, directly or indirectly, as a graph.

    `nodes` are in the order of their numbers. `edges` are `[before, after]`. `cut` says that there are more tasks.
    """
    task = find(tx, ref, project)
    near = _reached(tx, task.number, "task", "after", limit) | _reached(tx, task.number, "after", "task", limit)
    numbers = sorted(near | {task.number}, key=lambda number: abs(number - task.number))[:limit]
    nodes, edges = [], []
    for number in sorted(numbers):
        [row] = tx.all(f"SELECT {SHOWN} FROM tasks WHERE number = :number", number=number)
        shown = encode(record(Task, row))
        nodes.append({name: shown[name] for name in _FIELDS})
        before = tx.all("SELECT after FROM edges WHERE task = :number ORDER BY after", number=number)
        edges += [[earlier, number] for (earlier,) in before if earlier in numbers]
    return {"number": task.number, "nodes": nodes, "edges": edges, "cut": len(near | {task.number}) > len(numbers)}


def _reached(tx: Transaction, number: int, here: str, there: str, limit: int) -> set[int]:
    """The tasks that can be reached by following edges in one direction."""
    rows = tx.all(
        f"WITH RECURSIVE reached (n) AS (SELECT {there} FROM edges WHERE {here} = :number UNION "
        f"SELECT edges.{there} FROM edges JOIN reached ON edges.{here} = reached.n) "
        "SELECT tasks.number FROM reached JOIN tasks ON tasks.number = reached.n LIMIT :most",
        number=number,
        most=limit + 1,
    )
    return {row[0] for row in rows}
