"""*Timeline*: who held what when, as a picture (`static/timeline_drawing.js`). The list below it says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .page import TEXT, page
from .templates import href

if TYPE_CHECKING:
    from .page import Visit

MOST = 500
"""Events that one picture is made from. Older ones are a link away."""
LISTED = 100
"""Lines of the list below the picture."""
ENDS = {
    "open": "has it",
    "lapsed": "has it, but the lease has run out",
    "released": "gave it back",
    "completed": "completed it",
    "failed": "failed",
    "retrying": "failed, to be tried again",
    "expired": "lost it when the lease ran out",
    "broken": "lost it: it was taken away",
    "cancelled": "lost it: it was cancelled",
    "transferred": "passed it on",
    "restored": "lost it: a backup was restored",
    "replaced": "lost it",
    "later": "had it until after this window",
}
"""How a grant ended, in words."""
_MARKS = {
    "refused": "was refused",
    "fenced": "wrote too late and was refused",
    "deadlocked": "was told that its wait could never end",
}


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
    return {
        "found": found,
        "older": href("/timeline", project=visit.project, before=found["older"]) if found["older"] else "",
        "newest": href("/timeline", project=visit.project) if before else "",
        "lines": lines(found)[:LISTED],
    }


def lines(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Grants and marks as lines of a list, newest first."""
    out = [
        {**span, "at": span["to"] or found["end"], "said": ENDS[span["how"]], "thing": found["lanes"][span["lane"]]}
        for span in found["spans"]
    ]
    for mark in found["marks"]:
        times = f" {mark['times']} times" if mark["times"] > 1 else ""
        out.append({**mark, "from": 0, "said": _MARKS[mark["what"]] + times, "thing": found["lanes"][mark["lane"]]})
    return sorted(out, key=lambda line: -line["at"])
