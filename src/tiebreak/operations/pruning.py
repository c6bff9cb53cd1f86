"""Pruning: forgetting what is old enough, in one project or in all of them.

Pruning removes history, never anything that a decision needs. Live tasks and holds stay. A pruned task's key leaves its
epoch behind (table `marks`), and a hold's row stays for its epoch. The row with the newest number of each log stays, so
that no number is used twice. Tasks are locked before they are checked once more and deleted, so none of them is
reopened and no new task comes after one meanwhile.

What is old enough is written once, in `_Old`: `upkeep.prunable` counts by the same conditions by which `upkeep.prune`
deletes.
"""

from __future__ import annotations

from ..clock import micros
from ..limits import KEPT, MAX_ANSWER_KEPT, MAX_LIMIT, MIN_ANSWER_KEPT
from ..model import Pruned, record
from ..text import span
from . import PARENTS, operation, scope
from .agents import signs_of_life
from .events import append
from .grants import remembering
from .rows import given, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import Limit, Project, Seconds
    from . import Transaction


# A comment is kept as long as its task.
_TASK_GONE = " AND (task IS NULL OR NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.number = messages.task))"
_LOGS = (("{log}", "at", ""), ("messages", "sent_at", _TASK_GONE))


class _Old:
    """What is old enough to be forgotten: a condition for each table, and the parameters that all of them share."""

    def __init__(self, tx: Transaction, older_than: float, project: str | None) -> None:
        self.project = project
        self.before = tx.now - micros(older_than)
        # Answers are for callers that try again, so they are not kept as long as other history.
        answers = min(max(self.before, tx.now - micros(MAX_ANSWER_KEPT)), tx.now - micros(MIN_ANSWER_KEPT))
        self.params: dict[str, Any] = {"before": self.before}
        self.answer_params: dict[str, Any] = {"before": answers}
        here = ""
        if project is not None:
            here = " AND project = :project"
            self.params["project"] = project
            self.answer_params["prefix"] = f"{project}\n"
        # A task is kept while an unfinished task comes after it or is a part of it, and while its end has deferred
        # work. The newest task stays, so that no number is used twice.
        self.tasks = (
            "finished_at > 0 AND finished_at <= :before AND number < (SELECT max(number) FROM tasks) "
            "AND NOT EXISTS (SELECT 1 FROM edges JOIN tasks AS later ON later.number = edges.task "
            "WHERE edges.after = tasks.number AND later.finished_at = 0) "
            "AND NOT EXISTS (SELECT 1 FROM tasks AS child WHERE child.parent = tasks.number AND child.finished_at = 0) "
            "AND NOT EXISTS (SELECT 1 FROM chores WHERE chores.project = tasks.project AND chore = 'dependents' "
            f"AND subject = CAST(tasks.number AS TEXT)){here and ' AND tasks.project = :project'}"
        )
        self.here = here
        self.logs = [
            (table, f"{column} <= :before AND number < (SELECT max(number) FROM {table}){here}", also)
            for table, column, also in _LOGS
        ]
        self.agents = f"seen_at <= :before{here}"
        # The key of an answer begins with the project of its call (see `operations`).
        self.answers = f"at <= :before{' AND substr(once, 1, length(:prefix)) = :prefix' if here else ''}"

    def gone_agents(self, tx: Transaction) -> list[tuple[str, str]]:
        """The agents that gave no sign of life since then, neither a heartbeat nor an event: project and id."""
        long_unseen = f"SELECT project, id FROM agents WHERE {self.agents} ORDER BY seen_at, project, id"
        signs = signs_of_life(tx, self.project)
        alive = {project_and_id for project_and_id, (_, latest) in signs.items() if latest > self.before}
        return [(project, id_) for project, id_ in tx.all(long_unseen, **self.params) if (project, id_) not in alive]


@operation("upkeep.prunable", writes=False, strangers=False)
def prunable(tx: Transaction, *, older_than: Seconds = KEPT, project: Project | None = None) -> Pruned:
    """Count what `upkeep.prune` would delete in one project, or in all projects if none is named; writes nothing."""
    old = _Old(tx, older_than, project)
    counts = [_count(tx, "tasks", old.tasks, old.params)]
    # The comments on the tasks that would be deleted would go with them.
    gone = _TASK_GONE.replace("messages.task)", f"messages.task AND NOT ({old.tasks}))")
    counts += [_count(tx, table, where + (gone if also else ""), old.params) for table, where, also in old.logs]
    counts += [len(old.gone_agents(tx)), _count(tx, "answers", old.answers, old.answer_params)]
    return record(Pruned, (*counts, 0))


def _count(tx: Transaction, table: str, where: str, params: dict[str, Any]) -> int:
    row = tx.first(f"SELECT count(*) FROM {table} WHERE {where}", **params)
    return int(row[0]) if row else 0


