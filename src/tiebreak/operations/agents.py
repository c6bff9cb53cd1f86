"""Agents: who is here, what each agent works on, and whether it is still alive.

An agent's id is `name~session`. The session stands for one incarnation and is derived from the agent's process, so a
restarted agent is a different agent to every claim and hold of the old one. The agent's row says where that process is
(host, boot, pid, start time). An agent counts as gone only if it has left, if its process is known to have ended, or
after a day of silence. A sign of life is a heartbeat or an event that the agent caused, whichever is newer.

Nothing that can be won depends on these rows. Claims and holds are decided by their own rows (see `grants`).
"""

from __future__ import annotations

from ..clock import SECOND, micros
from ..errors import NotFound
from ..limits import ACTIVE, CLAIM_LEASE, FORGOTTEN, HOLD_LEASE, IDLE, MAX_LIMIT
from ..model import Agent, Task, columns, record
from ..names import short
from ..process_identity import Identity
from . import changeable, is_dead, operation
from .events import append
from .grants import by_name, keeping
from .references import STORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, AgentStatus, Label, Lease, Limit, Name, Note, Number, Project, Resource
    from . import Transaction

RECENT_EVENTS = 5000
"""How many of the newest events are searched for signs of life."""
_RUNNING = "holder = :agent AND until > {now} AND until < {now} + :lease"
"""A condition: the agent's claims and holds that have not run out and that a renewal would make longer.

It only leaves out grants that nobody wants renewed. Whether a renewal counts is decided by holder and epoch."""
_SIGN_OF_LIFE = (
    "event NOT IN ('task.expired', 'hold.expired', 'hold.transferred', 'session.fenced', 'agent.left') "
    "AND NOT (event = 'hold.unqueued' AND note IS NOT NULL)"
)
"""A condition: the event is a sign of life. The others are written about an agent that may be dead, or that leaves.

A waiter that gives its place up leaves no note; a place that lapsed has one."""
LEFT = "left_at = CASE WHEN seen_at > {now} THEN seen_at ELSE {now} END"
"""`left_at` is never before `seen_at`, even if a call that read the clock later wrote the last sign of life."""

_COLUMNS = (
    columns(Agent).replace("status", "'' AS status").replace("bound", "CASE WHEN bound = 1 THEN 1 ELSE 0 END AS bound")
)


@operation("agents.announce", writes=True, strangers=True)
def announce(
    tx: Transaction,
    *,
    agent: AgentId = "",
    project: Project = "",
    doing: Note | None = None,
    program: Name | None = None,
    parent: AgentId | None = None,
    host: Name | None = None,
    boot: Name | None = None,
    pid: Number = 0,
    started: Number = 0,
    bound: bool = False,
) -> Agent:
    """Announce an agent: what it works on, and the process that it runs in.

    With `bound`, that process is the agent itself: when it has ended, everything that the agent holds is given back.
    """
    binding = _binding(tx, agent, project, Identity(host or "", boot or "", pid, started), bound)
    if pid and binding is None:
        host = boot = None
        pid = 0
    row = tx.first(
        "INSERT INTO agents (id, project, doing, program, parent, host, boot, pid, started, joined_at, seen_at, bound) "
        "VALUES (:agent, :project, :doing, :program, :parent, :host, :boot, :pid, :started, {now}, {now}, :bound) "
        "ON CONFLICT (project, id) DO UPDATE SET doing = coalesce(:doing, agents.doing), "
        "program = coalesce(:program, agents.program), parent = coalesce(:parent, agents.parent), "
        "host = coalesce(:host, agents.host), boot = coalesce(:boot, agents.boot), "
        "pid = CASE WHEN :pid > 0 THEN :pid ELSE agents.pid END, "
        "started = CASE WHEN :pid > 0 THEN :started ELSE agents.started END, left_at = 0, seen_at = {now}, "
        "bound = CASE WHEN :pid > 0 THEN :bound ELSE agents.bound END "
        f"RETURNING {_COLUMNS}",
        bound=binding or 0,
        agent=agent,
        project=project,
        doing=doing,
        program=program,
        parent=parent,
        host=host,
        boot=boot,
        pid=pid,
        started=started,
    )
    append(tx, "agent.announced", project, name=short(agent), agent=agent, note=doing)
    return _with_status(tx, row, {})


