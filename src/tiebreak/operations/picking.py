"""Picking: which ready tasks are won next, by priority and then by age.

Usually it is one statement: the head of one index, claimed. Where queues are paused, where several queues are asked
for or where groups have limits, the heads of those that are open are looked at first, and the best of them decide how
many are taken from each. So nobody passes by the backlog of a paused queue or of a full group, however long it is.
"""

from __future__ import annotations

from ..clock import micros
from ..model import Task
from ..names import JOB, PRIORITIES
from . import changeable, operation, scope
from .chores import step
from .claims import CLAIM_LEASE, CLAIMED, READY, TRIES, WON, granted
from .expiry import SETTLED, UNSETTLED, settle
from .grants import winning
from .limits import alone, groups_with_work, taken
from .references import tagged
from .rows import given, parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..names import AgentId, Count, Label, Lease, Project
    from . import Scope, Transaction

    Lane = tuple[str | None, str | None, str | None, str | None]
    """Tasks that are taken in their order: of a queue, for a function, of a group with a limit, of a kind.

    None: of any."""

_PENDING = "project = :project AND state = 'pending' AND ready_at = 0"
_TASKS = " AND limit_group IS NULL"
_JOBS = " AND limit_size = 0 AND callee IS NOT NULL"
"""Those without a limit; the two wordings name different indexes."""
_BEST_FIRST = "ORDER BY priority DESC, number LIMIT :count"
_AT_ONCE = 100
"""How many lanes are looked at by one statement."""
_MOST_KINDS = 100
"""How many kinds a stranger's call looks at that names none."""


def takes_from_queues(params: dict[str, Any]) -> list[Scope]:
    """The scope of whoever takes from a queue that is not paused: no queue is paused between its look and its grant."""
    return [scope("queues", params["project"], shared=True)]


@operation("tasks.next", writes=True, strangers=True, scopes=takes_from_queues)
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
) -> list[Task]:
    """Win the next ready tasks, up to `count`: highest priority first, then oldest; none is an empty list.

    Nothing is taken from a paused queue, nor from a group that has reached its limit.
    """
    wanted = Wanted(
        project,
        kinds=_kinds(tx, project) if kind is None and changeable(tx) else [kind],
        queues=None if queue is None else [queue],
        tags=None if tag is None else [tag],
    )
    if not wanted.kinds:
        return []
    rows = win(tx, wanted, agent=agent, count=count, lease=lease, returning=WON)
    tasks = [granted(tx, row) for row in rows]
    return sorted(tasks, key=lambda t: (-PRIORITIES.index(t.priority), t.number))


class Wanted:
    """What is asked for. `callees` are the functions that jobs may call, '' for jobs with other commands."""

    def __init__(
        self,
        project: str,
        *,
        kinds: Sequence[str | None] = (None,),
        queues: list[str] | None = None,
        tags: list[str] | None = None,
        callees: list[str] | None = None,
    ) -> None:
        self.project = project
        self.kinds = kinds
        self.queues = queues
        self.callees = callees
        self._tagged = "" if tags is None else f" AND {_any_of(len(tags))}"
        self.params: dict[str, Any] = {"project": project}
        self.params.update((parameter("tag", i), f" {tag} ") for i, tag in enumerate(tags or ()))
        self.params.update((parameter("call", i), name) for i, name in enumerate(callees or ()))

    def only_lane(self) -> Lane | None:
        """The one lane that all of it is in, if there is just one."""
        queues: list[str | None] = [*self.queues] if self.queues else [None]
        callees: list[str | None] = [*self.callees] if self.callees else [None]
        alone = len(queues) == len(callees) == len(self.kinds) == 1 and (callees == [None] or queues != [None])
        return (queues[0], callees[0], None, self.kinds[0]) if alone else None

    def condition(self, lane: Lane, i: int) -> str:
        """What a ready task of a lane must be like, in terms of the parameters that `of_lane` makes."""
        queue, callee, group, kind = lane
        if group is not None:
            of_kind = "" if kind is None else f" AND kind = :{parameter('kind', i)}"
            calls = ", ".join(":" + parameter("call", n) for n in range(len(self.callees or ())))
            of = f" AND callee IN ({calls})" if calls else ""
            where = f" AND limit_group = :{parameter('group', i)} AND queue = :{parameter('queue', i)}{of_kind}{of}"
            return f"{_PENDING}{where}{self._tagged}"
        if callee is not None:
            where = f" AND queue = :{parameter('queue', i)} AND callee = :{parameter('callee', i)}"
            return f"{_PENDING}{_JOBS}{where}{self._tagged}"
        marks = (":" + parameter("kind", i), ":" + parameter("queue", i))
        return f"{_PENDING}{_TASKS}{_narrowed(kind, queue, *marks)}{self._tagged}"


