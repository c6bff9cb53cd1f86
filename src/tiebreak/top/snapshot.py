"""What one frame of `tb top` shows, read by operations of the board alone.

Everything is bounded: a section lists at most `ROWS` things, however many there are, and says that there are more. The
number of the newest event is read first, so an event that happens while the rest is read is shown in the next frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..limits import MAX_LIMIT
from ..model import encode, row_of
from ..names import JOB, QUESTION
from ..operations.needs import NEEDS

if TYPE_CHECKING:
    from ..board import Board
    from ..model import Activity, Counts, Event, Hold, Message, Need, Queue, Task, Wait

VIEWS = ("agents", "tasks", "holds", "jobs", "messages")
"""The views, by the keys 1 to 5."""
ROWS = 100
"""At most this many things in one section."""
TICKER = 100
"""At most this many of the newest events."""
MESSAGES = 50
_SEARCHED = 20_000
"""Among so many of the newest events, those of this project are looked for."""


class Selected(NamedTuple):
    """What a row stands for: its kind (a key of `targets._MAKERS`) and its reference. No two rows have the same."""

    kind: str
    ref: str


def full_id(row: Need | Activity | Wait) -> str | None:
    """The full id of a row's agent; the field `agent` has the name alone, which two sessions may share."""
    found = row_of(row)[row.fields.index("agent")]
    return str(found) if found else None


def need_key(need: Need) -> Selected:
    """What the row of a need stands for; two agents may need a person for the same thing."""
    return Selected("need", f"{need.kind}:{need.ref}:{full_id(need) or ''}")


def agent_key(each: Activity) -> Selected:
    """What the row of an agent stands for."""
    return Selected("agent", full_id(each) or "")


def hold_key(hold: Hold) -> Selected:
    """What the row of a hold stands for; a pool has several slots."""
    return Selected("hold", f"{hold.resource}:{hold.slot}")


@dataclass(frozen=True)
class Snapshot:
    """One frame: the numbers, what needs a person, and the lists of one view."""

    board: str
    project: str
    view: str
    counts: Counts
    needs: list[Need]
    agents: list[Activity]
    events: list[Event] = field(default_factory=list)
    tasks: dict[str, list[Task]] = field(default_factory=dict)
    """Tasks, or in the view `jobs` jobs, by their section."""
    holds: list[Hold] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    behind: int = 0
    """How many events happened while this was read."""
    later: float = 0.0
    """Seconds since it was read."""

    @property
    def cursor(self) -> int:
        """The number of the newest event that this surely includes."""
        return int(self.counts.event)

    @property
    def now(self) -> float:
        """Board time, as far as it is known."""
        return float(self.counts.now) + self.later


def take(board: Board, view: str = "agents", *, find: str = "", events: bool = True) -> Snapshot:
    """Read one frame; `find` looks for tasks by their name, beyond those that a section shows."""
    project = board.project_names
    counts = board.overview.counts(project=project)  # first: what happens from now on is in the next frame
    base: dict[str, Any] = {
        "board": board.engine.address,
        "project": counts.project or project.partition(" ")[0],
        "view": view,
        "counts": counts,
        "needs": _needs(board, project),
        "agents": board.overview.agents(project=project),
    }
    if events:
        after = max(0, counts.event - _SEARCHED)
        base["events"] = board.events.read(project=project, after=after, newest=True, limit=TICKER)
    more = _READERS[view](board, find)
    return Snapshot(**base, **more, behind=_behind(board, int(counts.event)))


def _needs(board: Board, project: str) -> list[Need]:
    found = [*board.overview.needs(project=project), *queued_handoffs(board)]
    return sorted(found, key=lambda need: NEEDS.index(need.kind))  # the oldest of each kind is first already


def _behind(board: Board, cursor: int) -> int:
    """How many events of the project have happened since; most of the time none."""
    return len(board.events.read(after=cursor, limit=MAX_LIMIT)) if board.events.last() > cursor else 0


def queued_handoffs(board: Board) -> list[Need]:
    """The handoffs of this project that wait in the queue of this machine; the board does not know of them."""
    from ..sessions.handoff_queue import waiting

    address, project = str(board.engine.full_address), board.project
    remote = address.startswith(("http:", "https:", "unix:"))  # the order names the board that the daemon serves
    return waiting(lambda order: order.get("project") == project and (remote or order.get("board") == address))


# ── The views ────────────────────────────────────────────────────────────────────────────────────────────────


def _no_more(board: Board, find: str) -> dict[str, Any]:
    return {}


_FINISHED = ["completed", "cancelled"]


def _tasks(board: Board, find: str, *, kind: str | None = None) -> dict[str, Any]:
    sections = {
        "Claimed": ["claimed"],
        "Failed": ["failed"],
        "Ready": ["pending"],
        "Blocked": ["blocked"],
        "Finished": _FINISHED,
    }
    found = {title: _listed(board, states, kind, None) for title, states in sections.items()}
    if find:
        for title, states in sections.items():
            known = {task.number for task in found[title]}
            found[title] += [task for task in _listed(board, states, kind, find) if task.number not in known]
    asked = [task for task in found["Ready"] if task.kind == QUESTION]
    found["Ready"] = [task for task in found["Ready"] if task.kind != QUESTION]
    return {"tasks": {"Questions": asked, **found}}


def _listed(board: Board, states: list[str], kind: str | None, find: str | None) -> list[Task]:
    limit = ROWS if find or states != _FINISHED else 20
    return board.tasks.list(project=board.project_names, states=states, kind=kind, name_contains=find, limit=limit)


def _holds(board: Board, find: str) -> dict[str, Any]:
    return {"holds": board.holds.list(limit=ROWS), "waits": board.waits.list(limit=ROWS)}


def _jobs(board: Board, find: str) -> dict[str, Any]:
    return {**_tasks(board, find, kind=JOB), "queues": board.queues.list()[:ROWS]}


def _messages(board: Board, find: str) -> dict[str, Any]:
    project = board.project_names
    found = board.messages.list(project=project, limit=MESSAGES)
    words = [f"{word}*" for word in find.replace('"', " ").split() if word.isalnum()]
    if words:
        known = {each.number for each in found}
        older = board.messages.list(project=project, query=" ".join(words), limit=ROWS)
        found += [each for each in older if each.number not in known]
    return {"messages": found}


_READERS = {"agents": _no_more, "tasks": _tasks, "holds": _holds, "jobs": _jobs, "messages": _messages}


def as_json(taken: Snapshot) -> dict[str, Any]:
    """A frame as data, for `tb top --once --json`."""
    from ..need_words import next_step

    return {
        "board": taken.board,
        "project": taken.project,
        "view": taken.view,
        "counts": encode(taken.counts),
        "behind": taken.behind,
        "needs": [{**encode(need), "next_step": next_step(need)} for need in taken.needs],
        "agents": encode(taken.agents),
        "tasks": {title: encode(found) for title, found in taken.tasks.items()},
        "holds": encode(taken.holds),
        "waits": encode(taken.waits),
        "queues": encode(taken.queues),
        "messages": encode(taken.messages),
        "events": encode(taken.events),
    }
