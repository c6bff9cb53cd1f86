"""What restoring a backup does to each table, and the SQL of it, in the dialect that both databases share.

The board becomes what it was in the backup, with four exceptions:

- **Epochs never go back.** Each row gets the highest epoch that the backup or the board knows for it. What only the
  board knows keeps its epoch: a hold as a free row, a key in `marks`, a schedule as a removed one.
- **Nobody holds anything.** Claims and holds end, those of the backup and those of the board. So no token fits that was
  given out before, and the next grant is above all of them. An ended claim does not use up its attempt.
- **The log of events stays**, because it is what happened, and because readers remember numbers in it. Whatever the
  restore changes is an event after all others. No event, task or message gets a number that another one had.
- **Who is here stays**: agents, sessions and places in the wait queue describe processes, not work.

`before_tasks`, `before_holds` and `before_schedules` are what the log tells up to here: the board's own rows, or those
of the backup if the log was continued with the backup's events. The events that are written say what is different now.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .endpoints import Endpoint

REPLACED = "replaced"
"""The rows of the backup, and no others."""
MERGED = "merged"
"""The rows of the backup, and what has to stay of the board's own (`apply`)."""
KEPT = "kept"
"""The board's own rows; those of the backup are not used."""
CONTINUED = "continued"
"""The board's own rows, and those of the backup that follow them."""
NAMES = "names"
"""The board's own rows, and those of the backup whose name it does not know (`restore_names`)."""
RULES = {
    "tasks": MERGED,
    "edges": REPLACED,
    "stirred": REPLACED,
    "chores": REPLACED,
    "marks": MERGED,
    "queues": REPLACED,
    "outputs": REPLACED,
    "holds": MERGED,
    "pools": REPLACED,
    "messages": MERGED,
    "acks": REPLACED,
    "cursors": REPLACED,
    "agents": MERGED,
    "sessions": MERGED,
    "events": CONTINUED,
    "answers": REPLACED,
    "schedules": MERGED,
    "waits": KEPT,
    "projects": NAMES,
}
"""The rule for each table; `REPLACED` for one that is not listed."""

_REASON = "a backup was restored"
_GONE = "it is not in the backup that was restored"
_OPEN = "state IN ('blocked', 'pending', 'claimed')"
_HIGHER = "CASE WHEN excluded.epoch > marks.epoch THEN excluded.epoch ELSE marks.epoch END"
_REMEMBER = (
    "CREATE TEMP TABLE live_tasks AS SELECT id, project, key, epoch FROM tasks",
    "CREATE INDEX live_tasks_id ON live_tasks (id)",
    "CREATE INDEX live_tasks_key ON live_tasks (project, key)",
    "CREATE TEMP TABLE newest_task AS SELECT * FROM tasks WHERE number = (SELECT max(number) FROM tasks)",
    "CREATE TEMP TABLE newest_message AS SELECT * FROM messages WHERE number = (SELECT max(number) FROM messages)",
    "CREATE TEMP TABLE live_holds AS SELECT * FROM holds",
    "CREATE TEMP TABLE live_marks AS SELECT * FROM marks",
    "CREATE TEMP TABLE live_schedules AS SELECT * FROM schedules",
    "CREATE TEMP TABLE live_agents AS SELECT * FROM agents",
    "CREATE TEMP TABLE live_sessions AS SELECT * FROM sessions",
    "CREATE INDEX live_holds_key ON live_holds (project, resource, slot)",
    "CREATE INDEX live_marks_key ON live_marks (project, key)",
)
_REMEMBER_LOG = (
    "CREATE TEMP TABLE before_tasks AS SELECT id, project, kind, name, priority, state, epoch FROM tasks",
    "CREATE INDEX before_tasks_id ON before_tasks (id)",
    "CREATE TEMP TABLE before_holds AS SELECT project, resource, slot, holder, epoch FROM holds",
    "CREATE INDEX before_holds_key ON before_holds (project, resource, slot)",
    "CREATE TEMP TABLE before_schedules AS SELECT project, name, epoch, removed_at FROM schedules",
)


def remember_board(board: Endpoint) -> None:
    """Remember what the board knows, in temporary tables, before its rows are replaced."""
    for statement in _REMEMBER:
        board.rows(statement)


