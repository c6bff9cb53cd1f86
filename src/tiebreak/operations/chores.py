"""Chores: work that an operation leaves to be done in steps, because doing all of it at once would block other writers.

A chore is a row that is written by the transaction which leaves it, so it survives the death of the process that wrote
it, and any process can continue it. One step locks some chores, handles a bounded number of tasks, and deletes the
chores that are finished. Other writers run between two steps. After the commit, the process that left a chore continues
it (see `Board.call`); a daemon does so in turn with waiting requests. If that process has died, `tasks.next` does a
step when it finds nothing, and so does `tasks.sweep`.

Locks: a step locks its chores before any task, and never a chore after the tasks that it is about.
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

    Chore = tuple[str, str, int]
    """A chore of a given type: its project, its subject, and the number of the last task that was handled."""
    Step = Callable[[Transaction, str, list[tuple[str, int]], int], list[Chore]]
    """Does one step of some chores of a project and returns the chores that are left.

    The chores come as (subject, last task handled). The last parameter is the number of tasks to handle at most."""

BUDGET = 500
"""How many tasks one transaction handles."""
TOGETHER = 100
"""How many chores one step continues."""


def _dependents(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Chore]:
    from .dependencies import step_dependents

    return step_dependents(tx, project, rows, budget)


def _resume(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Chore]:
    from .queues import step_resume

    return step_resume(tx, project, rows, budget)


STEPS: dict[str, Step] = {"dependents": _dependents, "resume": _resume}
"""The function that does a step, for each type of chore. A type that this version does not know is left alone."""


def leave(tx: Transaction, chore: str, left: list[Chore]) -> None:
    """Write chores, and report them to the engine so that the caller continues them."""
    _write(tx, chore, left)
    for project in dict.fromkeys(project for project, _, _ in left):
        tx.leave(project)


def save_progress(tx: Transaction, project: str, chore: str, subjects: list[str], left: list[Chore]) -> None:
    """After a step of these chores, which are locked: delete those that are finished, and update those that are left.

    A step continues the chores of one project. If it added chores to other projects, it reports them to the engine.
    """
    for other in sorted({where for where, _, _ in left} - {project}):
        tx.leave(other)
    kept = {subject for where, subject, _ in left if where == project}
    for table, params in given(("s",), [(subject,) for subject in subjects if subject not in kept]):
        tx.all(
            f"{table}DELETE FROM chores WHERE project = :project AND chore = :chore "
            "AND subject IN (SELECT s FROM given)",
            project=project,
            chore=chore,
            **params,
        )
    _write(tx, chore, left)


def _write(tx: Transaction, chore: str, left: list[Chore]) -> None:
    for table, params in given(("o", "s", "p"), left):
        tx.all(
            f"{table}INSERT INTO chores (project, chore, subject, passed) SELECT o, :chore, s, p FROM given "
            "WHERE o IS NOT NULL ON CONFLICT (project, chore, subject) DO UPDATE SET passed = excluded.passed",
            chore=chore,
            **params,
        )


def step(
    tx: Transaction, project: str | None, lock: str = "{skip_locked}", *, others: bool = False, share: int = 1
) -> bool | None:
    """Do one step of some chores, those of this project first.

    Returns None if there are no chores. Returns False if another transaction is doing a step of this project's chores,
    which were skipped; with `{lock}` the call waits for it instead. With `others`, chores of other projects count as
    well: a task of this project may come after a task of theirs. A stranger's call does no step: what it may change was
    decided when the chore was written. A caller that may do several steps in one transaction says how many in `share`,
    and each step handles that part of the budget.
    """
    if by_stranger(tx):
        return None
    here = "TRUE" if others or project is None else "project = :project"
    sorts = tx.all(
        f"SELECT DISTINCT project, chore FROM chores WHERE {here} ORDER BY project, chore",
        project=project or "",
    )
    known = sorted((row for row in sorts if row[1] in STEPS), key=lambda row: row[0] != project)
    for where, chore in known:
        # The highest numbers first: those tasks usually come after the others, so few chores are open at a time.
        rows: list[tuple[Any, ...]] = tx.all(
            "SELECT subject, passed FROM chores WHERE project = :project AND chore = :chore "
            f"ORDER BY length(subject) DESC, subject DESC LIMIT :most {lock}",
            project=where,
            chore=chore,
            most=TOGETHER,
        )
        if rows:
            left = STEPS[chore](tx, where, [(subject, passed) for subject, passed in rows], max(1, BUDGET // share))
            save_progress(tx, where, chore, [subject for subject, _ in rows], left)
            return True
    return False if any(where == project for where, _ in known) else None


def remain(tx: Transaction, project: str | None) -> list[str]:
    """The projects that have chores: among all projects, or only this one."""
    here = "TRUE" if project is None else "project = :project"
    rows = tx.all(f"SELECT DISTINCT project FROM chores WHERE {here} ORDER BY project", project=project)
    return [where for (where,) in rows]


@operation("tasks.cascade", writes=True, strangers=False)
def cascade(tx: Transaction, *, project: Project | None = "") -> int:
    """Do one step of the work that operations have left, and return how many chores remain.

    When a task ends that very many tasks come after, only the first of them are released or cancelled at once. Call
    this again until it answers 0. The board that ended such a task does so by itself; this operation is for chores that
    a crash has left.
    """
    step(tx, project, "{lock}")
    here = "TRUE" if project is None else "project = :project"
    row = tx.first(f"SELECT count(*) FROM chores WHERE {here}", project=project)
    return int(row[0]) if row else 0
