"""Expiry: writing that claims have lapsed.

Correctness needs no sweeper: any claim can win a lapsed task, and an operation that needs to know that a claim is over
writes the lapse first (see `grants`). The task's row is authoritative: a lapse is written only if the row still has the
same epoch and its lease has run out, so a renewal that was committed first wins. A written lapse leaves an event. If it
was the last attempt, the task fails, and the tasks that come after it are updated.
"""

from __future__ import annotations

from ..errors import Invalid, Refused
from ..limits import MAX_NOTE
from ..model import Task, holder_id, record
from ..names import shown
from . import changeable, is_dead, operation
from .events import task_event
from .grants import giving_back, lapsing
from .references import LAPSED, STORED
from .rows import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Note, Project
    from . import Transaction

    Ended = tuple[int, str, str]
    """A task that has ended: its number, its project and its state."""

AT_ONCE = 1000
"""How many rows one call writes at most, so that other writers do not wait long."""


_LAPSED = "EXISTS (SELECT 1 FROM tasks WHERE project = :project AND state = 'claimed' AND look_at <= {now})"
"""A condition: a claim has lapsed, or was renewed since its `look_at` was set."""
_DUE = (
    "EXISTS (SELECT 1 FROM tasks WHERE project = :project AND state = 'pending' AND ready_at > 0 AND ready_at <= {now})"
)
PAUSED = "EXISTS (SELECT 1 FROM queues WHERE project = :project)"
"""A condition: a queue of the project is paused."""
_GROUPS_CHANGED = "EXISTS (SELECT 1 FROM stirred WHERE project = :project)"
_CHECK_DUE = f"SELECT {_LAPSED}, {_DUE}, {PAUSED}, {_GROUPS_CHANGED}"
_ENDS_NO_OTHER_TASK = (
    " AND (attempts < max_attempts OR NOT EXISTS (SELECT 1 FROM edges WHERE edges.after = tasks.number))"
)
"""A condition: no other task ends when the lapse of this claim is written."""
SELECT_IF_DUE = f"SELECT 1 WHERE {_LAPSED} OR {_DUE}"
"""A statement: returns a row if a claim has lapsed or a delay is over, and that is not written yet."""
NOTHING_DUE = " AND ".join(f"NOT {each}" for each in (_LAPSED, _DUE, _GROUPS_CHANGED))
"""A condition: nothing has to be written before the search for the next task; costs three index probes."""


def apply_due_changes(tx: Transaction, project: str) -> tuple[int, bool, bool]:
    """Write the claims that have lapsed and the delays that are over; costs a few index probes when there are none.

    Returns how many claims had lapsed, whether a queue is paused, and whether groups with a limit have to be
    reconsidered. A stranger's call writes nothing about jobs, nor about tasks whose failure would end jobs.
    """
    lapsed, ready, paused, groups_changed = tx.first(_CHECK_DUE, project=project) or (0, 0, 0, 0)
    count = expire(tx, project) if lapsed else 0
    if ready or lapsed:  # a lapse may have released a task whose delay is over
        tx.all(
            "WITH due AS MATERIALIZED (SELECT number AS n FROM tasks WHERE project = :project AND state = 'pending' "
            f"AND ready_at > 0 AND ready_at <= {{now}}{changeable(tx)} ORDER BY ready_at LIMIT :most {{skip_locked}}) "
            "UPDATE tasks SET ready_at = 0 FROM due WHERE number = due.n AND state = 'pending'",
            project=project,
            most=AT_ONCE,
        )
    return count, bool(paused), bool(groups_changed or ready or lapsed)


def expire(tx: Transaction, project: str) -> int:
    """Write the lapses of a project's claims; how many there were."""
    tx.all(
        "WITH renewed AS MATERIALIZED (SELECT number AS n FROM tasks WHERE project = :project AND state = 'claimed' "
        f"AND look_at <= {{now}} AND until > {{now}}{changeable(tx)} ORDER BY look_at LIMIT :most {{skip_locked}}) "
        "UPDATE tasks SET look_at = until FROM renewed WHERE number = renewed.n AND state = 'claimed'",
        project=project,
        most=AT_ONCE,
    )
    return _expire(
        tx,
        f"project = :project AND state = 'claimed' AND look_at <= {{now}} AND until <= {{now}}{_writable(tx)} "
        "ORDER BY look_at LIMIT :most {skip_locked}",
        project=project,
        most=AT_ONCE,
    )


def expire_one(tx: Transaction, number: int) -> int:
    """Write that the claim of one task has lapsed; 1 if it had, 0 if not."""
    return _expire(tx, f"number = :number AND {LAPSED}{_writable(tx)} {{lock}}", number=number)


