"""Project names: which rows of the board the names of a repository mean.

A call gives the name of its project and perhaps other names of the same repository (`names.project_names`): that of its
first commit, and the one that versions before schema 4 made from the clone's path. Table `projects` has the names that
were settled; a name that is not there stands for itself. `operations.perform` looks the names up in the transaction of
each call. So a process with an outdated name cannot write to other rows than everybody else.

The first write with unknown names settles them, here:

- Nobody knows any of the names: the first one becomes the name of the rows.
- The board has rows under an older name: they stay where they are, and the new names mean them.
- Several older names have rows, but at most one of them has anything live: the others are merged into that one.
- Several have something live: refused. Merging them could give one thing two holders, so a person has to decide.

An older name that another repository has taken over is not taken again: two repositories may have been at the same
path, and a fork has the first commit of its original.

Every write shares the scope "projects" for its whole transaction. Settling, naming and renaming take it exclusively. So
while rows change their project, nobody else writes, and no other lock is needed.
"""

from __future__ import annotations

from ..errors import Refused
from ..model import Hold, record
from ..names import BY_COMMIT, BY_PATH, OLD_NAME
from . import PROJECTS
from .events import append
from .expiry import expire
from .grants import LAPSED, raising, raising_by_marks
from .resources import COLUMNS, record_lapse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction

    Known = dict[str, tuple[str, str]]
    """By name: the name of the rows, and the rule."""

TAKEN, ORIGIN, COMMIT, PATH, GIVEN = "taken", "origin", "commit", "path", "given"

_KEYED = {
    "schedules": ("name",),
    "holds": ("resource", "slot"),
    "marks": ("key",),
    "queues": ("queue",),
    "pools": ("resource",),
    "chores": ("chore", "subject"),
    "stirred": ("limit_group", "task"),
    "cursors": ("agent",),
    "agents": ("id",),
}
"""The tables whose rows are unique in a project by these columns."""
TABLES = ("sessions", "schedules", "tasks", *list(_KEYED)[1:], "messages", "events", "waits")
"""Every table with rows of projects, except for `projects` itself, in the order in which operations lock rows."""


def settle(tx: Transaction, name: str, others: tuple[str, ...], known: Known, *, writes: bool) -> str:
    """The name of the rows that a repository's names mean; with `writes`, it is settled from now on."""
    if writes:
        tx.serialize(PROJECTS)
    pool = _candidates(tx, name, others, known)
    kept = pool[0] if pool else name
    if len(pool) > 1:
        if writes:
            for each in pool:
                write_lapses(tx, each)
        live = [each for each in pool if is_live(tx, each)]
        if len(live) > 1:
            raise in_conflict(tx, name, live)
        kept = live[0] if live else kept
    if writes:
        for each in pool:
            if each != kept:
                merge(tx, each, kept, None)
        _learn(tx, name, others, known, kept)
    return kept


def _candidates(tx: Transaction, name: str, others: tuple[str, ...], known: Known) -> list[str]:
    """The names of rows that belong to this repository: the settled one, then those that it may take over."""
    found = [known[name][0]] if name in known else [name] if has_rows(tx, name) else []
    for other in others:
        rows, rule = known.get(other, (other, ""))
        if rule == GIVEN:
            found.insert(0, rows)  # a person has said so
        elif rule == OLD_NAME or (other.startswith((BY_COMMIT, BY_PATH)) and _may_be_joined(tx, other, rows, rule)):
            found.append(rows)
    return list(dict.fromkeys(found))


def _may_be_joined(tx: Transaction, name: str, rows: str, rule: str) -> bool:
    """Whether the name of a commit or path stands for rows that no repository with a remote has come to yet."""
    return not _has_origin(tx, rows) and bool(rule or has_rows(tx, name))


def _has_origin(tx: Transaction, rows: str) -> bool:
    """Whether a repository with a remote has these rows: another remote is another project."""
    sql = "SELECT 1 FROM projects WHERE project = :project AND rule = :rule LIMIT 1"
    return tx.first(sql, project=rows, rule=ORIGIN) is not None


def is_live(tx: Transaction, project: str) -> bool:
    """Whether a project has anything that somebody works with: open tasks, holds, sessions or schedules."""
    return any(live_counts(tx, project).values())


_MANY = 1000
_LIVE = {
    "open tasks": "tasks WHERE project = :project AND finished_at = 0",
    "holds": "holds WHERE project = :project AND holder IS NOT NULL AND until > {now}",
    "sessions": "sessions WHERE project = :project AND ended_at = 0",
    "schedules": "schedules WHERE project = :project AND removed_at = 0",
}


def live_counts(tx: Transaction, project: str) -> dict[str, int]:
    """How much of each kind is live in a project, counted up to a thousand."""
    return {
        what: len(tx.all(f"SELECT 1 FROM {table} LIMIT :most", project=project, most=_MANY))
        for what, table in _LIVE.items()
    }


def in_conflict(tx: Transaction, name: str, live: list[str]) -> Refused:
    """The refusal for a repository that the board knows as several projects with something live in each."""
    shown = []
    for each in live:
        counts = ", ".join(f"{count} {what}" for what, count in live_counts(tx, each).items() if count)
        shown.append(f"{each} ({counts or 'nothing open'})")
    return Refused(
        f"this repository, {name}, is {len(live)} projects on this board: {' and '.join(shown)}",
        reason="project-names-conflict",
        project=name,
        projects=live,
    )


def write_lapses(tx: Transaction, project: str) -> None:
    """Write the lapses of all claims and holds of a project: only then do they count."""
    while expire(tx, project):
        pass
    rows = tx.all(f"SELECT {COLUMNS} FROM holds WHERE project = :project AND {LAPSED}", project=project)
    for row in rows:
        record_lapse(tx, record(Hold, row))


