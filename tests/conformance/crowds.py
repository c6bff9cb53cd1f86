"""Large projects in which `tasks.next` must skip a lot: thousands of live claims, paused queues, dependents or groups.

The rows are inserted by SQL that both databases understand, in the states in which operations leave them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiebreak import Board

FEW, MANY = 100, 10_000
CALLS: dict[str, Callable[[Board, str], Any]] = {
    "jobs.next": lambda board, project: board.jobs.next(project=project, lease=600.0),
    "jobs.next of a queue": lambda board, project: board.jobs.next(project=project, queues=["default"], lease=600.0),
    "tasks.next": lambda board, project: board.tasks.next(project=project, lease=600.0),
    "tasks.due": lambda board, project: board.tasks.due(project=project),
}
"""What has to cost the same behind a few of something and behind many."""
FAR = 9_000_000_000_000_000
"""A moment in the far future."""
_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many}) "
_COLUMNS = (
    "id, project, kind, name, queue, priority, state, holder, epoch, until, look_at, max_attempts, backoff, blockers, "
    "created_at, updated_at, command, callee, limit_group, limit_size, aside"
)
CROWDS = ("live-claims", "paused-queues", "dependents", "full-groups", "groups-with-room", "claims-of-one-group")
TAKEN = 40
"""How many jobs can be won in each of these projects."""


def _jobs(project: str, many: int, **columns: str) -> str:
    given = {
        "queue": "'default'",
        "state": "'pending'",
        "holder": "CAST(NULL AS TEXT)",
        "until": "0",
        "blockers": "0",
        "limit_group": "CAST(NULL AS TEXT)",
        "limit_size": "0",
        "aside": "0",
        **columns,
    }
    mark = f"'{project} ' || {columns.get('mark', repr('job'))} || ' ' || i"
    return (
        _NUMBERS.format(many=many)
        + f"INSERT INTO tasks ({_COLUMNS}) SELECT {mark}, '{project}', 'job', 'job', {given['queue']}, 1, "
        f"{given['state']}, {given['holder']}, 1, {given['until']}, {given['until']}, 3, 0, {given['blockers']}, 1, 1, "
        f"'\"true\"', '', {given['limit_group']}, {given['limit_size']}, {given['aside']} FROM n"
    )


def statements(project: str, crowd: str, many: int) -> list[str]:
    """What fills a project with so many of something, and with a few jobs that can be won."""
    free = _jobs(project, TAKEN, mark="'free'")
    claimed = {"state": "'claimed'", "holder": "'bob~1'", "until": str(FAR)}
    if crowd == "live-claims":
        return [_jobs(project, many, **claimed), free]
    if crowd == "paused-queues":
        queues = (
            _NUMBERS.format(many=many)
            + "INSERT INTO queues (project, queue, paused_at, paused_by) "
            + f"SELECT '{project}', 'q' || i, 1, 'bob~1' FROM n"
        )
        return [_jobs(project, many, queue="'q' || i", aside="CASE WHEN i > 20 THEN 2 ELSE 0 END"), queues, free]
    if crowd == "dependents":
        root = _jobs(project, 1, mark="'root'", queue="'other'")
        edges = (
            f"INSERT INTO edges (task, after) SELECT later.number, first.number FROM tasks AS later, tasks AS first "
            f"WHERE later.project = '{project}' AND later.state = 'blocked' AND first.id = '{project} root 1'"
        )
        return [root, _jobs(project, many, state="'blocked'", blockers="1"), edges, free]
    if crowd == "full-groups":
        group = {"limit_group": "'g' || i", "limit_size": "1"}
        return [_jobs(project, many, mark="'live'", **claimed, **group), _jobs(project, many, aside="1", **group), free]
    if crowd == "groups-with-room":
        return [_jobs(project, many, limit_group="'g' || i", limit_size="1", aside="1")]
    assert crowd == "claims-of-one-group"
    group = {"limit_group": "'g'", "limit_size": str(many)}
    return [_jobs(project, many, mark="'live'", **claimed, **group), _jobs(project, many, aside="1", **group), free]
