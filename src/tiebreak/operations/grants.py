"""Grants: the only module that writes who has something (`holder`), by which grant (`epoch`) and until when (`until`).

Tasks, holds and schedules are different tables with the same four columns (`holder`, `epoch`, `until`, `displaced`).
Every statement that writes one of these columns is made by a function below. Other modules say which row is meant, and
what else changes with it.

    UPDATE … SET holder = me, epoch = epoch + 1, until = now + lease WHERE … AND (free OR lapsed)

One row: the caller has won. No row: another agent has it, and the caller learns who.

Why it is safe. The database serialises the writers of one row, so of any number of callers exactly one finds the row
free. The statement that decides also raises the epoch, so epochs count the grants without a gap. Every later write of
the holder names holder *and* epoch in its condition, so a holder whose grant has ended changes nothing, however late
its write comes.

A lapse counts only when it is written. When a lease runs out, the row becomes winnable. Nothing else follows until a
statement on that row says so: either the statement that wins the row, or `lapsing`, which ends a lapsed grant for a
decision over several rows (a glob, a pool, a last attempt). So the row decides about a late holder, not a clock: a
renewal that arrives before the lapse is written counts, a later one does not. A clock that was read too early delays
the moment at which a lapse is noticed. It never gives one thing to two holders.
"""

from __future__ import annotations

from ..errors import Fenced, Lost
from ..names import short
from ..text import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import Transaction

FREE = "(holder IS NULL OR until <= {now})"
LIVE = "(holder IS NOT NULL AND until > {now})"
LAPSED = "(holder IS NOT NULL AND until <= {now})"
MINE = "(holder = :agent AND (:epoch = 0 OR epoch = :epoch))"
"""The fence: this incarnation of the agent, and this grant (epoch 0: whichever grant it has)."""
MINE_EACH = "(holder = :agent AND epoch = given.e)"
"""The same fence for several rows at once, each with its epoch in `given` (see `rows`)."""

# `fresh` is the time at which the row is written, `now` the time at which the call began. So a writer that had to wait
# for the row gets its whole lease.
_GRANT = "displaced = holder, holder = :agent, epoch = epoch + 1, until = {fresh} + :lease"
_PASS_ON = "displaced = NULL, holder = :to, epoch = epoch + 1, until = {fresh} + :lease"
_KEEP = "until = {fresh} + :lease"
_GIVE_BACK = "displaced = NULL, holder = NULL, until = 0"
_CLOSE = "displaced = NULL, until = 0"


def winning(table: str, where: str, returning: str, also: str = "", given: str = "", source: str = "") -> str:
    """The statement that wins free rows; it returns the rows that were won, none if other agents have them."""
    return _writing(table, _GRANT, f"{where} AND {FREE}", returning, also, given, source)


def keeping(
    table: str, where: str, returning: str, also: str = "", given: str = "", source: str = "", fence: str = MINE
) -> str:
    """The statement by which a holder renews its grant for another lease."""
    return _writing(table, _KEEP, f"{where} AND {fence}", returning, also, given, source)


def passing_on(table: str, where: str, returning: str, also: str = "") -> str:
    """The statement by which a holder passes its row on to another agent (`:to`), as a new grant."""
    return _writing(table, _PASS_ON, f"{where} AND {MINE}", returning, also)


def giving_back(table: str, where: str, returning: str, also: str = "", fence: str = MINE, given: str = "") -> str:
    """The statement that ends a grant and leaves the row free.

    With another `fence`, it is not the holder's write but a decision about the row itself: a task is cancelled or
    reopened, a hold is broken, a session has ended.
    """
    return _writing(table, _GIVE_BACK, f"{where} AND {fence}", returning, also, given, given and "given")


def lapsing(table: str, where: str, returning: str, also: str = "") -> str:
    """The statement that writes that the grant with this epoch has lapsed; no row if it was renewed meanwhile."""
    return _writing(table, _GIVE_BACK, f"{where} AND epoch = :epoch AND {LAPSED}", returning, also)


def closing(
    table: str, where: str, returning: str, also: str = "", given: str = "", source: str = "", fence: str = MINE
) -> str:
    """The statement that ends a grant together with the work; `holder` stays, to show who ended it."""
    return _writing(table, _CLOSE, f"{where} AND {fence}", returning, also, given, source)


