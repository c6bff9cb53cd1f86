"""A task's page: what it is, its life as a branching picture, its attempts, what it comes after, and comments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import Invalid
from ...names import JOB, QUESTION, is_uuid
from .page import page
from .task_graph import drawn
from .timeline import ended, why

if TYPE_CHECKING:
    from ...model import Event, Sentence, Task
    from .page import Visit

SENTENCES = 200
"""Lines of a task's life that are shown: the newest."""
NODES = 60
"""Tasks in the picture of what comes before and after."""
PARTS = 100
"""Parts of a task, and comments, that are shown."""
_READER = "browser"
"""Whose acknowledgements `messages.comments` looks for: nobody's."""
_ANY = "any"
"""A number names a task in all projects, but `tasks.get` wants to know one."""


@page(
    "/tasks/{number}",
    "task.html",
    "One task: its state, its life, its attempts, its place among others, and comments.",
    title="Task",
    module="task.js",
    under="/tasks",
    watch=("task.", "job.", "message."),
)
async def task(visit: Visit) -> dict[str, Any]:
    """Everything about one task that may be seen with a cookie; a script adds its output for those who may act."""
    found: Task = await visit.read("tasks.get", ref=_ref(visit.parameters["number"]), project=visit.project or _ANY)
    this = {"ref": f"#{found.number}", "project": found.project}
    sentences, events, lanes, graph, comments, parts, above = await visit.together(
        visit.read("events.why", **this, limit=SENTENCES),
        visit.read("events.read", subject=found.id, project=found.project, newest=True, limit=SENTENCES),
        visit.read("events.timeline", subject=found.id, project=found.project),
        visit.read("jobs.graph", **this, limit=NODES),
        visit.read("messages.comments", **this, agent=_READER, limit=PARTS),
        visit.read("tasks.list", parent=f"#{found.number}", project=found.project, limit=PARTS),
        _above(visit, found),
    )
    lines = life(sentences, events)
    return {
        "title": f"#{found.number} {found.name}",
        "task": found,
        "is_job": found.kind == JOB,
        "is_question": found.kind == QUESTION,
        "above": above,
        "life": lines,
        "shapes": {line["event"] for line in lines},
        # The state is shown beside it: a sentence that says no more is left out.
        "present": [each.text for each in sentences if is_present(each) and each.text != f"Now: {found.state}."],
        "attempts": [{**span, "said": ended(span), "note": why(span)} for span in reversed(lanes["spans"])],
        "graph": drawn(graph["nodes"], graph["edges"], graph["number"], visit.project) if graph["edges"] else "",
        "graph_cut": graph["cut"],
        "comments": comments,
        "parts_of_it": parts,
    }


def _ref(given: str) -> str:
    """The task of an address: its number, or its id, which is all that events know."""
    if is_uuid(given):
        return given
    if not (given.isascii() and given.isdecimal() and len(given) < 16):
        raise Invalid("a task's page has its number in the address, as in /tasks/12")
    return f"#{given}"


async def _above(visit: Visit, found: Task) -> Task | None:
    """The task that it is a part of."""
    return await visit.read("tasks.get", ref=f"#{found.parent}", project=found.project) if found.parent else None


def is_present(sentence: Sentence) -> bool:
    """Whether a sentence tells the present state, not something that happened."""
    return sentence.event == 0 and sentence.text.startswith("Now: ")


def life(sentences: list[Sentence], events: list[Event]) -> list[dict[str, Any]]:
    """The lines of a task's life with what a picture of them needs: which event, by whom, with which epoch."""
    known = {event.number: event for event in events}
    out = []
    for sentence in sentences:
        if is_present(sentence):
            continue
        event = known.get(sentence.event)
        out.append(
            {
                "at": sentence.at,
                "text": sentence.text,
                # A refusal that waits to be written has no number yet.
                "event": event.event if event else "task.refused" if sentence.event == 0 else "task.other",
                "agent": (event.agent if event else None) or "",
                "epoch": event.epoch if event else 0,
            }
        )
    return out
