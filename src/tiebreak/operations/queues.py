"""Queues: they exist by being named in a task, and can be paused.

While a queue is paused nobody wins its next task; what is being worked on goes on, and a task that is asked for by its
name can still be claimed.
"""

from __future__ import annotations

from ..model import Queue, record
from . import chores, operation, scope
from .events import append
from .picking import MOST_PAUSED, WAITS_FOR_QUEUE, set_paused_aside
from .references import ARRIVING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Label, Note, Project
    from . import Scope, Transaction
    from .chores import Chore


def _alone(params: dict[str, Any]) -> list[Scope]:
    """The scope of whoever pauses or resumes a queue: nobody takes from queues of the project meanwhile."""
    return [scope("queues", params["project"])]


@operation("queues.pause", writes=True, strangers=False, scopes=_alone)
def pause(
    tx: Transaction, *, queue: Label, agent: AgentId = "", project: Project = "", reason: Note | None = None
) -> Queue:
    """Let nobody take from a queue until it is resumed. One that is paused already stays as it is."""
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
        chores.settle(tx, project, "resume", [queue], [])
        paused = tx.all(
            "SELECT 1 FROM queues WHERE project = :project LIMIT :most", project=project, most=MOST_PAUSED + 1
        )
        if len(paused) > MOST_PAUSED:
            set_paused_aside(tx, project, [queue])
    return _one(tx, project, queue)


@operation("queues.resume", writes=True, strangers=False, scopes=_alone)
def resume(tx: Transaction, *, queue: Label, agent: AgentId = "", project: Project = "") -> Queue:
    """Let a paused queue go on. One that is not paused stays as it is."""
    tx.serialize("queues", project)
    row = tx.first(
        "DELETE FROM queues WHERE project = :project AND queue = :queue RETURNING queue", project=project, queue=queue
    )
    if row is not None:
        append(tx, "queue.resumed", project, subject=f"queue:{queue}", name=queue, agent=agent)
        chores.leave(tx, "resume", go_on(tx, project, [(queue, 0)], chores.BUDGET))
    return _one(tx, project, queue)


def go_on(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Chore]:
    """Set tasks of resumed queues aside no longer, the best first, so many of each; the queues that have more."""
    most = max(1, budget // len(rows))
    return [(project, queue, 0) for queue, _ in rows if _let_be_found(tx, project, queue, most) == most]


def _let_be_found(tx: Transaction, project: str, queue: str, most: int) -> int:
    """Set so many tasks of a queue aside no longer, the best first; how many there were."""
    # `ready_at` is 0 and stays so: that it is written tells the triggers that a task with a limit has become ready.
    rows = tx.all(
        "WITH best AS MATERIALIZED (SELECT number AS n FROM tasks WHERE project = :project AND queue = :queue "
        "AND aside = :aside AND state = 'pending' AND ready_at = 0 ORDER BY priority DESC, number LIMIT :most {lock}) "
        f"UPDATE tasks SET ready_at = 0, {ARRIVING} FROM best WHERE number = best.n RETURNING number",
        project=project,
        queue=queue,
        aside=WAITS_FOR_QUEUE,
        most=most,
    )
    return len(rows)


@operation("queues.list", writes=False, strangers=True)
def listing(tx: Transaction, *, project: Project = "") -> list[Queue]:
    """The queues that are paused or have something ready, by name."""
    ready = dict(
        tx.all(
            "SELECT queue, sum(n) FROM ("
            f"SELECT queue, count(*) AS n FROM tasks WHERE {_READY} AND aside = 0 GROUP BY queue UNION ALL "
            f"SELECT queue, count(*) AS n FROM tasks WHERE {_READY} AND aside > 0 GROUP BY queue"
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


def _one(tx: Transaction, project: str, queue: str) -> Queue:
    return next(
        (each for each in listing(tx, project=project) if each.queue == queue),
        record(Queue, (project, queue, 0, 0, None, None)),
    )