def _binding(tx: Transaction, agent: str, project: str, process: Identity, bound: bool) -> int | None:
    """The new value of `bound` for an announced process; None if the agent keeps the process that it has.

    An agent is bound to one process. A process that is not the agent itself does not replace it. If a second one is the
    agent too while the first may be alive, the end of neither proves that the agent is dead.
    """
    if not process.pid:
        return None
    if bound:  # so that there is a row to lock: of two processes that announce one agent, the second sees the first
        tx.all(
            "INSERT INTO agents (id, project, joined_at, seen_at) VALUES (:agent, :project, {now}, {now}) "
            "ON CONFLICT DO NOTHING",
            project=project,
            agent=agent,
        )
    row = tx.first(
        "SELECT bound, host, boot, pid, started FROM agents WHERE project = :project AND id = :agent {lock}",
        project=project,
        agent=agent,
    )
    if row is None or not row[0]:
        return int(bound)
    before = Identity(row[1] or "", row[2] or "", row[3], row[4])
    if before == process or not bound:
        return row[0] if before == process else None
    return 1 if row[0] == 1 and is_dead(tx, before) else -1


@operation("agents.heartbeat", writes=True, strangers=True)
def heartbeat(tx: Transaction, *, agent: AgentId = "", project: Project = "", doing: Note | None = None) -> Agent:
    """Record a sign of life of an agent, and what it works on now if `doing` is given."""
    row = tx.first(
        "UPDATE agents SET seen_at = {now}, left_at = 0, doing = coalesce(:doing, doing) "
        f"WHERE project = :project AND id = :agent RETURNING {_COLUMNS}",
        agent=agent,
        project=project,
        doing=doing,
    )
    if row is None:
        return announce(tx, agent=agent, project=project, doing=doing)
    if doing is not None:
        append(tx, "agent.doing", project, name=short(agent), agent=agent, note=doing)
    return _with_status(tx, row, {})


@operation("agents.renew", writes=True, strangers=True)
def renew(
    tx: Transaction,
    *,
    agent: AgentId = "",
    project: Project = "",
    lease: Lease = CLAIM_LEASE,
    hold_lease: Lease = HOLD_LEASE,
    resources: list[Resource] = [],  # noqa: B006  (never changed)
    hashes: list[Label | None] = [],  # noqa: B006
) -> list[Task]:
    """Renew all claims and holds of an agent, record a sign of life, and return its claims.

    It is for a program that sees the agent work, such as a hook. Claims last at least another `lease`, holds another
    `hold_lease`. Nothing becomes shorter, and nothing that has run out comes back. `hashes` declare the present
    contents of held files to be the holder's own, in the order of `resources`.
    """
    this = {"agent": agent, "project": project}
    claims = f" AND state = 'claimed'{changeable(tx)}"
    for table, also, length in (("tasks", claims, lease), ("holds", "", hold_lease)):
        tx.all(
            keeping(table, f"project = :project{also}", "epoch", fence=_RUNNING),
            lease=micros(length),
            **this,
        )
    for resource, now in zip(resources, hashes, strict=False):
        tx.all(
            "UPDATE holds SET hash = :hash WHERE project = :project AND resource = :resource AND slot = 0 "
            "AND holder = :agent AND until > {now}",
            resource=resource,
            hash=now,
            **this,
        )
    tx.all("UPDATE agents SET seen_at = {now}, left_at = 0 WHERE project = :project AND id = :agent", **this)
    rows = tx.all(
        f"SELECT {STORED} FROM tasks WHERE project = :project AND state = 'claimed' AND holder = :agent "
        "AND until > {now} ORDER BY number",
        **this,
    )
    return [record(Task, row) for row in rows]


