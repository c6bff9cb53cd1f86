"""Sessions: the agents that tiebreak started itself, and the one coordinator's seat of each project.

The seat is a hold like any other, so the same statement that decides everything else makes two coordinators impossible.
The session's row names the process that is responsible for the session: first the process that starts it, then its
supervisor, which takes over with `adopt` before the command runs, and only if the session still has the seat. A caller
that finds this process dead ends the session with `end` and names the process, so a session that another process has
adopted meanwhile is not ended.

A handoff passes the seat on in one step, with the next epoch. Until the new session is alive, the old one is fenced but
not replaced: if the new one ends before that, the same step that ends it returns the seat.

Every write from a session locks its row (see `session_fence`), and every step below locks that row before the seat. So
a write of the old session is either committed before the handoff or refused.
"""

from __future__ import annotations

from ..clock import micros
from ..errors import Fenced, Invalid, NotFound, Refused
from ..limits import MAX_LIMIT, SEAT_LEASE
from ..model import Hold, Session, agent_id, columns, holder_id, record, row_of
from ..names import json_text, short, shown
from . import SPAWNED, holds_scopes, operation
from .agents import LEFT, announce
from .events import append
from .grants import by_name, giving_back, passing_on
from .resources import COLUMNS as HOLD
from .resources import THIS, current, ensure_row, grant, hold_event, prolong, refuse
from .session_fence import SEAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, CommandOrCall, Json, Key, Lease, Limit, Name, Note, Number, Project, Role, Text
    from . import Scope, Transaction

_COLUMNS = columns(Session)


def _takes_seat(params: dict[str, Any]) -> list[Scope]:
    return holds_scopes(params) if params["role"] == "coordinator" else []


@operation("sessions.begin", writes=True, strangers=False, scopes=_takes_seat)
def begin(
    tx: Transaction,
    *,
    session: AgentId,
    role: Role,
    command: CommandOrCall,
    host: Name,
    boot: Name,
    pid: Number,
    started: Number,
    agent: AgentId = "",
    project: Project = "",
    cwd: Text | None = None,
    tmux: Name | None = None,
    facts: Json = None,
    lease: Lease = SEAT_LEASE,
    replaces: AgentId | None = None,
    ticket: Key | None = None,
) -> Session:
    """Record that an agent is being started; a coordinator takes its seat in the same step.

    `host`, `boot`, `pid` and `started` identify the process that starts it. The seat passes on from the session that
    this one `replaces`, or is taken if it is free. Otherwise the call is refused, and the refusal says who has the
    seat.
    """
    _check(session, command)
    epoch = _seat_for(tx, session, agent, project, lease, replaces) if role == "coordinator" else 0
    row = tx.first(
        "INSERT INTO sessions (session, agent, project, role, state, command, cwd, tmux, facts, host, boot, pid, "
        "started, epoch, replaces, ticket, started_by, created_at) VALUES (:session, :id, :project, :role, 'starting', "
        ":command, :cwd, :tmux, :facts, :host, :boot, :pid, :started, :epoch, :replaces, :ticket, :by, {now}) "
        f"ON CONFLICT DO NOTHING RETURNING {_COLUMNS}",
        session=session.partition("~")[2],
        id=session,
        project=project,
        role=role,
        command=json_text(command),
        cwd=cwd,
        tmux=tmux,
        facts=json_text(facts),
        host=host,
        boot=boot,
        pid=pid,
        started=started,
        epoch=epoch,
        replaces=replaces,
        ticket=ticket,
        by=agent,
    )
    if row is None:
        raise Refused(f"there is a session {session} already")
    return _session_event(tx, "session.starting", record(Session, row), by=agent)


def _check(session: str, command: Any) -> None:
    if SPAWNED not in session:
        raise Invalid(f"session: expected name{SPAWNED}…, got {shown(session)}")
    if not isinstance(command, list):
        raise Invalid("command: expected an array of words")


def _seat_for(tx: Transaction, session: str, agent: str, project: str, lease: float, replaces: str | None) -> int:
    """Win the seat for a session and return its epoch."""
    tx.serialize("holds", project)
    if replaces:
        _lock(tx, replaces)
    ensure_row(tx, project, SEAT, 0, False)
    passed = _pass_on(tx, project, replaces, session, lease, "handed over by") if replaces else None
    if passed is not None:
        tx.all("UPDATE sessions SET fenced_by = :heir WHERE agent = :old AND ended_at = 0", heir=session, old=replaces)
        return passed.epoch
    taken = _win_seat(tx, session, project, lease)
    if taken is None:
        raise refuse(tx, current(tx, project, SEAT, 0), agent, SEAT)
    return taken.epoch


def _win_seat(tx: Transaction, session: str, project: str, lease: float) -> Hold | None:
    """Win the seat if it is free; a session whose grant on it had lapsed is fenced, as after a handoff."""
    before = holder_id(current(tx, project, SEAT, 0))
    if before is not None and before != session:
        _lock(tx, before)
    taken = grant(tx, SEAT, 0, session, project, lease, None)
    if taken is not None and before is not None and before != session:
        rows = tx.all(
            f"UPDATE sessions SET fenced_by = :heir WHERE agent = :old AND ended_at = 0 RETURNING {_COLUMNS}",
            heir=session,
            old=before,
        )
        for row in rows:
            _session_event(tx, "session.fenced", record(Session, row))
    return taken


