"""What a person who watches a board has to see: what needs them, who works, who waits, and a few numbers.

This is the one place that knows when something needs a person. The terminal screen, the pages for browsers and `tb`
without a command show what these reads answer, with the same words and in the same order.

Everything here only reads, and costs little on a large board: lists are bounded, counts stop at `MOST_COUNTED`, and
what is looked up in the log is found by its subject.
"""

from __future__ import annotations

from ..clock import SECOND, micros
from ..held_files import called
from ..limits import DAY, LISTED, MAX_LIMIT, SHOWN, STALLED
from ..model import Activity, Counts, Need, Wait, record, row_of
from ..names import PRIORITIES, QUESTION, json_text, short
from . import operation
from .agents import RECENT_EVENTS
from .agents import listing as known_agents
from .events import last
from .grants import LIVE
from .projects import all_projects
from .questions import listing as open_questions
from .references import LAPSED, WAITS_FOR_PERSON, WINNABLE
from .rows import among
from .waits import listing as waiting_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Agent, Question
    from ..names import Limit, Project
    from . import Transaction

    AgentKey = tuple[str, str]
    """The project and the full id of an agent."""

NEEDS = ("permission", "question", "deadlock", "dead", "failed", "handoff", "stalled")
"""The kinds of needs, the most urgent first: somebody stands still until a person acts, then what may become worse.

`handoff` is a handoff that waits in the queue of a machine. The board does not know of it: who can see that queue adds
it to what `overview.needs` answers.
"""
SECTIONS = ("working", "waiting", "idle")
MOST_COUNTED = 10_000
"""Where counting stops: no person needs to know more exactly."""
_DEADLOCK_SHOWN = 600 * SECOND
"""How long a deadlock is shown after it was found, if nobody has got what it was about."""


@operation("overview.needs", writes=False, strangers=True)
def needs(tx: Transaction, *, project: Project | None = "", limit: Limit = SHOWN) -> list[Need]:
    """List what needs a person: the most urgent kind first, then the oldest.

    Open questions, agents at a permission prompt, deadlocks, dead agents that still hold something, tasks that failed
    within a day, and claims without a sign of progress for hours.
    """
    grants = _Grants(tx, project)
    found = [*_prompts(tx, grants), *map(_asked, open_questions(tx, project=project, limit=limit))]
    found += [*_deadlocks(tx, project), *_dead(grants), *_failed(tx, project), *_stalled(tx, grants)]
    found.sort(key=lambda need: (NEEDS.index(need.kind), need.since_at, need.ref))
    return found[:limit]


def _asked(question: Question) -> Need:
    values = row_of(question)
    asked_by, asked_at = (values[question.fields.index(name)] for name in ("asked_by", "asked_at"))
    waiting = len(question.waiting or ())
    note = f"{waiting} {'task waits' if waiting == 1 else 'tasks wait'} for the answer" if waiting else None
    number = question.number
    return _need("question", question.project, str(number), question.name, asked_at, asked_by, note, number, QUESTION)


def _need(
    kind: str,
    project: str,
    ref: str,
    name: str,
    since: int,
    agent: str | None = None,
    note: str | None = None,
    number: int = 0,
    task_kind: str | None = None,
) -> Need:
    return record(Need, (kind, project, ref, number, task_kind, name, agent, since, note))


def _prompts(tx: Transaction, grants: _Grants) -> list[Need]:
    """The agents that stand at a permission prompt of their client."""
    return [
        _need("permission", project, short(agent), note or "asks for permission", at, agent)
        for (project, agent), (at, note) in _open_prompts(tx, grants).items()
    ]


