"""Breaking a claim: an operator takes a task away from its holder, with a reason that everybody can read.

The task's row is locked before it is examined, and the write names the epoch that was seen. So of a break and a
completion, an extension or another claim, the one that comes second finds the row changed and is refused.

A break says something about the holder, not about the work. So it uses up no attempt, like a release: a task never
fails because somebody broke its claim, not even on its last attempt, and no task that comes after it is cancelled.
"""

from __future__ import annotations

from ..errors import NotFound
from ..limits import MAX_NOTE
from ..model import Task, holder_id, record
from ..names import short
from . import operation
from .events import task_event
from .grants import giving_back
from .references import STORED, called, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..names import AgentId, Epoch, Note, Project, Ref
    from . import Transaction

_BREAK = giving_back(
    "tasks",
    "number = :number AND state = 'claimed'",
    STORED,
    "state = 'pending', attempts = attempts - 1, updated_at = {now}",
    fence="epoch = :epoch",
)


@operation("tasks.break", writes=True, strangers=True)
def break_claim(
    tx: Transaction, *, ref: Ref, reason: Note, agent: AgentId = "", project: Project = "", epoch: Epoch = 0
) -> Task:
    """Take a claim away from its holder, as an operator, with a reason that everybody can read.

    The task is ready again at once, and the attempt does not count. The old holder's next write is refused, and a
    worker ends the job. With an epoch, only that grant is ended: a later holder is not affected.
    """
    task = find(tx, ref, project, "{lock}")
    holder = holder_id(task)
    if task.state != "claimed" or task.lapsed or not holder or epoch not in (0, task.epoch):
        raise NotFound(f"{called(task)} is not claimed by anybody{_instead(task, epoch)}", state=task.state)
    row = tx.first(_BREAK, number=task.number, epoch=task.epoch)
    broken = record(Task, row) if row else task
    note = f"held by {short(holder)}: {reason}"[:MAX_NOTE]
    task_event(tx, "task.broken", broken, agent=agent, epoch=broken.epoch, note=note)
    return broken


def _instead(task: Task, epoch: int) -> str:
    """How the task stands, for a refused break."""
    if task.lapsed:
        return ": the lease ran out"
    if task.state == "claimed":
        return f" as epoch {epoch}: {task.holder} has it as epoch {task.epoch}"
    return f": it is {task.state}"
