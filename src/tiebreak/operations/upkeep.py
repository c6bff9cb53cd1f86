"""Upkeep: the board in numbers, its clock, and a mark that shows whether it accepts writes."""

from __future__ import annotations

from ..clock import SECOND
from ..model import Status, record
from . import operation
from .agents import listing as agents
from .grants import LIVE
from .references import OPEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..names import Project
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


_OPEN_STATES = {
    "blocked": OPEN["blocked"],
    "pending": OPEN["ready"] + OPEN["delayed"],
    "claimed": OPEN["claimed"],
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
