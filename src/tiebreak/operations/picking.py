"""Picking: which ready tasks are won next, by priority and then by age.

Usually it is one statement: the head of one index, claimed. Where queues are paused, where several queues are asked for
or where groups have limits, the heads of those that are open are looked at first, and the best of them decide how many
are taken from each. So nobody passes by the backlog of a paused queue or of a full group, however long it is: the tasks
of a full group are set aside (see `limits`), and so are those of paused queues when there are many of them.
"""

from __future__ import annotations

from ..clock import micros
from ..limits import CLAIM_LEASE
from ..model import Task
from ..names import JOB, PRIORITIES
from . import changeable, claimable, operation, scope
from .chores import step
from .claims import CLAIMED, READY, TRIES, WON, granted
from .concurrency import MOST_OPEN, alone, combinations, look_again, set_aside, stir, taken
from .expiry import PAUSED, SETTLED, UNSETTLED, settle
from .grants import winning
from .references import tagged
from .rows import given, parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..names import AgentId, Count, Label, Lease, Project
    from . import Scope, Transaction

    Lane = tuple[str | None, str | None, str | None, str | None, int | None]
    """Tasks that are taken in their order: of a queue, for a function, of a kind, of a group with a limit of a size.

    None: of any."""

    Head = tuple[int, int, str | None, int, Lane]
    """A task at the head of a lane: its priority (negative), its number, its group, the group's size, the lane."""

_PENDING = "project = :project AND state = 'pending' AND ready_at = 0"
_TASKS = " AND aside = 0"
_JOBS = " AND aside < 1 AND callee IS NOT NULL"
"""Those that are not set aside; the two wordings name different indexes."""
_FREE = " AND limit_group IS NULL"
_BEST_FIRST = "ORDER BY priority DESC, number LIMIT :count"
_AT_ONCE = 100
"""How many lanes are looked at by one statement."""
_MOST_KINDS = 100
"""How many kinds a stranger's call looks at that names none."""
MOST_PAUSED = 20
"""So many paused queues with ready tasks cost little; the tasks of further ones are set aside."""
_MOST_ROUNDS = 20
"""How often a call looks anew because groups turned out to be full, or had to be looked at."""
WAITS_FOR_QUEUE = 2
"""What `aside` is for a task whose queue is paused."""


def takes_from_queues(params: dict[str, Any]) -> list[Scope]:
    """The scope of whoever takes from a queue that is not paused: no queue is paused between its look and its grant."""
    return [scope("queues", params["project"], shared=True)]


@operation("tasks.next", writes=True, strangers=lambda params: params.get("kind") != JOB, scopes=takes_from_queues)
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
        only=claimable(tx),
    )
    if not wanted.kinds:
        return []
    rows = win(tx, wanted, agent=agent, count=count, lease=lease, returning=WON)
    tasks = [granted(tx, row) for row in rows]
    return sorted(tasks, key=lambda t: (-PRIORITIES.index(t.priority), t.number))


