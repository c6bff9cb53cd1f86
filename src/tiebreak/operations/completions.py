"""Completions of many tasks in one step: one statement for all of them, each fenced by itself.

A worker that is given a hundred short tasks at once would pay a statement for the end of each. Here the list travels
as one parameter, and the fence is the same one as for a single task: holder, epoch and lease of its own row.
"""

from __future__ import annotations

import json

from ..errors import Invalid
from ..model import Task, record
from . import operation
from .claims import COMPLETED, stale
from .dependencies import release_dependents
from .events import of_task
from .grants import writing
from .references import STORED, address, lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Epoch, Project, Ref
    from . import Transaction

_LISTED = "WITH listed AS MATERIALIZED (SELECT value ->> 0 AS ref, CAST(value ->> 1 AS BIGINT) AS fence FROM {each}) "
_NAMED = {"number": "tasks.number = CAST(listed.ref AS BIGINT)", "id": "tasks.id = listed.ref"}
_COMPLETE = {
    column: _LISTED
    + writing("tasks", COMPLETED, f"{this} AND state = 'claimed'", STORED, "listed").replace(":epoch", "listed.fence")
    for column, this in _NAMED.items()
}
_FOLLOWED = _LISTED + "SELECT DISTINCT after FROM edges JOIN listed ON edges.after = CAST(listed.ref AS BIGINT)"


@operation("tasks.complete_many", writes=True)
def complete_many(
    tx: Transaction,
    *,
    refs: list[Ref],
    agent: AgentId = "",
    project: Project = "",
    epochs: list[Epoch] = [],  # noqa: B006  (never changed; a tuple would not be JSON)
) -> list[Task]:
    """Finish as many of these claimed tasks as are still yours, in one step; the others are left out.

    `epochs` are those of the claims, one for each task or none at all.
    """
    if epochs and len(epochs) != len(refs):
        raise Invalid("epochs: give one for each task, or none at all")
    wanted = {_named(tx, ref, project): epoch for ref, epoch in zip(refs, epochs or [0] * len(refs), strict=True)}
    done: dict[tuple[str, Any], Task] = {}
    for column, statement in _COMPLETE.items():
        asked = [(value, epoch) for (named, value), epoch in wanted.items() if named == column]
        for row in tx.all(statement, listed=json.dumps(asked), agent=agent, result=None) if asked else ():
            task = record(Task, row)
            done["number", task.number] = done["id", task.id] = task
    for named, epoch in wanted.items():
        if named not in done and (other := lookup(tx, _ref(*named), project)) is not None:
            stale(tx, other, agent, epoch)  # nobody is told but the log
    ended = list({done[named].number: done[named] for named in wanted if named in done}.values())
    for task in ended:
        of_task(tx, "task.completed", task, agent=agent, epoch=task.epoch)
    _let_others_go_on(tx, ended)
    return ended


def _named(tx: Transaction, ref: str, project: str) -> tuple[str, Any]:
    """Which column names a task, and the value there; a key is looked up."""
    column, value = address(ref)
    if column != "key":
        return column, value
    task = lookup(tx, ref, project)
    return ("number", 0) if task is None else ("number", task.number)


def _ref(column: str, value: Any) -> str:
    return f"#{value}" if column == "number" else str(value)


def _let_others_go_on(tx: Transaction, ended: list[Task]) -> None:
    """What `let_others_go_on` does for one, with one look for all."""
    rows = tx.all(_FOLLOWED, listed=json.dumps([(task.number, 0) for task in ended])) if ended else []
    followed = {number for (number,) in rows}
    for task in ended:
        if task.number in followed:
            release_dependents(tx, task)