@operation("agents.warn", writes=True, strangers=True)
def warn(tx: Transaction, *, note: Note, agent: AgentId = "", project: Project = "") -> bool:
    """Record a warning as an event, for people who watch the board."""
    append(tx, "agent.warned", project, name=short(agent), agent=agent, note=note)
    return True


@operation("agents.prompt", writes=True, strangers=True)
def prompt(tx: Transaction, *, agent: AgentId = "", project: Project = "", note: Note | None = None) -> bool:
    """Record that an agent stands at a prompt of its client until a person answers; without `note`, that it goes on.

    For programs that see such prompts, such as hooks. Watchers are told by `overview.needs`.
    """
    event = "agent.resumed" if note is None else "agent.prompted"
    append(tx, event, project, subject=agent, name=short(agent), agent=agent, note=note)
    return note is not None


@operation("agents.leave", writes=True, strangers=True)
def leave(tx: Transaction, *, agent: AgentId = "", project: Project = "", reason: Note | None = None) -> Agent:
    """Record that an agent leaves. Its claims and holds stay until they are released or run out."""
    row = tx.first(
        f"UPDATE agents SET {LEFT} WHERE project = :project AND id = :agent RETURNING {_COLUMNS}",
        agent=agent,
        project=project,
    )
    if row is None:
        raise NotFound(f"no agent {short(agent)} with this session in project {project}")
    append(tx, "agent.left", project, name=short(agent), agent=agent, note=reason)
    return _with_status(tx, row, {})


@operation("agents.list", writes=False, strangers=True)
def listing(
    tx: Transaction,
    *,
    project: Project | None = "",
    agent: AgentId | None = None,
    status: AgentStatus | None = None,
    limit: Limit = MAX_LIMIT,
) -> list[Agent]:
    """List the agents with their status, most recently seen first: `active`, `idle`, `stale` or `gone`.

    Active: seen within a minute. Idle: seen within half an hour. Stale: seen longer ago. Gone: the agent has left, its
    process is known to have ended, or it was silent for a day.
    """
    where = ["TRUE"]
    if project is not None:
        where.append("project = :project")
    if agent is not None:
        where.append(by_name("id"))
    params = {"project": project, "who": agent and short(agent)}
    rows = tx.all(f"SELECT {_COLUMNS} FROM agents WHERE {' AND '.join(where)}", **params)
    signs = signs_of_life(tx, project)
    known = [_with_status(tx, row, signs) for row in rows]
    known += _unannounced(tx, {(a.project, a.id) for a in known}, signs, agent)
    wanted = [a for a in known if status in (None, a.status)]
    return sorted(wanted, key=lambda a: (-a.seen_at, a.id))[:limit]


_KNOWN = (
    "SELECT 1 FROM agents WHERE project = :project AND (id = :who OR (id > :who || '~' AND id < :who || '~~')) "
    "UNION ALL SELECT 1 FROM cursors WHERE project = :project AND agent = :who LIMIT 1"
)
_HOLDS = (
    f"SELECT 1 FROM tasks WHERE project = :project AND state = 'claimed' AND {by_name('holder')} "
    f"UNION ALL SELECT 1 FROM holds WHERE project = :project AND holder IS NOT NULL AND {by_name('holder')} LIMIT 1"
)


def is_known(tx: Transaction, name: str, project: str) -> bool:
    """Whether a project knows an agent: announced, has read messages, holds something, or did something recently.

    Only the newest events are searched: an agent that did nothing else, longer ago, may be forgotten.
    """
    this = {"who": name, "project": project}
    if tx.first(_KNOWN, **this) or tx.first(_HOLDS, **this):
        return True
    return any(short(agent) == name for _, agent in signs_of_life(tx, project))