def remember_log(board: Endpoint) -> None:
    """Remember the state that the log of events tells."""
    for statement in _REMEMBER_LOG:
        board.rows(statement)


def forget(board: Endpoint) -> None:
    """Drop the temporary tables: behind a pooler, the connection goes on to another client."""
    for statement in (*_REMEMBER, *_REMEMBER_LOG):
        if statement.startswith("CREATE TEMP TABLE "):
            board.rows(f"DROP TABLE {statement.split()[3]}")


# ── Epochs ───────────────────────────────────────────────────────────────────────────────────────────────

_SAME_HOLD = "{0}.project = {1}.project AND {0}.resource = {1}.resource AND {0}.slot = {1}.slot"
_SAME_NAME = "{0}.project = {1}.project AND {0}.name = {1}.name"
# A task may have been pruned, but its claims may still be in the log. The condition is that of `events_granted`.
_RAISE_TASKS = (
    "UPDATE tasks SET epoch = known.epoch FROM (SELECT id, max(epoch) AS epoch FROM ("
    "SELECT tasks.id, live.epoch FROM tasks JOIN live_tasks AS live ON live.id = tasks.id UNION ALL "
    "SELECT tasks.id, live.epoch FROM tasks JOIN live_tasks AS live "
    "ON live.project = tasks.project AND live.key = tasks.key UNION ALL "
    "SELECT tasks.id, live.epoch FROM tasks JOIN live_marks AS live "
    "ON live.project = tasks.project AND live.key = tasks.key UNION ALL "
    "SELECT tasks.id, grants.epoch FROM tasks JOIN events AS grants ON grants.project = tasks.project "
    "AND grants.subject = tasks.id AND grants.event IN ('task.claimed', 'hold.taken', 'hold.transferred')"
    ") AS every GROUP BY id) AS known WHERE tasks.id = known.id AND tasks.epoch < known.epoch RETURNING 1"
)
_RAISE_HOLDS = (
    "UPDATE holds SET epoch = live.epoch FROM live_holds AS live "
    f"WHERE {_SAME_HOLD.format('live', 'holds')} AND holds.epoch < live.epoch RETURNING 1"
)
_RAISE_SCHEDULES = (
    "UPDATE schedules SET epoch = live.epoch FROM live_schedules AS live "
    f"WHERE {_SAME_NAME.format('live', 'schedules')} AND schedules.epoch < live.epoch RETURNING 1"
)
_KEEP_EPOCHS = (
    "INSERT INTO marks (project, key, epoch) SELECT project, key, epoch FROM live_marks WHERE TRUE "
    f"ON CONFLICT (project, key) DO UPDATE SET epoch = {_HIGHER}",
    "INSERT INTO marks (project, key, epoch) SELECT project, key, max(epoch) FROM live_tasks WHERE key IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.project = live_tasks.project AND tasks.key = live_tasks.key) "
    f"GROUP BY project, key ON CONFLICT (project, key) DO UPDATE SET epoch = {_HIGHER}",
    "INSERT INTO holds SELECT * FROM live_holds WHERE NOT EXISTS "
    f"(SELECT 1 FROM holds WHERE {_SAME_HOLD.format('holds', 'live_holds')})",
)
EPOCHS = ("tasks", "holds", "marks", "schedules")
"""The tables whose rows have an epoch that is a high-water mark."""


def raise_epochs(board: Endpoint, above: int) -> int:
    """Raise each epoch to the highest one known, and to `above`; how many rows of the backup had a lower one."""
    raised = [len(board.rows(statement)) for statement in (_RAISE_TASKS, _RAISE_HOLDS, _RAISE_SCHEDULES)]
    for statement in _KEEP_EPOCHS:
        board.rows(statement)
    if above:
        raised += [
            len(board.rows(f"UPDATE {table} SET epoch = ? WHERE epoch < ? RETURNING 1", above, above))
            for table in EPOCHS
        ]
    return sum(raised)


def highest_epoch(board: Endpoint) -> int:
    """The highest epoch of anything on the board."""
    found = [board.rows(f"SELECT coalesce(max(epoch), 0) FROM {table}")[0][0] for table in EPOCHS]
    return int(max(found))


# ── Other rows ───────────────────────────────────────────────────────────────────────────────────────────

