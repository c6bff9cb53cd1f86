"""The proof: what the log and the tasks of a board say, whatever the script of the demonstration intended.

Each check reads the events in their order. A grant opens when a task is claimed or a resource is taken. Only an event
closes it. So the log says who had each thing at every moment, and every check below can fail.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ..names import ANNOUNCEMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..model import Event, Task

_CLAIMED = ("task.claimed", "hold.taken")
_BY_HOLDER = ("task.completed", "task.failed", "task.retrying", "task.released", "task.extended", "hold.released")
_CLOSES = ("task.completed", "task.failed", "task.retrying", "task.released", "task.expired", "task.broken")
_CLOSES_HOLD = ("hold.released", "hold.expired", "hold.broken")
_REFUSED = ("task.refused", "hold.refused")
_FENCED = ("task.fenced", "hold.fenced")


class ProofLine(NamedTuple):
    """One line of the proof: what was counted, what is wanted, and whether it holds."""

    name: str
    found: str
    wanted: str
    holds: bool


class Proof(NamedTuple):
    """All checks. The demonstration has proved its point if all of them hold."""

    checks: list[ProofLine]

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(each.holds for each in self.checks)


class _Grants:
    """Who had what: read from the events, with everything that must not happen counted."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.open: dict[str, tuple[str, int]] = {}
        self.epochs: dict[str, int] = {}
        self.two_holders = self.gaps = self.late = self.grants = self.taken_over = 0
        self._last: dict[str, str] = {}
        for event in events:
            self._read(event)

    def _read(self, event: Event) -> None:
        thing = f"{event.project} {event.subject}"
        if event.event in _CLAIMED:
            self._opened(thing, event)
        elif event.event in _BY_HOLDER and event.kind != "question":
            # What a holder writes counts only by the grant that is open at that moment.
            self.late += self.open.get(thing) != (event.agent or "", event.epoch)
        if event.event in (*_CLOSES, *_CLOSES_HOLD):
            self.open.pop(thing, None)

    def _opened(self, thing: str, event: Event) -> None:
        self.grants += 1
        self.two_holders += thing in self.open
        self.gaps += event.epoch != self.epochs.get(thing, 0) + 1
        self.epochs[thing] = event.epoch
        who = event.agent or ""
        self.taken_over += event.event == "task.claimed" and self._last.get(thing, who) != who
        self._last[thing] = who
        self.open[thing] = (who, event.epoch)


def prove(events: Sequence[Event], tasks: Sequence[Task]) -> Proof:
    """Prove from all events and all tasks of a board that nothing was won twice, lost or written too late."""
    posted = {event.subject for event in events if event.event == "task.posted" and event.kind not in ANNOUNCEMENTS}
    ended = [event.subject for event in events if event.event == "task.completed"]
    completed = {task.id for task in tasks if task.state == "completed"}
    times = {id_: ended.count(id_) for id_ in posted}
    grants = _Grants(events)
    gaps = sum(later.number != earlier.number + 1 for earlier, later in pairwise(events))
    whole = bool(events) and events[0].number == 1
    recovered = {event.subject for event in events if event.event == "task.retrying"} & completed
    refused, fenced = _times(events, _REFUSED), _times(events, _FENCED)
    return Proof(
        [
            ProofLine("events in the log, without a gap", str(len(events)), "1, 2, 3, …", whole and not gaps),
            ProofLine("tasks posted", str(len(posted)), "at least 1", bool(posted)),
            ProofLine("tasks completed", str(len(posted & completed)), str(len(posted)), posted <= completed),
            ProofLine("tasks lost", str(len(posted - {task.id for task in tasks})), "0", _all_there(posted, tasks)),
            ProofLine("winners of each task", _range(times.values()), "1", set(times.values()) == {1}),
            ProofLine(
                "grants with two holders at once",
                f"{grants.two_holders} of {grants.grants}",
                "0",
                grants.two_holders == 0,
            ),
            ProofLine("gaps in the epochs", str(grants.gaps), "0", grants.gaps == 0),
            ProofLine("refused claims", str(refused), "at least 1", refused > 0),
            ProofLine(
                "tasks that another agent took over", str(grants.taken_over), "at least 1", grants.taken_over > 0
            ),
            ProofLine("jobs that failed and recovered", str(len(recovered)), "at least 1", bool(recovered)),
            ProofLine("late writes refused by the fence", str(fenced), "at least 1", fenced > 0),
            ProofLine("late writes accepted", str(grants.late), "0", grants.late == 0),
        ]
    )


def _times(events: Iterable[Event], names: tuple[str, ...]) -> int:
    return sum(event.times for event in events if event.event in names)


def _all_there(posted: set[str | None], tasks: Iterable[Task]) -> bool:
    return posted <= {task.id for task in tasks}


def _range(counts: Iterable[int]) -> str:
    found = sorted(set(counts)) or [0]
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
