"""Expiry: writing down that claims have lapsed.

No sweeper is needed for being right: a lapsed claim can be won in every claim, and whatever needs to know that it is
over writes it down first (see `grants`). Written down, it becomes an event, a last attempt becomes a failure, and those
that come after a failed task learn of it.
"""

from __future__ import annotations

from ..errors import Invalid, Refused
from ..limits import MAX_NOTE
from ..model import Task, holder_id, record
from ..names import shown
from . import changeable, operation
from .events import of_task
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
"""How many rows are written down in one go, so that nobody waits long."""


_LAPSED = "EXISTS (SELECT 1 FROM tasks WHERE project = :project AND state = 'claimed' AND look_at <= {now})"
"""A condition: there is a claim that has lapsed, or one that was renewed since somebody last looked at it."""
_DUE = (
    "EXISTS (SELECT 1 FROM tasks WHERE project = :project AND state = 'pending' AND ready_at > 0 AND ready_at <= {now})"
)
PAUSED = "EXISTS (SELECT 1 FROM queues WHERE project = :project)"
"""A condition: a queue of the project is paused."""
_STIRRED = "EXISTS (SELECT 1 FROM stirred WHERE project = :project)"
_LOOK = f"SELECT {_LAPSED}, {_DUE}, {PAUSED}, {_STIRRED}"
_ENDS_NOBODY = " AND (attempts < max_attempts OR NOT EXISTS (SELECT 1 FROM edges WHERE edges.after = tasks.number))"
"""A condition: no other task ends because this claim has lapsed."""
UNSETTLED = f"SELECT 1 WHERE {_LAPSED} OR {_DUE}"
"""A look: whether there is a lapsed claim, or a delay that is over, which nobody has written down yet."""
SETTLED = " AND ".join(f"NOT {each}" for each in (_LAPSED, _DUE, _STIRRED))
"""A condition: nothing has to be written down before the next task is looked for; costs three index probes."""


def settle(tx: Transaction, project: str) -> tuple[int, bool, bool]:
    """Write down the claims that lapsed and the delays that are over; costs a few index probes when there are none.

    How many claims had lapsed, and what the same look has shown: whether a queue is paused, and whether groups with a
    limit have to be looked at. A stranger's call leaves jobs, and what could end jobs, to others.
    """
    lapsed, ready, paused, stirred = tx.first(_LOOK, project=project) or (0, 0, 0, 0)
    count = expire(tx, project) if lapsed else 0
    if ready or lapsed:  # a lapse may have freed what was delayed
        tx.all(
            "WITH due AS MATERIALIZED (SELECT number AS n FROM tasks WHERE project = :project AND state = 'pending' "
            f"AND ready_at > 0 AND ready_at <= {{now}}{changeable(tx)} ORDER BY ready_at LIMIT :most {{skip_locked}}) "
            "UPDATE tasks SET ready_at = 0 FROM due WHERE number = due.n AND state = 'pending'",
            project=project,
            most=AT_ONCE,
        )
    return count, bool(paused), bool(stirred or ready or lapsed)


def expire(tx: Transaction, project: str) -> int:
    """Write down the claims of a project that have lapsed; how many there were."""
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
    """Write down that the claim of one task has lapsed, if it has; whether it had, as a number."""
    return _expire(tx, f"number = :number AND {LAPSED}{_writable(tx)} {{lock}}", number=number)


def _writable(tx: Transaction) -> str:
    """A further condition for claims whose lapse this call may write down: all of them, unless a stranger calls."""
    return (only := changeable(tx)) and f"{only}{_ENDS_NOBODY}"


def expire_before(tx: Transaction, number: int) -> int:
    """Write down the lapsed claims among all the tasks that one comes after, near and far; how many there were."""
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
            of_task(tx, "task.expired", task, agent=holder_id(old), epoch=old.epoch, note=task.reason)
            if not again:
                failed.append(end_of(task))
    let_others_go_on(tx, failed)
    return count


@operation("tasks.forfeit", writes=True, strangers=True)
def forfeit(
    tx: Transaction, *, holder: AgentId, agent: AgentId = "", project: Project = "", reason: Note | None = None
) -> int:
    """Write down as expired all claims of an incarnation whose process is known to be dead; how many there were.

    Whoever calls this has seen it dead. Where the process can be looked at from here, it is looked at once more, and
    one that lives, or may live, is refused.
    """
    _refuse_the_living(tx, holder)
    which = f"project = :project AND state = 'claimed' AND holder = :holder{_writable(tx)} ORDER BY number {{lock}}"
    why = (reason or "its worker died").replace("{", "{{").replace("}", "}}") + " (attempt {} of {})"
    return _expire(tx, which, why, _FORFEIT, project=project, holder=holder)


def _refuse_the_living(tx: Transaction, holder: str) -> None:
    name, _, session = holder.partition("~")
    who = tx.process_of(session)
    if not session:
        raise Invalid(f"holder: {shown(holder)} names no incarnation, only NAME~SESSION can be dead")
    if who is not None and tx.is_alive(who) is not False:
        raise Refused(f"{name} may be alive: process {who.pid} is there", hint="its claims run out by themselves")


def let_others_go_on(tx: Transaction, ended: list[Ended]) -> None:
    """Tell those that come after the tasks that an operation has finished; most tasks have none."""
    if ends := followed(tx, ended):
        from .dependencies import release_dependents

        release_dependents(tx, ends)


def end_of(task: Task) -> Ended:
    """What those that come after a task are told of."""
    return task.number, task.project, task.state


def followed(tx: Transaction, ended: list[Ended]) -> list[Ended]:
    """Those of these tasks that others come after."""
    numbers: set[int] = set()
    for these, params in listed("n", [number for number, _, _ in ended]):
        rows = tx.all(
            f"SELECT number FROM tasks WHERE number IN ({these}) "
            "AND EXISTS (SELECT 1 FROM edges WHERE edges.after = tasks.number)",
            **params,
        )
        numbers.update(number for (number,) in rows)
    return [end for end in ended if end[0] in numbers]