def close_names(tx: Transaction, name: str, project: str) -> list[str]:
    """The names of known agents that are spelled much like this one, the most similar first."""
    from difflib import get_close_matches

    rows = tx.all(
        "SELECT id FROM agents WHERE project = :project ORDER BY seen_at DESC LIMIT :most",
        project=project,
        most=MAX_LIMIT,
    )
    known = {short(id_) for (id_,) in rows} | {short(agent) for _, agent in signs_of_life(tx, project)}
    return get_close_matches(name, sorted(known), 3)


def gone_since(tx: Transaction, name: str, project: str) -> int:
    """When an agent was last here, in board time, if all its incarnations are gone; 0 if one of them may be here."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM agents WHERE project = :project AND {by_name('id')}", project=project, who=name
    )
    if not rows or any(_with_status(tx, row, {}).status != "gone" for row in rows):
        return 0  # unannounced agents have nobody to tell that they are gone
    found = listing(tx, project=project, agent=name)  # reads the events too, for what it has done since
    last = max((max(each.left_at or 0.0, each.seen_at) for each in found), default=0.0)
    return 0 if any(each.status != "gone" for each in found) else micros(last)


def bound_agents(tx: Transaction, project: str | None) -> list[Agent]:
    """The agents whose process is the agent itself; their signs of life are not looked for."""
    here = "" if project is None else " AND project = :project"
    rows = tx.all(f"SELECT {_COLUMNS} FROM agents WHERE bound = 1{here} ORDER BY project, id", project=project)
    return [_with_status(tx, row, {}) for row in rows]


def incarnation_of(tx: Transaction, agent: str, project: str) -> str:
    """The full id of an agent: an id with a session as it is; for a name, the incarnation that was seen last."""
    if "~" in agent:
        return agent
    present = [found for found in listing(tx, project=project, agent=agent) if found.status != "gone"]
    if not present:
        raise NotFound(f"nobody called {agent} is here", reason="agent-unknown")
    return present[0].id


def signs_of_life(tx: Transaction, project: str | None) -> dict[tuple[str, str], tuple[int, int]]:
    """The times of the first and last recent event of each agent, which count as signs of life."""
    rows = tx.all(
        "SELECT project, agent, min(at), max(at) FROM {log} WHERE number > (SELECT max(number) FROM {log}) - :recent "
        f"AND agent IS NOT NULL{' AND project = :project' if project else ''} "
        f"AND {_SIGN_OF_LIFE} GROUP BY project, agent",
        recent=RECENT_EVENTS,
        project=project,
    )
    return {(where, agent): (first, latest) for where, agent, first, latest in rows}


def _unannounced(
    tx: Transaction,
    known: set[tuple[str, str]],
    signs: dict[tuple[str, str], tuple[int, int]],
    agent: str | None,
) -> list[Agent]:
    return [
        _with_status(tx, (id_, project, "", None, None, None, None, None, 0, 0, first, latest, 0, 0), {})
        for (project, id_), (first, latest) in signs.items()
        if (project, id_) not in known and (agent is None or short(agent) == short(id_))
    ]


def _with_status(tx: Transaction, row: Any, signs: dict[tuple[str, str], tuple[int, int]]) -> Agent:
    """The row with its status filled in."""
    found = dict(zip(Agent.fields, row, strict=True))
    found["seen_at"] = max(found["seen_at"], signs.get((found["project"], found["id"]), (0, 0))[1])
    process: Identity | None = Identity(found["host"] or "", found["boot"] or "", found["pid"], found["started"])
    if not found["pid"]:
        process = tx.process_of(found["id"].partition("~")[2])  # the agent never announced its process
    silent = (tx.now - found["seen_at"]) / SECOND
    if found["left_at"] >= found["seen_at"] or silent > FORGOTTEN or is_dead(tx, process):
        found["status"] = "gone"
    else:
        found["status"] = "active" if silent <= ACTIVE else "idle" if silent <= IDLE else "stale"
    return record(Agent, tuple(found.values()))
