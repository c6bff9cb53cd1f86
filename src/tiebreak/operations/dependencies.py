"""Dependencies: which tasks come after which, and what happens to them when an earlier task ends.

A task is blocked until every task that it comes after is completed. If one of those fails or is cancelled, the task is
cancelled with that reason, and so are the tasks that come after it, unless it was posted with `run_anyway`. The graph
has no cycles, because an edge that would close one is refused.

A transaction that counts a task's open predecessors has locked everything that could change the count. A transaction
that ends a task has locked its row, then locks the tasks that come after it, and counts again for each. A transaction
that adds an edge or reopens a task locks the predecessors (shared), then the task. So when two of them meet, the later
one sees what the earlier one did. All of them lock a task before the tasks that come after it.

If few tasks come after a task, the transaction that ends it updates all of them. If there are very many, it leaves the
rest to later steps (see `deferred_work`). Until then a task may be blocked although all its predecessors have ended.
The invariant is, for each ended task: all tasks that come after it have been updated, or an item of deferred work names
it. It follows:

- A claim of such a task by its name updates the task first. `tasks.next` does steps when it finds nothing.
- Posting a task after one that has ended, or linking one to it, counts anew and defers nothing. If deferred work is
  going to cancel the earlier task, the new task is cancelled with it, because its edge exists by then.
- Reopening a task with deferred work would leave some tasks undecided: the work is finished first, or the call is
  refused. Reopening one of the tasks that came after it does not affect the others.
- A task with deferred work is not pruned.
- Two transactions may update the same task at once: both lock it, and the second one counts what the first one did.
"""

from __future__ import annotations

from ..errors import Refused
from ..limits import LISTED
from ..model import Task, record
from . import by_stranger, deferred_work, edges_scope, operation
from .events import task_event
from .expiry import end_of, expire_one, update_dependents, with_dependents
from .grants import giving_back
from .references import ASIDE_IF_READY, SHOWN, STORED, called, find
from .rows import SIZES, given, listed, parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..names import AgentId, Limit, Number, Project, Ref
    from . import Transaction
    from .deferred_work import Item
    from .expiry import Ended

    Propagation = tuple[str, int, int]
    """An ended task whose end is passed on: its project, its number, and the last task after it that was updated."""

ROUNDS = 50
"""How many levels of a chain of cancellations one transaction follows."""
MANY = 100
"""A task that waits for more tasks than this is not counted again each time one of them is completed."""
_LAST = 9223372036854775807


def find_predecessors(tx: Transaction, after: list[str], project: str, run_anyway: bool) -> list[Task]:
    """Find and lock the tasks to come after; refuse one that has failed or was cancelled.

    Because of the lock, an end that is being written now is seen here, and a later end sees the new edge.
    """
    numbers = {find(tx, ref, project).number for ref in after}
    found = [find(tx, f"#{number}", project, "{share}") for number in sorted(numbers)]
    refuse_ended_badly(found, run_anyway)
    return found


def refuse_ended_badly(before: list[Task], run_anyway: bool) -> None:
    """Refuse to come after a task that failed or was cancelled: the later task would wait for ever."""
    for task in before:
        if task.state in ("failed", "cancelled") and not run_anyway:
            raise Refused(
                f"cannot come after {called(task)}, which is {task.state}",
                hint="retry that one first, or run anyway",
            )


def link(tx: Transaction, task: int, after: int) -> None:
    """Add an edge: one task comes after another."""
    tx.all(
        "INSERT INTO edges (task, after) VALUES (:task, :after) ON CONFLICT DO NOTHING",
        task=task,
        after=after,
    )


@operation("tasks.depend", writes=True, strangers=True, scopes=lambda params: [edges_scope(params["project"])])
def depend(tx: Transaction, *, ref: Ref, after: list[Ref], agent: AgentId = "", project: Project = "") -> Task:
    """Make a task that nobody has claimed come after others; a dependency that closes a cycle is refused."""
    number = _startable(later := find(tx, ref, project)).number
    tx.serialize("edges", later.project)  # two edges that are added at the same moment may close a cycle together
    before = find_predecessors(tx, after, project, runs_anyway(tx, number))
    task = found = _startable(find(tx, f"#{number}", project, "{lock}"))
    expire_one(tx, task.number)
    before = [b for b in before if not _linked(tx, task.number, b.number)]
    for b in before:
        _refuse_cycle(tx, task, b)
        link(tx, task.number, b.number)
    if before:
        if (row := _recount(tx, task.number)) is not None:
            task = record(Task, row)
        task_event(tx, "task.linked", task, agent=agent, note=f"after {numbers_shown(b.number for b in before)}")
        if found.state == "blocked" and task.state == "pending":  # deferred work would have done so later
            task_event(tx, "task.ready", task)
    return task


