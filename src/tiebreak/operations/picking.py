"""Picking: which ready tasks are won next, by priority and then by age.

The order `critical` puts the tasks first that the most others wait for (see `critical`).

Usually one statement does it: it claims the first tasks of one index. If queues are paused, several queues are asked
for or groups have limits, the tasks are divided into lanes, which are each read in order (see `Lane`). The search
reads the best tasks of each lane and takes those that are the best overall.

A search without tags reads no backlog of a paused queue or a full group, however long it is. Tasks of a full group are
hidden (see `concurrency`), and so are tasks of paused queues if many queues are paused. With tags it reads every group.

Why it is safe: whatever the search has read, a task is won only by the statement of `grants`, which checks its row
again. The scope of the project's queues is shared, so no queue is paused between the search and the grant. The scope of
the project's limits is taken before claims of a group are counted.
"""

from __future__ import annotations

from ..clock import micros
from ..limits import CLAIM_LEASE
from ..model import Task
from ..names import JOB, PRIORITIES
from . import asks_for_no_job, by_stranger, claimable, operation, scope
from .claims import CLAIMED, READY, TRIES, WON, record_grant
from .concurrency import (
    MOST_VISIBLE,
    hide_tasks,
    lock_limits,
    mark_changed,
    ready_combinations,
    reconsider_groups,
    taken,
)
from .critical import waiting_for
from .deferred_work import do_step
from .expiry import NOTHING_DUE, PAUSED, SELECT_IF_DUE, apply_due_changes
from .grants import winning
from .references import WAITS_FOR_QUEUE, tagged
from .rows import SIZES, given, parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..names import AgentId, Count, Label, Lease, Order, Project
    from . import Scope, Transaction

    Lane = tuple[str | None, str | None, str | None, str | None, int | None]
    """A sequence of tasks that are taken in order: their queue, function, kind, limit group and size of that group.

    None stands for any."""

    Head = tuple[int, int, str | None, int, Lane]
    """One of the first tasks of a lane: its negated priority, its number, its group, the group's size, the lane."""

_PENDING = "project = :project AND state = 'pending' AND ready_at = 0"
_TASKS = " AND aside = 0"
_JOBS = " AND aside < 1 AND callee IS NOT NULL"
"""Conditions for visible tasks. The two are worded differently so that each matches a different index."""
_FREE = " AND limit_group IS NULL"
_BEST_FIRST = "ORDER BY priority DESC, number LIMIT :count"
_AT_ONCE = 100
"""How many lanes one statement reads."""
_MOST_KINDS = 100
"""How many kinds a stranger's call searches if it names none."""
MOST_PAUSED = 20
"""This many paused queues with ready tasks cost little. The tasks of further paused queues are hidden."""
_MOST_ROUNDS = 20
"""How often a call searches again because groups turned out to be full or had to be reconsidered."""


def shared_queues_scope(params: dict[str, Any]) -> list[Scope]:
    """The scope of a call that takes from queues: no queue is paused between its search and its grant."""
    return [scope("queues", params["project"], shared=True)]


@operation("tasks.next", writes=True, strangers=asks_for_no_job, scopes=shared_queues_scope)
def next_ready(
    tx: Transaction,
    *,
    agent: AgentId = "",
    project: Project = "",
    kind: Label | None = None,
    queue: Label | None = None,
    tag: Label | None = None,
    count: Count = 1,
    lease: Lease = CLAIM_LEASE,
    order: Order = "priority",
) -> list[Task]:
    """Win the next ready tasks, up to `count`: highest priority first, then oldest; an empty list if none is ready.

    With the order `critical`, first the tasks that the most others wait for, directly or indirectly; of those that
    equally many wait for, highest priority first, then oldest.

    Nothing is taken from a paused queue, nor from a group that has reached its limit.
    """
    filters = Filters(
        project,
        kinds=_kinds(tx, project) if kind is None and by_stranger(tx) else [kind],
        queues=None if queue is None else [queue],
        tags=None if tag is None else [tag],
        only=claimable(tx),
    )
    if not filters.kinds:
        return []
    rows: list[tuple[Any, ...]] = []
    weights: dict[int, int] = {}
    if order == "critical":
        weights = waiting_for(tx, project)
        rows = _win_critical(tx, filters, weights, {"agent": agent, "lease": micros(lease)}, count)
    if len(rows) < count:
        rows += win(tx, filters, agent=agent, count=count - len(rows), lease=lease, returning=WON)
    tasks = [record_grant(tx, row) for row in rows]
    return sorted(tasks, key=lambda t: (-weights.get(t.number, 0), -PRIORITIES.index(t.priority), t.number))