def _open_prompts(tx: Transaction, grants: _Grants) -> dict[AgentKey, tuple[int, str | None]]:
    """When each agent that is here came to a prompt that is still open, and what it asks."""
    here = {key for key, agent in grants.agents.items() if agent.status != "gone"}
    found = {}
    for these, params in among("a", sorted({agent for _, agent in here})):
        rows = tx.all(
            "SELECT project, subject, event, at, note FROM {log} WHERE number IN (SELECT max(number) FROM {log} "
            f"WHERE subject IN ({these}) AND event IN ('agent.prompted', 'agent.resumed') GROUP BY project, subject)",
            **params,
        )
        for project, agent, event, at, note in rows:
            if event == "agent.prompted" and (project, agent) in here:
                found[project, agent] = (at, note)
    return found


def _deadlocks(tx: Transaction, project: str | None) -> list[Need]:
    """The waits that were refused as deadlocks lately, unless the agent has got what it waited for."""
    here = " AND project = :project" if project else ""
    rows = tx.all(
        "SELECT event, project, subject, agent, at, note FROM {log} WHERE number > (SELECT max(number) FROM {log}) "
        f"- :recent AND at > {{now}} - :shown{here} "
        "AND event IN ('hold.deadlocked', 'hold.taken', 'hold.transferred') ORDER BY number",
        recent=RECENT_EVENTS,
        shown=_DEADLOCK_SHOWN,
        project=project,
    )
    found: dict[tuple[str, str, str], Need] = {}
    for event, where, resource, agent, at, note in rows:
        key = (where, resource, agent)
        if event == "hold.deadlocked":
            found[key] = _need("deadlock", where, resource, called(resource), at, agent, note)
        else:
            found.pop(key, None)
    return list(found.values())


def _dead(grants: _Grants) -> list[Need]:
    """The agents that are gone and still have claims or holds. Each is named by the first thing that it has."""
    found = []
    for key, known in grants.agents.items():
        claims, holds = grants.claims.get(key, []), grants.holds.get(key, [])
        if known.status != "gone" or not (claims or holds):
            continue
        names = [f"#{each.number}" for each in claims] + [called(each["resource"]) for each in holds]
        note = f"is gone and still has {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
        since = max(micros(known.left_at or 0.0), micros(known.seen_at))
        ref = str(claims[0].number) if claims else holds[0]["resource"]
        first = (claims[0].number, claims[0].kind) if claims else (0, None)
        found.append(_need("dead", key[0], ref, short(key[1]), since, key[1], note, *first))
    return found


def _failed(tx: Transaction, project: str | None) -> list[Need]:
    """The tasks that failed within a day."""
    found = []
    for each in _projects(tx, project):
        rows = tx.all(
            "SELECT number, name, kind, finished_at, reason, attempts FROM tasks WHERE project = :project "
            "AND finished_at > 0 AND state = 'failed' ORDER BY number DESC LIMIT :limit",
            project=each,
            limit=MAX_LIMIT,
        )
        for number, name, kind, at, reason, attempts in rows:
            if at > tx.now - DAY * SECOND:
                note = reason or f"failed after {attempts} attempt{'' if attempts == 1 else 's'}"
                found.append(_need("failed", each, str(number), name, at, None, note, number, kind))
    return found


def _stalled(tx: Transaction, grants: _Grants) -> list[Need]:
    """The claims of agents that are here, without a sign of progress for `STALLED`."""
    limit = tx.now - int(STALLED * SECOND)
    old = {
        claim.id: (key, claim)
        for key, claims in grants.claims.items()
        for claim in claims
        if claim.claimed_at < limit and (key not in grants.agents or grants.agents[key].status != "gone")
    }
    progress = {id_: claim.claimed_at for id_, (_, claim) in old.items()}
    for these, params in among("t", sorted(old)):
        rows = tx.all(
            f"SELECT subject, max(at) FROM {{log}} WHERE subject IN ({these}) "
            "AND event IN ('task.progress', 'task.edited', 'message.sent') GROUP BY subject",
            **params,
        )
        progress.update((id_, max(at, progress[id_])) for id_, at in rows)
    found = []
    for id_, ((project, agent), claim) in old.items():
        written = tx.first(
            "SELECT at FROM outputs WHERE task = :task ORDER BY epoch DESC, start DESC LIMIT 1", task=claim.number
        )
        since = max(progress[id_], written[0] if written else 0)
        if since < limit:
            ref, note = str(claim.number), "no sign of progress"
            found.append(_need("stalled", project, ref, claim.name, since, agent, note, claim.number, claim.kind))
    return found


