"""The judges: each takes what happened, as logs, and raises `Broken` when a promise was broken.

They know nothing of how the logs came about, so the same judges sit over sound boards and over boards with
a bug planted on purpose (`test_planted_bugs`), where they have to find it.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tiebreak
from tests.log.checker import ENDS, GRANTS, LAPSES, RENEWALS, TAKEN_AWAY, Broken, check
from tests.log.checker import read as read_log
from tiebreak import Board, Event

__all__ = ["Broken", "read_log"]


class Grant(NamedTuple):
    """What a worker was granted: a task's id or a resource, a slot, an epoch, and to whom."""

    subject: str
    slot: int
    epoch: int
    agent: str


# ── Counting ─────────────────────────────────────────────────────────────────────────────────────────


def finds(found: str, look: Callable[[int], None], rounds: int = 30) -> None:
    """A planted bug shows by chance: of so many looks at it, one condemns it, and for the right reason."""
    for number in range(rounds):
        try:
            look(number)
        except Broken as exc:
            reason = str(exc)
            break
    else:
        raise AssertionError(f"not found in {rounds} rounds: {found}")
    assert re.search(found, reason), reason


def one_winner_each(wins: Iterable[tuple[Any, str]], things: Iterable[Any]) -> None:
    """Each thing was won exactly once: no double win, nothing left over."""
    winners = defaultdict(list)
    for thing, agent in wins:
        winners[thing].append(agent)
    for thing, agents in winners.items():
        if len(agents) != 1:
            raise Broken(f"{thing} was won {len(agents)} times: {sorted(agents)}")
    if missed := set(things) - set(winners):
        raise Broken(f"{len(missed)} were won by nobody, {sorted(missed)[0]} among them")


def epochs_count_grants(grants: Iterable[Grant], final: Mapping[tuple[str, int], int] | None = None) -> None:
    """The epochs handed out for each resource are 1, 2, 3 … n, and the board stands at n."""
    issued: dict[tuple[str, int], list[int]] = defaultdict(list)
    for grant in grants:
        issued[grant.subject, grant.slot].append(grant.epoch)
    for thing, epochs in issued.items():
        epochs.sort()
        if len(set(epochs)) < len(epochs):
            twice = [epoch for epoch, times in Counter(epochs).items() if times > 1]
            raise Broken(f"{thing}: epoch {twice[0]} was issued more than once")
        if epochs != list(range(1, len(epochs) + 1)):
            missing = sorted(set(range(1, epochs[-1] + 1)) - set(epochs))
            raise Broken(f"{thing}: epochs up to {epochs[-1]} have a gap at {missing[:3]}")
        if final is not None and final[thing] != len(epochs):
            raise Broken(f"{thing}: {len(epochs)} grants, but the board stands at epoch {final[thing]}")


def nothing_issued_twice(grants: Iterable[Grant]) -> None:
    """No epoch of a resource went to two grants; gaps are allowed, where an answer was lost in a crash."""
    for (subject, slot, epoch), times in Counter(grant[:3] for grant in grants).items():
        if times > 1:
            raise Broken(f"{subject} slot {slot}: epoch {epoch} was issued {times} times")


# ── The log ──────────────────────────────────────────────────────────────────────────────────────────


def numbered(events: Iterable[Event], address: str) -> None:
    """As the engine promises it: without a gap and along time where one writer at a time writes, else upwards."""
    if address.startswith("postgresql:"):
        numbered_upwards(events)
    else:
        numbered_without_gap(events)


def numbered_upwards(events: Iterable[Event]) -> None:
    """No number comes twice or too late; one whose transaction was undone is missing."""
    last = 0
    for event in events:
        if event.number <= last:
            raise Broken(f"event {event.number} comes after {last}")
        last = event.number


def numbered_without_gap(events: Iterable[Event]) -> None:
    """Events are numbered 1, 2, 3 …, and time does not run backwards along them."""
    at = 0.0
    for number, event in enumerate(events, start=1):
        if event.number != number:
            raise Broken(f"event {number} is missing, {event.number} comes instead")
        if event.event.endswith((".refused", ".fenced")):
            continue  # a refusal is written down later than it happened
        if event.at < at:
            raise Broken(f"event {number} happened before the one it follows")
        at = event.at


def grants_in(events: Iterable[Event]) -> list[Grant]:
    """The grants that the log tells of."""
    return [Grant(*_thing(event), event.epoch, event.agent or "") for event in events if event.event in GRANTS]