def _of_lane(lane: Lane, i: int) -> dict[str, str | None]:
    return {parameter(name, i): value for name, value in zip(("queue", "callee", "group", "kind"), lane, strict=True)}


def _any_of(tags: int) -> str:
    return "(" + " OR ".join(tagged(parameter("tag", i)) for i in range(tags)) + ")" if tags > 1 else tagged("tag_aaa")


def _narrowed(kind: str | None, queue: str | None, this_kind: str, this_queue: str) -> str:
    """Conditions for a kind and a queue, worded so that the index of the narrower one is followed."""
    if kind is None or queue is None:
        of_kind = f" AND kind = {this_kind}" if kind is not None else ""
        return of_kind + (f" AND queue = {this_queue}" if queue is not None else "")
    if queue == "default":
        return f" AND kind = {this_kind} AND queue || '' = {this_queue}"
    if kind == "task":
        return f" AND queue = {this_queue} AND kind || '' = {this_kind}"
    return f" AND kind = {this_kind} AND queue = {this_queue} AND queue <> 'default' AND kind <> 'task'"


def win(
    tx: Transaction, wanted: Wanted, *, agent: str, count: int, lease: float, returning: str
) -> list[tuple[Any, ...]]:
    """Win what is asked for, as many as there are up to `count`; the rows come in any order.

    What somebody else is just changing is passed over, if there is anything else to be had. If there is not, it is
    waited for: whoever had it may die and leave it as it was, and nobody would be told.
    """
    tx.serialize("queues", wanted.project, shared=True)
    grant = {"agent": agent, "lease": micros(lease)}
    waits = False
    for _ in range(TRIES):
        rows, seen, lanes = _win(tx, wanted, count, grant, returning)
        if not rows and (done := step(tx, wanted.project, others=not waits, share=TRIES)) is not None:
            if not done:
                waits, count = _wait(tx)
            continue  # what nobody had told yet may be ready now
        if rows or not tx.passes_over or not (seen or _something_is_there(tx, wanted, lanes)):
            break
        waits, count = _wait(tx)
    return rows


def _wait(tx: Transaction) -> tuple[bool, int]:
    """Wait from now on for what is locked, and for one: who waited for a second one would keep the first locked."""
    tx.wait_for_locked()
    return True, 1


def _something_is_there(tx: Transaction, wanted: Wanted, lanes: list[Lane]) -> bool:
    """Whether there is something ready in one of these lanes, or something that may have become ready."""
    for begin in range(0, max(1, len(lanes)), _AT_ONCE):
        some = lanes[begin : begin + _AT_ONCE]
        ready = [f" OR EXISTS (SELECT 1 FROM tasks WHERE {wanted.condition(lane, i)})" for i, lane in enumerate(some)]
        params = {name: value for i, lane in enumerate(some) for name, value in _of_lane(lane, i).items()}
        if tx.first(f"{UNSETTLED}{''.join(ready)}", **wanted.params, **params) is not None:
            return True
    return False


def _win(
    tx: Transaction, wanted: Wanted, count: int, grant: dict[str, Any], returning: str
) -> tuple[list[tuple[Any, ...]], bool, list[Lane]]:
    """Win what can be won now.

    Also whether something was seen that could not be won then, and the lanes without a limit that were looked at.
    """
    # Most of the time nothing has lapsed and nothing is paused, and one statement finds that out and wins.
    if (lane := wanted.only_lane()) and (rows := _from_lane(tx, wanted, lane, count, grant, returning, SETTLED)):
        return rows, True, [lane]
    _, paused, limited = settle(tx, wanted.project)
    closed = paused_queues(tx, wanted.project) if paused else set()
    queues = _queues(tx, wanted) if wanted.queues is None and (closed or wanted.callees) else wanted.queues
    open_queues: list[str | None] = [None] if queues is None else [queue for queue in queues if queue not in closed]
    callees: list[str | None] = [*wanted.callees] if wanted.callees else [None]
    lanes: list[Lane] = [
        (queue, callee, None, kind) for queue in open_queues for callee in callees for kind in wanted.kinds
    ]
    if limited and (groups := _groups(tx, wanted, closed)):
        return *_best_of(tx, wanted, [*lanes, *groups], count, grant, returning), lanes
    if len(lanes) == 1:
        return _from_lane(tx, wanted, lanes[0], count, grant, returning), False, lanes
    return *_best_of(tx, wanted, lanes, count, grant, returning), lanes


def paused_queues(tx: Transaction, project: str) -> set[str]:
    """The queues that nobody takes from."""
    return {name for (name,) in tx.all("SELECT queue FROM queues WHERE project = :project", project=project)}