def writing(table: str, where: str, returning: str, also: str) -> str:
    """The statement by which a holder changes other columns of its row; the grant stays as it is."""
    return f"UPDATE {table} SET {also} WHERE {where} AND {MINE} RETURNING {returning}"


def holding(where: str, returning: str) -> str:
    """The statement that reads and locks a task as its holder; its grant cannot end before this transaction does."""
    return f"SELECT {returning} FROM tasks WHERE {where} AND state = 'claimed' AND {MINE} {{share}}"


def _writing(table: str, change: str, where: str, returning: str, also: str, given: str = "", source: str = "") -> str:
    more = f", {also}" if also else ""
    return f"{given}UPDATE {table} SET {change}{more}{source and f' FROM {source}'} WHERE {where} RETURNING {returning}"


def beginning(columns: tuple[str, ...], returning: str) -> str:
    """The statement that adds a task; its epochs continue after those of pruned tasks that had the same key."""
    marks = ", ".join(f":{name}" for name in columns)
    return (
        f"INSERT INTO tasks (id, epoch, created_at, updated_at, {', '.join(columns)}) "
        "VALUES (:id, coalesce((SELECT epoch FROM marks WHERE marks.project = :project AND marks.key = :key), 0), "
        f"{{now}}, {{now}}, {marks}) RETURNING {returning}"
    )


def beginning_each(given: str, texts: tuple[str, ...], numbers: tuple[str, ...], returning: str) -> str:
    """The same for several tasks of a project (`:project`, `:created_by`), in the order of their `place` in `given`.

    A parent of 0 is none. The casts are for PostgreSQL, which cannot tell the type of a column that is NULL throughout.
    """
    values = [f"CAST(given.{name} AS TEXT)" for name in texts] + [f"CAST(given.{name} AS BIGINT)" for name in numbers]
    listed = ", ".join(values).replace("CAST(given.parent AS BIGINT)", "nullif(CAST(given.parent AS BIGINT), 0)")
    return (
        f"{given}INSERT INTO tasks (id, epoch, created_at, updated_at, project, created_by, "
        f"{', '.join((*texts, *numbers))}) SELECT given.id, "
        "coalesce((SELECT epoch FROM marks WHERE marks.project = :project AND marks.key = given.key), 0), "
        f"{{now}}, {{now}}, CAST(:project AS TEXT), CAST(:created_by AS TEXT), {listed} "
        f"FROM given WHERE given.id IS NOT NULL ORDER BY given.place RETURNING {returning}"
    )


def remembering(where: str) -> str:
    """The statement that stores the epochs of keys whose tasks are about to lose them; it never lowers one."""
    return (
        "INSERT INTO marks (project, key, epoch) SELECT project, key, epoch FROM tasks "
        f"WHERE key IS NOT NULL AND {where} ON CONFLICT (project, key) DO UPDATE SET "
        "epoch = CASE WHEN excluded.epoch > marks.epoch THEN excluded.epoch ELSE marks.epoch END"
    )


def raising(table: str, *columns: str) -> str:
    """The statement that raises the epochs of a project (`:target`) to those that another one (`:source`) had reached.

    It is for merging two projects: what both have goes on above the higher epoch. It never lowers one.
    """
    same = " AND ".join(f"other.{column} = {table}.{column}" for column in columns)
    return (
        f"UPDATE {table} SET epoch = other.epoch FROM {table} AS other WHERE {table}.project = :target "
        f"AND other.project = :source AND {same} AND other.epoch > {table}.epoch RETURNING {table}.epoch"
    )


def raising_by_marks() -> str:
    """The same for tasks of `:target` whose key had a task in `:source` that was pruned."""
    return (
        "UPDATE tasks SET epoch = marks.epoch FROM marks WHERE tasks.project = :target AND marks.project = :source "
        "AND marks.key = tasks.key AND marks.epoch > tasks.epoch RETURNING tasks.epoch"
    )


def by_name(column: str, param: str = "who") -> str:
    """A condition: the agent id in this column is the named agent, in any incarnation."""
    return f"({column} = :{param} OR substr({column}, 1, length(:{param}) + 1) = :{param} || '~')"