@operation("upkeep.prune", writes=True, strangers=False, scopes=lambda _: [scope(PARENTS)])
def prune(
    tx: Transaction, *, older_than: Seconds = KEPT, limit: Limit = MAX_LIMIT, project: Project | None = None
) -> Pruned:
    """Delete finished tasks, events, messages, agents and stored answers that are older than this; one small step.

    Of one project, or of all projects if none is named. Call it again while the answer says that there is more.
    """
    tx.serialize(PARENTS)  # no task becomes a part of one that is deleted here
    old = _Old(tx, older_than, project)
    tasks, more = _prune_tasks(tx, old, limit)
    counts = [tasks, *(_prune_log(tx, table, where, also, old, limit) for table, where, also in old.logs)]
    counts.append(_prune_agents(tx, old, limit))
    counts.append(_prune_answers(tx, old, limit))
    pruned = record(Pruned, (*counts, int(more or limit in counts)))
    # Not if a single event was all that was deleted: otherwise each step would write an event for the next to delete.
    if any(counts[:1] + counts[2:]) or counts[1] > 1:
        note = ", ".join(f"{count} {name}" for name, count in zip(Pruned.fields, counts, strict=False) if count)
        append(tx, "board.pruned", project or "", name=f"older than {span(older_than)}", note=note)
    return pruned


def _prune_tasks(tx: Transaction, old: _Old, limit: int) -> tuple[int, bool]:
    """Delete old tasks and store the epochs of their keys; how many were deleted, and whether there are more.

    The tasks are locked first, then checked once more: from then on none of them is reopened, and no new task comes
    after one. A task that another transaction has locked is left for the next step. One step deletes tasks with keys of
    one project only, and no task with a key is added there meanwhile.

    A task with very many edges loses `limit` of them in each step and is deleted when it has none. Until then some of
    the tasks that come after it, all of which have ended, have lost their edge to it.
    """
    found = tx.all(
        f"SELECT number, project, key FROM tasks WHERE {old.tasks} ORDER BY finished_at, number LIMIT :limit "
        "{skip_locked}",
        limit=limit,
        **old.params,
    )
    keyed = next((project for _, project, key in found if key is not None), None)
    if keyed is not None:
        tx.serialize("keys", keyed)
    numbers = sorted(number for number, project, key in found if key is None or project == keyed)
    count, edges, more = 0, limit, len(numbers) < len(found)
    for these, params in listed("n", numbers):
        still = tx.all(f"SELECT number FROM tasks WHERE number IN ({these}) AND {old.tasks}", **old.params, **params)
        for gone, those in listed("n", [number for (number,) in still]):
            edges -= _prune_edges(tx, gone, those, edges)
            if edges <= 0:
                return count, True
            tx.all(remembering(f"number IN ({gone})"), **those)
            tx.all(f"DELETE FROM outputs WHERE task IN ({gone})", **those)
            count += len(tx.all(f"DELETE FROM tasks WHERE number IN ({gone}) RETURNING number", **those))
    return count, more


def _prune_edges(tx: Transaction, gone: str, those: dict[str, int], most: int) -> int:
    """Delete edges to and from some tasks, this many at most; how many were deleted."""
    rows = tx.all(
        f"SELECT task, after FROM edges WHERE task IN ({gone}) UNION "
        f"SELECT task, after FROM edges WHERE after IN ({gone}) LIMIT :most",
        most=most,
        **those,
    )
    for table, params in given(("t", "a"), rows):
        tx.all(f"{table}DELETE FROM edges WHERE (task, after) IN (SELECT t, a FROM given)", **params)
    return len(rows)


def _prune_log(tx: Transaction, table: str, where: str, also: str, old: _Old, limit: int) -> int:
    """Delete the oldest rows of a log. A log is in order of time, so they are among those with the lowest numbers."""
    # `also` already narrows the search, or a step would find nothing but comments that are kept.
    first = f"SELECT number FROM {table} WHERE TRUE{also}{old.here} ORDER BY number LIMIT :limit"
    rows = tx.all(
        f"DELETE FROM {table} WHERE number IN ({first}) AND {where} RETURNING number",
        limit=limit,
        **old.params,
    )
    if table == "messages":
        for (number,) in rows:
            tx.all("DELETE FROM acks WHERE message = :number", number=number)
    return len(rows)


def _prune_agents(tx: Transaction, old: _Old, limit: int) -> int:
    """Delete agents that gave no sign of life."""
    deleted = [
        tx.first(
            "DELETE FROM agents WHERE project = :project AND id = :id AND seen_at <= :before RETURNING id",
            project=project,
            id=id_,
            before=old.before,
        )
        for project, id_ in old.gone_agents(tx)[:limit]
    ]
    return sum(row is not None for row in deleted)


def _prune_answers(tx: Transaction, old: _Old, limit: int) -> int:
    rows = tx.all(
        f"DELETE FROM answers WHERE once IN (SELECT once FROM answers WHERE {old.answers} ORDER BY at LIMIT :limit) "
        "RETURNING once",
        limit=limit,
        **old.answer_params,
    )
    return len(rows)