def _win_critical(
    tx: Transaction, filters: Filters, weights: dict[int, int], grant: dict[str, Any], count: int
) -> list[tuple[Any, ...]]:
    """Win tasks that others wait for, those with the highest weight first.

    Tasks with a limit are left to the ordinary search, and so are tasks that another transaction has locked. Between
    the search and the grant a task may be edited, so the grant checks everything again that the search looked at.
    """
    tx.serialize("queues", filters.project, shared=True)
    apply_due_changes(tx, filters.project)
    lane: Lane = (filters.queues[0] if filters.queues else None, None, None, None, None)
    of_kinds, kinds = filters.of_kinds()
    only = f"{filters.condition(lane, 0)}{_FREE}{_NOT_PAUSED}{of_kinds}"
    params = {**filters.params, **_lane_params(lane, 0), **kinds}
    found: list[tuple[int, int, int]] = []
    by_weight = sorted(weights, key=lambda number: -weights[number])
    for begin in range(0, len(by_weight), SIZES[-1]):
        if len(found) >= count and weights[by_weight[begin]] < weights[by_weight[begin - 1]]:
            break
        for table, numbers in given(("n",), [(number,) for number in by_weight[begin : begin + SIZES[-1]]]):
            sql = f"{table}SELECT number, priority FROM given JOIN tasks ON number = given.n WHERE {only}"
            rows = tx.all(sql, **numbers, **params)
            found += [(-weights[number], -priority, number) for number, priority in rows]
    picked = f"SELECT number AS n FROM tasks WHERE number = :n AND {only} {{skip_locked}}"
    picked = f"WITH picked AS MATERIALIZED ({picked}) "
    statement = winning("tasks", f"number = picked.n AND {READY}", WON, CLAIMED, picked, "picked")
    won: list[tuple[Any, ...]] = []
    for _, _, number in sorted(found):
        if len(won) == count:
            break
        won += tx.all(statement, n=number, **params, **grant)
    return won


_NOT_PAUSED = (
    " AND NOT EXISTS (SELECT 1 FROM queues WHERE queues.project = tasks.project AND queues.queue = tasks.queue)"
)


