"""*Now*: what needs a person, who works, who waits, who is idle, and the latest events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import need_words
from ...limits import LISTED
from ...need_words import COUNTS, TITLES, mood, next_step, number_of
from ...operations.needs import NEEDS
from .page import page

if TYPE_CHECKING:
    from ...model import Counts, Need
    from .page import Visit

MOST = 20
"""Needs of one kind that are shown."""
LATEST = 20
"""Events that are shown."""
_NOBODY = {"working": "Nobody is at work.", "waiting": "Nobody waits.", "idle": "Nobody is idle."}
SECTIONS = [(name, title, _NOBODY[name]) for name, title in need_words.SECTIONS.items()]
"""A section, its title, and the words for nobody."""
_ALL = {"failed": {"state": "failed"}, "question": {"kind": "question", "state": "pending"}}
"""Where all of a kind are listed, if more are there than are shown."""


@page("/", "now.html", "What happens now: what needs a person, who works, who waits, the latest events.", title="Now")
async def now(visit: Visit) -> dict[str, Any]:
    """The page that a browser lands on. It shows the same as `tb top`, with the same words in the same order."""
    needs, handoffs, agents, counts, events, questions = await visit.together(
        visit.read("overview.needs", limit=MOST),
        _handoffs(visit),
        visit.read("overview.agents"),
        visit.read("overview.counts"),
        visit.latest(LATEST),
        visit.read("questions.list", limit=MOST),
    )
    needs = sorted([*needs, *handoffs], key=lambda need: (NEEDS.index(need.kind), need.since_at or 0.0))
    kinds = [each.kind for each in needs]
    return {
        "needs": needs,
        "number_of_needs": number_of(needs, MOST),
        "all_of": {TITLES[kind]: query for kind, query in _ALL.items() if kinds.count(kind) >= MOST},
        "titles": TITLES,
        "steps": [next_step(each) for each in needs],
        "choices": {each.number: each.choices or () for each in questions},
        "sections": SECTIONS,
        "agents": {name: [each for each in agents if each.section == name] for name, *_ in SECTIONS},
        "numbers": _numbers(counts),
        "events": events,
        "most": LISTED,
        "moods": {each.number: mood(each.event) for each in events},
    }


async def _handoffs(visit: Visit) -> list[Need]:
    """The handoffs that wait in the queue of this machine, which the board does not know of."""
    service = visit.service
    found: list[Need] = await service.threaded(service.machine.handoffs, service.known_as)
    return [each for each in found if visit.project in (None, each.project)]


def _numbers(counts: Counts) -> list[tuple[str, int, str]]:
    numbers = [(name, getattr(counts, name), "bad" if name == "failed" else "") for name in COUNTS]
    return [("agents", counts.agents, ""), *numbers]
