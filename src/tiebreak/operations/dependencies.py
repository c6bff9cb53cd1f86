"""Dependencies: what comes after what, and what becomes of it.

A task is blocked until every task that it comes after is completed. When one of those fails or is cancelled,
it is cancelled with that reason, and so are those that come after it; unless it was posted to run anyway. The
graph has no circles because an edge that would close one is refused.

Who counts what a task waits for has locked first what could change the count. Whoever ends a task has locked its row,
then locks those that come after it, and counts anew for each. Whoever adds an edge or reopens a task locks what it
comes after (shared), then the task. So of two that meet the later one sees what the earlier one did, and all lock a
task before those that come after it.

A small family is dealt with by the transaction that ends its first task. Of a large one, the rest is left as a chore
(see `chores`), written by the same transaction and done in steps. Until then a task may be blocked although all that
it comes after has ended. So for each end: those that come after it know of it, or there is a chore for it. From that
follows:

- To claim such a task by its name decides about it first. `next` does steps when it finds nothing.
- To post a task after one that has ended, or to link one, counts anew: nobody has to tell it. If the earlier task has
  not been cancelled yet but will be, the new one is cancelled with it, because its edge is there before that.
- To reopen the task whose end is still being told would leave some undecided: the rest is done first, or it is refused.
  To reopen one of those that came after it changes nothing about the others.
- A task with a chore is not forgotten.
- Two may deal with the same task at once: both lock it, and the second one counts what the first one did.
"""

from __future__ import annotations

from ..errors import Refused
from ..model import Task, record
from . import changeable, chores, edges_of, operation
from .events import of_task
from .expiry import end_of, expire_one, followed, let_others_go_on
from .grants import giving_back
from .references import ARRIVING, SHOWN, STORED, called, find
from .rows import SIZES, given, listed, parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..names import AgentId, Project, Ref
    from . import Transaction
    from .chores import Chore
    from .expiry import Ended

    End = tuple[str, int, int]
    """A task that has ended: its project, its number, and the last one after it that knows."""

ROUNDS = 50
"""How long a chain of cancellations is followed in one transaction."""
MANY = 100
"""A task that waits for more than so many is not counted anew with each that is completed."""
_LAST = 9223372036854775807


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