def granted_by(project: str, subject: str, epoch: str) -> str:
    """An expression: the number of the event that recorded the grant with this epoch.

    Its condition is that of the index `events_granted`, because there may be a hundred thousand refusals since. Without
    the `+ 0`, PostgreSQL would read the subject's events backwards and expect to meet the grant soon.
    """
    return (
        f"(SELECT max(grants.number + 0) FROM {{log}} AS grants WHERE grants.project = {project} "
        f"AND grants.subject = {subject} AND grants.epoch = {epoch} "
        "AND grants.event IN ('task.claimed', 'hold.taken', 'hold.transferred'))"
    )


_BOUND = "SELECT 1 FROM agents WHERE project = :project AND id = :holder AND bound = 1"
"""A statement: whether the holder's process is the agent itself, so that its end is the end of the grant."""


def lost(
    tx: Transaction,
    what: str,
    subject: str,
    *,
    project: str,
    agent: str,
    holder: str,
    until: int,
    epoch: int,
    reason: str,
    since: int | None = None,
    has_other_rules: bool = False,
    **facts: Any,
) -> Lost:
    """The refusal for an agent that did not win: who has it, until when, and since which event.

    `has_other_rules`: others see to it if its holder is gone: workers to a job, sessions to the coordinator's seat.
    """
    left = max(0, until - tx.now) / 1_000_000
    if since is None:
        granted = granted_by(":project", ":subject", ":epoch")
        row = tx.first(f"SELECT {granted}", project=project, subject=subject, epoch=epoch)
        since = row[0] if row else None
    if tx.first(_BOUND, project=project, holder=holder) is not None:
        facts["bound"] = True
    whose = "you" if holder == agent else short(holder)
    if whose == short(agent):
        whose = f"another {whose} (session {holder.partition('~')[2] or 'unnamed'})"
        reason, facts = "held-by-you-elsewhere", {**facts, "thing": _thing(facts)}
    elif holder != agent and not has_other_rules and (gone := _gone(tx, holder, project, since)):
        from ..agent_names import same_person

        reason = "holder-gone-perhaps-you" if same_person(holder, agent) else "holder-gone"
        facts |= {"gone": gone, "thing": _thing(facts)}
    return Lost(
        f"{what} is held by {whose} for another {span(left)} (epoch {epoch})",
        reason=reason,
        holder=short(holder),
        session=holder.partition("~")[2],
        until=until / 1_000_000,
        left=left,
        epoch=epoch,
        since=since,
        **facts,
    )


def _gone(tx: Transaction, holder: str, project: str, since: int | None) -> str:
    from .death import known_to_be_gone

    return known_to_be_gone(tx, holder, project, since)


def _thing(facts: dict[str, Any]) -> str:
    """A task or a resource as a caller names it, from the facts of a refusal."""
    from ..held_files import called

    return f"#{facts['number']}" if "number" in facts else called(str(facts.get("resource", "")))


def fenced(
    what: str, *, agent: str, epoch: int, row: tuple[str | None, int, int], now: int, reason: str, **facts: Any
) -> Fenced:
    """The refusal for a write that came too late; `row` is the present grant: holder, epoch, until."""
    holder, current, until = row
    facts |= {
        "holder": short(holder) if holder else None,
        "epoch": current,
        "until": until / 1_000_000 or None,
    }
    if holder == agent and epoch in (0, current) and 0 < until <= now:
        late = span((now - until) / 1_000_000)
        return Fenced(f"{what}: your lease ran out {late} ago, nothing was written", reason=reason, **facts)
    if holder is None and 0 < epoch == current:
        over = "your grant is over: it was given back, or its lease ran out"
        return Fenced(f"{what}: {over}, nothing was written", reason=reason, **facts)
    if holder is None:
        return Fenced(f"{what} is not held by you, nothing was written", reason=reason, **facts)
    if holder == agent:
        why = f"your epoch {epoch} is not the current one ({current})"
    elif short(holder) == short(agent):
        why = f"it is held by another {short(holder)} (session {holder.partition('~')[2] or 'unnamed'})"
        facts |= {"thing": _thing(facts), "session": holder.partition("~")[2]}
        return Fenced(f"{what}: {why}, nothing was written", reason="held-by-you-elsewhere", **facts)
    else:
        why = f"it is held by {short(holder)} (epoch {current})"
    return Fenced(f"{what}: {why}, nothing was written", hint="stop working on it", **facts)
