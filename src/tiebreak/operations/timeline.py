"""The timeline: who held what when, in a window of the log, for pictures. This module only reads.

`grant_spans` makes spans of the events of the window. Three things are added that the window cannot tell: when a grant
began that was made before it (one look into the index of grants), the grants that are live now and had no event in the
window, and for a window of the past how its grants ended after it (one more window is read, forward). Everything is
bounded, whatever the size of the board: the number of events, how far they are looked for, and the number of live
grants.
"""

from __future__ import annotations

from ..limits import MAX_LIMIT
from ..model import Event, record
from ..names import short
from . import operation
from .events import COLUMNS, last
from .grant_spans import EVENTS, GRANTS, Denial, Span, Spans
from .rows import among, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import Json, Limit, Note, Number, Project
    from . import Transaction

SCANNED = 20_000
"""How far events are looked for: on a board of many projects, one of them may have had none for long."""
_WANTED = ", ".join(f"'{event}'" for event in EVENTS)
_GRANTED = ", ".join(f"'{event}'" for event in GRANTS)


@operation("events.timeline", writes=False, strangers=True, reads_log=True)
def timeline(
    tx: Transaction,
    *,
    project: Project | None = "",
    subject: Note | None = None,
    before: Number | None = None,
    limit: Limit = MAX_LIMIT,
) -> Json:
    """Return who held what when, made from the newest events, or from the newest ones before a number.

    `lanes` are the tasks and resources, a slot of a pool each: `{project, subject, slot, name, kind, number}`. `spans`
    are the grants: `{lane, agent, epoch, from, to, until, how, by, renewed, note}`, where `how` it ended is `released`,
    `completed`, `failed`, `retrying`, `expired`, `broken`, `cancelled`, `transferred`, `restored` or `replaced`; it is
    `open` while it lasts, `lapsed` if the lease has run out and nobody has written that yet, and `later` if it ended
    too long after the window to be looked for. `by` is who broke, cancelled or restored it, "" if nobody or unknown.
    `marks` are what did not happen: `{lane, at, what, agent, epoch, times, note}`, where `what` is `refused`, `fenced`
    or `deadlocked`. Times are Unix seconds; 0 is unknown. The window is over at `end`. `older` is the `before` of the
    next window back, None if there is none.

    `subject` selects one task (its id) or one resource. A window `before` a number does not show a grant that began
    before it and ended long after it.
    """
    newest = last(tx)
    after = newest + 1 if before is None else min(before, newest + 1)
    chosen = {"project": project, "subject": subject}
    reach = newest if subject is not None else SCANNED  # the events of one subject have an index
    floor = max(0, after - 1 - reach)
    events = _read(tx, chosen, floor, after, limit, "DESC")[::-1]
    older = events[0].number if len(events) == limit else floor + 1 if floor else None
    made, end, past = Spans(events), tx.now, after <= newest
    if past:
        times = tx.all("SELECT at FROM {log} WHERE number < :after ORDER BY number DESC LIMIT 1", after=after)
        end = times[0][0] if times else 0
        made.go_on(_read(tx, chosen, after - 1, min(after + reach, newest + 1), limit, "ASC"))
    for span in _live(tx, project, subject):
        _add_live(made, span, tx.now)
    if not past:
        for lane in {span.lane for span in made.spans}:
            made.marks += _pending(tx, lane, project)
    _find_beginnings(tx, made.spans)
    if past:
        made.spans = [span for span in made.spans if span.begin <= end]
    return {"now": tx.now / 1e6, "end": end / 1e6, "older": older, "newest": newest, **_shown(tx, made)}


def _read(tx: Transaction, chosen: dict[str, str | None], floor: int, end: int, limit: int, order: str) -> list[Event]:
    """The first or the last events between two numbers, both excluded, that say who had what."""
    where = [f"{column} = :{column}" for column, value in chosen.items() if value is not None]
    where += ["number > :floor", "number < :end", "number <= {settled}", f"event IN ({_WANTED})"]
    rows = tx.all(
        f"SELECT {COLUMNS} FROM {{log}} WHERE {' AND '.join(where)} ORDER BY number {order} LIMIT :limit",
        floor=floor,
        end=end,
        limit=limit,
        **chosen,
    )
    return [record(Event, row) for row in rows]