def _queues(tx: Transaction, wanted: Wanted) -> list[str]:
    """The queues that have something ready, found by skipping through an index."""
    here = f"{_PENDING}{_JOBS}" if wanted.callees else f"{_PENDING}{_TASKS}"
    rows = tx.all(
        f"WITH RECURSIVE found (queue) AS (SELECT (SELECT min(queue) FROM tasks WHERE {here}) UNION ALL "
        f"SELECT (SELECT min(tasks.queue) FROM tasks WHERE {here} AND tasks.queue > found.queue) "
        "FROM found WHERE found.queue IS NOT NULL) SELECT queue FROM found WHERE queue IS NOT NULL",
        project=wanted.project,
    )
    return [queue for (queue,) in rows]


def _kinds(tx: Transaction, project: str) -> list[str]:
    """The kinds but jobs that have something ready, found by skipping through an index: for strangers.

    So a stranger does not pass by the backlog of jobs, however long it is.
    """
    settle(tx, project)
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


def _groups(tx: Transaction, wanted: Wanted, closed: set[str]) -> list[Lane]:
    """The groups that have something ready in a queue that is asked for and not paused."""
    asked = None if wanted.queues is None else set(wanted.queues)
    found = groups_with_work(tx, wanted.project)
    return [
        (q, None, group, kind)
        for group, q in found
        if q not in closed and (asked is None or q in asked)
        for kind in wanted.kinds
    ]


def _from_lane(
    tx: Transaction,
    wanted: Wanted,
    lane: Lane,
    count: int,
    grant: dict[str, Any],
    returning: str,
    only_if: str = "TRUE",
) -> list[tuple[Any, ...]]:
    picked = (
        f"WITH picked AS MATERIALIZED (SELECT number AS n FROM tasks WHERE {wanted.condition(lane, 0)} AND {only_if} "
        f"{_BEST_FIRST} {{skip_locked}}) "
    )
    return tx.all(
        winning("tasks", f"number = picked.n AND {READY}", returning, CLAIMED, picked, "picked"),
        count=count,
        **wanted.params,
        **_of_lane(lane, 0),
        **grant,
    )


def _best_of(
    tx: Transaction, wanted: Wanted, lanes: list[Lane], count: int, grant: dict[str, Any], returning: str
) -> tuple[list[tuple[Any, ...]], bool]:
    """Win the best of several lanes, and whether there were any to choose from.

    Of groups with a limit, nobody else wins anything until this has ended.
    """
    heads = _heads(tx, wanted, lanes, count)
    shares, numbers = _shares(heads, taken(tx, wanted.project) if any(lane[2] for lane in lanes) else {}, count)
    if numbers:
        alone(tx, wanted.project)  # from the beginning: what was counted above was counted alone
    won = [row for lane, n in shares.items() for row in _from_lane(tx, wanted, lane, n, grant, returning)]
    for table, params in given(("n",), [(number,) for number in numbers]):
        won += tx.all(
            winning("tasks", f"number = given.n AND {READY}", returning, CLAIMED, table, "given"),
            **params,
            **grant,
        )
    return won, bool(shares or numbers)


def _heads(tx: Transaction, wanted: Wanted, lanes: list[Lane], count: int) -> list[tuple[int, int, int, Lane]]:
    """The first tasks of each lane: priority (negative), number, the size of its group, and the lane."""
    heads = []
    for begin in range(0, len(lanes), _AT_ONCE):
        some = lanes[begin : begin + _AT_ONCE]
        arms = (
            f"SELECT * FROM (SELECT -priority, number, limit_size, {i} AS lane FROM tasks "
            f"WHERE {wanted.condition(lane, i)} {_BEST_FIRST}) AS head"
            for i, lane in enumerate(some)
        )
        params = {name: value for i, lane in enumerate(some) for name, value in _of_lane(lane, i).items()}
        rows = tx.all(" UNION ALL ".join(arms), count=count, **wanted.params, **params)
        heads += [(priority, number, size, some[i]) for priority, number, size, i in rows]
    return sorted(heads, key=lambda head: head[:2])


def _shares(
    heads: list[tuple[int, int, int, Lane]], used: dict[str, int], count: int
) -> tuple[dict[Lane, int], list[int]]:
    """How many are to be taken from each lane, and which of those with a limit."""
    shares: dict[Lane, int] = {}
    numbers: list[int] = []
    for _, number, size, lane in heads:
        if sum(shares.values()) + len(numbers) == count:
            break
        group = lane[2]
        if group is None:
            shares[lane] = shares.get(lane, 0) + 1
        elif used.get(group, 0) < size:
            used[group] = used.get(group, 0) + 1
            numbers.append(number)
    return shares, sorted(numbers)
