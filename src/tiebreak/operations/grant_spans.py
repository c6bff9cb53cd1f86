"""From events to spans: who had what from when to when, and what happened to others meanwhile.

`Spans` reads events in their order and asks nothing else, so a picture that is drawn from its answer shows what the log
proves. A grant begins a span, and only an event ends it. A lease that ran out ends nothing until its lapse is written
(see `grants`): so the span of an agent that was paused past its lease goes on to the moment of the lapse, and `until`
says when the lease had run out. A write that came too late is a mark, with the epoch that it was made with.

The events of a window may begin in the middle of a grant. Such a span has no beginning (0) until the caller adds it.
"""

from __future__ import annotations

from ..model import Event, row_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    SpanLane = tuple[str, str, int]
    """Project, subject (a task's id or a resource) and slot."""

GRANTS = ("task.claimed", "hold.taken", "hold.transferred")
_RENEWALS = ("task.extended", "hold.renewed", "task.progress")
_ENDS = ("task.completed", "task.failed", "task.retrying", "task.released", "task.expired")
_HOLD_ENDS = ("hold.released", "hold.expired")
_TAKEN_AWAY = ("task.cancelled", "task.broken", "hold.broken", "task.restored", "hold.restored")
_MARKS = {
    "task.refused": "refused",
    "hold.refused": "refused",
    "task.fenced": "fenced",
    "hold.fenced": "fenced",
    "job.orphaned": "fenced",
    "hold.deadlocked": "deadlocked",
}
EVENTS = (*GRANTS, *_RENEWALS, *_ENDS, *_HOLD_ENDS, *_TAKEN_AWAY, *_MARKS)
"""The events that say who had what; all others are of no use here."""

_AT, _AGENT, _UNTIL = (Event.fields.index(each) for each in ("at", "agent", "until"))


class Span:
    """One grant. Times are microseconds of board time; 0 is unknown, and an open span has no `end`.

    `how` it ended is the second half of the event's name: released, completed, failed, retrying, expired, broken,
    cancelled, transferred, restored; `open` while it lasts, and `replaced` if its end is not among the events. In a
    window of the past a grant that is open is over by now, `later`, unless its row says that it is live. `by` is who
    took it away, if the event knows: an agent or a person, which the log does not tell apart.
    """

    __slots__ = ("agent", "begin", "by", "end", "epoch", "how", "kind", "lane", "name", "note", "renewed", "until")

    def __init__(self, lane: SpanLane, name: str, kind: str, agent: str, epoch: int) -> None:
        self.lane, self.name, self.kind, self.agent, self.epoch = lane, name, kind, agent, epoch
        self.begin = self.end = self.until = self.renewed = 0
        self.how, self.note, self.by = "open", "", ""


class Denial:
    """What did not happen: a refusal, a write that came too late (`fenced`), a wait that could never end."""

    __slots__ = ("agent", "at", "epoch", "kind", "lane", "name", "note", "times", "what")

    def __init__(self, what: str, event: Event) -> None:
        self.what, self.lane, self.times = what, _lane(event), event.times
        self.name, self.kind = _name(event), event.kind or ""
        self.at, self.agent = row_of(event)[_AT], row_of(event)[_AGENT] or ""
        self.epoch, self.note = event.epoch, event.note or ""


class Spans:
    """The spans and marks of the events read so far."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.spans: list[Span] = []
        self.marks: list[Denial] = []
        self.open: dict[SpanLane, Span] = {}
        for event in events:
            self.read(event)

    def read(self, event: Event) -> None:
        """Take the next event."""
        what, row = event.event, row_of(event)
        if what in _MARKS:
            self.marks.append(Denial(_MARKS[what], event))
        elif what in GRANTS:
            if before := self.open.pop(_lane(event), None):
                _end(before, row[_AT], "transferred" if what == "hold.transferred" else "replaced")
            span = self._begin(event)
            span.begin, span.until = row[_AT], row[_UNTIL]
        elif what in _RENEWALS:
            span = self._of(event)
            if what != "task.progress":
                span.renewed, span.until = span.renewed + 1, row[_UNTIL]
        elif what in (*_ENDS, *_HOLD_ENDS):
            if event.epoch and event.kind != "question":  # a question is answered, nobody had it
                _end(self._of(event), row[_AT], what.partition(".")[2], event.note)
                self.open.pop(_lane(event), None)
        elif what in _TAKEN_AWAY:
            self._take_away(event, row[_AT])

    def go_on(self, events: Iterable[Event]) -> None:
        """Read on after a window of the past: how its grants ended. Marks after it are not of the window."""
        marks = list(self.marks)
        for event in events:
            self.read(event)
        self.marks = marks
        for span in self.open.values():
            span.how = "later"

    def _take_away(self, event: Event, at: int) -> None:
        """Somebody else than the holder ended the grant, if there was one: only of a break it is certain."""
        span = self.open.pop(_lane(event), None)
        if span is None and event.event.endswith(".broken"):
            span = self._begin(event)
            span.agent = ""  # the event names who broke it
            del self.open[span.lane]
        if span is not None:
            _end(span, at, event.event.partition(".")[2], event.note)
            span.by = row_of(event)[_AGENT] or ""

    def _of(self, event: Event) -> Span:
        """The span of the grant that an event is about. If its beginning was not read, it is made here."""
        span = self.open.get(_lane(event))
        if span is not None and span.epoch != event.epoch:
            _end(span, row_of(event)[_AT], "replaced")
            span = None
        return span or self._begin(event)

    def _begin(self, event: Event) -> Span:
        span = Span(_lane(event), _name(event), event.kind or "", row_of(event)[_AGENT] or "", event.epoch)
        self.spans.append(span)
        self.open[span.lane] = span
        return span


def _end(span: Span, at: int, how: str, note: str | None = None) -> None:
    span.end, span.how, span.note = at, how, note or ""


def _lane(event: Event) -> SpanLane:
    slot = (event.data or {}).get("slot", 0) if event.kind == "pool" else 0
    return event.project, event.subject or "", int(slot)


def _name(event: Event) -> str:
    """What to call it. A refused hold is about the hold that was in the way, not about the name that was asked for."""
    return (event.subject if event.event.startswith("hold.") else event.name) or ""