def forfeit_one(tx: Transaction, task: Task, why: str) -> int:
    """End the claim of one task, as it was seen, because its holder is dead; 1 if it was ended, 0 if not."""
    which = f"number = :number AND state = 'claimed' AND holder = :holder AND epoch = :epoch{_writable(tx)} {{lock}}"
    return _expire(tx, which, _literal(why), _FORFEIT, number=task.number, holder=holder_id(task), epoch=task.epoch)


def _literal(why: str) -> str:
    return why.replace("{", "{{").replace("}", "}}") + " (attempt {} of {})"


def _writable(tx: Transaction) -> str:
    """A further condition for claims whose lapse this call may write: all of them, unless a stranger calls."""
    return (only := changeable(tx)) and f"{only}{_ENDS_NO_OTHER_TASK}"


def expire_before(tx: Transaction, number: int) -> int:
    """Write the lapsed claims among all tasks that a task comes after, directly or indirectly; how many there were."""
    rows = tx.all(
        "WITH RECURSIVE earlier (number) AS (SELECT after FROM edges WHERE task = :number UNION "
        "SELECT edges.after FROM edges JOIN earlier ON edges.task = earlier.number) "
        f"SELECT tasks.number FROM tasks JOIN earlier ON tasks.number = earlier.number WHERE {LAPSED} "
        "ORDER BY tasks.number",
        number=number,
    )
    return sum(expire_one(tx, lapsed) for (lapsed,) in rows)


_THIS = "number = :number AND state = 'claimed'"
_ENDING = "state = :state, updated_at = {now}, reason = :reason, finished_at = :finished"
_LAPSE = lapsing("tasks", _THIS, STORED, _ENDING)
_FORFEIT = giving_back("tasks", _THIS, STORED, _ENDING, fence="epoch = :epoch")


def _expire(
    tx: Transaction,
    which: str,
    why: str = "the lease of attempt {} of {} ran out",
    statement: str = _LAPSE,
    **params: Any,
) -> int:
    rows = tx.all(f"SELECT {STORED} FROM tasks WHERE {which}", **params)
    count = 0
    failed: list[Ended] = []
    for old in (record(Task, row) for row in rows):
        again = old.attempts < old.max_attempts
        row = tx.first(
            statement,
            state="pending" if again else "failed",
            reason=why.format(old.attempts, old.max_attempts)[:MAX_NOTE],
            finished=0 if again else tx.now,
            number=old.number,
            epoch=old.epoch,
        )
        if row is not None:
            count += 1
            task = record(Task, row)
            task_event(tx, "task.expired", task, agent=holder_id(old), epoch=old.epoch, note=task.reason)
            if not again:
                failed.append(end_of(task))
    update_dependents(tx, failed)
    return count


@operation("tasks.forfeit", writes=True, strangers=True)
def forfeit(
    tx: Transaction, *, holder: AgentId, agent: AgentId = "", project: Project = "", reason: Note | None = None
) -> int:
    """End all claims of an incarnation whose process is dead, as if they had lapsed, and return how many there were.

    Its holds are given back, too. The caller has seen that the process is dead. If it ran on this machine, that is
    checked once more, and the call is refused if the process is alive or may be.
    """
    _refuse_if_alive(tx, holder)
    which = f"project = :project AND state = 'claimed' AND holder = :holder{_writable(tx)} ORDER BY number {{lock}}"
    why = reason or "its worker died"
    count = _expire(tx, which, _literal(why), _FORFEIT, project=project, holder=holder)
    from .death import end_holds

    end_holds(tx, holder, project, why)
    return count


def _refuse_if_alive(tx: Transaction, holder: str) -> None:
    name, _, session = holder.partition("~")
    process = tx.process_of(session)
    if not session:
        raise Invalid(f"holder: {shown(holder)} names no incarnation, only NAME~SESSION can be dead")
    if process is not None and not is_dead(tx, process):
        raise Refused(f"{name} may be alive: process {process.pid} is there", hint="its claims run out by themselves")


def update_dependents(tx: Transaction, ended: list[Ended]) -> None:
    """Release or cancel the tasks that come after tasks that this operation has ended; usually there are none."""
    if ends := with_dependents(tx, ended):
        from .dependencies import release_dependents

        release_dependents(tx, ends)


def end_of(task: Task) -> Ended:
    """An ended task as `update_dependents` takes it."""
    return task.number, task.project, task.state


def with_dependents(tx: Transaction, ended: list[Ended]) -> list[Ended]:
    """Those of these ended tasks that other tasks come after."""
    numbers: set[int] = set()
    for these, params in listed("n", [number for number, _, _ in ended]):
        rows = tx.all(
            f"SELECT number FROM tasks WHERE number IN ({these}) "
            "AND EXISTS (SELECT 1 FROM edges WHERE edges.after = tasks.number)",
            **params,
        )
        numbers.update(number for (number,) in rows)
    return [end for end in ended if end[0] in numbers]