class Filters:
    """The tasks that a call asks for.

    `callees` are the functions that jobs may call, '' for jobs that have a command instead. `only` is a further SQL
    condition for plain tasks.
    """

    def __init__(
        self,
        project: str,
        *,
        kinds: Sequence[str | None] = (None,),
        queues: list[str] | None = None,
        tags: list[str] | None = None,
        callees: list[str] | None = None,
        only: str = "",
    ) -> None:
        self.project = project
        self.kinds = kinds
        self.queues = queues
        self.callees = callees
        self.tagged = tags is not None
        self._only = only
        self._tagged = "" if tags is None else f" AND {_any_of(len(tags))}"
        self.params: dict[str, Any] = {"project": project}
        self.params.update((parameter("tag", i), f" {tag} ") for i, tag in enumerate(tags or ()))

    def of_kinds(self) -> tuple[str, dict[str, str]]:
        """The SQL condition for all the kinds that are asked for, with its parameters; empty for any kind."""
        params = {parameter("wanted", i): kind for i, kind in enumerate(self.kinds) if kind is not None}
        return (f" AND kind IN (:{', :'.join(params)})" if params else ""), params

    def with_limits(self, tx: Transaction) -> bool:
        """Whether tasks with a limit may match: only jobs have limits."""
        return not by_stranger(tx) and any(kind in (None, JOB) for kind in self.kinds)

    def single_lane(self) -> Lane | None:
        """The lane that contains all matching tasks, if there is just one."""
        queues: list[str | None] = [*self.queues] if self.queues else [None]
        callees: list[str | None] = [*self.callees] if self.callees else [None]
        single = len(queues) == len(callees) == len(self.kinds) == 1 and (callees == [None] or queues != [None])
        return (queues[0], callees[0], self.kinds[0], None, None) if single else None

    def retries(self) -> tuple[str, dict[str, Any]]:
        """The SQL condition for jobs that were tried, wait for their next attempt and are in no paused queue."""
        where = ["project = :project", "state = 'pending'", "ready_at > 0", "attempts > 0", "callee IS NOT NULL"]
        params = dict(self.params)
        for column, values in (("queue", self.queues), ("callee", self.callees)):
            if values is not None:
                names = [parameter(column, i) for i in range(len(values))]
                where.append(f"{column} IN ({', '.join(f':{name}' for name in names)})")
                params.update(zip(names, values, strict=True))
        paused = "SELECT 1 FROM queues WHERE queues.project = tasks.project AND queues.queue = tasks.queue"
        return " AND ".join(where) + f" AND NOT EXISTS ({paused}){self._tagged}", params

    def condition(self, lane: Lane, i: int) -> str:
        """The SQL condition for the ready tasks of the i-th lane, with the parameters that `_lane_params` makes."""
        queue, callee, kind, group, _ = lane
        if group is not None:
            these = " AND ".join(f"{c} = :{parameter(n, i)}" for c, n in zip(_LIMITED, _LANE, strict=True) if c)
            of_kind = "" if kind is None else f" AND kind = :{parameter('kind', i)}"
            return f"{_PENDING} AND {these}{of_kind}{self._tagged}"
        tagged = f"{_FREE}{self._tagged}" if self.tagged else ""  # with tags, tasks with a limit have their own lanes
        if callee is not None:
            where = f" AND queue = :{parameter('queue', i)} AND callee = :{parameter('callee', i)}"
            return f"{_PENDING}{_JOBS}{where}{tagged}"
        marks = (":" + parameter("kind", i), ":" + parameter("queue", i))
        return f"{_PENDING}{_TASKS}{_narrowed(kind, queue, *marks)}{tagged}{self._only}"


_LANE = ("queue", "callee", "kind", "group", "size")
_LIMITED = ("queue", "callee", "", "limit_group", "limit_size")
"""The parameters of a lane, and the columns that they are compared with in a lane of a group."""


def _lane_params(lane: Lane, i: int) -> dict[str, str | int | None]:
    return {parameter(name, i): value for name, value in zip(_LANE, lane, strict=True)}


def _any_of(tags: int) -> str:
    return "(" + " OR ".join(tagged(parameter("tag", i)) for i in range(tags)) + ")" if tags > 1 else tagged("tag_aaa")


def _narrowed(kind: str | None, queue: str | None, this_kind: str, this_queue: str) -> str:
    """Conditions for a kind and a queue, worded so that the database uses the index of the narrower one."""
    if kind is None or queue is None:
        of_kind = f" AND kind = {this_kind}" if kind is not None else ""
        return of_kind + (f" AND queue = {this_queue}" if queue is not None else "")
    if queue == "default":
        return f" AND kind = {this_kind} AND queue || '' = {this_queue}"
    if kind == "task":
        return f" AND queue = {this_queue} AND kind || '' = {this_kind}"
    return f" AND kind = {this_kind} AND queue = {this_queue} AND queue <> 'default' AND kind <> 'task'"


def win(
    tx: Transaction, filters: Filters, *, agent: str, count: int, lease: float, returning: str
) -> list[tuple[Any, ...]]:
    """Win up to `count` tasks that match the filters; the rows come in any order.

    Tasks that another transaction has locked are skipped while there are others. If there are no others, the call waits
    for them: the other transaction may be rolled back, and no event would tell the caller that the task is still ready.
    """
    tx.serialize("queues", filters.project, shared=True)
    grant = {"agent": agent, "lease": micros(lease)}
    waits = False
    for _ in range(TRIES):
        rows, seen, lanes = _win(tx, filters, count, grant, returning)
        if not rows and (done := do_step(tx, filters.project, others=not waits, share=TRIES)) is not None:
            if not done:
                waits, count = _wait_for_locked(tx)
            continue  # the step may have made blocked tasks ready
        if rows or not tx.skips_locked_rows or not (seen or _something_may_be_ready(tx, filters, lanes)):
            break
        waits, count = _wait_for_locked(tx)
    if not rows and any(kind != JOB for kind in filters.kinds) and _end_claims_of_dead(tx, filters.project):
        rows, _, _ = _win(tx, filters, count, grant, returning)
    return rows


