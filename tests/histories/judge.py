"""What must hold after a history, by the log, the diaries and the board; all broken rules are reported at once."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.log.checker import ENDS, GRANTS, LAPSES, TAKEN_AWAY, Broken, Log, check, read
from tiebreak import Board, Event, NotFound
from tiebreak.model import holder_id, row_of
from tiebreak.operations.session_fence import SEAT

from .diary import GRANTED, KEPT, REFUSED, UNKNOWN, Entry
from .lives import BELL_LOCK, KEYS, LIMIT, LIMITED

PROMPT = 5.0
"""Seconds within which whoever waits has noticed a change, on a busy machine."""
_AGENT = Event.fields.index("agent")
Rule = Callable[["History"], None]


class Trouble(NamedTuple):
    """Something that was done to the processes or their servers, from when to when."""

    what: str
    begin: float
    end: float


class History(NamedTuple):
    """All that is known of a history."""

    events: Sequence[Event]
    """Read while they happened: some of them are pruned by now."""
    diary: Sequence[Entry]
    """In the order of `end`."""
    troubles: Sequence[Trouble]
    slack: float
    """Seconds that a slow line may hold somebody else's transaction, and thereby everybody, beyond `PROMPT`."""
    board: Board


def judge(history: History) -> None:
    """Hold everything against everything; raises `Broken` with all that was found."""
    found = []
    for rule in RULES:
        try:
            rule(history)
        except Broken as exc:
            found.append(f"{rule.__name__}: {exc}")
    if found:
        raise Broken("\n".join(found))


def the_log_is_sound(history: History) -> None:
    """One holder at a time, epochs without a gap, no stale write; by the log alone."""
    _, found = read_on(history.events)
    if found:
        more = f" (and {len(found) - 1} more, some of which may follow from it)" if len(found) > 1 else ""
        raise Broken(f"{found[0]}{more}")


def what_pruning_has_left_is_sound(history: History) -> None:
    """The log that is still on the board tells the same, without its beginning."""
    check(read(history.board))


def keys_go_on_counting(history: History) -> None:
    """The epochs of a key are 1, 2, 3 … over all of its tasks, pruned ones among them. (Here a key is its name.)"""
    last: dict[str, Event] = {}
    for event in history.events:
        if event.event == "task.claimed" and event.name in KEYS:
            before = last.get(event.name)
            if event.epoch != (before.epoch if before else 0) + 1:
                raise Broken(f"{event.name}: epoch {event.epoch} by event {event.number} follows {before}")
            last[event.name] = event


def limits_hold(history: History) -> None:
    """Of the limited jobs never more are claimed than the limit says."""
    claimed: dict[str, int] = {}
    for event in history.events:
        if event.name == LIMITED and event.subject:
            if event.event in GRANTS:
                claimed[event.subject] = event.number
            elif event.event in ENDS | LAPSES | TAKEN_AWAY:
                claimed.pop(event.subject, None)
            if len(claimed) > LIMIT:
                raise Broken(f"{len(claimed)} limited jobs at once, by the events {sorted(claimed.values())}")


def nothing_is_issued_twice(history: History) -> None:
    """No two diaries have the same epoch of the same thing."""
    seen: dict[tuple[str, int, int], Entry] = {}
    for entry in history.diary:
        if entry.what == GRANTED:
            before = seen.setdefault((*entry.thing, entry.epoch), entry)
            if before is not entry:
                raise Broken(f"acknowledged twice: {before} and {entry}")


def nothing_acknowledged_is_lost(history: History) -> None:
    """Every answer in a diary is in the log."""
    told = {_sign(event) for event in history.events}
    posted = {event.subject for event in history.events if event.event == "task.posted"}
    for entry in history.diary:
        if entry.what in (KEPT, REFUSED, UNKNOWN, "message.sent"):
            continue
        there = (entry.what, *entry.thing, entry.epoch, entry.agent) in told
        if not (entry.subject in posted if entry.what == "task.posted" else there):
            raise Broken(f"acknowledged and lost: {entry}")


def nobody_writes_with_an_old_epoch(history: History) -> None:
    """Whoever asked after somebody else's later epoch was acknowledged got no answer but a refusal."""
    ends: dict[tuple[str, int], list[float]] = defaultdict(list)
    highest: dict[tuple[str, int], list[Entry]] = defaultdict(list)
    for entry in history.diary:
        if not entry.epoch:
            continue
        answered = bisect_left(ends[entry.thing], entry.begin)
        before = highest[entry.thing][answered - 1] if answered else None
        if before and (entry.epoch < before.epoch or (entry.what == GRANTED and entry.epoch == before.epoch)):
            raise Broken(f"{entry} was acknowledged after {before}")
        best = highest[entry.thing][-1] if highest[entry.thing] else entry
        ends[entry.thing].append(entry.end)
        highest[entry.thing].append(entry if entry.epoch >= best.epoch else best)


