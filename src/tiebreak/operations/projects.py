"""Projects: the names by which the board knows them, and changing these names.

What the names of a repository mean is settled by its first write (see `project_names`). The operations here show that,
add a name, and rename a project. They take the scope of all names exclusively, so that nobody else writes meanwhile.
"""

from __future__ import annotations

import json

from ..errors import Invalid, Refused
from ..model import KnownProject, record
from ..names import BY_COMMIT, BY_PATH, shown
from . import PROJECTS, operation, scope
from .events import append
from .project_names import (
    GIVEN,
    has_rows,
    in_conflict,
    is_live,
    live_counts,
    merge,
    move_rows,
    put,
    rule_of,
    subject,
    write_lapses,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Label, Project
    from . import Scope, Transaction


def _all_names(_: dict[str, Any]) -> list[Scope]:
    return [scope(PROJECTS)]


@operation("projects.resolve", writes=False, strangers=True)
def resolve(tx: Transaction, *, project: Project = "") -> str:
    """Return the name under which the board keeps the rows of a project."""
    return project


@operation("projects.settle", writes=True, strangers=True)
def settle(tx: Transaction, *, project: Project = "") -> str:
    """Settle what the names of a repository mean, and return the name under which the board keeps its rows."""
    return project


@operation("projects.show", writes=False, strangers=True)
def show(tx: Transaction, *, project: Project = "") -> KnownProject:
    """Return the names of a project and what is live in it."""
    return _describe(tx, project)


def _describe(tx: Transaction, project: str) -> KnownProject:
    rows = tx.all("SELECT name, rule, root FROM projects WHERE project = :project ORDER BY name", project=project)
    names = {project: "", **{name: rule for name, rule, _ in rows}}
    roots = sorted({root for _, _, root in rows if root})
    facts = (json.dumps(each) for each in (names, roots, live_counts(tx, project)))
    return record(KnownProject, (project, *facts))


@operation("projects.list", writes=False, strangers=True)
def listing(tx: Transaction) -> list[KnownProject]:
    """Return every project of the board."""
    return [_describe(tx, each) for each in all_projects(tx)]


def all_projects(tx: Transaction) -> list[str]:
    """The names of all projects that have rows. Each is found by an index, however many rows it has."""
    names: set[str] = set()
    for table in ("projects", "agents", "holds"):
        names |= set(_distinct(tx, table))
    for state in ("finished_at = 0", "finished_at > 0"):  # each has an index
        names |= set(_distinct(tx, "tasks", state))
    return sorted(names)


def _distinct(tx: Transaction, table: str, also: str = "TRUE") -> list[str]:
    """The different projects in a table. Each is found by an index, so it does not matter how many rows it has."""
    rows = tx.all(
        f"WITH RECURSIVE found (project) AS (SELECT min(project) FROM {table} WHERE {also} UNION ALL "
        f"SELECT (SELECT min({table}.project) FROM {table} WHERE {table}.project > found.project AND {also}) "
        "FROM found WHERE found.project IS NOT NULL) SELECT project FROM found WHERE project IS NOT NULL"
    )
    return [project for (project,) in rows]


@operation("projects.alias", writes=True, strangers=False, scopes=_all_names)
def alias(
    tx: Transaction, *, name: Label, agent: AgentId = "", project: Project = "", found: bool = False
) -> KnownProject:
    """Let a name mean this project too. A project of that name is merged into this one, if nothing is live in it.

    No epoch goes back: what both projects have goes on above the higher epoch. `found` says that the name was found in
    a repository, not chosen by a person.
    """
    tx.serialize(PROJECTS)
    meant = _meaning(tx, name)
    if meant == project:
        return _describe(tx, project)
    if meant != name:
        raise Refused(f"{name} means {meant} on this board already", reason="project-name-taken", project=meant)
    for each in (name, project):
        write_lapses(tx, each)
    if is_live(tx, name):
        raise in_conflict(tx, project, [project, name])
    if has_rows(tx, name):
        merge(tx, name, project, agent)
    put(tx, name, project, rule_of(name) if found else GIVEN)
    if _meaning(tx, project) == project:
        put(tx, project, project, GIVEN)  # so that this name goes along if the project is merged into another one
    append(tx, "project.named", project, subject=subject(project), name=name, agent=agent, note=f"also called {name}")
    return _describe(tx, project)


@operation("projects.rename", writes=True, strangers=False, scopes=_all_names)
def rename(
    tx: Transaction, *, name: Label, agent: AgentId = "", project: Project = "", found: bool = False
) -> KnownProject:
    """Rename a project: its rows move to the new name, and the old name means it too from now on.

    `found` says that the name was found in a repository, not chosen by a person.
    """
    tx.serialize(PROJECTS)
    if not found:
        _refuse_reserved(name)
    if name == project:
        return _describe(tx, project)
    meant = _meaning(tx, name)
    if meant not in (name, project) or has_rows(tx, name):
        raise Refused(f"there is a project {meant} on this board already", reason="project-name-taken", project=meant)
    move_rows(tx, project, name)
    put(tx, name, name, rule_of(name) if found else GIVEN)
    if _meaning(tx, project) != name:
        put(tx, project, name, GIVEN)
    append(
        tx, "project.renamed", name, subject=subject(name), name=project, agent=agent, note=f"{project} is {name} now"
    )
    return _describe(tx, name)


def _meaning(tx: Transaction, name: str) -> str:
    """The name of the rows that a name means."""
    row = tx.first("SELECT project FROM projects WHERE name = :name", name=name)
    return row[0] if row else name


def _refuse_reserved(name: str) -> None:
    """Refuse names that tell how they were found, because others rely on that."""
    if name.startswith((BY_PATH, BY_COMMIT)):
        raise Invalid(f"name: {BY_PATH} and {BY_COMMIT} begin names found in a repository, got {shown(name)}")