def _startable(task: Task) -> Task:
    if task.state not in ("blocked", "pending"):
        raise Refused(f"{called(task)} is {task.state} already")
    return task


def runs_anyway(tx: Transaction, number: int) -> bool:
    """Whether a task runs even if a predecessor failed or was cancelled; this never changes."""
    row = tx.first("SELECT run_anyway FROM tasks WHERE number = :number", number=number)
    return bool(row and row[0])


def _linked(tx: Transaction, task: int, after: int) -> bool:
    return tx.first("SELECT 1 FROM edges WHERE task = :task AND after = :after", task=task, after=after) is not None


def _refuse_cycle(tx: Transaction, task: Task, before: Task) -> None:
    """Refuse an edge that closes a cycle, however many projects the cycle leads through.

    An edge belongs to the project of its later task. A transaction that adds one holds the scope of that project
    exclusively and shares the scopes of all projects whose edges it walked. So of two transactions that would close a
    cycle together, one runs after the other.
    """
    reached = tx.all(
        "WITH RECURSIVE earlier (number) AS (SELECT CAST(:before AS BIGINT) UNION "
        "SELECT edges.after FROM edges JOIN earlier ON edges.task = earlier.number) "
        "SELECT project, max(CASE WHEN tasks.number = :task THEN 1 ELSE 0 END) "
        "FROM earlier JOIN tasks ON tasks.number = earlier.number GROUP BY project ORDER BY project",
        before=before.number,
        task=task.number,
    )
    for project, _ in reached:
        if project != task.project:
            tx.serialize("edges", project, shared=True)
    if any(closed for _, closed in reached):
        raise Refused(f"{called(task)} cannot come after {called(before)}: that would be a circle")


@operation("tasks.after", writes=False, strangers=True)
def predecessors(tx: Transaction, *, ref: Ref, project: Project = "") -> list[Task]:
    """List the tasks that a task comes after."""
    task = find(tx, ref, project)
    rows = tx.all(
        f"SELECT {SHOWN} FROM tasks WHERE number IN "
        "(SELECT after FROM edges WHERE edges.task = :number) ORDER BY number",
        number=task.number,
    )
    return [record(Task, row) for row in rows]


@operation("tasks.dependents", writes=False, strangers=True)
def dependents(
    tx: Transaction, *, ref: Ref, project: Project = "", after: Number = 0, limit: Limit = LISTED
) -> list[Task]:
    """List the tasks that come after a task, oldest first; for the next page, `after` is the last number."""
    rows = tx.all(
        f"SELECT {SHOWN} FROM tasks WHERE number IN (SELECT edges.task FROM edges WHERE edges.after = :number "
        "AND edges.task > :beyond ORDER BY edges.task LIMIT :limit) ORDER BY number",
        number=find(tx, ref, project).number,
        beyond=after,
        limit=limit,
    )
    return [record(Task, row) for row in rows]


def cancel_row(tx: Transaction, number: int, reason: str | None) -> Task | None:
    """Cancel a task; None if it had ended already."""
    row = tx.first(_CANCEL, number=number, reason=reason)
    return None if row is None else record(Task, row)


_ENDED = "state = 'cancelled', reason = {}, blockers = 0, ready_at = 0, finished_at = {{now}}, updated_at = {{now}}"
_OPEN = "state IN ('blocked', 'pending', 'claimed')"
_CANCEL = giving_back("tasks", "number = :number", STORED, _ENDED.format(":reason"), _OPEN)


def release_dependents(tx: Transaction, ended: list[Ended]) -> None:
    """Release or cancel the tasks that come after these ended ones; what exceeds the budget is deferred."""
    completed = {number for number, _, state in ended if state == "completed"}
    left = _propagate(tx, [(project, number, 0) for number, project, _ in ended], deferred_work.BUDGET, completed)
    if left:
        if by_stranger(tx):
            from .strangers import refuse_jobs_after

            refuse_jobs_after(tx, [(number, passed) for _, number, passed in left])
        deferred_work.defer(tx, "dependents", _as_items(left))


def step_dependents(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Item]:
    """Do one step of updating the tasks that come after these; the items that are left."""
    return _as_items(_propagate(tx, [(project, int(subject), passed) for subject, passed in rows], budget))


_DEFERRED = "FROM chores WHERE project = :project AND chore = 'dependents' AND subject = :subject"


def lock_deferred_work(tx: Transaction, task: Task) -> None:
    """Wait for a transaction that is doing this task's deferred work, before any task is locked."""
    tx.first(f"SELECT 1 {_DEFERRED} {{lock}}", project=task.project, subject=str(task.number))


