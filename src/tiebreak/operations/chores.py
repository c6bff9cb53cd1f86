"""Chores: what an operation has left to be done in steps, because all at once would keep others waiting.

A chore is a row that is written by the transaction which leaves it. So it survives whoever wrote it, and anybody can go
on with it: a step locks some chores, deals with a bounded number of tasks, and deletes the chores that are done. Others
pass between two steps. After the commit the one who left a chore goes on with it (see `Board.call`), a daemon in turn
with the requests that wait. If that one has died, `next` does a step when it finds nothing, and so does `tasks.sweep`.

Locks: chores before tasks, and never a chore after the tasks that it is about.
"""

from __future__ import annotations

from . import changeable, operation
from .rows import given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..names import Project
    from . import Transaction

    Chore = tuple[str, str, int]
    """A chore of a known sort: its project, its subject, and the last task that was dealt with."""
    Step = Callable[[Transaction, str, list[tuple[str, int]], int], list[Chore]]
    """Does a step of some chores of a project, given as subject and last task, by dealing with so many tasks at most.

    Answers with the chores that are left."""

BUDGET = 500
"""How many tasks one transaction deals with."""
TOGETHER = 100
"""How many chores are gone on with in one step."""


def _dependents(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Chore]:
    from .dependencies import go_on

    return go_on(tx, project, rows, budget)


def _resume(tx: Transaction, project: str, rows: list[tuple[str, int]], budget: int) -> list[Chore]:
    from .queues import go_on

    return go_on(tx, project, rows, budget)


STEPS: dict[str, Step] = {"dependents": _dependents, "resume": _resume}
"""What does a step of each sort of chore. A sort that is not known here is left to somebody who knows it."""


def leave(tx: Transaction, chore: str, left: list[Chore]) -> None:
    """Write down what is left to be done, and tell so."""
    _write(tx, chore, left)
    for project in dict.fromkeys(project for project, _, _ in left):
        tx.leave(project)


def settle(tx: Transaction, project: str, chore: str, subjects: list[str], left: list[Chore]) -> None:
    """After a step of these chores, which are locked: forget those that are done, write down those that are left.

    Whoever goes on with the chores of one project does not look at others: chores that were added there are told of.
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
    """Go on with some chores, those of this project first.

    None: there are none. False: somebody else goes on with those of this project right now, and they were passed over.
    With `{lock}` they are waited for. With `others`, chores of other projects count as well: a task of this project may
    come after one of theirs. A stranger's call does none of it: what it may change was decided when the chore was
    left. A caller that may do several steps in one transaction says how many: each of them does its share.
    """
    if changeable(tx):
        return None
    here = "TRUE" if others or project is None else "project = :project"
    sorts = tx.all(
        f"SELECT DISTINCT project, chore FROM chores WHERE {here} ORDER BY project, chore",
        project=project or "",
    )
    known = sorted((row for row in sorts if row[1] in STEPS), key=lambda row: row[0] != project)
    for where, chore in known:
        # Those with the highest numbers first: usually they come after the others, and so the chores stay few.
        rows: list[tuple[Any, ...]] = tx.all(
            "SELECT subject, passed FROM chores WHERE project = :project AND chore = :chore "
            f"ORDER BY length(subject) DESC, subject DESC LIMIT :most {lock}",
            project=where,
            chore=chore,
            most=TOGETHER,
        )
        if rows:
            left = STEPS[chore](tx, where, [(subject, passed) for subject, passed in rows], max(1, BUDGET // share))
            settle(tx, where, chore, [subject for subject, _ in rows], left)
            return True
    return False if any(where == project for where, _ in known) else None


def remain(tx: Transaction, project: str | None) -> list[str]:
    """The projects that have chores: of all, or only this one."""
    here = "TRUE" if project is None else "project = :project"
    rows = tx.all(f"SELECT DISTINCT project FROM chores WHERE {here} ORDER BY project", project=project)
    return [where for (where,) in rows]


@operation("tasks.cascade", writes=True, strangers=False)
def cascade(tx: Transaction, *, project: Project | None = "") -> int:
    """Do one step of what operations have left to be done, and tell how many chores are left.

    When a task ends that very many come after, only the first of them are released or cancelled at once. Call this
    again until it answers 0. Whoever ends such a task does so by itself; this is for what a crash has left.
    """
    step(tx, project, "{lock}")
    here = "TRUE" if project is None else "project = :project"
    row = tx.first(f"SELECT count(*) FROM chores WHERE {here}", project=project)
    return int(row[0]) if row else 0