def _end_claims_of_dead(tx: Transaction, project: str) -> int:
    if tx.first("SELECT 1 FROM agents WHERE project = :project AND bound = 1 LIMIT 1", project=project) is None:
        return 0
    from .death import end_claims_of_dead

    return end_claims_of_dead(tx, project)


def _wait_for_locked(tx: Transaction) -> tuple[bool, int]:
    """From now on wait for locked rows, and win one task only: waiting for a second would keep the first locked."""
    tx.wait_for_locked()
    return True, 1


def _something_may_be_ready(tx: Transaction, filters: Filters, lanes: list[Lane]) -> bool:
    """Whether one of these lanes has a ready task, or a task may have become ready by time."""
    for begin in range(0, max(1, len(lanes)), _AT_ONCE):
        batch = lanes[begin : begin + _AT_ONCE]
        ready = [f" OR EXISTS (SELECT 1 FROM tasks WHERE {filters.condition(lane, i)})" for i, lane in enumerate(batch)]
        params = {name: value for i, lane in enumerate(batch) for name, value in _lane_params(lane, i).items()}
        if tx.first(f"{SELECT_IF_DUE}{''.join(ready)}", **filters.params, **params) is not None:
            return True
    return False


def _win(
    tx: Transaction, filters: Filters, count: int, grant: dict[str, Any], returning: str
) -> tuple[list[tuple[Any, ...]], bool, list[Lane]]:
    """Win the tasks that can be won now.

    Also returns whether a task was seen that could then not be won, and the lanes without a limit that were searched.
    """
    # Usually nothing has lapsed and nothing is paused: then one statement checks that and wins.
    if (lane := filters.single_lane()) and (
        rows := _win_from_lane(tx, filters, lane, count, grant, returning, at_once=True)
    ):
        return rows, True, [lane]
    _, paused, groups_changed = apply_due_changes(tx, filters.project)
    lanes, shares, limited, missed = _choose(tx, filters, count, paused, groups_changed and filters.with_limits(tx))
    won = [row for lane, n in shares.items() for row in _win_from_lane(tx, filters, lane, n, grant, returning)]
    for table, params in given(("n",), [(number,) for number in sorted(limited)]):
        won += tx.all(
            winning("tasks", f"number = given.n AND {READY}", returning, CLAIMED, table, "given"),
            **params,
            **grant,
        )
    return won, bool(shares or limited or missed), [lane for lane in lanes if lane[3] is None]


def _lanes(tx: Transaction, filters: Filters, paused: bool) -> list[Lane]:
    """The lanes that may have matching tasks and whose queue is not paused."""
    queues: list[str | None] = [None] if filters.queues is None else [*filters.queues]
    if filters.queues is None and (paused or filters.callees):
        queues = [*_queues(tx, filters)]
    paused_queues = (
        _paused_among(tx, filters.project, [queue for queue in queues if queue is not None]) if paused else set()
    )
    callees: list[str | None] = [*filters.callees] if filters.callees else [None]
    lanes: list[Lane] = [
        (queue, callee, kind, None, None)
        for queue in queues
        if queue not in paused_queues
        for callee in callees
        for kind in filters.kinds
    ]
    return [*lanes, *_groups(tx, filters, paused)] if filters.tagged and filters.with_limits(tx) else lanes


