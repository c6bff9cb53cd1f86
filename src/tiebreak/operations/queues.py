"""Queues: they exist by being named in a task, and can be paused.

While a queue is paused nobody wins its next task; what is being worked on goes on, and a task that is asked for by its
name can still be claimed.
"""

from __future__ import annotations

from ..model import Queue, record
from . import operation, scope
from .events import append

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..names import AgentId, Label, Note, Project
    from . import Transaction


@operation("queues.pause", writes=True, strangers=False, scopes=lambda params: [scope("queues", params["project"])])
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
    return _one(tx, project, queue)


@operation("queues.resume", writes=True, strangers=False)
def resume(tx: Transaction, *, queue: Label, agent: AgentId = "", project: Project = "") -> Queue:
    """Let a paused queue go on. One that is not paused stays as it is."""
    row = tx.first(
        "DELETE FROM queues WHERE project = :project AND queue = :queue RETURNING queue", project=project, queue=queue
    )
    if row is not None:
        append(tx, "queue.resumed", project, subject=f"queue:{queue}", name=queue, agent=agent)
    return _one(tx, project, queue)


@operation("queues.list", writes=False, strangers=True)
def listing(tx: Transaction, *, project: Project = "") -> list[Queue]:
    """The queues that are paused or have something ready, by name."""
    ready = dict(
        tx.all(
            "SELECT queue, sum(n) FROM ("
            f"SELECT queue, count(*) AS n FROM tasks WHERE {_READY} AND limit_group IS NULL GROUP BY queue UNION ALL "
            f"SELECT queue, count(*) AS n FROM tasks WHERE {_READY} AND limit_group IS NOT NULL GROUP BY queue"
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