def finish_dependents(tx: Transaction, task: Task) -> None:
    """Finish the deferred work of a task before the task is reopened; refuse if too many tasks come after it.

    The task's row is locked, so no work is deferred for it meanwhile.
    """
    this = {"project": task.project, "subject": str(task.number)}
    if tx.first(f"SELECT 1 {_DEFERRED}", **this) is None:
        return
    # Work that was deferred after `lock_deferred_work` is not waited for, because tasks are locked by now.
    if (row := tx.first(f"SELECT passed {_DEFERRED} {{skip_locked}}", **this)) is not None:
        left = _as_items(_propagate(tx, [(task.project, task.number, row[0])], deferred_work.BUDGET))
        deferred_work.save_progress(tx, task.project, "dependents", [this["subject"]], left)
        if left:
            tx.report_deferred_work(task.project)
        if (task.project, this["subject"]) not in [each[:2] for each in left]:
            return
    refusal = Refused(
        f"{called(task)} is {task.state}, and the tasks that come after it are still being updated",
        hint="try again in a moment",
        state=task.state,
    )
    refusal.kept = row is not None  # commit the step that was done
    raise refusal


def _as_items(ends: list[Propagation]) -> list[Item]:
    return [(project, str(number), passed) for project, number, passed in ends]


def _propagate(tx: Transaction, ends: list[Propagation], room: int, completed: Iterable[int] = ()) -> list[Propagation]:
    """Update the tasks that come after these ends, and after tasks that this cancels; the ends that are left.

    `completed` are the tasks that this very transaction has completed: no other transaction can have counted them yet.
    """
    for _ in range(ROUNDS):
        if not ends or room <= 0:
            break
        near, ends = _next_dependents(tx, ends, room)
        room -= len(near)
        cancelled = with_dependents(tx, _decide(tx, near, set(completed)))
        ends = [*((project, number, 0) for number, project, _ in cancelled), *ends]
    return ends


def _next_dependents(
    tx: Transaction, ends: list[Propagation], room: int
) -> tuple[dict[int, list[int]], list[Propagation]]:
    """The next tasks to update, each with the ends that it comes after; and the ends that have more of them."""
    batch, left = ends[:room], ends[room:]
    share = room // len(batch)
    found = _first_dependents(tx, batch, share + 1)  # one more than its share shows that there are others
    near: dict[int, list[int]] = {}
    for project, number, _ in batch:
        tasks = found.get(number, [])
        if len(tasks) > share:
            tasks.pop()
            left.append((project, number, tasks[-1]))
        for task in tasks:
            near.setdefault(task, []).append(number)
    return near, left


def _first_dependents(tx: Transaction, ends: list[Propagation], most: int) -> dict[int, list[int]]:
    """The first tasks that come after each of these ends and have not been updated yet.

    The statement compares both columns as one pair, because only the right index has them in that order. So whatever
    the planner estimates, it uses that index and reads no more rows than it needs.
    """
    found: dict[int, list[int]] = {}
    for begin in range(0, len(ends), SIZES[-1]):
        batch = ends[begin : begin + SIZES[-1]]
        size = next(size for size in SIZES if size >= len(batch))
        params = {"most": most}
        for i in range(size):
            number, passed = batch[i][1:] if i < len(batch) else (_LAST, 0)
            params[parameter("n", i)], params[parameter("p", i)] = number, passed
        arms = (_ARM.format(i, parameter("n", i), parameter("p", i)) for i in range(size))
        for i, after, task in tx.all(" UNION ALL ".join(arms), **params):
            if after == batch[i][1]:  # the pairs that follow belong to another task
                found.setdefault(after, []).append(task)
    return {after: sorted(tasks) for after, tasks in found.items()}


_ARM = (
    "SELECT * FROM (SELECT {} AS i, after, task FROM edges WHERE (after, task) > (:{}, :{}) "
    "ORDER BY after, task LIMIT :most) AS arm"
)


def _decide(tx: Transaction, near: dict[int, list[int]], completed: set[int]) -> list[Ended]:
    """Release or cancel those of these tasks that are blocked; the cancelled ones."""
    blocked: dict[int, tuple[int, int]] = {}
    for these, params in listed("n", sorted(near)):
        rows = tx.all(
            f"SELECT number, run_anyway, blockers FROM tasks WHERE number IN ({these}) AND state = 'blocked' "
            "ORDER BY number {lock}",
            **params,
        )
        blocked.update((number, (anyway, blockers)) for number, anyway, blockers in rows)
    waiting: dict[int, int] = {}
    for number, (anyway, blockers) in blocked.items():
        fewer = blockers - len(near[number])
        if fewer > MANY and not anyway and completed.issuperset(near[number]):
            waiting[number] = fewer
    counts = _count_blockers(tx, [number for number in blocked if number not in waiting])
    doomed = {n: bad for n, (_, bad) in counts.items() if bad is not None and not blocked[n][0]}
    waiting.update((number, counts.get(number, (0, None))[0]) for number in blocked if number not in waiting)
    cancelled = _cancel_each(tx, doomed)
    ready = [task for task in _release_each(tx, waiting, doomed) if task.state == "pending"]
    for task in sorted([*cancelled, *ready], key=lambda task: task.number):
        if task.state == "pending":
            task_event(tx, "task.ready", task)
        else:
            task_event(tx, "task.cancelled", task, note=task.reason)
    return [end_of(task) for task in cancelled]