def _paused_among(tx: Transaction, project: str, queues: list[str]) -> set[str]:
    """Which of these queues are paused. If they are many, tasks of some of them are hidden."""
    closed: list[str] = []
    for table, params in given(("q",), [(queue,) for queue in queues]):
        rows = tx.all(
            f"{table}SELECT queue FROM given JOIN queues ON queue = given.q WHERE project = :project",
            project=project,
            **params,
        )
        closed += [queue for (queue,) in rows]
    if len(closed) > MOST_PAUSED and not by_stranger(tx):
        hide_paused_tasks(tx, project, closed[MOST_PAUSED : MOST_PAUSED + _AT_ONCE])
    return set(closed)


def hide_paused_tasks(tx: Transaction, project: str, queues: list[str]) -> None:
    """Hide tasks of paused queues until the queues are resumed, a hundred tasks in one call.

    No queue is resumed meanwhile: resuming takes the scope of the project's queues exclusively.
    """
    for table, params in given(("q",), [(queue,) for queue in queues]):
        tx.all(
            f"{table}, closed AS MATERIALIZED (SELECT number AS n FROM given JOIN tasks ON queue = given.q "
            f"WHERE {_PENDING}{_TASKS} LIMIT :most {{always_skip_locked_tasks}}) "
            "UPDATE tasks SET aside = :aside FROM closed WHERE number = closed.n",
            project=project,
            most=_AT_ONCE,
            aside=WAITS_FOR_QUEUE,
            **params,
        )


def _queues(tx: Transaction, filters: Filters) -> list[str]:
    """The queues that have a ready task, found by an index skip scan."""
    here = f"{_PENDING}{_JOBS}" if filters.callees else f"{_PENDING}{_TASKS}"
    rows = tx.all(
        f"WITH RECURSIVE found (queue) AS (SELECT (SELECT min(queue) FROM tasks WHERE {here}) UNION ALL "
        f"SELECT (SELECT min(tasks.queue) FROM tasks WHERE {here} AND tasks.queue > found.queue) "
        "FROM found WHERE found.queue IS NOT NULL) SELECT queue FROM found WHERE queue IS NOT NULL",
        project=filters.project,
    )
    return [queue for (queue,) in rows]


def _kinds(tx: Transaction, project: str) -> list[str]:
    """The kinds, except jobs, that have a ready task, found by an index skip scan: for strangers.

    So a stranger's call does not read the backlog of jobs, however long it is.
    """
    apply_due_changes(tx, project)
    here = f"{_PENDING}{_TASKS}"
    rows = tx.all(
        f"WITH RECURSIVE found (kind) AS (SELECT (SELECT min(kind) FROM tasks WHERE {here}) UNION ALL "
        f"SELECT (SELECT min(tasks.kind) FROM tasks WHERE {here} AND tasks.kind > found.kind) "
        "FROM found WHERE found.kind IS NOT NULL) SELECT kind FROM found WHERE kind <> :job LIMIT :most",
        project=project,
        job=JOB,
        most=_MOST_KINDS,
    )
    return [kind for (kind,) in rows]


def _groups(tx: Transaction, filters: Filters, paused: bool) -> list[Lane]:
    """The lanes of groups that have a ready task in a matching queue that is not paused: for filters with tags.

    Which tasks are visible does not depend on tags, so with tags each group has to be searched.
    """
    found = ready_combinations(tx, filters.project)
    paused_queues = _paused_among(tx, filters.project, list({queue for _, queue, _, _ in found})) if paused else set()
    return [
        (queue, callee, kind, group, size)
        for group, queue, callee, size in found
        if queue not in paused_queues
        and queue in (filters.queues or (queue,))
        and callee in (filters.callees or (callee,))
        for kind in filters.kinds
    ]


