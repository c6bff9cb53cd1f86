"""What an agent did, added up from the log: the board lists the present, and an agent's note also tells the past.

Each sum is a small JSON value in `.tiebreak/agents/` and has the number of its last event. An event that is not newer
is ignored, so a batch that is read twice changes nothing. The lists are short: only the newest entries are kept, and
which ones these are depends on the events alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model import Event

MOST = 100
"""How many tasks an agent's note lists, and how many that it abandoned."""
CLAIMED = "claimed"
FATES = {
    "task.claimed": CLAIMED,
    "task.extended": CLAIMED,
    "task.progress": CLAIMED,
    "task.completed": "completed",
    "task.failed": "failed",
    "task.retrying": "failed, to be tried again",
    "task.released": "given back",
    "task.expired": "the lease ran out",
    "task.broken": "taken away",
    "task.cancelled": "cancelled while it worked",
}
ABANDONED = ("given back", "the lease ran out", "taken away")
COUNTED = {"task.claimed": "claims", "task.completed": "completed", "task.refused": "refused", "task.fenced": "fenced"}
TAKEN_AWAY = ("task.broken", "task.cancelled")
"""Events whose agent is whoever took a claim away. They concern the holder."""


def beginning(name: str, project: str) -> dict[str, Any]:
    """The history of an agent that did nothing yet."""
    return {"name": name, "project": project, "upto": 0, "doing": None, "first": None, "tasks": {}, "counts": {}}


def add(history: dict[str, Any], event: Event, *, as_holder: bool = False) -> None:
    """Add an event of the agent, or one that took a claim away from it (`as_holder`)."""
    if event.number <= history["upto"]:
        return
    history["upto"] = event.number
    history["first"] = history["first"] or event.at
    if event.event in ("agent.announced", "agent.doing"):
        history["doing"] = event.note or history["doing"]
        history["left"] = None
    elif event.event == "agent.left":
        history["left"] = event.at
    if counted := COUNTED.get(event.event):
        history["counts"][counted] = history["counts"].get(counted, 0) + event.times
    if as_holder == (event.event in TAKEN_AWAY) and event.event in FATES and event.subject:
        _settle(history["tasks"], event)


def _settle(tasks: dict[str, Any], event: Event) -> None:
    fate = FATES[event.event]
    before = tasks.pop(str(event.subject), None)
    if event.event in TAKEN_AWAY and (before is None or before["fate"] != CLAIMED):
        if before is not None:
            tasks[str(event.subject)] = before
        return
    tasks[str(event.subject)] = {"number": event.number, "at": event.at, "fate": fate, "name": event.name or ""}
    for listed in (_those(tasks, abandoned=True), _those(tasks, abandoned=False)):
        for id_ in listed[MOST:]:
            del tasks[id_]


def _those(tasks: dict[str, Any], *, abandoned: bool) -> list[str]:
    """The ids of the tasks that the agent did or did not abandon, newest first."""
    chosen = [id_ for id_, each in tasks.items() if (each["fate"] in ABANDONED) == abandoned]
    return sorted(chosen, key=lambda id_: -tasks[id_]["number"])


def sections(history: dict[str, Any]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """The tasks of an agent as its note lists them: working on, abandoned, done."""
    tasks = history["tasks"]
    others = _those(tasks, abandoned=False)
    chosen = {
        "Working on": [id_ for id_ in others if tasks[id_]["fate"] == CLAIMED],
        "Abandoned": _those(tasks, abandoned=True),
        "Finished": [id_ for id_ in others if tasks[id_]["fate"] != CLAIMED],
    }
    return {title: [(id_, tasks[id_]) for id_ in ids] for title, ids in chosen.items()}