def _learn(tx: Transaction, name: str, others: tuple[str, ...], known: Known, kept: str) -> None:
    """Store what these names mean from now on, with an event if rows were found under another name."""
    root = next((each for each in (name, *others) if each.startswith(BY_COMMIT)), None)
    put(tx, name, kept, rule_of(name), root)
    for other in others:
        rule = known[other][1] if other in known else None
        if rule == OLD_NAME:
            put(tx, other, kept, TAKEN, root)
        elif rule is None and other.startswith((BY_COMMIT, BY_PATH)):
            put(tx, other, kept, rule_of(other), root)
    if kept != name and name not in known:
        append(tx, "project.named", kept, subject=subject(kept), name=name, note=f"{name} means {kept} on this board")


def rule_of(name: str) -> str:
    """The rule by which a repository came to this name."""
    if name.startswith(BY_COMMIT):
        return COMMIT
    return PATH if name.startswith(BY_PATH) else ORIGIN


def put(tx: Transaction, name: str, project: str, rule: str, root: str | None = None) -> None:
    """Store that a name means these rows."""
    tx.all(
        "INSERT INTO projects (name, project, rule, root) VALUES (:name, :project, :rule, :root) "
        "ON CONFLICT (name) DO UPDATE SET project = excluded.project, "
        "rule = CASE WHEN projects.rule = 'origin' THEN projects.rule ELSE excluded.rule END, "
        "root = coalesce(excluded.root, projects.root)",
        name=name,
        project=project,
        rule=rule,
        root=root,
    )


def subject(project: str) -> str:
    """The subject of events about a project itself."""
    return f"project:{project}"


# ── Moving rows ──────────────────────────────────────────────────────────────────────────────────────


def has_rows(tx: Transaction, project: str) -> bool:
    """Whether anything on the board belongs to a project of this name, apart from the log."""
    return any(
        tx.first(f"SELECT 1 FROM {table} WHERE project = :project LIMIT 1", project=project) is not None
        for table in TABLES
        if table != "events"
    )


def move_rows(tx: Transaction, source: str, target: str) -> None:
    """Give all rows of a project to another one, which has none that are in the way."""
    for table in TABLES:
        tx.all(f"UPDATE {table} SET project = :target WHERE project = :source", source=source, target=target)
    tx.all("UPDATE projects SET project = :target WHERE project = :source", source=source, target=target)


def merge(tx: Transaction, source: str, target: str, agent: str | None) -> None:
    """Give the rows of a project without anything live to another one. No epoch goes back.

    What both have is kept as the target has it, with the higher of the two epochs. An epoch cannot be raised while
    somebody in the target has the grant, so that is refused.
    """
    _refuse_raising_a_live_grant(tx, source, target)
    raised = len(tx.all(raising("schedules", "name"), source=source, target=target))
    raised += len(tx.all(raising("tasks", "key"), source=source, target=target))
    for one, other in ((source, target), (target, source)):
        raised += len(tx.all(raising_by_marks(), source=one, target=other))
    for table in ("holds", "marks"):
        raised += len(tx.all(raising(table, *_KEYED[table]), source=source, target=target))
    # The key of a finished task stays with the task of the target. Its epoch was stored just now.
    same = "EXISTS (SELECT 1 FROM tasks AS kept WHERE kept.project = :target AND kept.key = tasks.key)"
    tx.all(f"UPDATE tasks SET key = NULL WHERE project = :source AND {same}", source=source, target=target)
    # A cursor may go back, so that no message is missed.
    tx.all(
        "UPDATE cursors SET message = other.message FROM cursors AS other WHERE cursors.project = :target "
        "AND other.project = :source AND other.agent = cursors.agent AND other.message < cursors.message",
        source=source,
        target=target,
    )
    tx.all("DELETE FROM waits WHERE project = :source", source=source)
    for table, columns in _KEYED.items():
        same = " AND ".join(f"kept.{column} = {table}.{column}" for column in columns)
        tx.all(
            f"DELETE FROM {table} WHERE project = :source AND EXISTS "
            f"(SELECT 1 FROM {table} AS kept WHERE kept.project = :target AND {same})",
            source=source,
            target=target,
        )
    move_rows(tx, source, target)
    note = f"{source} was merged into it; {raised} epochs were raised" if raised else f"{source} was merged into it"
    append(tx, "project.merged", target, subject=subject(target), name=source, agent=agent, note=note)


def _refuse_raising_a_live_grant(tx: Transaction, source: str, target: str) -> None:
    row = tx.first(
        "SELECT kept.resource FROM holds AS kept JOIN holds AS other ON other.project = :source "
        "AND other.resource = kept.resource AND other.slot = kept.slot AND other.epoch > kept.epoch "
        "WHERE kept.project = :target AND kept.holder IS NOT NULL UNION ALL "
        "SELECT kept.key FROM tasks AS kept JOIN tasks AS other ON other.project = :source "
        "AND other.key = kept.key AND other.epoch > kept.epoch "
        "WHERE kept.project = :target AND kept.state = 'claimed' UNION ALL "
        "SELECT kept.key FROM tasks AS kept JOIN marks AS other ON other.project = :source "
        "AND other.key = kept.key AND other.epoch > kept.epoch "
        "WHERE kept.project = :target AND kept.state = 'claimed' LIMIT 1",
        source=source,
        target=target,
    )
    if row is not None:
        raise Refused(
            f"{source} cannot be merged into {target} while {row[0]} is held there: its epoch in {source} is higher",
            reason="project-names-conflict",
            project=target,
            projects=[target, source],
        )