class Wanted:
    """What is asked for. `callees` are the functions that jobs may call, '' for jobs with other commands.

    `only` is a further condition for plain tasks.
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

    def with_limits(self, tx: Transaction) -> bool:
        """Whether tasks with a limit may be among it: those are jobs."""
        return not changeable(tx) and any(kind in (None, JOB) for kind in self.kinds)

    def only_lane(self) -> Lane | None:
        """The one lane that all of it is in, if there is just one."""
        queues: list[str | None] = [*self.queues] if self.queues else [None]
        callees: list[str | None] = [*self.callees] if self.callees else [None]
        alone = len(queues) == len(callees) == len(self.kinds) == 1 and (callees == [None] or queues != [None])
        return (queues[0], callees[0], self.kinds[0], None, None) if alone else None

    def condition(self, lane: Lane, i: int) -> str:
        """What a ready task of a lane must be like, in terms of the parameters that `of_lane` makes."""
        queue, callee, kind, group, _ = lane
        if group is not None:
            these = " AND ".join(f"{c} = :{parameter(n, i)}" for c, n in zip(_LIMITED, _LANE, strict=True) if c)
            of_kind = "" if kind is None else f" AND kind = :{parameter('kind', i)}"
            return f"{_PENDING} AND {these}{of_kind}{self._tagged}"
        tagged = f"{_FREE}{self._tagged}" if self.tagged else ""  # tagged tasks with a limit have lanes of their own
        if callee is not None:
            where = f" AND queue = :{parameter('queue', i)} AND callee = :{parameter('callee', i)}"
            return f"{_PENDING}{_JOBS}{where}{tagged}"
        marks = (":" + parameter("kind", i), ":" + parameter("queue", i))
        return f"{_PENDING}{_TASKS}{_narrowed(kind, queue, *marks)}{tagged}{self._only}"


_LANE = ("queue", "callee", "kind", "group", "size")
_LIMITED = ("queue", "callee", "", "limit_group", "limit_size")
"""The parameters of a lane, and the columns that they are compared with in one of a group."""


def _of_lane(lane: Lane, i: int) -> dict[str, str | int | None]:
    return {parameter(name, i): value for name, value in zip(_LANE, lane, strict=True)}


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
    if (lane := wanted.only_lane()) and (rows := _from_lane(tx, wanted, lane, count, grant, returning, at_once=True)):
        return rows, True, [lane]
    _, paused, stirred = settle(tx, wanted.project)
    lanes, shares, limited, missed = _chosen(tx, wanted, count, paused, stirred and wanted.with_limits(tx))
    won = [row for lane, n in shares.items() for row in _from_lane(tx, wanted, lane, n, grant, returning)]
    for table, params in given(("n",), [(number,) for number in sorted(limited)]):
        won += tx.all(
            winning("tasks", f"number = given.n AND {READY}", returning, CLAIMED, table, "given"),
            **params,
            **grant,
        )
    return won, bool(shares or limited or missed), [lane for lane in lanes if lane[3] is None]


def _lanes(tx: Transaction, wanted: Wanted, paused: bool) -> list[Lane]:
    """The lanes in which there may be something that is asked for, and that is in no paused queue."""
    queues: list[str | None] = [None] if wanted.queues is None else [*wanted.queues]
    if wanted.queues is None and (paused or wanted.callees):
        queues = [*_queues(tx, wanted)]
    closed = _paused_among(tx, wanted.project, [queue for queue in queues if queue is not None]) if paused else set()
    callees: list[str | None] = [*wanted.callees] if wanted.callees else [None]
    lanes: list[Lane] = [
        (queue, callee, kind, None, None)
        for queue in queues
        if queue not in closed
        for callee in callees
        for kind in wanted.kinds
    ]
    return [*lanes, *_groups(tx, wanted, paused)] if wanted.tagged and wanted.with_limits(tx) else lanes


def _paused_among(tx: Transaction, project: str, queues: list[str]) -> set[str]:
    """Which of these queues are paused. If they are many, the tasks of some are set aside."""
    closed: list[str] = []
    for table, params in given(("q",), [(queue,) for queue in queues]):
        rows = tx.all(
            f"{table}SELECT queue FROM given JOIN queues ON queue = given.q WHERE project = :project",
            project=project,
            **params,
        )
        closed += [queue for (queue,) in rows]
    if len(closed) > MOST_PAUSED and not changeable(tx):
        set_paused_aside(tx, project, closed[MOST_PAUSED : MOST_PAUSED + _AT_ONCE])
    return set(closed)


def set_paused_aside(tx: Transaction, project: str, queues: list[str]) -> None:
    """Keep tasks of paused queues out of everybody's way until they are resumed: a hundred tasks at once.

    A queue is not resumed meanwhile: whoever resumes one has the scope of the queues alone.
    """
    for table, params in given(("q",), [(queue,) for queue in queues]):
        tx.all(
            f"{table}, closed AS MATERIALIZED (SELECT number AS n FROM given JOIN tasks ON queue = given.q "
            f"WHERE {_PENDING}{_TASKS} LIMIT :most {{pass_over_tasks}}) "
            "UPDATE tasks SET aside = :aside FROM closed WHERE number = closed.n",
            project=project,
            most=_AT_ONCE,
            aside=WAITS_FOR_QUEUE,
            **params,
        )


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


def _groups(tx: Transaction, wanted: Wanted, paused: bool) -> list[Lane]:
    """The groups that have something ready in a queue that is asked for and not paused: for tasks with a tag.

    Which tasks are the best with a tag is not known by which ones are aside, so each group is looked at.
    """
    found = combinations(tx, wanted.project)
    closed = _paused_among(tx, wanted.project, list({queue for _, queue, _, _ in found})) if paused else set()
    return [
        (queue, callee, kind, group, size)
        for group, queue, callee, size in found
        if queue not in closed and queue in (wanted.queues or (queue,)) and callee in (wanted.callees or (callee,))
        for kind in wanted.kinds
    ]


def _from_lane(
    tx: Transaction,
    wanted: Wanted,
    lane: Lane,
    count: int,
    grant: dict[str, Any],
    returning: str,
    *,
    at_once: bool = False,
) -> list[tuple[Any, ...]]:
    """Win the first tasks of a lane that have no limit.

    With `at_once`, before anything else was looked at: none, if something has to be looked at or written down first.
    """
    paused = PAUSED if lane[0] is None else f"{PAUSED[:-1]} AND queues.queue = :{parameter('queue', 0)})"
    only = f" AND {SETTLED} AND NOT {paused}" if at_once else _FREE
    if at_once and wanted.tagged:
        only += f" AND NOT EXISTS (SELECT 1 FROM tasks WHERE {_PENDING} AND limit_group IS NOT NULL)"
    free = " AND NOT EXISTS (SELECT 1 FROM picked WHERE picked.g IS NOT NULL)" if at_once else ""
    picked = (
        f"WITH picked AS MATERIALIZED (SELECT number AS n, limit_group AS g FROM tasks "
        f"WHERE {wanted.condition(lane, 0)}{only} {_BEST_FIRST} {{skip_locked}}) "
    )
    return tx.all(
        winning("tasks", f"number = picked.n{free} AND {READY}", returning, CLAIMED, picked, "picked"),
        count=count,
        **wanted.params,
        **_of_lane(lane, 0),
        **grant,
    )


def _chosen(
    tx: Transaction, wanted: Wanted, count: int, paused: bool, stirred: bool
) -> tuple[list[Lane], dict[Lane, int], list[int], bool]:
    """The lanes, how many tasks without a limit are to be taken from each of them, and which tasks with a limit.

    Also whether somebody else is changing a task with a limit that might have been among them.

    Groups that were stirred are looked at as long as one of their tasks might come before the worst of those chosen.
    Tasks whose groups turn out to be full are set aside, and others looked for in their place. Of groups with a limit,
    nobody else wins anything until the transaction has ended.
    """
    rounds, missed = 0, False
    while True:
        rounds += 1
        lanes = _lanes(tx, wanted, paused)
        heads = _heads(tx, wanted, lanes, count)
        worst = (-heads[count - 1][0], heads[count - 1][1]) if len(heads) >= count else None
        if stirred and not missed and rounds < _MOST_ROUNDS:
            looked, missed = look_again(tx, wanted.project, worst)
            if looked:
                continue
        groups = {head[2] for head in heads if head[2] is not None}
        if groups:
            alone(tx, wanted.project)  # from the beginning: what is counted here is counted alone
        used = taken(tx, wanted.project, groups)
        shares, limited, full = _shares(heads, used, count)
        if not full or rounds > 2 * _MOST_ROUNDS or not set_aside(tx, full):
            break
    won = [head for head in heads if head[1] in limited]
    # Of a group with that much room, some tasks are aside although they could be won: it is looked at again.
    stir(tx, wanted.project, [(g, number) for _, number, g, size, _ in won if g and size - used[g] >= MOST_OPEN])
    return lanes, shares, limited, missed


def _heads(tx: Transaction, wanted: Wanted, lanes: list[Lane], count: int) -> list[Head]:
    """The first tasks of each lane, the best first."""
    heads: list[Head] = []
    for begin in range(0, len(lanes), _AT_ONCE):
        some = lanes[begin : begin + _AT_ONCE]
        arms = (
            f"SELECT * FROM (SELECT -priority, number, limit_group, limit_size, {i} AS lane FROM tasks "
            f"WHERE {wanted.condition(lane, i)} {_BEST_FIRST}) AS head"
            for i, lane in enumerate(some)
        )
        params = {name: value for i, lane in enumerate(some) for name, value in _of_lane(lane, i).items()}
        rows = tx.all(" UNION ALL ".join(arms), count=count, **wanted.params, **params)
        heads += [(priority, number, group, size, some[i]) for priority, number, group, size, i in rows]
    return sorted(heads, key=lambda head: head[:2])


def _shares(heads: list[Head], used: dict[str, int], count: int) -> tuple[dict[Lane, int], list[int], list[int]]:
    """How many are to be taken from each lane, which of those with a limit, and which ones' groups are full.

    `used` is raised by those that are to be taken.
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