@operation("overview.agents", writes=False, strangers=True)
def activity(tx: Transaction, *, project: Project | None = "", limit: Limit = LISTED) -> list[Activity]:
    """List the agents that are here and what each does: those at work first, then those that wait, then idle ones.

    Within each, the one that does it longest comes first. An agent is at work if it has a claim or a hold, or was seen
    within a minute and says what it does. It waits if it is in the wait queue, has asked a person, or stands at a
    permission prompt. Dead agents are not listed; `overview.needs` names those that still hold something.
    """
    grants = _Grants(tx, project)
    waits = _all_waits(tx, grants, project)
    keys = {key for key, agent in grants.agents.items() if agent.status != "gone"}
    keys |= {key for key in (*grants.claims, *grants.holds) if key not in grants.agents}
    found = [_activity(tx, key, grants, waits.get(key)) for key in keys]
    found.sort(key=lambda each: (SECTIONS.index(each.section), each.since_at, each.agent, each.project))
    return found[:limit]


def _all_waits(
    tx: Transaction, grants: _Grants, project: str | None
) -> dict[AgentKey, tuple[int, list[dict[str, Any]]]]:
    """Since when each agent waits, and for what."""
    found: dict[AgentKey, tuple[int, list[dict[str, Any]]]] = {}

    def add(key: AgentKey, since: int, what: list[dict[str, Any]]) -> None:
        before = found.get(key, (since, []))
        found[key] = (min(since, before[0]), before[1] + what)

    who, since_at = Wait.fields.index("agent"), Wait.fields.index("since_at")
    for each in _projects(tx, project):
        for wait in waiting_agents(tx, project=each):
            row = row_of(wait)
            add((each, row[who]), row[since_at], wait.waits_for or [])
    for question in open_questions(tx, project=project, limit=MAX_LIMIT):
        row = row_of(question)
        asked_by = row[question.fields.index("asked_by")]
        if asked_by:
            what = {"question": question.number, "name": question.name}
            add((question.project, asked_by), row[question.fields.index("asked_at")], [what])
    for key, (at, note) in _open_prompts(tx, grants).items():
        add(key, at, [{"prompt": note}])
    return found


def _activity(
    tx: Transaction, key: AgentKey, grants: _Grants, waits: tuple[int, list[dict[str, Any]]] | None
) -> Activity:
    project, id_ = key
    known = grants.agents.get(key)
    claims, holds = grants.claims.get(key, []), grants.holds.get(key, [])
    began = [claim.claimed_at for claim in claims] + [hold["taken_at"] for hold in holds]
    seen = micros(known.seen_at) if known else max(began)
    busy = known is not None and known.status == "active" and known.doing is not None
    section = "waiting" if waits else "working" if began or busy else "idle"
    since = waits[0] if waits else min(began, default=micros(known.joined_at) if known and busy else seen)
    tasks = [claim.shown(tx.now) for claim in claims]
    held = [
        {"resource": each["resource"], "slot": each["slot"], "epoch": each["epoch"], "left": _left(each["until"], tx)}
        for each in holds
    ]
    described = (known.doing, known.program, known.parent, known.host) if known else (None, None, None, None)
    return record(
        Activity,
        (
            id_,
            project,
            section,
            known.status if known else "stale",
            *described,
            since,
            seen,
            json_text(tasks),
            json_text(held),
            json_text(waits[1] if waits else []),
        ),
    )


def _left(until: int, tx: Transaction) -> float:
    return round((until - tx.now) / SECOND, 3)


