"""Upkeep: the board in numbers, and pruning of what is old enough.

Pruning removes history, never anything that a decision needs. Live tasks and holds stay. A pruned task's key leaves its
epoch behind (table `marks`), and a hold's row stays for its epoch. The row with the newest number of each log stays, so
that no number is used twice. Tasks are locked before they are checked once more and deleted, so none of them is
reopened and no new task comes after one meanwhile.
"""

from __future__ import annotations

from ..clock import SECOND, micros
from ..limits import KEPT, MAX_ANSWER_KEPT, MAX_LIMIT, MIN_ANSWER_KEPT
from ..model import Pruned, Status, record
from ..text import span
from . import operation
from .agents import listing as agents
from .agents import signs_of_life
from .events import append
from .grants import LIVE, remembering
from .references import LAPSED, WINNABLE
from .rows import given, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..names import Limit, Project, Seconds
    from . import Transaction


@operation("upkeep.status", writes=False, strangers=True, reads_log=True)
def status(tx: Transaction, *, project: Project | None = "", count_events: bool = True) -> Status:
    """Count the tasks in each state, and the live holds, agents, messages and events.

    For all projects, `events` is the number of the newest event. The events of one project are counted in the whole
    log, which takes a moment on a large board; without `count_events` they are 0.
    """
    here = "project = :project" if project else "TRUE"
    counts = dict(
        tx.all(f"SELECT state, count(*) FROM tasks WHERE {here} AND finished_at > 0 GROUP BY state", project=project)
    )
    for state, where in _OPEN_STATES.items():
        counts[state] = counts.get(state, 0) + sum(_count(tx, "tasks", f"{here} AND {each}", project) for each in where)
    states = [counts.get(s, 0) for s in ("blocked", "pending", "claimed", "completed", "failed", "cancelled")]
    present = sum(a.status != "gone" for a in agents(tx, project=project))
    if project:
        of_log = "SELECT count(*) FROM {log} WHERE number <= {settled} AND project = :project"
        events = tx.first(of_log, project=project) if count_events else None
    else:
        events = tx.first("SELECT {newest}")
    return record(
        Status,
        (
            project or "",
            *states,
            _count(tx, "holds", f"{here} AND {LIVE}", project),
            present,
            _count(tx, "messages", here, project),
            (events and events[0]) or 0,
            tx.now,
        ),
    )


# Each condition has its own index, so counting reads no rows of the table.
_OPEN_STATES = {
    "blocked": ["state = 'blocked'"],
    "pending": [
        "state = 'pending' AND ready_at = 0 AND aside = 0",
        "state = 'pending' AND ready_at = 0 AND aside > 0",
        "state = 'pending' AND ready_at > 0",
        WINNABLE,
    ],
    "claimed": ["state = 'claimed' AND until > {now}", f"{LAPSED} AND attempts >= max_attempts"],
}


def _count(tx: Transaction, table: str, where: str, project: str | None) -> int:
    row = tx.first(f"SELECT count(*) FROM {table} WHERE {where}", project=project)
    return int(row[0]) if row else 0


@operation("upkeep.now", writes=False, strangers=True)
def now(tx: Transaction) -> float:
    """Return board time in Unix seconds, by which ages and remaining leases are counted."""
    tx.first("SELECT 1 FROM board LIMIT 1")  # fails on a board that was moved away
    return tx.now / SECOND


@operation("upkeep.probe", writes=True, strangers=True)
def probe(tx: Transaction) -> float:
    """Write a mark and return it, to check that the board accepts writes. It leaves no event."""
    tx.all(
        "INSERT INTO board (name, value) VALUES ('probe', :mark) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        mark=str(tx.now),
    )
    return tx.now / SECOND


@operation("upkeep.probed", writes=False, strangers=True)
def probed(tx: Transaction) -> float:
    """Return the mark that `upkeep.probe` wrote last; 0 if there is none."""
    row = tx.first("SELECT value FROM board WHERE name = 'probe'")
    return int(row[0]) / SECOND if row else 0.0


@operation("upkeep.prune", writes=True, strangers=False)
def prune(tx: Transaction, *, older_than: Seconds = KEPT, limit: Limit = MAX_LIMIT) -> Pruned:
    """Delete finished tasks, events, messages, agents and stored answers that are older than this; one small step.

    Call it again while the answer says that there is more.
    """
    before = tx.now - micros(older_than)
    tasks, more = _prune_tasks(tx, before, limit)
    counts = [tasks, *(_prune_log(tx, table, column, before, limit) for table, column in _LOGS)]
    counts.append(_prune_agents(tx, before, limit))
    counts.append(_prune_answers(tx, before, limit))
    pruned = record(Pruned, (*counts, int(more or limit in counts)))
    # Not if a single event was all that was deleted: otherwise each step would write an event for the next to delete.
    if any(counts[:1] + counts[2:]) or counts[1] > 1:
        note = ", ".join(f"{count} {name}" for name, count in zip(Pruned.fields, counts, strict=False) if count)
        append(tx, "board.pruned", "", name=f"older than {span(older_than)}", note=note)
    return pruned


