"""Figures of queues: throughput, depth, latency and failures, minute by minute. This module only reads.

They are counted from the newest events, at most `MOST` of them, so that they cost the same on every board. The answer
says how far back these reach (`since`): for earlier minutes there is no figure (None), which is something else than
zero, and the minute of that moment counts from it on. A busy board has so many events in seconds, so whoever shows a
sum has to say for how long.

Depth is counted backwards from the tasks that are ready now: a task that became ready in a minute was not there before,
and one that was claimed was. A cancelled task was ready if the log says so: its last event before tells its state. A
delayed task becomes ready without an event, so it counts from the moment it was posted.

Questions are no work of a queue, though they are stored as tasks: they count nowhere.
"""

from __future__ import annotations

from ..names import QUESTION, short
from . import operation
from .events import last
from .references import WAITS_FOR_PERSON
from .rows import among, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..names import Count, Json, Project
    from . import Transaction

    QueueName = tuple[str, str]
    """Project and queue."""

MOST = 5000
"""How many events are counted at most. Each costs a look at its task: ten times as many take a quarter of a second."""
SCANNED = 50_000
"""How far back they are looked for, among events of other kinds and projects."""
MOST_READY = 20_000
"""How many ready tasks are counted; with more, `ready` says only that there are at least so many."""
LOOKED_BACK = 50
"""Events of a cancelled task among which its state before is looked for: refusals and comments tell none."""
MINUTE = 60_000_000

_ARRIVES = (
    "task.posted",
    "task.ready",
    "task.retrying",
    "task.released",
    "task.expired",
    "task.broken",
    "task.reopened",
)
_LEAVES = ("task.claimed", "task.cancelled")
_OTHER = ("task.completed", "task.failed")
_WANTED = ", ".join(f"'{event}'" for event in (*_ARRIVES, *_LEAVES, *_OTHER))