# An instant that was won is not won again. If the board knows the next one, that is it. Otherwise the schedule is
# paused: resuming it finds the next instant from then on.
_SCHEDULES = (
    (
        "UPDATE schedules SET last = live.last FROM live_schedules AS live "
        f"WHERE {_SAME_NAME.format('live', 'schedules')} AND schedules.last < live.last",
        0,
    ),
    (
        "UPDATE schedules SET due = live.due FROM live_schedules AS live "
        f"WHERE {_SAME_NAME.format('live', 'schedules')} AND live.expression = schedules.expression "
        "AND live.zone = schedules.zone AND schedules.due > 0 AND live.due > schedules.due",
        0,
    ),
    (f"UPDATE schedules SET due = 0, paused_at = ?, reason = '{_REASON}' WHERE due > 0 AND due <= last", 1),
    ("UPDATE live_schedules SET removed_at = ? WHERE removed_at = 0", 1),
    ("UPDATE live_schedules SET due = 0, command = NULL, options = NULL, holder = NULL, until = 0", 0),
    (
        "INSERT INTO schedules SELECT * FROM live_schedules WHERE NOT EXISTS "
        f"(SELECT 1 FROM schedules WHERE {_SAME_NAME.format('schedules', 'live_schedules')})",
        0,
    ),
)
_FREE = (
    (
        "UPDATE tasks SET displaced = NULL, holder = NULL, until = 0, look_at = 0, state = 'pending', ready_at = 0, "
        f"attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END, reason = '{_REASON}', updated_at = ? "
        "WHERE state = 'claimed'",
        1,
    ),
    ("UPDATE holds SET displaced = NULL, holder = NULL, until = 0 WHERE holder IS NOT NULL OR until <> 0", 0),
    # It describes a file on the disk, which was not restored.
    (f"UPDATE holds SET hash = live.hash FROM live_holds AS live WHERE {_SAME_HOLD.format('live', 'holds')}", 0),
)
# A coordinator without its seat is fenced. Its next renewal wins the seat again if nobody else has it.
_PRESENT = (
    (
        "DELETE FROM agents WHERE EXISTS "
        "(SELECT 1 FROM live_agents WHERE live_agents.project = agents.project AND live_agents.id = agents.id)",
        0,
    ),
    ("INSERT INTO agents SELECT * FROM live_agents", 0),
    (
        "DELETE FROM sessions WHERE EXISTS "
        "(SELECT 1 FROM live_sessions WHERE live_sessions.session = sessions.session)",
        0,
    ),
    ("INSERT INTO sessions SELECT * FROM live_sessions", 0),
)
_FENCE = "UPDATE sessions SET fenced_by = ? WHERE role = 'coordinator' AND ended_at = 0 AND fenced_by IS NULL"


def apply(board: Endpoint, agent: str, now: int) -> None:
    """End all grants, and keep of the board's own rows what has to stay."""
    for statement, times in (*_SCHEDULES, *_FREE, *_PRESENT):
        board.rows(statement, *[now] * times)
    board.rows(_FENCE, agent)


_NUMBERS = (
    (
        f"UPDATE newest_task SET state = 'cancelled', finished_at = ?, updated_at = ?, reason = '{_GONE}', "
        "holder = NULL, until = 0, displaced = NULL, look_at = 0, aside = 0, blockers = 0 WHERE finished_at = 0",
        2,
    ),
    ("UPDATE newest_task SET key = NULL", 0),
    ("INSERT INTO tasks SELECT * FROM newest_task WHERE number > (SELECT coalesce(max(number), 0) FROM tasks)", 0),
    (
        "INSERT INTO messages SELECT * FROM newest_message "
        "WHERE number > (SELECT coalesce(max(number), 0) FROM messages)",
        0,
    ),
)


def keep_numbers(board: Endpoint, now: int) -> None:
    """Keep the newest task and message of the board if the backup lacks them, so that no number is used twice."""
    for statement, times in _NUMBERS:
        board.rows(statement, *[now] * times)


# ── Events ───────────────────────────────────────────────────────────────────────────────────────────────

