"""Dependencies: what comes after what, and what becomes of it.

A task is blocked until every task that it comes after is completed. When one of those fails or is cancelled,
it is cancelled with that reason, and so are those that come after it; unless it was posted to run anyway. The
graph has no circles because an edge that would close one is refused.

Who counts what a task waits for has locked first what could change the count. Whoever ends a task has locked its row,
then locks those that come after it, and counts anew for each. Whoever adds an edge or reopens a task locks what it
comes after (shared), then the task. So of two that meet the later one sees what the earlier one did, and all lock a
task before those that come after it.
"""

from __future__ import annotations

from ..errors import Refused
from ..model import Task, record
from . import EDGES, operation, scope
from .events import of_task
from .expiry import expire_one
from .grants import giving_back
from .references import ARRIVING, SHOWN, STORED, called, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Project, Ref
    from . import Transaction


def find_predecessors(tx: Transaction, after: list[str], project: str, run_anyway: bool) -> list[Task]:
    """The tasks to come after; one that has already ended badly is refused.

    They are locked: an end that is being written now is seen here, and a later one sees the new edge.
    """
    numbers = {find(tx, ref, project).number for ref in after}
    found = [find(tx, f"#{number}", project, "{share}") for number in sorted(numbers)]
    refuse_ended_badly(found, run_anyway)
    return found


def refuse_ended_badly(before: list[Task], run_anyway: bool) -> None:
    """Refuse what would wait for ever: to come after a task that failed or was cancelled."""
    for task in before:
        if task.state in ("failed", "cancelled") and not run_anyway:
            raise Refused(
                f"cannot come after {called(task)}, which is {task.state}",
                hint="retry that one first, or run anyway",
            )


def link(tx: Transaction, task: int, after: int) -> None:
    """Write down that one task comes after another."""
    tx.all(
        "INSERT INTO edges (task, after) VALUES (:task, :after) ON CONFLICT DO NOTHING",
        task=task,
        after=after,
    )


@operation("tasks.depend", writes=True, strangers=True, scopes=lambda _: [scope(*EDGES)])
def depend(tx: Transaction, *, ref: Ref, after: list[Ref], agent: AgentId = "", project: Project = "") -> Task:
    """Let a task that nobody has started come after others; a circle is refused."""
    tx.serialize(*EDGES)  # two edges that are added at the same moment may close a circle together
    number = _startable(find(tx, ref, project)).number
    before = find_predecessors(tx, after, project, runs_anyway(tx, number))
    task = _startable(find(tx, f"#{number}", project, "{lock}"))
    expire_one(tx, task.number)
    before = [b for b in before if not _linked(tx, task.number, b.number)]
    for b in before:
        _refuse_circle(tx, task, b)
        link(tx, task.number, b.number)
    if before:
        task = record(Task, _refresh(tx, task.number) or task)
        of_task(tx, "task.linked", task, agent=agent, note="after " + ", ".join(f"#{b.number}" for b in before))
    return task


def _startable(task: Task) -> Task:
    if task.state not in ("blocked", "pending"):
        raise Refused(f"{called(task)} is {task.state} already")
    return task


def runs_anyway(tx: Transaction, number: int) -> bool:
    """Whether a task runs also when one that it comes after failed or was cancelled; that never changes."""
    row = tx.first("SELECT run_anyway FROM tasks WHERE number = :number", number=number)
    return bool(row and row[0])


def _linked(tx: Transaction, task: int, after: int) -> bool:
    return tx.first("SELECT 1 FROM edges WHERE task = :task AND after = :after", task=task, after=after) is not None


def _refuse_circle(tx: Transaction, task: Task, before: Task) -> None:
    circle = tx.first(
        "WITH RECURSIVE earlier (number) AS (SELECT CAST(:before AS BIGINT) UNION "
        "SELECT edges.after FROM edges JOIN earlier ON edges.task = earlier.number) "
        "SELECT 1 FROM earlier WHERE number = :task",
        before=before.number,
        task=task.number,
    )
    if circle is not None:
        raise Refused(f"{called(task)} cannot come after {called(before)}: that would be a circle")


@operation("tasks.after", writes=False, strangers=True)
def predecessors(tx: Transaction, *, ref: Ref, project: Project = "") -> list[Task]:
    """The tasks that a task comes after."""
    task = find(tx, ref, project)
    rows = tx.all(
        f"SELECT {SHOWN} FROM tasks WHERE number IN "
        "(SELECT after FROM edges WHERE edges.task = :number) ORDER BY number",
        number=task.number,
    )
    return [record(Task, row) for row in rows]


def cancel_row(tx: Transaction, number: int, reason: str | None) -> Task | None:
    """Call a task off; None if it had ended already."""
    row = tx.first(_CANCEL, number=number, reason=reason)
    return None if row is None else record(Task, row)


_CANCEL = giving_back(
    "tasks",
    "number = :number",
    STORED,
    "state = 'cancelled', reason = :reason, blockers = 0, ready_at = 0, finished_at = {now}, updated_at = {now}",
    fence="state IN ('blocked', 'pending', 'claimed')",
)


def release_dependents(tx: Transaction, ended: Task) -> None:
    """Let those that come after a finished task go on, or cancel them with it."""
    ends = [ended]
    while ends:
        end = ends.pop()
        rows = tx.all(
            "SELECT tasks.number, run_anyway FROM edges JOIN tasks ON tasks.number = edges.task "
            "WHERE edges.after = :number AND state = 'blocked' ORDER BY tasks.number {lock_tasks}",
            number=end.number,
        )
        for number, run_anyway in rows:
            if end.state == "completed" or run_anyway:
                row = _refresh(tx, number)
                if row is not None and (task := record(Task, row)).state == "pending":
                    of_task(tx, "task.ready", task)
            else:
                reason = f"comes after {called(end)}, which was {end.state}"
                cancelled = cancel_row(tx, number, reason[:1000])
                if cancelled is not None:
                    of_task(tx, "task.cancelled", cancelled, note=reason[:1000])
                    ends.append(cancelled)


def unfinished(tx: Transaction, number: int) -> list[int]:
    """The tasks that a task comes after and still has to wait for."""
    rows = tx.all(
        "SELECT tasks.number FROM edges JOIN tasks ON tasks.number = edges.after "
        f"WHERE edges.task = :number AND NOT {_DONE} ORDER BY tasks.number",
        number=number,
    )
    return [found for (found,) in rows]


# A predecessor that ended badly is done only for a task that runs anyway. Counted anew each time: a task that was
# reopened may end twice, and must not count for two.
_DONE = (
    "(state = 'completed' OR (state IN ('failed', 'cancelled') "
    "AND (SELECT later.run_anyway FROM tasks AS later WHERE later.number = :number) = 1))"
)


def _refresh(tx: Transaction, number: int) -> tuple[Any, ...] | None:
    waiting = len(unfinished(tx, number))
    return tx.first(
        f"UPDATE tasks SET blockers = :waiting, state = :state, updated_at = {{now}}, {ARRIVING} "
        f"WHERE number = :number AND state IN ('blocked', 'pending') RETURNING {STORED}",
        waiting=waiting,
        state="blocked" if waiting else "pending",
        number=number,
    )