@operation("overview.counts", writes=False, strangers=True, reads_log=True)
def counts(tx: Transaction, *, project: Project | None = "") -> Counts:
    """Count what is open: each count stops at 10,000, so that it costs little however large the board is."""
    here = "project = :project" if project else "TRUE"
    present = sum(agent.status != "gone" for agent in known_agents(tx, project=project))
    return record(
        Counts,
        (
            project or "",
            present,
            *(
                min(MOST_COUNTED, sum(_count(tx, table, f"{here} AND {each}", project) for each in where))
                for table, where in _COUNTED
            ),
            last(tx),
            tx.now,
        ),
    )


# In the order of the fields of `Counts`. Each condition has its own index.
_READY = (
    "state = 'pending' AND ready_at = 0 AND aside = 0",
    f"state = 'pending' AND ready_at = 0 AND aside > 0 AND aside <> {WAITS_FOR_PERSON}",
    WINNABLE,
)
_COUNTED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tasks", ("state = 'claimed' AND until > {now}", f"{LAPSED} AND attempts >= max_attempts")),
    ("tasks", _READY),
    ("tasks", ("state = 'blocked'", "state = 'pending' AND ready_at > 0")),
    ("tasks", (f"finished_at > {{now}} - {int(DAY * SECOND)} AND state = 'failed'",)),
    ("tasks", ("max_attempts = 0 AND finished_at = 0",)),
    ("holds", (LIVE,)),
)


def _count(tx: Transaction, table: str, where: str, project: str | None) -> int:
    row = tx.first(
        f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {where} LIMIT :most) AS counted",
        project=project,
        most=MOST_COUNTED,
    )
    return int(row[0]) if row else 0


def _projects(tx: Transaction, project: str | None) -> list[str]:
    return [project] if project else all_projects(tx)


class _Claim:
    """As much of a claimed task as is shown."""

    __slots__ = ("claimed_at", "epoch", "id", "kind", "name", "number", "priority", "until")

    def __init__(self, number: int, id_: str, name: str, kind: str, priority: int, *grant: int) -> None:
        self.number, self.id, self.name, self.kind, self.priority = number, id_, name, kind, priority
        self.epoch, self.until, self.claimed_at = grant

    def shown(self, now: int) -> dict[str, Any]:
        """The claim as JSON."""
        return {
            "number": self.number,
            "name": self.name,
            "kind": self.kind,
            "priority": PRIORITIES[self.priority],
            "epoch": self.epoch,
            "left": round((self.until - now) / SECOND, 3),
            "lapsed": self.until <= now,
        }


class _Grants:
    """The agents of a project, or of all, and what each has: read at most once in a call."""

    def __init__(self, tx: Transaction, project: str | None) -> None:
        self.agents: dict[AgentKey, Agent] = {
            (agent.project, agent.id): agent for agent in known_agents(tx, project=project)
        }
        here = "project = :project AND " if project else ""
        self.claims: dict[AgentKey, list[_Claim]] = {}
        rows = tx.all(
            "SELECT project, holder, number, id, name, kind, priority, epoch, until, claimed_at FROM tasks "
            f"WHERE {here}state = 'claimed' AND NOT {WINNABLE} ORDER BY number LIMIT :limit",
            project=project,
            limit=MAX_LIMIT,
        )
        for where, holder, *claim in rows:
            self.claims.setdefault((where, holder), []).append(_Claim(*claim))
        self.holds: dict[AgentKey, list[dict[str, Any]]] = {}
        rows = tx.all(
            f"SELECT project, holder, resource, slot, epoch, until, taken_at FROM holds WHERE {here}{LIVE} "
            "ORDER BY resource, slot LIMIT :limit",
            project=project,
            limit=MAX_LIMIT,
        )
        for where, holder, *hold in rows:
            names = ("resource", "slot", "epoch", "until", "taken_at")
            self.holds.setdefault((where, holder), []).append(dict(zip(names, hold, strict=True)))
