"""Expiry: writing down what time has already done.

Nothing depends on it for being right: a lapsed claim counts as pending (as failed, when its attempts are used up)
in every read and can be won in every claim. Written down, it becomes an event, and those that come after a failed
task learn of it.
"""

from __future__ import annotations

from ..model import Task, holder_id, record
from .events import of_task
from .grants import GIVE_BACK
from .references import LAPSED, STORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import Transaction

AT_ONCE = 1000
"""How many rows are written down in one go, so that nobody waits long."""


_LAPSED = "EXISTS (SELECT 1 FROM tasks WHERE project = :project AND state = 'claimed' AND until <= {now})"
_READY = (
    "EXISTS (SELECT 1 FROM tasks WHERE project = :project AND state = 'pending' AND ready_at > 0 AND ready_at <= {now})"
)
SETTLED = f"NOT {_LAPSED} AND NOT {_READY}"
"""A condition: time has done nothing in the project that is not written down; costs two index probes."""


def settle(tx: Transaction, project: str) -> int | None:
    """Write down the claims that lapsed and the delays that are over.

    How many claims had lapsed; None when there was nothing to write down at all.
    """
    lapsed, ready = tx.first(f"SELECT {_LAPSED}, {_READY}", project=project) or (0, 0)
    if not lapsed and not ready:
        return None
    count = expire(tx, project) if lapsed else 0
    tx.all(  # also when only a claim lapsed: that may have freed what was delayed
        "WITH due AS MATERIALIZED (SELECT number AS n FROM tasks WHERE project = :project AND state = 'pending' "
        "AND ready_at > 0 AND ready_at <= {now} ORDER BY ready_at LIMIT :most {skip_locked}) "
        "UPDATE tasks SET ready_at = 0 FROM due WHERE number = due.n AND state = 'pending'",
        project=project,
        most=AT_ONCE,
    )
    return count


def expire(tx: Transaction, project: str) -> int:
    """Write down the claims of a project that have lapsed; how many there were."""
    return _expire(
        tx,
        "project = :project AND state = 'claimed' AND until <= {now} ORDER BY until LIMIT :most {skip_locked}",
        project=project,
        most=AT_ONCE,
    )


def expire_one(tx: Transaction, number: int) -> None:
    """Write down that the claim of one task has lapsed, if it has."""
    _expire(tx, f"number = :number AND {LAPSED}", number=number)


def expire_before(tx: Transaction, number: int) -> None:
    """Write down the lapsed claims among all the tasks that one comes after, near and far."""
    rows = tx.all(
        "WITH RECURSIVE earlier (number) AS (SELECT after FROM edges WHERE task = :number UNION "
        "SELECT edges.after FROM edges JOIN earlier ON edges.task = earlier.number) "
        f"SELECT tasks.number FROM tasks JOIN earlier ON tasks.number = earlier.number WHERE {LAPSED}",
        number=number,
    )
    for (lapsed,) in rows:
        expire_one(tx, lapsed)


def _expire(tx: Transaction, which: str, **params: Any) -> int:
    rows = tx.all(f"SELECT {STORED} FROM tasks WHERE {which}", **params)
    for old in (record(Task, row) for row in rows):
        again = old.attempts < old.max_attempts
        row = tx.first(
            f"UPDATE tasks SET state = :state, {GIVE_BACK}, updated_at = {{now}}, reason = :reason, "
            f"finished_at = :finished WHERE number = :number AND epoch = :epoch AND {LAPSED} RETURNING {STORED}",
            state="pending" if again else "failed",
            reason=f"the lease of attempt {old.attempts} of {old.max_attempts} ran out",
            finished=0 if again else tx.now,
            number=old.number,
            epoch=old.epoch,
        )
        if row is not None:
            task = record(Task, row)
            of_task(tx, "task.expired", task, agent=holder_id(old), epoch=old.epoch, note=task.reason)
            if not again:
                let_others_go_on(tx, task)
    return len(rows)


def let_others_go_on(tx: Transaction, ended: Task) -> None:
    """Tell those that come after a finished task; most tasks have none."""
    if tx.first("SELECT 1 FROM edges WHERE after = :number LIMIT 1", number=ended.number) is not None:
        from .dependencies import release_dependents

        release_dependents(tx, ended)
