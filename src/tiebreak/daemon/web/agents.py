"""*Agents*: who is here and what each does, and the page of one agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .page import page

if TYPE_CHECKING:
    from .page import Visit

MOST = 200
"""Agents that are listed."""


@page("/agents", "agents.html", "The agents that are here, and what each does.", title="Agents")
async def agents(visit: Visit) -> dict[str, Any]:
    """The same agents as on *Now*, in the same order."""
    return {"agents": await visit.read("overview.agents", limit=MOST)}