def _pass_on(tx: Transaction, project: str, giver: str, heir: str, lease: float, how: str) -> Hold | None:
    row = tx.first(
        passing_on("holds", THIS, HOLD, "taken_at = {now}"),
        agent=giver,
        epoch=0,
        to=heir,
        lease=micros(lease),
        project=project,
        resource=SEAT,
        slot=0,
    )
    if row is None:
        return None
    hold = record(Hold, row)
    hold_event(tx, "hold.transferred", hold, agent=heir, note=f"{how} {short(giver)}")
    return hold


@operation("sessions.adopt", writes=True, strangers=False, scopes=holds_scopes)
def adopt(
    tx: Transaction,
    *,
    session: AgentId,
    host: Name,
    boot: Name,
    pid: Number,
    started: Number,
    child: Number,
    child_started: Number,
    project: Project = "",
    lease: Lease = SEAT_LEASE,
) -> Session:
    """Take over a session as its supervisor; `child` is the process that will become its command.

    Refused if the session was ended meanwhile because its starter seemed dead: then the command must not run.
    """
    tx.serialize("holds", project)
    row = tx.first(
        "UPDATE sessions SET host = :host, boot = :boot, pid = :pid, started = :started, child = :child, "
        "child_started = :child_started WHERE agent = :session AND project = :project AND state = 'starting' "
        f"AND child = 0 RETURNING {_COLUMNS}",
        session=session,
        project=project,
        host=host,
        boot=boot,
        pid=pid,
        started=started,
        child=child,
        child_started=child_started,
    )
    if row is None:
        raise _too_late(session)
    found = record(Session, row)
    if found.role == "coordinator" and prolong(tx, SEAT, 0, session, project, 0, lease, None) is None:
        raise _too_late(session)
    program = found.command[0].rpartition("/")[2][:200]
    announce(
        tx,
        agent=session,
        project=project,
        program=program if program.isprintable() and program.strip() else None,
        parent=row_of(found)[Session.fields.index("started_by")],
        host=host,
        boot=boot,
        pid=pid,
        started=started,
        bound=True,
    )
    return _session_event(tx, "session.adopted", found)


def _too_late(session: str) -> Fenced:
    return Fenced(
        f"session {session}: it was given up before it began, its command does not run",
        reason="session-over",
    )


@operation("sessions.alive", writes=True, strangers=False, scopes=holds_scopes)
def alive(tx: Transaction, *, session: AgentId, pid: Number, started: Number, project: Project = "") -> Session:
    """Record, as the supervisor, that the command is alive. The session that it replaces is replaced for good now."""
    tx.serialize("holds", project)
    row = tx.first(
        "UPDATE sessions SET state = 'alive', alive_at = {now} WHERE agent = :session AND project = :project "
        "AND state = 'starting' AND fenced_by IS NULL AND pid = :pid AND started = :started AND child > 0 "
        f"RETURNING {_COLUMNS}",
        session=session,
        project=project,
        pid=pid,
        started=started,
    )
    if row is None:
        raise _too_late(session)
    found = record(Session, row)
    if found.replaces:
        tx.all("UPDATE sessions SET replaced_by = :heir WHERE agent = :old", heir=session, old=found.replaces)
    return _session_event(tx, "session.alive", found)


@operation("sessions.renew", writes=True, strangers=False, scopes=holds_scopes)
def renew(tx: Transaction, *, session: AgentId, project: Project = "", lease: Lease = SEAT_LEASE) -> Session:
    """Record a sign of life as a supervisor, and renew the session's seat, or win it again if it is free.

    If another session has the seat, this session is marked as fenced and nothing else happens: people decide which one
    to end.
    """
    tx.serialize("holds", project)
    _lock(tx, session)
    found = _find(tx, session, project)
    if found.ended_at:
        raise Fenced(f"session {session} has ended")
    kept = found if found.role != "coordinator" or found.replaced_by else _keep_seat(tx, found, session, project, lease)
    tx.all(
        "UPDATE agents SET seen_at = {now}, left_at = 0 WHERE project = :project AND id = :session",
        project=project,
        session=session,
    )
    return kept


def _keep_seat(tx: Transaction, found: Session, session: str, project: str, lease: float) -> Session:
    held = prolong(tx, SEAT, 0, session, project, 0, lease, None) or _win_seat(tx, session, project, lease)
    heir = None if held else holder_id(current(tx, project, SEAT, 0))
    if held is None and heir in (None, found.fenced_by):
        return found
    row = tx.first(
        "UPDATE sessions SET fenced_by = :heir, epoch = CASE WHEN :epoch > 0 THEN :epoch ELSE epoch END "
        f"WHERE agent = :session RETURNING {_COLUMNS}",
        session=session,
        heir=heir,
        epoch=held.epoch if held else 0,
    )
    kept = record(Session, row) if row else found
    return kept if held else _session_event(tx, "session.fenced", kept)


