"""*Timeline*: who held what when, as a picture (`static/timeline_drawing.js`). The list below it says the same.

All words of the picture are made here and sent with its data, so the picture and the list cannot differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...held_files import called
from ...operations.resources import breaking_note_begins
from .page import TEXT, page
from .templates import href

if TYPE_CHECKING:
    from .page import Visit

MOST = 500
"""Events that one picture is made from. Older ones are a link away."""
LISTED = 100
"""Lines of the list below the picture."""
_ENDS = {
    "open": "still has it",
    "lapsed": "still has it, but the lease has run out",
    "released": "gave it back",
    "completed": "completed it",
    "failed": "failed",
    "retrying": "failed, to be tried again",
    "expired": "lost it when the lease ran out",
    "broken": "lost it: taken away",
    "cancelled": "lost it: cancelled",
    "transferred": "passed it on",
    "restored": "lost it: a backup was restored",
    "replaced": "lost it",
    "later": "had it until after this window",
}
"""How a grant ended, in words."""
_MARKS = {
    "refused": "was refused",
    "fenced": "wrote too late, was refused and changed nothing",
    "deadlocked": "was told that its wait could never end",
}
"""What did not happen, in words."""
_LEGEND = (
    ("refused", "was refused: somebody else had it"),
    ("lapsed", "the lease ran out; hatched: nobody had noticed yet"),
    ("fenced", "a late write with an old epoch: refused, nothing changed"),
    ("broken", "taken away"),
    ("deadlocked", "a wait that could never end"),
)
"""What the shapes in the picture mean, in this order."""


@page(
    "/timeline",
    "timeline.html",
    "Who held what when, as a picture.",
    title="Timeline",
    query={"before": {**TEXT, "description": "only events before this number"}},
    module="timeline.js",
    watch=("task.", "hold.", "job."),
)
async def timeline(visit: Visit) -> dict[str, Any]:
    """A window of the log; the newest one shows what is held now, too."""
    before = visit.count("before")
    found = await visit.read("events.timeline", before=before or None, limit=MOST)
    shown = in_words(found, all_projects=visit.project is None)
    shown["nobody"] = _nobody(found, before, "in this project " if visit.project else "")
    return {
        "found": shown,
        "older": href("/timeline", project=visit.project, before=found["older"]) if found["older"] else "",
        "newest": href("/timeline", project=visit.project) if before else "",
        "lines": lines(shown)[:LISTED],
    }


def ended(span: dict[str, Any]) -> str:
    """How a grant ended, in words, and by whom if somebody took it away."""
    by = f" by {span['by']}" if span["by"] else ""
    return _ENDS[span["how"]] + by


def why(span: dict[str, Any]) -> str:
    """Why a grant ended, if it was said. The note about a break begins with the holder, who is named beside it."""
    return str(span["note"]).removeprefix(breaking_note_begins(span["agent"]))


def in_words(found: dict[str, Any], *, all_projects: bool) -> dict[str, Any]:
    """The answer of `events.timeline` with the words for lanes, grants, marks and shapes.

    With all projects, a lane says of which one it is: agents and files of two projects may have the same name.
    """
    return {
        **found,
        "lanes": [
            {**lane, "title": _title(lane), "of": lane["project"].rpartition("/")[2] if all_projects else ""}
            for lane in found["lanes"]
        ],
        "spans": [{**span, "said": ended(span), "note": why(span)} for span in found["spans"]],
        "marks": [{**mark, **_denied(mark)} for mark in found["marks"]],
        "legend": _LEGEND,
    }


def _title(lane: dict[str, Any]) -> str:
    """What a lane is called: a task, or a resource as everywhere else. A task that was pruned has no number."""
    if ":" in lane["subject"]:
        return called(lane["name"]) + (f" slot {lane['slot']}" if lane["kind"] == "pool" else "")
    return f"#{lane['number']} {lane['name']}" if lane["number"] else str(lane["name"])


def _denied(mark: dict[str, Any]) -> dict[str, str]:
    """What did not happen and why, in words. Of a late write, the note is the state that it found: one word."""
    times = f" {mark['times']} times" if mark["times"] > 1 else ""
    found = mark["note"] if mark["what"] == "fenced" and " " not in mark["note"] else ""
    return {"said": _MARKS[mark["what"]] + times, "note": f"it was {found} by then" if found else mark["note"]}


def _nobody(found: dict[str, Any], before: int, here: str) -> str:
    """What to say if nobody held anything in the window: how far it was looked, unless that was everything."""
    if not found["older"]:
        return f"Nobody held anything {here}before this." if before else "Nobody has held anything yet."
    looked = min(before or found["newest"] + 1, found["newest"] + 1) - found["older"]
    which = f"{looked:,} events of the board before this" if before else f"latest {looked:,} events of the board"
    return f"Nobody held anything {here}during the {which}. There are older ones."


def lines(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Grants and marks as lines of a list, newest first."""
    out = [{**span, "at": span["to"] or found["end"], "is_over": bool(span["to"])} for span in found["spans"]]
    out += [{**mark, "from": 0, "is_over": True} for mark in found["marks"]]
    return sorted(({**line, "thing": found["lanes"][line["lane"]]} for line in out), key=lambda line: -line["at"])