def _live(tx: Transaction, project: str | None, subject: str | None) -> list[Span]:
    """The live grants of holds and tasks, as open spans."""
    chosen = "" if project is None else "project = :project AND "
    this = "" if subject is None else "resource = :subject AND "
    holds = tx.all(
        "SELECT project, resource, slot, resource, holder, epoch, taken_at, until FROM holds "
        f"WHERE {chosen}{this}holder IS NOT NULL LIMIT :limit",
        project=project,
        subject=subject,
        limit=MAX_LIMIT,
    )
    this = "" if subject is None else "id = :subject AND "
    tasks = tx.all(
        "SELECT project, id, 0, name, holder, epoch, claimed_at, until, kind FROM tasks "
        f"WHERE {chosen}{this}state = 'claimed' LIMIT :limit",
        project=project,
        subject=subject,
        limit=MAX_LIMIT,
    )
    out = []
    for row in [*((*hold, hold[1].partition(":")[0]) for hold in holds), *tasks]:
        span = Span((row[0], row[1], row[2]), row[3], row[8], row[4], row[5])
        span.begin, span.until = row[6], row[7]
        out.append(span)
    return out


def _add_live(made: Spans, live: Span, now: int) -> None:
    """Put what a live row says into its span: how long the lease lasts, which renewals without an event may have moved.

    On a server, the row may be newer than the last event that can be read: then the next window tells.
    """
    span = made.open.get(live.lane)
    if span is None:
        made.spans.append(live)
        span = made.open[live.lane] = live
    if span.epoch == live.epoch:
        span.begin, span.until = span.begin or live.begin, live.until
        span.how = "lapsed" if live.until <= now else "open"


def _pending(tx: Transaction, lane: tuple[str, str, int], project: str | None) -> list[Denial]:
    """The refusals that wait to be written to the log (see `events`)."""
    events = [record(Event, row) for row in tx.refusals(lane[1])]
    made = Spans(event for event in events if event.project == (project or event.project))
    return [mark for mark in made.marks if mark.lane == lane]


def _find_beginnings(tx: Transaction, spans: list[Span]) -> None:
    """Add the beginnings of grants that were made before the window, unless they were pruned.

    Not for pools: the index of grants knows no slots, and a pool may have thousands with the same epoch.
    """
    missing = [span for span in spans if not span.begin]
    wanted = {(*span.lane[:2], span.epoch): span for span in missing if span.lane[1][:5] != "pool:"}
    for table, params in given(("p", "s", "e"), list(wanted)):
        rows = tx.all(
            f"{table}SELECT project, subject, epoch, at, agent FROM given JOIN {{log}} AS granted "
            "ON granted.project = given.p AND granted.subject = given.s AND granted.epoch = given.e "
            f"WHERE event IN ({_GRANTED})",
            **params,
        )
        for project, subject, epoch, at, agent in rows:
            span = wanted[project, subject, epoch]
            span.begin, span.agent = at, span.agent or agent


def _shown(tx: Transaction, made: Spans) -> dict[str, Any]:
    """Lanes, spans and marks as the answer has them."""
    things: dict[tuple[str, str, int], tuple[str, str]] = {}
    for span in made.spans:
        things.setdefault(span.lane, (span.name, span.kind))
    for mark in made.marks:
        things.setdefault(mark.lane, (mark.name, mark.kind))
    lanes = {lane: at for at, lane in enumerate(sorted(things))}
    numbers = _numbers(tx, [lane[1] for lane in lanes if ":" not in lane[1]])
    return {
        "lanes": [
            dict(zip(("project", "subject", "slot"), lane, strict=True))
            | {"name": things[lane][0], "kind": things[lane][1], "number": numbers.get(lane[1], 0)}
            for lane in lanes
        ],
        "spans": [
            {
                "lane": lanes[span.lane],
                "agent": short(span.agent),
                "epoch": span.epoch,
                "from": span.begin / 1e6,
                "to": span.end / 1e6,
                "until": span.until / 1e6,
                "how": span.how,
                "by": short(span.by),
                "renewed": span.renewed,
                "note": span.note,
            }
            for span in sorted(made.spans, key=lambda span: (span.begin, span.epoch))
        ],
        "marks": [
            {
                "lane": lanes[mark.lane],
                "at": mark.at / 1e6,
                "what": mark.what,
                "agent": short(mark.agent),
                "epoch": mark.epoch,
                "times": mark.times,
                "note": mark.note,
            }
            for mark in sorted(made.marks, key=lambda mark: mark.at)
        ],
    }


def _numbers(tx: Transaction, ids: list[str]) -> dict[str, int]:
    """The numbers of tasks, by their ids; pruned tasks have none."""
    found: dict[str, int] = {}
    for these, params in among("id", ids):
        found.update(tx.all(f"SELECT id, number FROM tasks WHERE id IN ({these})", **params))
    return found