def no_message_of_a_replaced_coordinator(history: History) -> None:
    """Once its seat was handed over, nothing that a session says is taken down."""
    holder, replaced = "", {}
    for event in history.events:
        if event.subject == SEAT and event.event in GRANTS:
            heir = row_of(event)[_AGENT]
            if event.event == "hold.transferred":
                replaced[holder] = event.number
            replaced.pop(heir, None)
            holder = heir
        elif event.event == "message.sent" and (by := replaced.get(row_of(event)[_AGENT])):
            raise Broken(f"event {event.number} is a message of {event.agent}, who was replaced by event {by}")


def the_board_agrees(history: History) -> None:
    """What the log leaves open is on the board, at the epoch of its last grant; what has ended may have been pruned."""
    log, _ = read_on(history.events)
    last = {event.subject: event for event in history.events}
    for hold in history.board.holds.list(project=None):
        thing = log.things[hold.project, hold.resource, hold.slot]
        if (holder_id(hold), hold.epoch) != (thing.holder, thing.epoch):
            raise Broken(f"by the log {thing.grant}, on the board it is {hold}")
    for (_, subject, _), thing in log.things.items():
        if ":" in subject:
            continue
        try:
            task = history.board.tasks.get(ref=subject)
        except NotFound:
            if not thing.ended:
                end = f"its last event is {last[subject].number}, {last[subject].event}"
                raise Broken(f"{subject} is gone from the board, but by the log it is open: {end}") from None
            continue
        if thing.epoch is not None and task.epoch != thing.epoch:
            raise Broken(f"{subject} stands at epoch {task.epoch}, by the log at {thing.epoch}")
        if thing.ended and task.state != thing.ended:
            raise Broken(f"{subject} is {task.state}, by the log {thing.ended}")
        if task.state == "claimed" and holder_id(task) != thing.holder:
            raise Broken(f"{subject} is claimed by {holder_id(task)}, by the log {thing.grant}")


def read_on(events: Sequence[Event]) -> tuple[Log, list[str]]:
    """What the log tells, and all in it that cannot be true."""
    log, found = Log(), []
    for event in events:
        try:
            log.read(event)
        except Broken as exc:
            found.append(str(exc))
    return log, found


def nothing_is_blocked_for_ever(history: History) -> None:
    """A task that is blocked comes after one that has not ended."""
    before = None
    while found := history.board.tasks.list(states=["blocked"], limit=100, before=before):
        before = found[-1].number
        for task in found:
            after = history.board.tasks.after(ref=task.id)
            if all(each.state == "completed" for each in after):
                raise Broken(f"#{task.number} is blocked, but all {len(after)} that it comes after are completed")


# ── Waiters ──────────────────────────────────────────────────────────────────────────────────────────


def nobody_sleeps_through_a_task(history: History) -> None:
    """A task that is posted while somebody waits for one is won soon."""
    won = {entry.subject: entry for entry in reversed(history.diary) if entry.what == GRANTED}
    granted = {event.subject for event in history.events if event.event in GRANTS}
    for entry in history.diary:
        if entry.what == "task.posted" and entry.agent == "ringer~1":
            first = won.get(entry.subject)
            if first is None and entry.subject not in granted:
                raise Broken(f"nobody ever won {entry}")
            if first is not None and first.epoch == 1:
                _in_time(history, entry.end, first)


def nobody_sleeps_through_a_release(history: History) -> None:
    """A lock that is given back while somebody waits for it is won soon."""
    won = {entry.epoch: entry for entry in history.diary if entry.what == GRANTED and entry.subject == BELL_LOCK}
    for entry in history.diary:
        if entry.what == "hold.released" and entry.subject == BELL_LOCK and entry.epoch + 1 in won:
            following = won[entry.epoch + 1]
            _in_time(history, max(entry.end, following.begin), following)


def _in_time(history: History, since: float, won: Entry) -> None:
    late = won.end - since - disturbed(history.troubles, since, won.end)
    if late > PROMPT + history.slack:
        raise Broken(f"{late:.1f} s after it was there: {won}")


def disturbed(troubles: Sequence[Trouble], begin: float, end: float) -> float:
    """For how long of this time something was done to somebody."""
    spent, until = 0.0, begin
    for trouble in sorted(troubles, key=lambda trouble: trouble.begin):
        low, high = max(trouble.begin, until), min(trouble.end, end)
        if high > low:
            spent, until = spent + high - low, high
    return spent


def _sign(event: Event) -> tuple[str, str, int, int, str]:
    what = GRANTED if event.event in GRANTS else event.event
    slot = (event.data or {}).get("slot", 0) if event.event.startswith("hold.") else 0
    return what, event.subject or "", slot, event.epoch, row_of(event)[_AGENT] or ""


RULES: list[Rule] = [
    the_log_is_sound,
    what_pruning_has_left_is_sound,
    keys_go_on_counting,
    limits_hold,
    nothing_is_issued_twice,
    nothing_acknowledged_is_lost,
    nobody_writes_with_an_old_epoch,
    no_message_of_a_replaced_coordinator,
    the_board_agrees,
    nothing_is_blocked_for_ever,
    nobody_sleeps_through_a_task,
    nobody_sleeps_through_a_release,
]
