"""Schedules: jobs that are submitted at the times of a cron expression, each instant at most once over all machines.

A schedule is a row with a grant (see `grants`) and the instant that is due next. Any process may fire it: workers,
daemons, `tb cron run`, any number of them at once. Winning the instant, submitting its job and moving on to the next
instant are one transaction, so an instant is never won without its job, nor a job submitted without its instant. The
row is authoritative: the statement that wins names the instant, so a second process finds a later instant in the row
and wins nothing. The epoch counts the instants that were won.

If no process ran at an instant, the schedule's policy decides. `skip`: it does not run. `run-once`: the newest
missed instant runs, for all of them. `run-all`: each of them runs, a few in one step. Instants during a pause do not
count as missed.
"""

from __future__ import annotations

from itertools import pairwise

from ..clock import SECOND, micros
from ..errors import Invalid, NotFound, Refused
from ..limits import FIRE_LEASE, FIRED, INSTANTS, RUNS
from ..model import Schedule, Task, columns, record
from ..names import OF_SCHEDULES, json_text, shown
from ..text import moment
from . import cron_times, keys_scope, operation
from .events import append
from .grants import closing, winning
from .jobs import submit
from .references import SHOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, CommandOrCall, Count, Json, Label, Limit, Name, Note, Number, Policy, Project
    from . import Scope, Transaction

LATE = 60 * SECOND
"""An instant that no process has fired for this long counts as missed."""
AT_ONCE = 100
"""How many schedules one step fires."""
_NOT_OPTIONS = ("agent", "project", "command", "key", "unique_for", "after", "run_anyway", "delay", "at")
"""Parameters of `jobs.submit` that a schedule sets itself, or that make no sense for a scheduled job."""

_COLUMNS = columns(Schedule)
_PROJECT = Schedule.fields.index("project")
_THIS = "project = :project AND name = :name AND removed_at = 0"
_WIN = winning("schedules", f"{_THIS} AND due = :due", "epoch")
_MOVE_ON = closing("schedules", _THIS, "epoch", "last = :instant, due = :next, updated_at = {now}")
_SKIP = "UPDATE schedules SET due = :next, updated_at = {now} WHERE " + _THIS + " AND due = :due RETURNING epoch"


# ── Changing schedules ───────────────────────────────────────────────────────────────────────────────


@operation("schedules.add", writes=True, strangers=False)
def add(
    tx: Transaction,
    *,
    name: Label,
    expression: Note,
    command: CommandOrCall,
    agent: AgentId = "",
    project: Project = "",
    zone: Name = "UTC",
    policy: Policy = "run-once",
    options: Json = {},  # noqa: B006  (never changed)
) -> Schedule:
    """Add a schedule that submits a job at each instant of a cron expression, or change the schedule of that name.

    `expression` has five fields, or six with seconds first, or is a name such as `@daily`. `options` are further
    parameters of `jobs.submit`. If the expression or the zone changes, the schedule continues with the next instant
    from now and fires nothing of the past.
    """
    submission(name, command, options, agent, project)
    due = cron_times.first(expression, zone, tx.now)
    if not due:
        raise Invalid(f"expression: {shown(expression)} has no future instant")
    row = tx.first(
        "INSERT INTO schedules (project, name, expression, zone, policy, command, options, due, created_by, "
        "created_at, updated_at) VALUES (:project, :name, :expression, :zone, :policy, :command, :options, :due, "
        ":agent, {now}, {now}) ON CONFLICT (project, name) DO UPDATE SET "
        "due = CASE WHEN schedules.removed_at > 0 THEN excluded.due WHEN schedules.paused_at > 0 THEN 0 "
        "WHEN schedules.expression = excluded.expression AND schedules.zone = excluded.zone THEN schedules.due "
        "ELSE excluded.due END, "
        "paused_at = CASE WHEN schedules.removed_at > 0 THEN 0 ELSE schedules.paused_at END, "
        "created_at = CASE WHEN schedules.removed_at > 0 THEN {now} ELSE schedules.created_at END, "
        "expression = excluded.expression, zone = excluded.zone, policy = excluded.policy, removed_at = 0, "
        "command = excluded.command, options = excluded.options, created_by = excluded.created_by, updated_at = {now} "
        f"RETURNING {_COLUMNS}",
        project=project,
        name=name,
        expression=expression,
        zone=zone,
        policy=policy,
        command=json_text(command, "command"),
        options=json_text(options, "options"),
        due=due,
        agent=agent,
    )
    assert row is not None  # noqa: S101  (an upsert either returns its row or raises)
    made = record(Schedule, row)
    _schedule_event(
        tx, "added" if made.created_at == made.updated_at else "changed", made, agent, f"{expression} {zone}"
    )
    return made


