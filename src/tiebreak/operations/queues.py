"""Queues: a queue exists because tasks name it, and it can be paused.

While a queue is paused, `tasks.next` and `jobs.next` take nothing from it. Claimed tasks are not affected, and a task
can still be claimed by its number, id or key.

Pausing and resuming take the scope of the project's queues exclusively, and every call that takes from queues shares
it. So no task of a queue is won by such a call after the pause was committed.
"""

from __future__ import annotations

from ..model import Queue, record
from . import deferred_work, operation, scope
from .events import append
from .picking import MOST_PAUSED, hide_paused_tasks
from .references import ASIDE_IF_READY, WAITS_FOR_PERSON, WAITS_FOR_QUEUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Label, Note, Project
    from . import Scope, Transaction
    from .deferred_work import Item


def _queues_scope(params: dict[str, Any]) -> list[Scope]:
    """The scope for pausing or resuming a queue: no call takes from the project's queues meanwhile."""
    return [scope("queues", params["project"])]


@operation("queues.pause", writes=True, strangers=False, scopes=_queues_scope)
def pause(
    tx: Transaction, *, queue: Label, agent: AgentId = "", project: Project = "", reason: Note | None = None
) -> Queue:
    """Pause a queue: nothing is taken from it until it is resumed. A queue that is paused already stays as it is."""
    row = tx.first(
        "INSERT INTO queues (project, queue, paused_at, paused_by, reason) "
        "VALUES (:project, :queue, {now}, :agent, :reason) ON CONFLICT DO NOTHING RETURNING queue",
        project=project,
        queue=queue,
        agent=agent,
        reason=reason,
    )
    if row is not None:
        append(tx, "queue.paused", project, subject=f"queue:{queue}", name=queue, agent=agent, note=reason)
        deferred_work.save_progress(tx, project, "resume", [queue], [])
        paused = tx.all(
            "SELECT 1 FROM queues WHERE project = :project LIMIT :most", project=project, most=MOST_PAUSED + 1
        )
        if len(paused) > MOST_PAUSED:
            hide_paused_tasks(tx, project, [queue])
    return _describe(tx, project, queue)


@operation("queues.resume", writes=True, strangers=False, scopes=_queues_scope)
def resume(tx: Transaction, *, queue: Label, agent: AgentId = "", project: Project = "") -> Queue:
    """Resume a paused queue. A queue that is not paused stays as it is."""
    tx.serialize("queues", project)
    row = tx.first(
        "DELETE FROM queues WHERE project = :project AND queue = :queue RETURNING queue", project=project, queue=queue
    )
    if row is not None:
        append(tx, "queue.resumed", project, subject=f"queue:{queue}", name=queue, agent=agent)
        deferred_work.defer(tx, "resume", step_resume(tx, project, [(queue, 0)], deferred_work.BUDGET))
    return _describe(tx, project, queue)


def step_resume(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Item]:
    """Show hidden tasks of resumed queues, best first, a share of the budget for each; the queues that have more."""
    most = max(1, budget // len(rows))
    return [(project, queue, 0) for queue, _ in rows if _show_tasks(tx, project, queue, most) == most]


def _show_tasks(tx: Transaction, project: str, queue: str, most: int) -> int:
    """Show up to this many hidden tasks of a queue, best first; how many there were."""
    # `ready_at` is 0 and stays 0. It is written because that makes the trigger see that a limited task became ready.
    rows = tx.all(
        "WITH best AS MATERIALIZED (SELECT number AS n FROM tasks WHERE project = :project AND queue = :queue "
        "AND aside = :aside AND state = 'pending' AND ready_at = 0 ORDER BY priority DESC, number LIMIT :most {lock}) "
        f"UPDATE tasks SET ready_at = 0, {ASIDE_IF_READY} FROM best WHERE number = best.n RETURNING number",
        project=project,
        queue=queue,
        aside=WAITS_FOR_QUEUE,
        most=most,
    )
    return len(rows)


@operation("queues.list", writes=False, strangers=True)
def listing(tx: Transaction, *, project: Project = "") -> list[Queue]:
    """List the queues that are paused or have ready tasks, by name."""
    ready = dict(
        tx.all(
            "SELECT queue, sum(n) FROM ("
            f"SELECT queue, count(*) AS n FROM tasks WHERE {_READY} AND aside = 0 GROUP BY queue UNION ALL "
            f"SELECT queue, count(*) AS n FROM tasks WHERE {_READY} AND aside > 0 AND aside <> {WAITS_FOR_PERSON} "
            "GROUP BY queue"
            ") AS counted GROUP BY queue",
            project=project,
        )
    )
    paused = {
        row[0]: row[1:]
        for row in tx.all(
            "SELECT queue, paused_at, paused_by, reason FROM queues WHERE project = :project", project=project
        )
    }
    return [
        record(Queue, (project, name, int(ready.get(name, 0)), *paused.get(name, (0, None, None))))
        for name in sorted({*ready, *paused})
    ]


_READY = "project = :project AND state = 'pending' AND ready_at = 0"


def _describe(tx: Transaction, project: str, queue: str) -> Queue:
    return next(
        (each for each in listing(tx, project=project) if each.queue == queue),
        record(Queue, (project, queue, 0, 0, None, None)),
    )