@operation("tasks.depend", writes=True, strangers=True, scopes=lambda params: [edges_of(params["project"])])
def depend(tx: Transaction, *, ref: Ref, after: list[Ref], agent: AgentId = "", project: Project = "") -> Task:
    """Let a task that nobody has started come after others; a circle is refused."""
    number = _startable(later := find(tx, ref, project)).number
    tx.serialize("edges", later.project)  # two edges that are added at the same moment may close a circle together
    before = find_predecessors(tx, after, project, runs_anyway(tx, number))
    task = was = _startable(find(tx, f"#{number}", project, "{lock}"))
    expire_one(tx, task.number)
    before = [b for b in before if not _linked(tx, task.number, b.number)]
    for b in before:
        _refuse_circle(tx, task, b)
        link(tx, task.number, b.number)
    if before:
        if (row := _refresh(tx, task.number)) is not None:
            task = record(Task, row)
        of_task(tx, "task.linked", task, agent=agent, note=f"after {some(b.number for b in before)}")
        if was.state == "blocked" and task.state == "pending":  # a chore would have told it later
            of_task(tx, "task.ready", task)
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
    """Refuse an edge that closes a circle, however many projects the circle leads through.

    An edge belongs to the project of its later task. Whoever adds one has the scope of that project alone and shares
    those of all projects whose edges were walked, so of two who would close a circle together one comes later.
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


_ENDED = "state = 'cancelled', reason = {}, blockers = 0, ready_at = 0, finished_at = {{now}}, updated_at = {{now}}"
_OPEN = "state IN ('blocked', 'pending', 'claimed')"
_CANCEL = giving_back("tasks", "number = :number", STORED, _ENDED.format(":reason"), _OPEN)


def release_dependents(tx: Transaction, ended: list[Ended]) -> None:
    """Let those that come after finished tasks go on, or cancel them with them; what is too much is left as chores."""
    completed = {number for number, _, state in ended if state == "completed"}
    left = _tell(tx, [(project, number, 0) for number, project, _ in ended], chores.BUDGET, completed)
    if left:
        if changeable(tx):
            from .strangers import refuse_jobs_after

            refuse_jobs_after(tx, [(number, passed) for _, number, passed in left])
        chores.leave(tx, "dependents", _as_chores(left))


def go_on(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Chore]:
    """One step of telling those that come after these tasks; the chores that are left."""
    return _as_chores(_tell(tx, [(project, int(subject), passed) for subject, passed in rows], budget))


_THIS_CHORE = "FROM chores WHERE project = :project AND chore = 'dependents' AND subject = :subject"


def lock_chore(tx: Transaction, task: Task) -> None:
    """Wait for whoever tells those that come after a task of its end, before any task is locked."""
    tx.first(f"SELECT 1 {_THIS_CHORE} {{lock}}", project=task.project, subject=str(task.number))


def finish(tx: Transaction, task: Task) -> None:
    """Let all that come after a task know of its end before it is reopened; refused if they are too many.

    Its row is locked, so no chore for it is added meanwhile.
    """
    this = {"project": task.project, "subject": str(task.number)}
    if tx.first(f"SELECT 1 {_THIS_CHORE}", **this) is None:
        return
    # One that was not there yet for `lock_chore` is not waited for: tasks are locked by now.
    if (row := tx.first(f"SELECT passed {_THIS_CHORE} {{skip_locked}}", **this)) is not None:
        left = _as_chores(_tell(tx, [(task.project, task.number, row[0])], chores.BUDGET))
        chores.settle(tx, task.project, "dependents", [this["subject"]], left)
        if left:
            tx.leave(task.project)
        if (task.project, this["subject"]) not in [each[:2] for each in left]:
            return
    refusal = Refused(
        f"{called(task)} is {task.state}, and those that come after it are still being told",
        hint="try again in a moment",
        state=task.state,
    )
    refusal.kept = row is not None  # the step that was done stays
    raise refusal


def _as_chores(ends: list[End]) -> list[Chore]:
    return [(project, str(number), passed) for project, number, passed in ends]


def _tell(tx: Transaction, ends: list[End], room: int, completed: Iterable[int] = ()) -> list[End]:
    """Decide about those that come after these ends, and after those that are cancelled thereby; the ends left over.

    `completed` are those of which nobody else can know yet: they were completed by this transaction.
    """
    for _ in range(ROUNDS):
        if not ends or room <= 0:
            break
        near, ends = _near(tx, ends, room)
        room -= len(near)
        cancelled = followed(tx, _decide(tx, near, set(completed)))
        ends = [*((project, number, 0) for number, project, _ in cancelled), *ends]
    return ends


def _near(tx: Transaction, ends: list[End], room: int) -> tuple[dict[int, list[int]], list[End]]:
    """Some of those that come after these ends, each with the ends it comes after, and the ends that have more."""
    some_ends, left = ends[:room], ends[room:]
    share = room // len(some_ends)
    found = _first_after(tx, some_ends, share + 1)  # one more than its share tells that there are others
    near: dict[int, list[int]] = {}
    for project, number, _ in some_ends:
        tasks = found.get(number, [])
        if len(tasks) > share:
            tasks.pop()
            left.append((project, number, tasks[-1]))
        for task in tasks:
            near.setdefault(task, []).append(number)
    return near, left


def _first_after(tx: Transaction, ends: list[End], most: int) -> dict[int, list[int]]:
    """The first ones that come after each of these ends, and that are not passed yet.

    Both columns are compared together, because only the right index has them in that order. So whatever a planner
    believes about large families, it reads no more than it is asked for.
    """
    found: dict[int, list[int]] = {}
    for begin in range(0, len(ends), SIZES[-1]):
        some_ends = ends[begin : begin + SIZES[-1]]
        size = next(size for size in SIZES if size >= len(some_ends))
        params = {"most": most}
        for i in range(size):
            number, passed = some_ends[i][1:] if i < len(some_ends) else (_LAST, 0)
            params[parameter("n", i)], params[parameter("p", i)] = number, passed
        arms = (_ARM.format(i, parameter("n", i), parameter("p", i)) for i in range(size))
        for i, after, task in tx.all(" UNION ALL ".join(arms), **params):
            if after == some_ends[i][1]:  # behind the last one come those of another task
                found.setdefault(after, []).append(task)
    return {after: sorted(tasks) for after, tasks in found.items()}


_ARM = (
    "SELECT * FROM (SELECT {} AS i, after, task FROM edges WHERE (after, task) > (:{}, :{}) "
    "ORDER BY after, task LIMIT :most) AS arm"
)


def _decide(tx: Transaction, near: dict[int, list[int]], completed: set[int]) -> list[Ended]:
    """Release or cancel the blocked ones among these tasks; those that were cancelled."""
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
    counts = _counts(tx, [number for number in blocked if number not in waiting])
    doomed = {n: bad for n, (_, bad) in counts.items() if bad is not None and not blocked[n][0]}
    waiting.update((number, counts.get(number, (0, None))[0]) for number in blocked if number not in waiting)
    cancelled = _cancel_each(tx, doomed)
    ready = [task for task in _release_each(tx, waiting, doomed) if task.state == "pending"]
    for task in sorted([*cancelled, *ready], key=lambda task: task.number):
        if task.state == "pending":
            of_task(tx, "task.ready", task)
        else:
            of_task(tx, "task.cancelled", task, note=task.reason)
    return [end_of(task) for task in cancelled]


# Counted anew, with few exceptions: a task that was reopened may end twice, and must not count for two. The exceptions
# wait for many. Of those, only what was completed by this very transaction is subtracted; that happens once. Chores
# always count.
def _counts(tx: Transaction, numbers: list[int]) -> dict[int, tuple[int, int | None]]:
    """For how many each task still waits, and the first that it comes after which ended badly."""
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
    """Cancel these tasks, each because of one that it comes after."""
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
    """Write down for how many each of these tasks still waits; one that waits for none is ready."""
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


def catch_up(tx: Transaction, number: int) -> int:
    """Decide about a blocked task whose chore is not there yet, if all that it comes after is over; whether it was."""
    row = tx.first("SELECT run_anyway FROM tasks WHERE number = :number AND state = 'blocked'", number=number)
    if row is None:
        return 0
    waiting, bad = _counts(tx, [number]).get(number, (0, None))
    if waiting and (bad is None or row[0]):
        return 0
    let_others_go_on(tx, _decide(tx, {number: [0]}, set()))
    return 1


def some(numbers: Iterable[int]) -> str:
    """Tasks as messages list them: the first few, and how many more there are."""
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


# A predecessor that ended badly is done only for a task that runs anyway.
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