def submission(name: str, command: Any, options: Any, agent: str, project: str, **more: Any) -> dict[str, Any]:
    """The parameters of `jobs.submit` for a schedule's job, checked; raises `Invalid`."""
    if not isinstance(options, dict):
        raise Invalid(f"options: expected an object, got {shown(options)}")
    for each in _NOT_OPTIONS:
        if each in options:
            raise Invalid(f"options: {each} cannot be set for scheduled jobs")
    return submit.checked({"name": name, **options, "command": command, "agent": agent, "project": project, **more})


@operation("schedules.list", writes=False, strangers=True)
def listing(tx: Transaction, *, project: Project | None = "", name: Label | None = None) -> list[Schedule]:
    """List the schedules by name, without the options of their jobs."""
    where = ["removed_at = 0"]
    where += [f"{column} = :{column}" for column, v in (("project", project), ("name", name)) if v is not None]
    sql = f"SELECT {_COLUMNS} FROM schedules WHERE {' AND '.join(where)} ORDER BY project, name"
    return [record(Schedule, row) for row in tx.all(sql, project=project, name=name)]


def _find(tx: Transaction, name: str, project: str, lock: str = "") -> Schedule:
    row = tx.first(f"SELECT {_COLUMNS} FROM schedules WHERE {_THIS} {lock}", name=name, project=project)
    if row is None:
        raise NotFound(f"no schedule {name} in project {project}", reason="schedule-unknown")
    return record(Schedule, row)


def _change(tx: Transaction, event: str, change: str, name: str, agent: str, project: str, **more: Any) -> Schedule:
    """Change one schedule and write the event."""
    statement = f"UPDATE schedules SET {change}, updated_at = {{now}} WHERE {_THIS} RETURNING {_COLUMNS}"
    return _changed(tx, event, statement, name, agent, project, **more)


def _changed(tx: Transaction, event: str, statement: str, name: str, agent: str, project: str, **more: Any) -> Schedule:
    row = tx.first(statement, name=name, project=project, **more)
    if row is None:
        raise NotFound(f"no schedule {name} in project {project}", reason="schedule-unknown")
    changed = record(Schedule, row)
    _schedule_event(tx, event, changed, agent, more.get("reason"))
    return changed


@operation("schedules.pause", writes=True, strangers=False)
def pause(
    tx: Transaction, *, name: Label, agent: AgentId = "", project: Project = "", reason: Note | None = None
) -> Schedule:
    """Pause a schedule: no instant runs until it is resumed, and instants during the pause are not made up for."""
    return _changed(tx, "paused", _PAUSE, name, agent, project, reason=reason)


_PAUSE = closing(
    "schedules",
    _THIS,
    _COLUMNS,
    "paused_at = CASE WHEN paused_at > 0 THEN paused_at ELSE {now} END, due = 0, reason = :reason, updated_at = {now}",
    fence="TRUE",
)


@operation("schedules.resume", writes=True, strangers=False)
def resume(tx: Transaction, *, name: Label, agent: AgentId = "", project: Project = "") -> Schedule:
    """Resume a paused schedule with the next instant from now."""
    known = _find(tx, name, project, "{lock}")
    if known.paused_at is None:
        raise Refused(f"schedule {name} is not paused")
    due = cron_times.first(known.expression, known.zone, tx.now)
    return _change(tx, "resumed", "paused_at = 0, reason = NULL, due = :due", name, agent, project, due=due)


@operation("schedules.remove", writes=True, strangers=False)
def remove(tx: Transaction, *, name: Label, agent: AgentId = "", project: Project = "") -> Schedule:
    """Remove a schedule with its command and options; the jobs that it has submitted stay."""
    change = "removed_at = {now}, due = 0, command = NULL, options = NULL"
    return _change(tx, "removed", change, name, agent, project)


@operation("schedules.next", writes=False, strangers=True)
def coming(tx: Transaction, *, name: Label, project: Project = "", count: Count = INSTANTS) -> list[float]:
    """List the next instants of a schedule, in Unix seconds, as if it were not paused."""
    known = _find(tx, name, project)
    walk = cron_times.instants(known.expression, known.zone, tx.now)
    return [at / SECOND for at, _ in zip(walk, range(count), strict=False)]


@operation("schedules.history", writes=False, strangers=True)
def history(
    tx: Transaction, *, name: Label, project: Project = "", before: Number | None = None, limit: Limit = RUNS
) -> list[Task]:
    """List the jobs that a schedule has submitted, newest first; each job's key ends with its instant."""
    beginning = key(name, 0)[:-_LENGTH]
    rows = tx.all(
        f"SELECT {SHOWN} FROM tasks WHERE project = :project AND key > :low AND key < :high AND length(key) = :size "
        f"{'AND number < :before ' if before is not None else ''}ORDER BY key DESC LIMIT :limit",
        project=project,
        low=beginning,
        high=beginning + ":",
        size=len(beginning) + _LENGTH,
        before=before,
        limit=limit,
    )
    return [record(Task, row) for row in rows]


# ── Firing ───────────────────────────────────────────────────────────────────────────────────────────


def key(name: str, instant: int) -> str:
    """The key of an instant's job, so that there is never a second job for the same instant."""
    return f"{OF_SCHEDULES}{name}:{moment(instant)[:19]}Z"


