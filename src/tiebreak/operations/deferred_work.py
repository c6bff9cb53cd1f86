"""Deferred work: what an operation leaves to later steps, because doing all of it at once would block other writers.

An item of deferred work is a row of the table `chores`. The transaction that defers the work writes it, so it survives
the death of the process, and any process can continue it. One step locks some items, handles a bounded number of tasks,
and deletes the items that are finished. Other writers run between two steps. After the commit, the process that
deferred the work continues it (see `Board.call`); a daemon does so in turn with waiting requests. If that process has
died, `tasks.next` does a step when it finds nothing, and so does `tasks.sweep`.

Locks: a step locks its items before the tasks that they are about.
"""

from __future__ import annotations

from . import by_stranger, operation
from .rows import given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..names import Project
    from . import Transaction

    Item = tuple[str, str, int]
    """An item of deferred work: its project, its subject, and the number of the last task that was handled."""
    Step = Callable[[Transaction, str, list[tuple[str, int]], int], list[Item]]
    """Does one step of some items of a project and returns the items that are left.

    The items come as (subject, last task handled). The last parameter is the number of tasks to handle at most."""

BUDGET = 500
"""How many tasks one transaction handles."""
TOGETHER = 100
"""How many items one step continues."""


def _dependents(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Item]:
    from .dependencies import step_dependents

    return step_dependents(tx, project, rows, budget)


def _resume(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Item]:
    from .queues import step_resume

    return step_resume(tx, project, rows, budget)


STEPS: dict[str, Step] = {"dependents": _dependents, "resume": _resume}
"""The function that does a step, for each type of work. A type that this version does not know is left alone."""


def defer(tx: Transaction, kind: str, items: list[Item]) -> None:
    """Write items of deferred work, and report them to the engine so that the caller continues them."""
    _write(tx, kind, items)
    for project in dict.fromkeys(project for project, _, _ in items):
        tx.report_deferred_work(project)


def save_progress(tx: Transaction, project: str, kind: str, subjects: list[str], left: list[Item]) -> None:
    """After a step of these items, which are locked: delete those that are finished, and update those that are left.

    A step continues the items of one project. If it added items to other projects, it reports them to the engine.
    """
    for other in sorted({where for where, _, _ in left} - {project}):
        tx.report_deferred_work(other)
    kept = {subject for where, subject, _ in left if where == project}
    for table, params in given(("s",), [(subject,) for subject in subjects if subject not in kept]):
        tx.all(
            f"{table}DELETE FROM chores WHERE project = :project AND chore = :kind "
            "AND subject IN (SELECT s FROM given)",
            project=project,
            kind=kind,
            **params,
        )
    _write(tx, kind, left)


def _write(tx: Transaction, kind: str, items: list[Item]) -> None:
    for table, params in given(("o", "s", "p"), items):
        tx.all(
            f"{table}INSERT INTO chores (project, chore, subject, passed) SELECT o, :kind, s, p FROM given "
            "WHERE o IS NOT NULL ON CONFLICT (project, chore, subject) DO UPDATE SET passed = excluded.passed",
            kind=kind,
            **params,
        )


def do_step(
    tx: Transaction, project: str | None, lock: str = "{skip_locked}", *, others: bool = False, share: int = 1
) -> bool | None:
    """Do one step of some deferred work, that of this project first.

    Returns None if there is none. Returns False if another transaction is doing a step of this project's work; with
    `{lock}` the call waits for that transaction instead. With `others`, the work of other projects counts as well: a
    task of this project may come after a task of theirs. A stranger's call does no step: what a stranger may change was
    decided when the work was deferred. A caller that may do several steps in one transaction says how many in `share`,
    and each step handles that part of the budget.
    """
    if by_stranger(tx):
        return None
    here = "TRUE" if others or project is None else "project = :project"
    found = tx.all(
        f"SELECT DISTINCT project, chore FROM chores WHERE {here} ORDER BY project, chore",
        project=project or "",
    )
    known = sorted((row for row in found if row[1] in STEPS), key=lambda row: row[0] != project)
    for where, kind in known:
        # The highest numbers first: those tasks usually come after the others, so few items are open at a time.
        rows: list[tuple[Any, ...]] = tx.all(
            "SELECT subject, passed FROM chores WHERE project = :project AND chore = :kind "
            f"ORDER BY length(subject) DESC, subject DESC LIMIT :most {lock}",
            project=where,
            kind=kind,
            most=TOGETHER,
        )
        if rows:
            left = STEPS[kind](tx, where, [(subject, passed) for subject, passed in rows], max(1, BUDGET // share))
            save_progress(tx, where, kind, [subject for subject, _ in rows], left)
            return True
    return False if any(where == project for where, _ in known) else None


def projects_with_work(tx: Transaction, project: str | None) -> list[str]:
    """The projects that have deferred work: among all projects, or only this one."""
    here = "TRUE" if project is None else "project = :project"
    rows = tx.all(f"SELECT DISTINCT project FROM chores WHERE {here} ORDER BY project", project=project)
    return [where for (where,) in rows]


@operation("tasks.cascade", writes=True, strangers=False)
def cascade(tx: Transaction, *, project: Project | None = "") -> int:
    """Do one step of the work that operations have deferred, and return how many items of it remain.

    When a task ends that very many tasks come after, only the first of them are released or cancelled at once. Call
    this again until it answers 0. The board that ended such a task does so by itself; this operation is for work that
    a crash has left.
    """
    do_step(tx, project, "{lock}")
    here = "TRUE" if project is None else "project = :project"
    row = tx.first(f"SELECT count(*) FROM chores WHERE {here}", project=project)
    return int(row[0]) if row else 0