_KIND = (
    "CASE substr({0}, 1, 5) WHEN 'file:' THEN 'file' WHEN 'lock:' THEN 'lock' WHEN 'seat:' THEN 'seat' "
    "WHEN 'pool:' THEN 'pool' END"
)
_SLOT = "CASE WHEN substr({0}.resource, 1, 5) = 'pool:' THEN '{{\"slot\": ' || {0}.slot || '}}' END"
_COLUMNS = "event, project, subject, name, kind, state, priority, epoch, note, data"
_BROKEN = (
    "SELECT 'hold.broken' AS event, project, resource AS subject, resource AS name, "
    f"{_KIND.format('resource')} AS kind, NULL AS state, 1 AS priority, epoch, '{_REASON}' AS note, "
    f"{_SLOT.format('before_holds')} AS data FROM before_holds WHERE holder IS NOT NULL"
)
_HOLDS = (
    "SELECT 'hold.restored' AS event, holds.project, holds.resource AS subject, holds.resource AS name, "
    f"{_KIND.format('holds.resource')} AS kind, NULL AS state, 1 AS priority, holds.epoch, "
    f"'it was at epoch ' || coalesce(was.epoch, 0) AS note, {_SLOT.format('holds')} AS data "
    f"FROM holds LEFT JOIN before_holds AS was ON {_SAME_HOLD.format('was', 'holds')} "
    "WHERE holds.epoch > coalesce(was.epoch, 0)"
)
_TASKS = (
    "SELECT 'task.restored' AS event, tasks.project, tasks.id AS subject, tasks.name, tasks.kind, tasks.state, "
    "tasks.priority, tasks.epoch, CASE WHEN was.id IS NULL THEN 'it was not on the board' "
    "ELSE 'it was ' || was.state END || ', and is ' || tasks.state AS note, NULL AS data "
    "FROM tasks LEFT JOIN before_tasks AS was ON was.id = tasks.id "
    "WHERE was.id IS NULL OR was.state <> tasks.state OR was.epoch < tasks.epoch"
)
_CANCELLED = (
    "SELECT 'task.cancelled' AS event, project, id AS subject, name, kind, 'cancelled' AS state, priority, epoch, "
    f"'{_GONE}' AS note, NULL AS data FROM before_tasks WHERE {_OPEN} "
    "AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = before_tasks.id)"
)
_SCHEDULED = (
    "SELECT CASE WHEN schedules.removed_at > 0 AND was.removed_at = 0 THEN 'schedule.removed' "
    "ELSE 'schedule.restored' END AS event, "
    "schedules.project, 'cron:' || schedules.name AS subject, schedules.name, 'schedule' AS kind, NULL AS state, "
    f"1 AS priority, schedules.epoch, '{_REASON}' AS note, NULL AS data FROM schedules "
    f"LEFT JOIN before_schedules AS was ON {_SAME_NAME.format('was', 'schedules')} WHERE was.name IS NULL "
    "OR was.epoch < schedules.epoch OR (was.removed_at = 0) <> (schedules.removed_at = 0)"
)
CHANGES = {
    "holds_ended": _BROKEN,
    "tasks_changed": _TASKS,
    "tasks_gone": _CANCELLED,
    "holds_raised": _HOLDS,
    "schedules_changed": _SCHEDULED,
}
"""What the log has to tell, one event for each row; their order is that of the log."""
_CLAIMS = "SELECT count(*) FROM before_tasks WHERE state = 'claimed'"
PROJECTS = " UNION ".join(
    f"SELECT project FROM {table}" for table in ("tasks", "before_tasks", "holds", "schedules", "agents")
)


def changes(board: Endpoint) -> dict[str, int]:
    """How many rows are different from what the log has told, of each kind."""
    found = {name: int(board.rows(f"SELECT count(*) FROM ({each}) AS each")[0][0]) for name, each in CHANGES.items()}
    return {"claims_ended": int(board.rows(_CLAIMS)[0][0]), **found}


def record_changes(board: Endpoint, agent: str, now: int) -> None:
    """Write an event for each row that is different from what the log has told."""
    for each in CHANGES.values():
        board.rows(
            f"INSERT INTO events (at, agent, until, times, {_COLUMNS}) "
            f"SELECT CAST(? AS BIGINT), CAST(? AS TEXT), 0, 1, {_COLUMNS} FROM ({each}) AS each",
            *(now, agent),
        )
