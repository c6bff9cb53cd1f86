"""The judge of a log: proves from the events of a board alone that nothing ever had two holders.

It asks no clock and no other table. A grant opens, and only an event closes it: so the events of one thing, read in
their order, say who had it at every moment, and the rules below say what may follow what.

- A grant finds the one before it closed, and its epoch is one higher. A transfer closes and opens in one step.
- A write of a holder, and a lapse, name the holder and the epoch of the open grant. A lease that ran out ends nothing
  until its lapse is written. (That a lapse is not written too early is a matter of clocks, and not judged here.)
- What is completed stays completed; what failed or was cancelled can only be reopened.
- Two open grants of overlapping file patterns belong to one holder.
- After a grant no more slots of a pool are open than it has; those left over from before it shrank count too.
- A schedule's epochs count its instants, and no instant is fired twice.
- A restored backup may change the state of a thing and raise its epoch, which an event of that thing tells; it never
  lowers the epoch, and nobody has the thing then.

A log whose beginning was pruned away does not say how things stood there, so the first grant of each thing is believed.
A task may go on with the epochs of its key, when an older task of that key was pruned or is a job that gave the key up.
Events do not carry keys, so the first epoch of a job, and of any task once something was pruned, is believed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from tiebreak import Board, Event
from tiebreak.globs import overlap
from tiebreak.held_files import parts
from tiebreak.model import row_of
from tiebreak.names import short

GRANTS = {"task.claimed", "hold.taken", "hold.transferred"}
RENEWALS = {"task.extended", "task.progress", "hold.renewed"}
ENDS = {"task.completed", "task.failed", "task.retrying", "task.released", "hold.released"}
LAPSES = {"task.expired", "hold.expired"}
TAKEN_AWAY = {"task.cancelled", "task.broken", "hold.broken"}
UNHELD = {"task.ready", "task.linked", "task.reopened"}
"""What happens to a task only while nobody has it."""
REMARKS = {
    *("task.refused", "task.fenced", "task.edited", "job.orphaned"),
    *("hold.refused", "hold.fenced", "hold.queued", "hold.unqueued", "hold.deadlocked"),
}
"""What changes no grant and no state; a refusal may also come later than what it speaks of."""
SCHEDULES = {f"schedule.{what}" for what in ("added", "changed", "paused", "resumed", "removed", "skipped", "fired")}
RESTORED = {"task.restored", "hold.restored", "schedule.restored"}
"""A backup was restored: how the thing is from then on."""
KNOWN = GRANTS | RENEWALS | ENDS | LAPSES | TAKEN_AWAY | UNHELD | REMARKS | SCHEDULES | RESTORED | {"task.posted"}

_AGENT = Event.fields.index("agent")


class Broken(AssertionError):
    """A promise of the board does not hold."""


class Thing:
    """A task, or one slot of a resource: its last epoch, who has it by which event, and how it ended."""

    def __init__(self, epoch: int | None) -> None:
        self.epoch = epoch
        """None while the log has not told it yet."""
        self.holder: str | None = None
        self.since = 0
        self.ended: str | None = None

    @property
    def grant(self) -> str:
        """Who has it, in words."""
        return (
            f"{self.holder} had it at epoch {self.epoch} since event {self.since}" if self.holder else "nobody had it"
        )


Place = tuple[str, str, int]
"""Project, subject and slot."""


class Log:
    """What the events read so far have told; `read` raises `Broken` at the first one that cannot be true."""

    def __init__(self) -> None:
        self.last = 0
        self.whole = True
        """Whether the log begins with the first event."""
        self.pruned = False
        self.grants = 0
        self.things: dict[Place, Thing] = {}
        self._files: dict[str, dict[str, Thing]] = {}
        self._pools: dict[tuple[str, str], dict[int, Thing]] = {}
        self._fired: dict[Place, set[str]] = {}

    def read(self, event: Event) -> None:
        """Take the next event."""
        if event.number <= self.last:
            raise Broken(f"event {event.number} comes after event {self.last}")
        if not self.last:
            self.whole = event.number == 1
        self.last = event.number
        self.pruned = self.pruned or event.event == "board.pruned"
        if event.event.startswith(("task.", "hold.", "job.", "schedule.")):
            self._judge(event)

    def _judge(self, event: Event) -> None:
        what = event.event
        if what not in KNOWN:
            raise _broken(event, "is an event that this checker does not know")
        if what in REMARKS:
            return
        if what == "task.posted":
            self._post(event)
        elif what in RESTORED or (what == "schedule.removed" and event.epoch):
            self._restore(event)
        elif what in SCHEDULES:
            self._fire(event)
        else:
            thing = self._thing(event)
            if thing.ended and not (what == "task.reopened" and thing.ended != "completed"):
                raise _broken(event, f"comes after it was {thing.ended}")
            self._rule(what, event)(event, thing)

    def _rule(self, what: str, event: Event) -> Callable[[Event, Thing], None]:
        if what in GRANTS:
            return self._open
        if what == "task.completed" and event.kind == "question" and event.note:
            return self._answer
        if what in RENEWALS | ENDS | LAPSES:
            return self._write
        return self._take_away if what in TAKEN_AWAY else self._change_unheld

    def _thing(self, event: Event) -> Thing:
        place = _place(event)
        if place not in self.things:
            if self.whole and event.event.startswith("task."):
                raise _broken(event, "speaks of a task that was never posted")
            self.things[place] = Thing(0 if self.whole else None)
        return self.things[place]

    # ── One thing ────────────────────────────────────────────────────────────────────────────────────

    def _post(self, event: Event) -> None:
        if _place(event) in self.things:
            raise _broken(event, "was posted before")
        may_go_on = self.pruned or not self.whole or event.kind == "job"
        thing = self.things[_place(event)] = Thing(None if may_go_on else 0)
        thing.ended = "completed" if event.state == "completed" else None

    def _open(self, event: Event, thing: Thing) -> None:
        self.grants += 1
        passes_on = event.event == "hold.transferred"
        if thing.epoch is not None:
            if thing.holder and not passes_on:
                raise _broken(event, f"was granted while {thing.grant}")
            if passes_on and not (event.note or "").endswith(f" by {short(thing.holder or '')}"):
                raise _broken(event, f"was {event.note}, but {thing.grant}")
            if event.epoch != thing.epoch + 1:
                raise _broken(event, f"epoch {event.epoch} follows {thing.epoch} (event {thing.since})")
        thing.epoch, thing.holder, thing.since = event.epoch, _agent(event), event.number
        if (event.subject or "").startswith("file:"):
            self._open_file(event, thing)
        if (event.subject or "").startswith("pool:"):
            self._open_slot(event, thing)

    def _write(self, event: Event, thing: Thing) -> None:
        """By the holder, or about its lapse."""
        if thing.epoch is None:
            thing.epoch, thing.holder = event.epoch, _agent(event)
        if (thing.holder, thing.epoch) != (_agent(event), event.epoch):
            said = "is said to have run out" if event.event in LAPSES else "wrote"
            raise _broken(event, f"{_agent(event)} {said}, but {thing.grant}")
        if event.event not in RENEWALS:
            self._close(event, thing)
        if event.event in ("task.completed", "task.failed"):
            thing.ended = event.event.removeprefix("task.")
        elif event.event == "task.expired" and event.state == "failed":
            thing.ended = "failed"

    def _answer(self, event: Event, thing: Thing) -> None:
        """A question has no holder: its first answer ends it."""
        if thing.holder or thing.epoch not in (None, event.epoch):
            raise _broken(event, f"was answered at epoch {event.epoch}, but {thing.grant}; its epoch is {thing.epoch}")
        thing.ended = "completed"

    def _take_away(self, event: Event, thing: Thing) -> None:
        if event.event.endswith(".broken") and thing.epoch is not None and not thing.holder:
            raise _broken(event, "was broken, but nobody had it")
        if event.agent is None and thing.holder:  # called off because of a task before it: that has not begun
            raise _broken(event, f"was called off with another one while {thing.grant}")
        if event.agent is not None and thing.epoch not in (None, event.epoch):
            raise _broken(event, f"names epoch {event.epoch}, but {thing.grant}; its epoch is {thing.epoch}")
        self._close(event, thing)
        thing.ended = "cancelled" if event.event == "task.cancelled" else None

    def _change_unheld(self, event: Event, thing: Thing) -> None:
        if thing.holder:
            raise _broken(event, f"happened while {thing.grant}")
        if event.event != "task.reopened":
            return
        if thing.epoch is not None and not thing.ended:
            raise _broken(event, "was reopened, but it had not ended")
        if thing.epoch not in (None, event.epoch):
            raise _broken(event, f"was reopened at epoch {event.epoch}, but its epoch is {thing.epoch}")
        thing.epoch, thing.ended = event.epoch, None

    def _restore(self, event: Event) -> None:
        thing = self.things.setdefault(_place(event), Thing(None))
        if thing.epoch is not None and event.epoch < thing.epoch:
            raise _broken(event, f"was restored at epoch {event.epoch}, but its epoch is {thing.epoch}")
        if thing.holder and event.event == "hold.restored":  # the end of a hold has an event of its own
            raise _broken(event, f"was restored while {thing.grant}")
        self._close(event, thing)
        thing.epoch = event.epoch
        thing.ended = event.state if event.state in ("completed", "failed", "cancelled") else None

    def _close(self, event: Event, thing: Thing) -> None:
        thing.holder = None
        project, subject, slot = _place(event)
        self._files.get(project, {}).pop(subject, None)
        self._pools.get((project, subject), {}).pop(slot, None)

    # ── Several things ───────────────────────────────────────────────────────────────────────────────

    def _open_file(self, event: Event, thing: Thing) -> None:
        project, mine, _ = _place(event)
        files = self._files.setdefault(project, {})
        for name, other in files.items():
            if other.holder != thing.holder and _conflict(name, mine):
                raise _broken(event, f"was granted while for {name} {other.grant}")
        files[mine] = thing

    def _open_slot(self, event: Event, thing: Thing) -> None:
        project, resource, slot = _place(event)
        taken = self._pools.setdefault((project, resource), {})
        taken[slot] = thing
        size = (event.data or {}).get("slots")
        if size is None or event.event == "hold.transferred":
            return
        if slot >= size:
            raise _broken(event, f"slot {slot} was granted of a pool of {size}")
        if len(taken) > size:
            others = "; ".join(f"slot {number}: {other.grant}" for number, other in sorted(taken.items()))
            raise _broken(event, f"{len(taken)} slots are taken of a pool of {size}: {others}")

    def _fire(self, event: Event) -> None:
        if event.event != "schedule.fired":
            return
        thing = self.things.setdefault(_place(event), Thing(0 if self.whole else None))
        if thing.epoch is not None and event.epoch != thing.epoch + 1:
            raise _broken(event, f"epoch {event.epoch} follows {thing.epoch} (event {thing.since})")
        thing.epoch, thing.since = event.epoch, event.number
        instants, instant = self._fired.setdefault(_place(event), set()), (event.data or {})["instant"]
        if instant in instants:
            raise _broken(event, f"the instant {instant} was fired before")
        instants.add(instant)


def check(events: Iterable[Event]) -> Log:
    """Judge a whole log; raises `Broken`, else answers with what it has told."""
    log = Log()
    for event in events:
        log.read(event)
    return log


def read(board: Board, after: int = 0) -> list[Event]:
    """Every event of the board, or every one after that number."""
    out: list[Event] = []
    while more := board.events.read(after=out[-1].number if out else after, limit=1000, project=None):
        out += more
    return out


@cache
def _conflict(one: str, other: str) -> bool:
    """Whether two names of files could mean one file; the same name twice is a matter of its own grants."""
    (here, name), (there, path) = parts(one), parts(other)
    return one != other and (not here or not there or here == there) and overlap(name, path)


def _agent(event: Event) -> str | None:
    """Who acted, with the session: two sessions of one name are two holders."""
    who: str | None = row_of(event)[_AGENT]
    return who


def _place(event: Event) -> Place:
    slot = (event.data or {}).get("slot", 0) if event.event.startswith("hold.") else 0
    return event.project, event.subject or "", slot


def _broken(event: Event, what: str) -> Broken:
    project, subject, slot = _place(event)
    name = subject if subject == event.name else f"{subject} ({event.name})"
    where = f"{name} slot {slot}" if subject.startswith("pool:") else name
    return Broken(
        f"{where} in {project}: {what}; event {event.number} is {event.event} by {_agent(event)}, epoch {event.epoch}"
    )
