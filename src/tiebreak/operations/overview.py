"""Who does what: the agents of a board at work, waiting and idle, and a few numbers.

With `needs` this is the one place that knows what a person who watches has to see. The terminal screen, the pages for
browsers and `tb` without a command show what these reads answer, with the same words and in the same order.

Everything here only reads, and costs little on a large board: lists are bounded, counts stop at `MOST_COUNTED`, and
what is looked up in the log is found by its subject.
"""

from __future__ import annotations

from ..clock import SECOND, micros
from ..limits import DAY, LISTED, MAX_LIMIT, MOST_COUNTED
from ..model import Activity, Counts, Wait, record, row_of
from ..names import PRIORITIES, json_text
from . import operation
from .agents import listing as known_agents
from .events import last
from .grants import LIVE
from .projects import all_projects
from .questions import listing as open_questions
from .references import OPEN, WINNABLE
from .rows import among
from .waits import listing as waiting_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Agent
    from ..names import Limit, Project
    from . import Transaction

    AgentKey = tuple[str, str]
    """The project and the full id of an agent."""

SECTIONS = ("working", "waiting", "idle")


@operation("overview.agents", writes=False, strangers=True)
def activity(tx: Transaction, *, project: Project | None = "", limit: Limit = LISTED) -> list[Activity]:
    """List the agents that are here and what each does: those at work first, then those that wait, then idle ones.

    Of each there are at most `limit`; the one that does it longest comes first. An agent is at work if it has a claim
    or a hold, or was seen within a minute and says what it does. It waits if it is in the wait queue, has asked a
    person, or stands at a permission prompt. Dead agents are not listed; `overview.needs` names those that still hold
    something.
    """
    grants = Grants(tx, project)
    waits = _all_waits(tx, grants, project)
    keys = {key for key, agent in grants.agents.items() if agent.status != "gone"}
    keys |= {key for key in (*grants.claims, *grants.holds) if key not in grants.agents}
    found = [_activity(tx, key, grants, waits.get(key)) for key in keys]
    found.sort(key=lambda each: (each.since_at, each.agent, each.project))
    return [each for section in SECTIONS for each in [one for one in found if one.section == section][:limit]]


def _all_waits(
    tx: Transaction, grants: Grants, project: str | None
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
    for key, (at, note) in open_prompts(tx, grants).items():
        add(key, at, [{"prompt": note}])
    return found


def _activity(
    tx: Transaction, key: AgentKey, grants: Grants, waits: tuple[int, list[dict[str, Any]]] | None
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
    present = sum(agent.status != "gone" for agent in known_agents(tx, project=project))
    return record(
        Counts,
        (
            project or "",
            present,
            *(
                _count(tx, "tasks", where, project)
                for where in (OPEN["claimed"], OPEN["ready"], OPEN["blocked"] + OPEN["delayed"])
            ),
            sum(count for (count,) in failed_lately(tx, project, "count(*)", MOST_COUNTED)),
            *(_count(tx, table, where, project) for table, where in (("tasks", _ASKED), ("holds", (LIVE,)))),
            last(tx),
            tx.now,
        ),
    )


_ASKED = ("max_attempts = 0 AND finished_at = 0",)


def _count(tx: Transaction, table: str, conditions: tuple[str, ...], project: str | None) -> int:
    here = "project = :project" if project else "TRUE"
    found = 0
    for each in conditions:
        row = tx.first(
            f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {here} AND {each} LIMIT :most) AS counted",
            project=project,
            most=MOST_COUNTED,
        )
        found += int(row[0]) if row else 0
    return min(found, MOST_COUNTED)


def failed_lately(tx: Transaction, project: str | None, columns: str, most: int) -> list[tuple[Any, ...]]:
    """Tasks that failed within a day, among the newest failed ones of each project: their index has no time."""
    found: list[tuple[Any, ...]] = []
    for each in _projects(tx, project):
        found += tx.all(
            f"SELECT {columns} FROM (SELECT * FROM tasks WHERE project = :project AND finished_at > 0 "
            "AND state = 'failed' ORDER BY number DESC LIMIT :most) AS newest WHERE finished_at > {now} - :day",
            project=each,
            most=most,
            day=int(DAY * SECOND),
        )
    return found


def open_prompts(tx: Transaction, grants: Grants) -> dict[AgentKey, tuple[int, str]]:
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
                found[project, agent] = (at, note or "asks for permission")
    return found


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


class Grants:
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