def _win_from_lane(
    tx: Transaction,
    filters: Filters,
    lane: Lane,
    count: int,
    grant: dict[str, Any],
    returning: str,
    *,
    at_once: bool = False,
) -> list[tuple[Any, ...]]:
    """Win the first tasks of a lane that have no limit.

    With `at_once`, the statement itself checks that nothing else has to be read or written first, and otherwise wins
    nothing.
    """
    paused = PAUSED if lane[0] is None else f"{PAUSED[:-1]} AND queues.queue = :{parameter('queue', 0)})"
    only = f" AND {NOTHING_DUE} AND NOT {paused}" if at_once else _FREE
    if at_once and filters.tagged:
        only += f" AND NOT EXISTS (SELECT 1 FROM tasks WHERE {_PENDING} AND limit_group IS NOT NULL)"
    free = " AND NOT EXISTS (SELECT 1 FROM picked WHERE picked.g IS NOT NULL)" if at_once else ""
    picked = (
        f"WITH picked AS MATERIALIZED (SELECT number AS n, limit_group AS g FROM tasks "
        f"WHERE {filters.condition(lane, 0)}{only} {_BEST_FIRST} {{skip_locked}}) "
    )
    return tx.all(
        winning("tasks", f"number = picked.n{free} AND {READY}", returning, CLAIMED, picked, "picked"),
        count=count,
        **filters.params,
        **_lane_params(lane, 0),
        **grant,
    )


def _choose(
    tx: Transaction, filters: Filters, count: int, paused: bool, groups_changed: bool
) -> tuple[list[Lane], dict[Lane, int], list[int], bool]:
    """Choose the tasks to win.

    Returns the lanes, how many tasks without a limit to take from each lane, and which tasks with a limit. Also returns
    whether another transaction is changing a task with a limit that might have been among them.

    Changed groups are reconsidered as long as one of their tasks might come before the last one chosen. Tasks whose
    groups turn out to be full are hidden, and the search is repeated without them. No other transaction wins tasks with
    a limit until this one has ended.
    """
    rounds, missed = 0, False
    while True:
        rounds += 1
        lanes = _lanes(tx, filters, paused)
        heads = _heads(tx, filters, lanes, count)
        last = (-heads[count - 1][0], heads[count - 1][1]) if len(heads) >= count else None
        if groups_changed and not missed and rounds < _MOST_ROUNDS:
            looked, missed = reconsider_groups(tx, filters.project, last)
            if looked:
                continue
        groups = {head[2] for head in heads if head[2] is not None}
        if groups:
            lock_limits(tx, filters.project)  # restarts the transaction if need be: the count is made under the scope
        used = taken(tx, filters.project, groups)
        shares, limited, full = _divide(heads, used, count)
        if not full or rounds > 2 * _MOST_ROUNDS or not hide_tasks(tx, full):
            break
    won = [head for head in heads if head[1] in limited]
    # A group with that much room has hidden tasks that could be won, so it has to be reconsidered.
    mark_changed(
        tx, filters.project, [(g, number) for _, number, g, size, _ in won if g and size - used[g] >= MOST_VISIBLE]
    )
    return lanes, shares, limited, missed


def _heads(tx: Transaction, filters: Filters, lanes: list[Lane], count: int) -> list[Head]:
    """The first tasks of each lane, best first."""
    heads: list[Head] = []
    for begin in range(0, len(lanes), _AT_ONCE):
        batch = lanes[begin : begin + _AT_ONCE]
        arms = (
            f"SELECT * FROM (SELECT -priority, number, limit_group, limit_size, {i} AS lane FROM tasks "
            f"WHERE {filters.condition(lane, i)} {_BEST_FIRST}) AS head"
            for i, lane in enumerate(batch)
        )
        params = {name: value for i, lane in enumerate(batch) for name, value in _lane_params(lane, i).items()}
        rows = tx.all(" UNION ALL ".join(arms), count=count, **filters.params, **params)
        heads += [(priority, number, group, size, batch[i]) for priority, number, group, size, i in rows]
    return sorted(heads, key=lambda head: head[:2])


def _divide(heads: list[Head], used: dict[str, int], count: int) -> tuple[dict[Lane, int], list[int], list[int]]:
    """How many tasks to take from each lane, which tasks with a limit, and which tasks belong to full groups.

    `used` is increased by the tasks to take.
    """
    shares: dict[Lane, int] = {}
    limited: list[int] = []
    full: list[int] = []
    for _, number, group, size, lane in heads:
        if sum(shares.values()) + len(limited) == count:
            break
        if group is None:
            shares[lane] = shares.get(lane, 0) + 1
        elif used.get(group, 0) < size:
            used[group] = used.get(group, 0) + 1
            limited.append(number)
        elif lane[3] is None:
            full.append(number)
    return shares, limited, full