def log_agrees(events: Iterable[Event], grants: Iterable[Grant]) -> None:
    """What workers were granted and what the log tells are the same, one for one."""
    told, given = Counter(grants_in(events)), Counter(grants)
    if missing := given - told:
        raise Broken(f"granted, but not in the log: {next(iter(missing))}")
    if more := told - given:
        raise Broken(f"in the log, but granted to nobody: {next(iter(more))}")


def log_has(events: Iterable[Event], grants: Iterable[Grant]) -> None:
    """Every grant that a worker was told of is in the log; there may be more, whose answer was lost."""
    if missing := Counter(grants) - Counter(grants_in(events)):
        raise Broken(f"granted, but not in the log: {next(iter(missing))}")


def writes_in(events: Iterable[Event]) -> Counter[tuple[str, Grant]]:
    """The writes by holders that the log tells of."""
    return Counter(
        (event.event, Grant(*_thing(event), event.epoch, event.agent or ""))
        for event in events
        if event.event in RENEWALS | ENDS
    )


def writes_fenced(events: Iterable[Event], accepted: Iterable[tuple[str, Grant]]) -> None:
    """Every write that a holder got through was made under the very epoch that the holder had."""
    if stray := Counter(accepted) - writes_in(events):
        raise Broken(f"accepted under an epoch that was not current: {next(iter(stray))}")


def one_holder_at_a_time(events: Iterable[Event]) -> None:
    """Replay the log: a grant finds its thing free, a write finds its writer the holder, no lapse comes early."""
    events = list(events)
    check(events)
    no_lapse_comes_early(events)


def no_lapse_comes_early(events: Iterable[Event]) -> None:
    """A grant lapses no earlier than the log says; not for boards where a heartbeat without an event shortens it."""
    until: dict[tuple[str, str, int], int] = {}
    for event in events:
        thing = (event.project, *_thing(event))
        if event.event in GRANTS | RENEWALS and event.until:
            until[thing] = _micros(event.until)
        elif event.event in LAPSES and _ran_out(event) and _micros(event.at) < until.get(thing, 0):
            raise Broken(f"{thing}: {event.agent} is said to have run out too early, event {event.number}")


def _ran_out(event: Event) -> bool:
    """And was not given up because its process is dead, which needs no lapse."""
    return event.note is None or event.note.startswith("the lease of attempt ")


def never_more_than(events: Sequence[Event], resource: str, slots: int) -> int:
    """Replay a pool's log: at no moment more slots taken than there are. Answers how many there were at most."""
    taken: set[int] = set()
    most = 0
    for event in events:
        if event.subject != resource:
            continue
        _, slot = _thing(event)
        if event.event in GRANTS:
            taken.add(slot)
        elif event.event in ENDS | TAKEN_AWAY | LAPSES:
            taken.discard(slot)
        most = max(most, len(taken))
    if most > slots:
        raise Broken(f"{resource}: {most} holders of {slots} slots at once")
    one_holder_at_a_time(events)
    return most


def all_or_nothing(snapshots: Iterable[Iterable[tuple[str, str]]], size: int) -> None:
    """Whenever somebody looked, one agent had all of the resources or nobody had any."""
    for snapshot in map(list, snapshots):
        if snapshot and (len(snapshot) != size or len({holder for _, holder in snapshot}) != 1):
            raise Broken(f"half-taken: {snapshot}")


# ── The board ────────────────────────────────────────────────────────────────────────────────────────


def sound(board: Board) -> None:
    """The engine finds nothing wrong with itself."""
    if bad := [line for line in board.engine.diagnose() if line[0] == "bad"]:
        raise Broken(f"the board is damaged: {bad}")


def epochs_on(board: Board, things: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Where the board stands with each task and resource; a resource is asked by taking it once more."""
    things = sorted(things)
    tasks = [thing for thing in things if ":" not in thing[0]]
    resources = [thing for thing in things if ":" in thing[0]]
    for resource, slot in resources:
        with contextlib.suppress(tiebreak.NotFound):
            board.call("holds.break", {"resource": resource, "slot": slot, "reason": "the race is over"})
    out = {task: board.tasks.get(ref=task[0]).epoch for task in tasks}
    for resource, slot in resources:
        hold = board.holds.take(resources=[resource])[0]
        if hold.slot != slot:  # a pool gives its lowest free slot, so keeping each visits them in order
            raise Broken(f"{resource}: slot {hold.slot} was free before slot {slot}")
        out[resource, slot] = hold.epoch - 1
        if not resource.startswith("pool:"):
            board.holds.release(resources=[resource])
    return out


def _thing(event: Event) -> tuple[str, int]:
    return event.subject or "", (event.data or {}).get("slot", 0)


def _micros(seconds: float | None) -> int:
    return round((seconds or 0.0) * 1_000_000)
