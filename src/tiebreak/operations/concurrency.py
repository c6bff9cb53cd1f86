"""Concurrency limits: at most N tasks of a group are claimed at any time.

A limit is a decision over several rows, so a transaction that wins a limited task takes the scope of the project's
limits first (`lock_limits`). It counts the claims of the group, then claims. So two transactions never use the same
free place. A lapsed claim counts until its lapse is written, because its holder may be renewing it right now. Each task
has the size of its group (`limit_size`): it may be won while fewer than that are claimed.

There may be thousands of groups, and most of their tasks cannot be won at the moment. Those tasks are hidden (the
column `aside` is 1), so that a search for the next task does not read them. For each combination of group, queue,
function and size, as many of the best tasks are visible as the group has room for. Any change that may affect which
tasks those are adds a row to the table `stirred`, in the same transaction and by a trigger, so no operation can forget
it. A search reconsiders the groups of these rows in the order in which their tasks would be won, and only as far as
they could matter to it. It deletes these rows before it reads the groups: a change that is committed in between adds a
new row.
"""

from __future__ import annotations

from ..errors import Refused
from ..names import shown
from .expiry import expire
from .rows import given, parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from . import Transaction

ROOM = 9
"""The rank of a changed group that may have room: above all priorities."""
MOST_VISIBLE = 100
"""How many tasks of a group, queue, function and size are visible at once, however much room there is."""
_AT_ONCE = 100
"""How many rows of `stirred` one call handles."""
_READY = "project = :project AND state = 'pending' AND ready_at = 0 AND limit_group IS NOT NULL"
_TAKEN = "SELECT limit_group, count(*) FROM tasks WHERE project = :project AND state = 'claimed' AND "
_BEST = "ORDER BY queue, callee, limit_size, priority DESC, number LIMIT 1"


def lock_limits(tx: Transaction, project: str) -> None:
    """Be the only transaction that wins limited tasks of this project, from its beginning to its end."""
    tx.serialize("limits", project)


def taken(tx: Transaction, project: str, groups: Iterable[str]) -> dict[str, int]:
    """Count the claimed tasks of each of these groups, lapsed claims included."""
    counts: dict[str, int] = {}
    for table, params in given(("g",), [(group,) for group in sorted(groups)]):
        rows = tx.all(
            f"{table}SELECT g, (SELECT count(*) FROM tasks WHERE project = :project AND state = 'claimed' "
            "AND limit_group = given.g AND limit_group IS NOT NULL) FROM given",
            project=project,
            **params,
        )
        counts.update(rows)
    return counts


def refuse_if_full(tx: Transaction, number: int) -> bool:
    """Lock the limits and raise `Refused` if a task's group is full; False if it has no limit or is not ready."""
    row = tx.first(
        "SELECT project, limit_group, limit_size FROM tasks WHERE number = :number AND limit_group IS NOT NULL "
        "AND state IN ('pending', 'claimed') AND ready_at <= {now}",
        number=number,
    )
    if row is None:
        return False
    project, group, size = row
    lock_limits(tx, project)
    expire(tx, project)
    others = tx.all(
        f"{_TAKEN}limit_group = :group AND number <> :number GROUP BY limit_group",
        project=project,
        group=group,
        number=number,
    )
    if others and others[0][1] >= size:
        # Without the task's id, so that a waiter is woken by any change: another task of the group has to end.
        raise Refused(
            f"#{number} has to wait: {others[0][1]} of the group {shown(group)} are claimed, the limit is {size}",
            reason="task-waits",
            state="pending",
            group=group,
            limit=size,
        )
    return True


# ── Which tasks are hidden ───────────────────────────────────────────────────────────────────────────


def reconsider_groups(tx: Transaction, project: str, before: tuple[int, int] | None = None) -> tuple[bool, bool]:
    """Reconsider groups that have changed, from a hundred rows of `stirred` at most, and show their best tasks.

    With `before`, a priority and a number, only groups that may have a task that comes before that one. Returns whether
    there were any, and whether another transaction is changing one of the best tasks, so that its group has to be
    reconsidered once more.
    """
    if not _changed_groups(tx, project, before, 1, ""):
        return False, False
    lock_limits(tx, project)  # restarts the transaction if need be: what follows is read under the scope
    rows = _changed_groups(tx, project, before, _AT_ONCE, "{always_skip_locked}")
    for table, params in given(("g", "t"), rows):
        tx.all(
            f"{table}DELETE FROM stirred WHERE project = :project "
            "AND (limit_group, task) IN (SELECT given.g, given.t FROM given)",
            project=project,
            **params,
        )
    return bool(rows), _show_best_tasks(tx, project, {group for group, _ in rows})


def _changed_groups(
    tx: Transaction, project: str, before: tuple[int, int] | None, most: int, lock: str
) -> list[tuple[str, int]]:
    rows = tx.all(
        "SELECT limit_group, task, rank FROM stirred WHERE project = :project "
        f"ORDER BY rank DESC, task LIMIT :most {lock}",
        project=project,
        most=most,
    )
    return [(group, task) for group, task, rank in rows if before is None or (-rank, task) < (-before[0], before[1])]


