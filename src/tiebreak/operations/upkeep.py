"""Upkeep: the board in numbers, and forgetting what is old enough.

Pruning forgets stories, never truths: live tasks and holds stay, a pruned task's key leaves its epoch
behind, a hold's row stays for its epoch, and the newest number of each log stays so that no number is
ever given twice.
"""

from __future__ import annotations

from ..clock import SECOND, micros
from ..limits import KEPT, MAX_LIMIT
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
def status(tx: Transaction, *, project: Project | None = "") -> Status:
    """How many tasks are in each state, and how many holds, agents, messages and events there are."""
    here = "project = :project" if project else "TRUE"
    counts = dict(
        tx.all(f"SELECT state, count(*) FROM tasks WHERE {here} AND finished_at > 0 GROUP BY state", project=project)
    )
    for state, where in _OPEN_STATES.items():
        counts[state] = counts.get(state, 0) + sum(_count(tx, "tasks", f"{here} AND {each}", project) for each in where)
    states = [counts.get(s, 0) for s in ("blocked", "pending", "claimed", "completed", "failed", "cancelled")]
    present = sum(a.status != "gone" for a in agents(tx, project=project))
    newest = tx.first("SELECT {newest}")
    return record(
        Status,
        (
            project or "",
            *states,
            _count(tx, "holds", f"{here} AND {LIVE}", project),
            present,
            _count(tx, "messages", here, project),
            (newest and newest[0]) or 0,
            tx.now,
        ),
    )


# Each condition has an index of its own: counting reads no row.
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
    """Board time, in Unix seconds: what ages and remaining leases are counted from."""
    tx.first("SELECT 1 FROM board LIMIT 1")  # of a board that is still one, and not of one that was moved
    return tx.now / SECOND


@operation("upkeep.probe", writes=True, strangers=True)
def probe(tx: Transaction) -> float:
    """Write a mark and tell it: whether the board takes writes at all. Nothing changes hands, so it leaves no event."""
    tx.all(
        "INSERT INTO board (name, value) VALUES ('probe', :mark) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        mark=str(tx.now),
    )
    return tx.now / SECOND


@operation("upkeep.probed", writes=False, strangers=True)
def probed(tx: Transaction) -> float:
    """The mark that was written last; 0 if none was."""
    row = tx.first("SELECT value FROM board WHERE name = 'probe'")
    return int(row[0]) / SECOND if row else 0.0


@operation("upkeep.prune", writes=True, strangers=False)
def prune(tx: Transaction, *, older_than: Seconds = KEPT, limit: Limit = MAX_LIMIT) -> Pruned:
    """Forget finished tasks, events, messages, agents and remembered answers of that age; one small step.

    Call it again while the answer says that there is more.
    """
    before = tx.now - micros(older_than)
    tasks, more = _forget_tasks(tx, before, limit)
    counts = [tasks, *(_forget(tx, table, column, before, limit) for table, column in _LOGS)]
    counts.append(_forget_agents(tx, before, limit))
    counts.append(_forget_answers(tx, before, limit))
    pruned = record(Pruned, (*counts, int(more or limit in counts)))
    # Only if something else went: or each step would make an event for the next one to forget.
    if any(counts[:1] + counts[2:]) or counts[1] > 1:
        note = ", ".join(f"{count} {name}" for name, count in zip(Pruned.fields, counts, strict=False) if count)
        append(tx, "board.pruned", "", name=f"older than {span(older_than)}", note=note)
    return pruned


# A task is kept while something unfinished comes after it, and while those that come after it are still being told of
# its end; the newest numbers stay, so none is given twice.
_OLD = (
    "finished_at > 0 AND finished_at <= :before AND number < (SELECT max(number) FROM tasks) "
    "AND NOT EXISTS (SELECT 1 FROM edges JOIN tasks AS later ON later.number = edges.task "
    "WHERE edges.after = tasks.number AND later.finished_at = 0) "
    "AND NOT EXISTS (SELECT 1 FROM chores WHERE chores.project = tasks.project AND chore = 'dependents' "
    "AND subject = CAST(tasks.number AS TEXT))"
)


def _forget_tasks(tx: Transaction, before: int, limit: int) -> tuple[int, bool]:
    """Forget old tasks, and keep the epochs of their keys; how many, and whether there is more to be done.

    They are locked first, then looked at once more: from then on none of them is reopened, and nothing new comes after
    one. One that somebody else is changing is left for the next time. Of those that have a key, one step forgets the
    tasks of one project, and nobody adds a task with a key there meanwhile.

    A task with very many edges loses `limit` of them in each step, and is forgotten when it has none. Until then it is
    as if it was forgotten for some of those that come after it, all of which have ended.
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
            edges -= _forget_edges(tx, gone, those, edges)
            if edges <= 0:
                return count, True
            tx.all(remembering(f"number IN ({gone})"), **those)
            tx.all(f"DELETE FROM outputs WHERE task IN ({gone})", **those)
            count += len(tx.all(f"DELETE FROM tasks WHERE number IN ({gone}) RETURNING number", **those))
    return count, more


def _forget_edges(tx: Transaction, gone: str, those: dict[str, int], most: int) -> int:
    """Forget what some tasks come after and what comes after them, so many edges at most; how many they were."""
    rows = tx.all(
        f"SELECT task, after FROM edges WHERE task IN ({gone}) UNION "
        f"SELECT task, after FROM edges WHERE after IN ({gone}) LIMIT :most",
        most=most,
        **those,
    )
    for table, params in given(("t", "a"), rows):
        tx.all(f"{table}DELETE FROM edges WHERE (task, after) IN (SELECT t, a FROM given)", **params)
    return len(rows)


_LOGS = (("events", "at"), ("messages", "sent_at"))


def _forget(tx: Transaction, table: str, column: str, before: int, limit: int) -> int:
    """Logs are in order of time, so the oldest rows are the first ones."""
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


def _forget_agents(tx: Transaction, before: int, limit: int) -> int:
    """Those without any sign of life, be it a heartbeat or an event."""
    long_unseen = "SELECT project, id FROM agents WHERE seen_at <= :before ORDER BY seen_at, project, id"
    rows = tx.all(long_unseen, before=before)
    alive = {where_and_who for where_and_who, (_, latest) in signs_of_life(tx, None).items() if latest > before}
    gone = [(where, who) for where, who in rows if (where, who) not in alive][:limit]
    forgotten = [
        tx.first(
            "DELETE FROM agents WHERE project = :project AND id = :id AND seen_at <= :before RETURNING id",
            project=where,
            id=who,
            before=before,
        )
        for where, who in gone
    ]
    return sum(row is not None for row in forgotten)


def _forget_answers(tx: Transaction, before: int, limit: int) -> int:
    """An answer is for a caller that tries again: kept for an hour in any case, and for a day at most."""
    cutoff = min(max(before, tx.now - micros(86_400)), tx.now - micros(3600))
    rows = tx.all(
        "DELETE FROM answers WHERE once IN (SELECT once FROM answers WHERE at <= :before ORDER BY at LIMIT :limit) "
        "RETURNING once",
        before=cutoff,
        limit=limit,
    )
    return len(rows)