_LENGTH = len("2026-11-16T01:50:00Z")


@operation("schedules.due", writes=False, strangers=True)
def due(tx: Transaction, *, project: Project | None = "") -> float | None:
    """Return in how many seconds the next instant is due; None if there is none, or this process cannot fire it."""
    here = "TRUE" if project is None else "project = :project"
    row = tx.first(f"SELECT min(due) FROM schedules WHERE due > 0 AND {here}", project=project)
    if row is None or row[0] is None or not cron_times.installed():
        return None
    return float(max(0, row[0] - tx.now) / SECOND)


def _may_submit(params: dict[str, Any]) -> list[Scope]:
    """The scope of the keys of the jobs to submit; which projects they belong to is known only if one is named."""
    project = params.get("project")
    return [] if project is None else [keys_scope(project)]


@operation("schedules.fire", writes=True, strangers=False, scopes=_may_submit)
def fire(tx: Transaction, *, agent: AgentId = "", project: Project | None = "", most: Count = FIRED) -> list[Task]:
    """Submit the jobs of the instants that are due and that no other process has won; one small step.

    It submits at most `most` jobs of each schedule. Call it again when `schedules.due` answers 0.
    """
    cron_times.library()
    here = "" if project is None else "AND project = :project "
    rows = tx.all(
        f"SELECT {_COLUMNS}, options FROM schedules WHERE due > 0 AND due <= {{now}} {here}"
        "ORDER BY due, project, name LIMIT :limit {skip_locked}",
        project=project,
        limit=AT_ONCE,
    )
    for where in sorted({row[_PROJECT] for row in rows}):
        tx.serialize("keys", where, shared=True)  # each job has a key; the scope is taken before any job is submitted
    fired: list[Task] = []
    for row in rows:
        schedule = record(Schedule, row[:-1])
        try:
            fired += _fire(tx, schedule, row[-1], agent, most)
        except (Invalid, Refused) as exc:  # otherwise it would stop all other schedules each time
            pause(tx, name=schedule.name, project=schedule.project, agent=agent, reason=exc.message[:1000])
    return fired


def _fire(tx: Transaction, schedule: Schedule, options: str, agent: str, most: int) -> list[Task]:
    oldest = micros(schedule.due or 0)
    wanted = _instants_to_run(tx, schedule, oldest, most)
    if not wanted:
        following = cron_times.first(schedule.expression, schedule.zone, tx.now)
        names = {"name": schedule.name, "project": schedule.project}
        if tx.first(_SKIP, next=following, due=oldest, **names) is not None:
            _schedule_event(tx, "skipped", schedule, agent, f"no process was there at {moment(oldest)}", oldest)
        return []
    expected, fired = oldest, []
    for instant, following in wanted:
        task = _run(tx, schedule, options, agent, expected, instant, following)
        if task is None:
            break
        expected = following
        fired.append(task)
    return fired


def _instants_to_run(tx: Transaction, schedule: Schedule, oldest: int, most: int) -> list[tuple[int, int]]:
    """The instants to run now, each with the instant that follows it."""
    when = (schedule.expression, schedule.zone)
    if schedule.policy == "run-all":
        walk, found = cron_times.instants(*when, oldest), [oldest]
        while 0 < found[-1] <= tx.now and len(found) <= most:
            found.append(next(walk, 0))
        return list(pairwise(found))
    newest = cron_times.newest(*when, oldest, tx.now)
    if schedule.policy == "skip" and tx.now - newest > LATE:
        return []
    return [(newest, cron_times.first(*when, tx.now))]


def _run(
    tx: Transaction, schedule: Schedule, options: str, agent: str, expected: int, instant: int, following: int
) -> Task | None:
    """Win an instant, submit its job and move on; None if another process has won it."""
    import json

    given = submission(
        schedule.name,
        schedule.command,
        json.loads(options),
        schedule.created_by or agent,
        schedule.project,
        key=key(schedule.name, instant),
    )
    names = {"name": schedule.name, "project": schedule.project, "agent": agent}
    won = tx.first(_WIN, due=expected, lease=micros(FIRE_LEASE), **names)
    if won is None:
        return None
    task = submit(tx, **given)
    tx.first(_MOVE_ON, epoch=won[0], instant=instant, next=following, **names)
    missed = f", for all since {moment(expected)}" if instant > expected else ""
    _schedule_event(tx, "fired", schedule, agent, f"#{task.number}{missed}", instant, won[0])
    return task


def _schedule_event(
    tx: Transaction, what: str, schedule: Schedule, agent: str, note: str | None, instant: int = 0, epoch: int = 0
) -> None:
    append(
        tx,
        f"schedule.{what}",
        schedule.project,
        subject=f"{OF_SCHEDULES}{schedule.name}",
        name=schedule.name,
        kind="schedule",
        agent=agent,
        epoch=epoch,
        note=note,
        data={"instant": moment(instant)} if instant else None,
    )