@operation("queues.figures", writes=False, strangers=True, reads_log=True)
def figures(tx: Transaction, *, project: Project | None = "", minutes: Count = 60) -> Json:
    """Return throughput, depth, latency and failures of each queue, minute by minute up to the present one.

    `queues` has for each queue `{project, queue, ready, claimed, paused_at, paused_by, reason, begun, completed,
    failed, depth, waited, median, p95}`. `begun`, `completed` and `failed` (attempts that failed or lapsed, too) count
    events in each minute, oldest first; questions do not count. `depth` is the number of ready tasks at the end of each
    minute, `waited` the median of the seconds that the tasks begun in it had been ready; `median` and `p95` are about
    all of them. At most 5,000 events are counted, and `cut` says that there were more. All figures are about the time
    from `since` to `now`: minutes before that are None, and the minute of `since` counts from it on. `ready` is capped
    at 20,000, which `capped` says. Times are Unix seconds, None if there is none. `limits` has the groups with a limit
    that have ready or claimed tasks: `{project, group, size, claimed, ready}`.
    """
    begin = (tx.now // MINUTE + 1 - minutes) * MINUTE
    rows, since = _window(tx, project, begin)
    queues = _queues(tx, {row[2] for row in rows})
    before = _before_cancelling(tx, rows)
    ready, capped = _ready(tx, project)
    claimed, paused = _claimed(tx, project), _paused(tx, project)
    names = sorted({*ready, *claimed, *paused, *(name for name, _ in queues.values())})
    counts = {name: QueueCounts(minutes) for name in names}
    for row in rows:
        if row[2] in queues:
            name, created = queues[row[2]]
            counts[name].read((row[0] - begin) // MINUTE, row[:6], created, before.get(row[6]))
    known = max(0, min(minutes - 1, (since - begin) // MINUTE))
    return {
        "minutes": minutes,
        "now": tx.now / 1e6,
        "since": max(since, begin) / 1e6,
        "cut": since > begin,
        "capped": capped,
        "queues": [
            dict(zip(("project", "queue"), name, strict=True))
            | {"ready": ready.get(name, 0), "claimed": claimed.get(name, 0)}
            | dict(zip(("paused_at", "paused_by", "reason"), paused.get(name, (None, None, None)), strict=True))
            | each.shown(known, ready.get(name, 0))
            for name, each in counts.items()
        ],
        "limits": _limits(tx, project),
    }


class QueueCounts:
    """What is counted of one queue."""

    def __init__(self, minutes: int) -> None:
        self.begun = [0] * minutes
        self.completed = [0] * minutes
        self.failed = [0] * minutes
        self.change = [0] * minutes
        self.waits: list[list[float]] = [[] for _ in range(minutes)]
        self._since: dict[str, int] = {}
        """Since when a task is ready."""

    def read(self, minute: int, row: tuple[Any, ...], created: int, before: str | None = None) -> None:
        """Take the next event of a task that was posted at this moment; of a cancelled one, its state before."""
        at, event, subject, state, epoch, until = row
        minute = min(minute, len(self.begun) - 1)
        if event in _ARRIVES and state == "pending":
            self.change[minute] += 1
            self._since[subject] = until if event == "task.retrying" else at
        elif event == "task.claimed":
            self.begun[minute] += 1
            self.change[minute] -= 1
            since = self._since.pop(subject, created if epoch == 1 else 0)
            if since:
                self.waits[minute].append(max(0, at - since) / 1e6)
        elif event == "task.cancelled":
            self._since.pop(subject, 0)
            self.change[minute] -= before == "pending"
        elif event == "task.completed":
            self.completed[minute] += 1
        if event in ("task.failed", "task.retrying", "task.expired"):
            self.failed[minute] += 1

    def shown(self, known: int, ready: int) -> dict[str, Any]:
        """The figures as the answer has them; None for the minutes before `known`."""
        depth: list[int] = []
        for change in reversed(self.change):
            depth.append(max(0, ready))
            ready -= change
        every = sorted(wait for waits in self.waits for wait in waits)
        lists: dict[str, list[Any]] = {
            "begun": self.begun,
            "completed": self.completed,
            "failed": self.failed,
            "depth": depth[::-1],
            "waited": [part(sorted(waits), 0.5) for waits in self.waits],
        }
        blank = {name: [None] * known + values[known:] for name, values in lists.items()}
        return {**blank, "median": part(every, 0.5), "p95": part(every, 0.95)}


def part(values: list[float], share: float) -> float | None:
    """The value below which this share of the sorted values lies (nearest rank); None if there are none."""
    if not values:
        return None
    return round(values[min(len(values) - 1, int(share * len(values)))], 3)


def _window(tx: Transaction, project: str | None, begin: int) -> tuple[list[tuple[Any, ...]], int]:
    """The events since a moment, oldest first, and the moment from which on they are complete."""
    newest = last(tx)
    rows = tx.all(
        "SELECT at, event, subject, state, epoch, until, number, agent FROM {log} WHERE number > :floor "
        f"AND number <= {{settled}} AND {_of(project)}at >= :begin AND event IN ({_WANTED}) "
        "AND (kind IS NULL OR kind <> :question) ORDER BY number DESC LIMIT :most",
        floor=newest - SCANNED,
        project=project,
        begin=begin,
        question=QUESTION,
        most=MOST,
    )
    if len(rows) == MOST:
        return rows[::-1], rows[-1][0]
    first = tx.first("SELECT at FROM {log} WHERE number > :floor ORDER BY number LIMIT 1", floor=newest - SCANNED)
    scanned = first[0] if first and newest > SCANNED else 0
    return rows[::-1], max(begin, scanned)


def _of(project: str | None) -> str:
    """The beginning of a condition: rows of this project, or of all."""
    return "" if project is None else "project = :project AND "


def _queues(tx: Transaction, ids: Iterable[str]) -> dict[str, tuple[QueueName, int]]:
    """The queue of each task, and when it was posted; pruned tasks are missing."""
    found: dict[str, tuple[QueueName, int]] = {}
    for these, params in among("id", sorted(ids)):
        rows = tx.all(f"SELECT id, project, queue, created_at FROM tasks WHERE id IN ({these})", **params)
        found.update((id_, ((project, queue), created)) for id_, project, queue, created in rows)
    return found


def _before_cancelling(tx: Transaction, rows: list[tuple[Any, ...]]) -> dict[int, str]:
    """The state of each cancelled task before that, by the number of the event; one that nobody cancelled was blocked.

    That is a task that came after another one: the board cancels it by itself.
    """
    found: dict[int, str] = {}
    cancelled = [(number, subject) for _, event, subject, *_, number, by in rows if event == "task.cancelled" and by]
    for table, params in given(("n", "s"), cancelled):
        rows = tx.all(
            f"{table}SELECT n, (SELECT state FROM (SELECT number, state FROM {{log}} WHERE subject = given.s "
            "AND number < given.n ORDER BY number DESC LIMIT :most) AS latest WHERE state IS NOT NULL "
            "ORDER BY number DESC LIMIT 1) FROM given",
            most=LOOKED_BACK,
            **params,
        )
        # What was pruned from the log happened long ago: a claim does not last so long.
        found.update((number, state or "pending") for number, state in rows)
    return found


def _ready(tx: Transaction, project: str | None) -> tuple[dict[QueueName, int], bool]:
    """How many ready tasks each queue has, and whether there were too many to count."""
    counted = _counted(tx, project, "state = 'pending' AND ready_at = 0 AND aside = 0")
    hidden = f"state = 'pending' AND ready_at = 0 AND aside > 0 AND aside <> {WAITS_FOR_PERSON}"
    for name, n in _counted(tx, project, hidden).items():
        counted[name] = counted.get(name, 0) + n
    return counted, sum(counted.values()) >= MOST_READY


def _claimed(tx: Transaction, project: str | None) -> dict[QueueName, int]:
    """How many tasks of each queue are claimed."""
    return _counted(tx, project, "state = 'claimed'")


def _counted(tx: Transaction, project: str | None, where: str) -> dict[QueueName, int]:
    """How many tasks each queue has, up to a limit for all of them."""
    rows = tx.all(
        f"SELECT project, queue, count(*) FROM (SELECT project, queue FROM tasks WHERE {_of(project)}{where} "
        "LIMIT :most) AS counted GROUP BY project, queue",
        project=project,
        most=MOST_READY,
    )
    return {(of, queue): n for of, queue, n in rows}


def _paused(tx: Transaction, project: str | None) -> dict[QueueName, tuple[Any, ...]]:
    """The paused queues: since when, by whom, why."""
    rows = tx.all(
        f"SELECT project, queue, paused_at, paused_by, reason FROM queues WHERE {_of(project)}paused_at > 0",
        project=project,
    )
    return {(of, queue): (at / 1e6, short(by), reason) for of, queue, at, by, reason in rows}


def _limits(tx: Transaction, project: str | None) -> list[dict[str, Any]]:
    """The groups of limits that have something to do: how many tasks may run, do run, and wait."""
    found: dict[QueueName, dict[str, Any]] = {}
    for state in ("claimed", "ready"):
        where = "state = 'claimed'" if state == "claimed" else "state = 'pending' AND ready_at = 0"
        rows = tx.all(
            "SELECT project, limit_group, max(limit_size), count(*) FROM (SELECT project, limit_group, limit_size "
            f"FROM tasks WHERE {_of(project)}{where} AND limit_group IS NOT NULL LIMIT :most) AS limited "
            "GROUP BY project, limit_group",
            project=project,
            most=MOST_READY,
        )
        for of, group, size, n in rows:
            each = found.setdefault((of, group), {"project": of, "group": group, "size": 0, "claimed": 0, "ready": 0})
            each["size"] = max(each["size"], size)
            each[state] = n
    return [found[name] for name in sorted(found)]