def _show_best_tasks(tx: Transaction, project: str, groups: set[str]) -> bool:
    """Show the best tasks of these groups, as many as there is room for; whether others have locked some of them."""
    used = taken(tx, project, groups)
    best: list[tuple[str, int]] = []
    with_room = []
    for group, queue, callee, size, number, aside in _heads(tx, project, groups):
        room = min(size - used[group], MOST_VISIBLE)
        if room > 1:
            with_room.append((group, queue, callee, size, room))
        elif room == 1 and aside == 1:
            best.append((group, number))
    best += _best_hidden_tasks(tx, project, with_room)
    found: set[int] = set()
    for table, params in given(("n",), [(number,) for number in sorted(number for _, number in best)]):
        rows = tx.all(
            f"{table}, opened AS MATERIALIZED (SELECT number AS n FROM given JOIN tasks ON number = given.n "
            "WHERE aside = 1 AND state = 'pending' {skip_locked_tasks}) "
            "UPDATE tasks SET aside = 0 FROM opened WHERE number = opened.n RETURNING number",
            **params,
        )
        found.update(number for (number,) in rows)
    missed = [(group, number) for group, number in best if number not in found]
    mark_changed(tx, project, missed)
    return bool(missed)


def mark_changed(tx: Transaction, project: str, tasks: Iterable[tuple[str, int]]) -> None:
    """Have the groups of these tasks reconsidered, before all other groups."""
    # The number is negated, so that the row never conflicts with one of the trigger: this insert must not wait for the
    # transaction that is changing the task.
    for group, number in tasks:
        tx.all(
            "INSERT INTO stirred (project, limit_group, task, rank) VALUES (:project, :group, :task, :rank) "
            "ON CONFLICT DO NOTHING",
            project=project,
            group=group,
            task=-number,
            rank=ROOM,
        )


def hide_tasks(tx: Transaction, numbers: list[int]) -> int:
    """Hide tasks whose groups are full; how many were hidden. A task that another transaction has locked is skipped."""
    count = 0
    for table, params in given(("n",), [(number,) for number in sorted(numbers)]):
        rows = tx.all(
            f"{table}, closed AS MATERIALIZED (SELECT number AS n FROM given JOIN tasks ON number = given.n "
            "WHERE aside = 0 AND state = 'pending' {always_skip_locked_tasks}) "
            "UPDATE tasks SET aside = 1 FROM closed WHERE number = closed.n RETURNING number",
            **params,
        )
        count += len(rows)
    return count


def _heads(tx: Transaction, project: str, groups: set[str]) -> list[tuple[str, str, str, int, int, int]]:
    """The best ready task of each of these groups, for each queue, function and size, found by an index skip scan."""
    heads = []
    for table, params in given(("g",), [(group,) for group in sorted(groups)]):
        heads += tx.all(
            f"{table.replace('WITH', 'WITH RECURSIVE', 1)}, heads (g, n) AS ("
            f"SELECT given.g, (SELECT number FROM tasks WHERE {_READY} AND limit_group = given.g {_BEST}) FROM given "
            f"UNION ALL SELECT heads.g, (SELECT number FROM tasks WHERE {_READY} AND limit_group = heads.g "
            f"AND (tasks.queue, tasks.callee, tasks.limit_size) > (head.queue, head.callee, head.limit_size) {_BEST}) "
            "FROM heads JOIN tasks AS head ON head.number = heads.n) "
            "SELECT heads.g, queue, callee, limit_size, number, aside FROM heads JOIN tasks ON number = heads.n",
            project=project,
            **params,
        )
    return heads


def _best_hidden_tasks(
    tx: Transaction, project: str, with_room: list[tuple[str, str, str, int, int]]
) -> list[tuple[str, int]]:
    """The tasks that are still hidden among the best ones of each combination, as many as it has room for."""
    found = []
    for begin in range(0, len(with_room), _AT_ONCE):
        arms: list[str] = []
        params: dict[str, str | int] = {}
        for i, combination in enumerate(with_room[begin : begin + _AT_ONCE]):
            names = [parameter(name, i) for name in ("group", "queue", "callee", "size", "room")]
            params.update(zip(names, combination, strict=True))
            g, q, c, s, r = names
            arms.append(
                f"SELECT * FROM (SELECT limit_group, number, aside FROM tasks WHERE {_READY} AND limit_group = :{g} "
                f"AND queue = :{q} AND callee = :{c} AND limit_size = :{s} "
                f"ORDER BY priority DESC, number LIMIT :{r}) AS best"
            )
        rows = tx.all(" UNION ALL ".join(arms), project=project, **params)
        found += [(group, number) for group, number, aside in rows if aside == 1]
    return found


def ready_combinations(tx: Transaction, project: str) -> list[tuple[str, str, str, int]]:
    """Each combination of group, queue, function and size that has a ready task, found by an index skip scan."""
    first = "ORDER BY limit_group, queue, callee, limit_size LIMIT 1"
    return tx.all(
        f"WITH RECURSIVE heads (n) AS (SELECT (SELECT number FROM tasks WHERE {_READY} {first}) "
        f"UNION ALL SELECT (SELECT tasks.number FROM tasks WHERE {_READY} AND "
        "(tasks.limit_group, tasks.queue, tasks.callee, tasks.limit_size) "
        f"> (head.limit_group, head.queue, head.callee, head.limit_size) {first}) "
        "FROM heads JOIN tasks AS head ON head.number = heads.n) "
        "SELECT limit_group, queue, callee, limit_size FROM heads JOIN tasks ON number = heads.n",
        project=project,
    )
