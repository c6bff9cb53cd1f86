"""Limits: of a group of tasks at most so many are claimed at any time.

A limit is a decision over several rows, so whoever wins a task that has one does so alone (`tx.serialize`): it counts
the claims of the group, and only then claims; two transactions never spend the same room. A lapsed claim takes up
room until its lapse is written down; one whose row somebody else has locked may be being extended. Each task brings
the size of its group along: it may be won while fewer than that are claimed.
"""

from __future__ import annotations

from ..errors import Refused
from ..names import shown
from .claims import WAIT
from .expiry import expire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction

_TAKEN = "SELECT limit_group, count(*) FROM tasks WHERE project = :project AND state = 'claimed' AND "


def taken(tx: Transaction, project: str) -> dict[str, int]:
    """How many of each group are claimed, lapsed ones included; groups with no claimed task are omitted."""
    return dict(tx.all(f"{_TAKEN}limit_group IS NOT NULL GROUP BY limit_group", project=project))


def alone(tx: Transaction, project: str) -> None:
    """Be the only transaction that wins limited tasks of this project, from its beginning to its end."""
    tx.serialize("limits", project)


def refuse_full(tx: Transaction, number: int) -> bool:
    """Whether a task is ready but for its limit; raises `Refused` if its group is full. Nobody else fills it now."""
    row = tx.first(
        "SELECT project, limit_group, limit_size FROM tasks WHERE number = :number AND limit_group IS NOT NULL "
        "AND state IN ('pending', 'claimed') AND ready_at <= {now}",
        number=number,
    )
    if row is None:
        return False
    project, group, size = row
    alone(tx, project)
    expire(tx, project)
    others = tx.all(
        f"{_TAKEN}limit_group = :group AND number <> :number GROUP BY limit_group",
        project=project,
        group=group,
        number=number,
    )
    if others and others[0][1] >= size:
        # Without its id: whoever waits is woken by any change, for it is another task that has to end.
        raise Refused(
            f"#{number} has to wait: {others[0][1]} of the group {shown(group)} are claimed, the limit is {size}",
            hint=WAIT,
            state="pending",
            group=group,
            limit=size,
        )
    return True


def groups_with_work(tx: Transaction, project: str) -> list[tuple[str, str]]:
    """The groups that have something ready, and in which queue, found by skipping through an index."""
    here = (
        "FROM tasks WHERE project = :project AND state = 'pending' AND ready_at = 0 AND tasks.limit_group IS NOT NULL "
    )
    first = here + "ORDER BY tasks.limit_group, tasks.queue LIMIT 1"
    after = (
        here + "AND (tasks.limit_group, tasks.queue) > (found.name, found.queue) ORDER BY limit_group, queue LIMIT 1"
    )
    rows = tx.all(
        f"WITH RECURSIVE found (name, queue) AS (SELECT (SELECT limit_group {first}), (SELECT queue {first}) "
        f"UNION ALL SELECT (SELECT limit_group {after}), (SELECT tasks.queue {after}) "
        "FROM found WHERE found.name IS NOT NULL) SELECT name, queue FROM found WHERE name IS NOT NULL",
        project=project,
    )
    return [(group, queue) for group, queue in rows]