# The count is made again each time, because a task that was reopened may end twice and must not be subtracted twice.
# The exception is a task that waits for very many (`MANY`): there, tasks that this very transaction has completed are
# subtracted, which happens once for each. Deferred work always counts again.
def _count_blockers(tx: Transaction, numbers: list[int]) -> dict[int, tuple[int, int | None]]:
    """How many open predecessors each task has, and the first predecessor that failed or was cancelled."""
    found: dict[int, tuple[int, int | None]] = {}
    for these, params in listed("n", sorted(numbers)):
        rows = tx.all(
            "SELECT edges.task, count(CASE WHEN finished_at = 0 THEN 1 END), "
            "min(CASE WHEN state IN ('failed', 'cancelled') THEN number END) "
            f"FROM edges JOIN tasks ON tasks.number = edges.after WHERE edges.task IN ({these}) GROUP BY edges.task",
            **params,
        )
        found.update((task, (waiting, bad)) for task, waiting, bad in rows)
    return found


def _cancel_each(tx: Transaction, doomed: dict[int, int]) -> list[Task]:
    """Cancel these tasks, each because of one of its predecessors."""
    reasons = {}
    for these, params in listed("n", sorted(set(doomed.values()))):
        for row in tx.all(f"SELECT {STORED} FROM tasks WHERE number IN ({these})", **params):
            bad = record(Task, row)
            reasons[bad.number] = f"comes after {called(bad)}, which was {bad.state}"[:1000]
    done = []
    for table, params in given(("n", "r"), [(number, reasons[doomed[number]]) for number in sorted(doomed)]):
        done += tx.all(
            giving_back("tasks", "number = given.n", STORED, _ENDED.format("given.r"), _OPEN, table), **params
        )
    return [record(Task, row) for row in done]


def _release_each(tx: Transaction, waiting: dict[int, int], doomed: dict[int, int]) -> list[Task]:
    """Write how many tasks each of these tasks still waits for; one that waits for none becomes ready."""
    done = []
    rest = [(number, count) for number, count in sorted(waiting.items()) if number not in doomed]
    for table, params in given(("n", "w"), rest):
        done += tx.all(
            f"{table}UPDATE tasks SET blockers = given.w, updated_at = {{now}}, "
            "state = CASE WHEN given.w = 0 THEN 'pending' ELSE 'blocked' END "
            f"FROM given WHERE number = given.n AND state = 'blocked' RETURNING {STORED}",
            **params,
        )
    return [record(Task, row) for row in done]


def resolve_blocked(tx: Transaction, number: int) -> int:
    """Release or cancel a blocked task before deferred work reaches it; 1 if its predecessors decide it, else 0."""
    row = tx.first("SELECT run_anyway FROM tasks WHERE number = :number AND state = 'blocked'", number=number)
    if row is None:
        return 0
    waiting, bad = _count_blockers(tx, [number]).get(number, (0, None))
    if waiting and (bad is None or row[0]):
        return 0
    update_dependents(tx, _decide(tx, {number: [0]}, set()))
    return 1


def numbers_shown(numbers: Iterable[int]) -> str:
    """Task numbers as messages list them: the first few, and how many more there are."""
    known = list(numbers)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(f"#{number}" for number in known[:_SHOWN]) + more


_SHOWN = 10


def unfinished(tx: Transaction, number: int) -> list[int]:
    """The tasks that a task comes after and still has to wait for."""
    rows = tx.all(
        "SELECT tasks.number FROM edges JOIN tasks ON tasks.number = edges.after "
        f"WHERE edges.task = :number AND NOT {_DONE} ORDER BY tasks.number",
        number=number,
    )
    return [found for (found,) in rows]


# A predecessor that failed or was cancelled counts as done only for a task that runs anyway.
_DONE = (
    "(state = 'completed' OR (state IN ('failed', 'cancelled') "
    "AND (SELECT later.run_anyway FROM tasks AS later WHERE later.number = :number) = 1))"
)


def _recount(tx: Transaction, number: int) -> tuple[Any, ...] | None:
    waiting = len(unfinished(tx, number))
    return tx.first(
        f"UPDATE tasks SET blockers = :waiting, state = :state, updated_at = {{now}}, {ASIDE_IF_READY} "
        f"WHERE number = :number AND state IN ('blocked', 'pending') RETURNING {STORED}",
        waiting=waiting,
        state="blocked" if waiting else "pending",
        number=number,
    )