@operation("sessions.end", writes=True, strangers=False, scopes=holds_scopes)
def end(
    tx: Transaction,
    *,
    session: AgentId,
    note: Note,
    project: Project = "",
    code: Number | None = None,
    pid: Number = 0,
    started: Number = 0,
    lease: Lease = SEAT_LEASE,
) -> Session:
    """End a session and release its holds. If it never became alive, its seat returns to the session it replaces.

    With `pid` and `started`, the session is ended only while that process is responsible for it: for a caller that
    found this process dead.
    """
    tx.serialize("holds", project)
    _lock(tx, session)
    found = _find(tx, session, project)
    if found.ended_at:
        return found
    if found.replaces:
        _lock(tx, found.replaces)
    row = tx.first(
        "UPDATE sessions SET state = 'ended', ended_at = {now}, code = :code, note = :note WHERE agent = :session "
        f"AND (:pid = 0 OR (pid = :pid AND started = :started)) RETURNING {_COLUMNS}",
        session=session,
        code=code,
        note=note,
        pid=pid,
        started=started,
    )
    if row is None:
        raise Refused(f"session {session} is answered for by pid {found.pid} now, nothing was changed")
    over = record(Session, row)
    if over.role == "coordinator":
        _give_seat_back(tx, over, lease)
    _give_holds_back(tx, session, project)
    tx.all(f"UPDATE agents SET {LEFT} WHERE project = :project AND id = :session", project=project, session=session)
    return _session_event(tx, "session.ended", over, note=note)


def _give_seat_back(tx: Transaction, over: Session, lease: float) -> None:
    """Return the seat of a replacement that was never alive to the session it replaces, if that one has not ended."""
    if over.alive_at or not over.replaces:
        return
    if tx.first("SELECT 1 FROM sessions WHERE agent = :old AND ended_at = 0", old=over.replaces) is None:
        return
    hold = _pass_on(tx, over.project, agent_id(over), over.replaces, lease, "returned by")
    if hold is not None:
        tx.all(
            "UPDATE sessions SET fenced_by = NULL, epoch = :epoch WHERE agent = :old",
            epoch=hold.epoch,
            old=over.replaces,
        )


def _give_holds_back(tx: Transaction, session: str, project: str) -> None:
    """Release all holds of a session: its process is dead, so nothing uses them."""
    rows = tx.all(
        giving_back("holds", "project = :project", HOLD, fence="holder = :session"),
        project=project,
        session=session,
    )
    for row in rows:
        hold_event(tx, "hold.released", record(Hold, row), agent=session, note="its session has ended")


@operation("sessions.list", writes=False, strangers=True)
def listing(
    tx: Transaction,
    *,
    project: Project | None = "",
    role: Role | None = None,
    session: AgentId | None = None,
    ticket: Key | None = None,
    every: bool = False,
    limit: Limit = MAX_LIMIT,
) -> list[Session]:
    """List the sessions, newest first; with `every`, also those that have ended. `session` is a name or a whole id."""
    where = ["state <> 'removed'"] if every else ["ended_at = 0"]
    given = {"project": project, "role": role, "ticket": ticket}
    where += [f"{name} = :{name}" for name, value in given.items() if value is not None]
    if session is not None:
        where.append("agent = :who" if "~" in session else by_name("agent"))
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM sessions WHERE {' AND '.join(where)} ORDER BY created_at DESC, agent LIMIT :limit",
        who=session,
        limit=limit,
        **given,
    )
    return [record(Session, row) for row in rows]


@operation("sessions.remove", writes=True, strangers=False)
def remove(tx: Transaction, *, session: AgentId, agent: AgentId = "", project: Project = "") -> Session:
    """Remove a session that has ended. A coordinator's id is kept, so that its session stays fenced."""
    _lock(tx, session)
    found = _find(tx, session, project)
    if not found.ended_at:
        raise Refused(f"session {session} has not ended", reason="session-runs", name=short(session))
    tx.all(
        "UPDATE sessions SET state = 'removed', command = '[]', cwd = NULL, tmux = NULL, facts = NULL, note = NULL, "
        "ticket = NULL WHERE agent = :session AND role = 'coordinator'",
        session=session,
    )
    tx.all("DELETE FROM sessions WHERE agent = :session AND state <> 'removed'", session=session)
    return _session_event(tx, "session.removed", found, by=agent)


def _lock(tx: Transaction, session: str) -> None:
    """Wait for writes of a session that are under way, and block further ones until this transaction has ended."""
    tx.first("SELECT 1 FROM sessions WHERE agent = :session {lock}", session=session)


def _find(tx: Transaction, session: str, project: str) -> Session:
    found = listing(tx, project=project, session=session, every=True, limit=1)
    if not found:
        raise NotFound(f"no session {session} in project {project}", reason="session-unknown")
    return found[0]


def _session_event(
    tx: Transaction, event: str, found: Session, *, by: str | None = None, note: str | None = None
) -> Session:
    append(
        tx,
        event,
        found.project,
        subject=agent_id(found),
        name=found.agent,
        kind=found.role,
        agent=by or agent_id(found),
        epoch=found.epoch,
        note=note,
    )
    return found
