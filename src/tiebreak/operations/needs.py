"""What needs a person: whoever stands still until somebody acts, and what went wrong and stays so.

`overview` says what else a person has to see, and the words for all this are in `need_words`. Everything here only
reads. A new kind of need is one function here and its words there.
"""

from __future__ import annotations

from ..clock import SECOND, micros
from ..held_files import called
from ..limits import MAX_LIMIT, SHOWN, STALLED
from ..model import Need, record, row_of
from ..names import QUESTION, short
from . import SPAWNED, operation
from .agents import RECENT_EVENTS
from .overview import Grants, failed_lately, open_prompts
from .questions import listing as open_questions
from .rows import among

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Question
    from ..names import Limit, Project
    from . import Transaction

NEEDS = ("permission", "question", "deadlock", "dead", "failed", "handoff", "stalled")
"""The kinds of needs, the most urgent first: somebody stands still until a person acts, then what may become worse.

`handoff` is a handoff that waits in the queue of a machine. The board does not know of it: who can see that queue adds
it to what `overview.needs` answers.
"""
_DEADLOCK_SHOWN = 600 * SECOND
"""How long a deadlock is shown after it was found, if nobody has got what it was about."""


@operation("overview.needs", writes=False, strangers=True)
def needs(tx: Transaction, *, project: Project | None = "", limit: Limit = SHOWN) -> list[Need]:
    """List what needs a person: the most urgent kind first, then the oldest. Each kind has at most `limit`.

    Open questions, agents at a permission prompt, deadlocks, dead agents that still hold something, tasks that failed
    within a day (if there are more, the newest), and claims without a sign of progress for hours.
    """
    grants = Grants(tx, project)
    kinds = [
        _prompts(tx, grants),
        [*map(_asked, open_questions(tx, project=project, limit=limit))],
        _deadlocks(tx, project, grants),
        _dead(grants),
        _failed(tx, project),
        _stalled(tx, grants),
    ]
    found: list[Need] = []
    for each in kinds:
        each.sort(key=lambda need: (need.since_at, need.ref))
        found += each[-limit:] if each and each[0].kind == "failed" else each[:limit]
    return found


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
    epoch: int = 0,
) -> Need:
    spawned = SPAWNED in (agent or "")
    return record(Need, (kind, project, ref, number, task_kind, epoch, name, agent, spawned, since, note))


def _prompts(tx: Transaction, grants: Grants) -> list[Need]:
    """The agents that stand at a permission prompt of their client."""
    return [
        _need("permission", key[0], short(key[1]), note, at, key[1], _where(grants, key))
        for key, (at, note) in open_prompts(tx, grants).items()
    ]


def _where(grants: Grants, key: tuple[str, str]) -> str | None:
    """Where an agent runs that `tb` has not started: a person has to go there."""
    known = grants.agents.get(key)
    if known is None or SPAWNED in key[1]:
        return None
    facts = [known.program, known.pid and f"pid {known.pid}", known.host and f"on {known.host}"]
    return f"in its own terminal: {' '.join(str(each) for each in facts if each)}" if any(facts) else None


def _deadlocks(tx: Transaction, project: str | None, grants: Grants) -> list[Need]:
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
    epochs = {(key[0], each["resource"]): each["epoch"] for key, holds in grants.holds.items() for each in holds}
    found: dict[tuple[str, str, str], Need] = {}
    for event, where, resource, agent, at, note in rows:
        key = (where, resource, agent)
        if event == "hold.deadlocked":
            epoch = epochs.get((where, resource), 0)
            found[key] = _need("deadlock", where, resource, called(resource), at, agent, note, epoch=epoch)
        else:
            found.pop(key, None)
    return list(found.values())


def _dead(grants: Grants) -> list[Need]:
    """The agents that are gone and still have claims or holds. Each is named by the first thing that it has."""
    found = []
    for key, known in grants.agents.items():
        claims, holds = grants.claims.get(key, []), grants.holds.get(key, [])
        if known.status != "gone" or not (claims or holds):
            continue
        names = [f"#{each.number}" for each in claims] + [called(each["resource"]) for each in holds]
        note = f"is gone and still has {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
        since = max(micros(known.left_at or 0.0), micros(known.seen_at))
        if claims:
            task = claims[0]
            rest = (since, key[1], note, task.number, task.kind, task.epoch)
            found.append(_need("dead", key[0], str(task.number), task.name, *rest))
        else:
            resource, epoch = holds[0]["resource"], holds[0]["epoch"]
            found.append(_need("dead", key[0], resource, called(resource), since, key[1], note, epoch=epoch))
    return found


def _failed(tx: Transaction, project: str | None) -> list[Need]:
    """The tasks that failed within a day."""
    found = []
    for number, where, name, kind, at, reason, attempts in failed_lately(
        tx, project, "number, project, name, kind, finished_at, reason, attempts", MAX_LIMIT
    ):
        note = reason or f"failed after {attempts} attempt{'' if attempts == 1 else 's'}"
        found.append(_need("failed", where, str(number), name, at, None, note, number, kind))
    return found


def _stalled(tx: Transaction, grants: Grants) -> list[Need]:
    """The claims of agents that are here, without a sign of progress for `STALLED`; what others do to them is none."""
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
            f"SELECT subject, agent, max(at) FROM {{log}} WHERE subject IN ({these}) "
            "AND event IN ('task.progress', 'task.edited', 'message.sent') GROUP BY subject, agent",
            **params,
        )
        progress.update((id_, max(at, progress[id_])) for id_, agent, at in rows if agent == old[id_][0][1])
    found = []
    for id_, ((project, agent), claim) in old.items():
        written = tx.first(
            "SELECT at FROM outputs WHERE task = :task ORDER BY epoch DESC, start DESC LIMIT 1", task=claim.number
        )
        since = max(progress[id_], written[0] if written else 0)
        if since < limit:
            ref, note = str(claim.number), "no sign of progress"
            task = (claim.number, claim.kind, claim.epoch)
            found.append(_need("stalled", project, ref, claim.name, since, agent, note, *task))
    return found