# A task is kept while an unfinished task comes after it, and while its end has deferred work. The newest task stays,
# so that no number is used twice.
_OLD = (
    "finished_at > 0 AND finished_at <= :before AND number < (SELECT max(number) FROM tasks) "
    "AND NOT EXISTS (SELECT 1 FROM edges JOIN tasks AS later ON later.number = edges.task "
    "WHERE edges.after = tasks.number AND later.finished_at = 0) "
    "AND NOT EXISTS (SELECT 1 FROM chores WHERE chores.project = tasks.project AND chore = 'dependents' "
    "AND subject = CAST(tasks.number AS TEXT))"
)


def _prune_tasks(tx: Transaction, before: int, limit: int) -> tuple[int, bool]:
    """Delete old tasks and store the epochs of their keys; how many were deleted, and whether there are more.

    The tasks are locked first, then checked once more: from then on none of them is reopened, and no new task comes
    after one. A task that another transaction has locked is left for the next step. One step deletes tasks with keys of
    one project only, and no task with a key is added there meanwhile.

    A task with very many edges loses `limit` of them in each step and is deleted when it has none. Until then some of
    the tasks that come after it, all of which have ended, have lost their edge to it.
    """
    found = tx.all(
        f"SELECT number, project, key FROM tasks WHERE {_OLD} ORDER BY finished_at, number LIMIT :limit "
        "{skip_locked}",
        before=before,
        limit=limit,
    )
    keyed = next((project for _, project, key in found if key is not None), None)
    if keyed is not None:
        tx.serialize("keys", keyed)
    numbers = sorted(number for number, project, key in found if key is None or project == keyed)
    count, edges, more = 0, limit, len(numbers) < len(found)
    for these, params in listed("n", numbers):
        old = tx.all(f"SELECT number FROM tasks WHERE number IN ({these}) AND {_OLD}", before=before, **params)
        for gone, those in listed("n", [number for (number,) in old]):
            edges -= _prune_edges(tx, gone, those, edges)
            if edges <= 0:
                return count, True
            tx.all(remembering(f"number IN ({gone})"), **those)
            tx.all(f"DELETE FROM outputs WHERE task IN ({gone})", **those)
            count += len(tx.all(f"DELETE FROM tasks WHERE number IN ({gone}) RETURNING number", **those))
    return count, more


def _prune_edges(tx: Transaction, gone: str, those: dict[str, int], most: int) -> int:
    """Delete edges to and from some tasks, this many at most; how many were deleted."""
    rows = tx.all(
        f"SELECT task, after FROM edges WHERE task IN ({gone}) UNION "
        f"SELECT task, after FROM edges WHERE after IN ({gone}) LIMIT :most",
        most=most,
        **those,
    )
    for table, params in given(("t", "a"), rows):
        tx.all(f"{table}DELETE FROM edges WHERE (task, after) IN (SELECT t, a FROM given)", **params)
    return len(rows)


_LOGS = (("{log}", "at"), ("messages", "sent_at"))


def _prune_log(tx: Transaction, table: str, column: str, before: int, limit: int) -> int:
    """Delete the oldest rows of a log. A log is in order of time, so they have the lowest numbers."""
    rows = tx.all(
        f"DELETE FROM {table} WHERE number IN (SELECT number FROM {table} WHERE number < "
        f"(SELECT max(number) FROM {table}) ORDER BY number LIMIT :limit) AND {column} <= :before RETURNING number",
        before=before,
        limit=limit,
    )
    if table == "messages":
        for (number,) in rows:
            tx.all("DELETE FROM acks WHERE message = :number", number=number)
    return len(rows)


def _prune_agents(tx: Transaction, before: int, limit: int) -> int:
    """Delete agents that gave no sign of life since then: neither a heartbeat nor an event."""
    long_unseen = "SELECT project, id FROM agents WHERE seen_at <= :before ORDER BY seen_at, project, id"
    rows = tx.all(long_unseen, before=before)
    alive = {project_and_id for project_and_id, (_, latest) in signs_of_life(tx, None).items() if latest > before}
    gone = [(project, id_) for project, id_ in rows if (project, id_) not in alive][:limit]
    deleted = [
        tx.first(
            "DELETE FROM agents WHERE project = :project AND id = :id AND seen_at <= :before RETURNING id",
            project=project,
            id=id_,
            before=before,
        )
        for project, id_ in gone
    ]
    return sum(row is not None for row in deleted)


def _prune_answers(tx: Transaction, before: int, limit: int) -> int:
    """Delete stored answers. They are for callers that try again, so they are not kept as long as other history."""
    cutoff = min(max(before, tx.now - micros(MAX_ANSWER_KEPT)), tx.now - micros(MIN_ANSWER_KEPT))
    rows = tx.all(
        "DELETE FROM answers WHERE once IN (SELECT once FROM answers WHERE at <= :before ORDER BY at LIMIT :limit) "
        "RETURNING once",
        before=cutoff,
        limit=limit,
    )
    return len(rows)
