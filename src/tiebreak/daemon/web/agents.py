"""*Agents*: who is here and what each does, and the page of one agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import Invalid, NotFound
from ...limits import MAX_LIMIT
from ...names import short
from ...need_words import mood
from .now import SECTIONS
from .page import TEXT, page

if TYPE_CHECKING:
    from .page import Visit

MOST = 200
"""Agents that are listed."""
_ROWS = 20
"""Rows of each list on an agent's page."""


@page("/agents", "agents.html", "The agents that are here, and what each does.", title="Agents")
async def agents(visit: Visit) -> dict[str, Any]:
    """The same agents as on *Now*, in the same order; after them those that have left."""
    found, known = await visit.together(
        visit.read("overview.agents", limit=MOST), visit.read("agents.list", status="gone", limit=_ROWS)
    )
    by_section = {name: [each for each in found if each.section == name] for name, *_ in SECTIONS}
    return {"sections": SECTIONS, "agents": by_section, "gone": known, "most": MOST}


@page(
    "/agent",
    "agent.html",
    "One agent: what it does, its tasks, holds, messages and sub-agents, and its terminal.",
    title="Agent",
    query={"name": {**TEXT, "description": "the agent's name"}},
    module="agent.js",
    under="/agents",
)
async def agent(visit: Visit) -> dict[str, Any]:
    """All incarnations of a name together. The newest one comes first."""
    name = visit.given.get("name")
    if not name:
        raise Invalid("name: is missing", hint="give the name of an agent")
    if visit.project is None:
        raise Invalid("project: is missing", hint="an agent belongs to a project")
    known, activities, holds, claimed, made, messages, events, sessions = await visit.together(
        visit.read("agents.list", agent=name, limit=_ROWS),
        visit.read("overview.agents", limit=MAX_LIMIT),
        visit.read("holds.list", agent=name, limit=_ROWS),
        visit.read("tasks.list", agent=name, states=["claimed"], limit=_ROWS),
        visit.latest(_ROWS, agent=name, event="task.completed"),
        visit.read("messages.list", agent=name, limit=_ROWS),
        visit.latest(_ROWS, agent=name),
        visit.read("sessions.list", session=name),
    )
    here = [each for each in activities if short(each.agent) == short(name)]
    if not (known or here or events or messages):
        raise NotFound(f"no agent {name} in project {visit.project}", reason="agent-unknown")
    return {
        "title": short(name),
        "name": short(name),
        "known": known,
        "activity_of_it": here[0] if here else None,
        "children": [each for each in activities if each.parent and short(each.parent) == short(name)],
        "holds": holds,
        "claimed": claimed,
        "completed": made,
        "messages": messages,
        "events": events,
        "moods": {each.number: mood(each.event) for each in events},
        "session": sessions[0] if sessions else None,
    }
