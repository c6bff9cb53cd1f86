"""What a decision works with: the board as this agent sees it, its memory, and its sign of life."""

from __future__ import annotations

import os

from ..board import Board
from ..names import agent as check_agent
from ..processes import default_agent, incarnation, within
from .agent_state import AgentState
from .guarded_file import project_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..engine import Engine
    from ..model import Task
    from .hook_call import HookCall

LEASE = 300.0
HOLD_LEASE = 1800.0
PAUSE = 15.0
"""Seconds between two renewals of everything: leases are many times longer, and most calls can spare the write."""
ROOM = 60.0
"""Seconds that a lease outlives the longest run of a tool."""


def agent_of(call: HookCall, environ: Mapping[str, str]) -> str:
    """Who acts: the same id that `tb` has in the shell of this session, and one below it for a sub-agent."""
    known = (call.client, call.session)
    name = environ.get("TIEBREAK_AGENT") or default_agent(environ, known)
    agent = check_agent(name if "~" in name else f"{name}~{incarnation(environ, known)}")
    return within(agent, call.subagent) if call.subagent else agent


def main_agent(call: HookCall, environ: Mapping[str, str]) -> str:
    """The agent of the session itself, of which a sub-agent is a part."""
    part, call.subagent = call.subagent, ""
    try:
        return agent_of(call, environ)
    finally:
        call.subagent = part


class HookContext:
    """One call at work."""

    def __init__(self, engine: Engine, call: HookCall, environ: Mapping[str, str] = os.environ) -> None:
        self.call = call
        self.environ = environ
        self.agent = agent_of(call, environ)
        self.board = Board(engine, agent=self.agent, project=project_of(call.cwd, environ))
        self.state = AgentState(self.agent, environ)

    def renew(self, *, seconds: float = 0.0, resources: list[str] | None = None, hashes: Any = ()) -> list[Task]:
        """Keep the agent's claims and holds, if it is time to; `seconds` is how long it may now be silent."""
        lease = max(LEASE, seconds + ROOM)
        if not resources and self._is_renewed(lease):
            return []
        params: dict[str, Any] = {"lease": lease, "hold_lease": max(HOLD_LEASE, lease)}
        if resources:
            params |= {"resources": resources, "hashes": list(hashes)}
        claims: list[Task] = self.board.call("agents.renew", params)
        self.state.put("renewed", str(int(lease)).encode())
        remember_claims(self.state, claims)
        return claims

    def _is_renewed(self, lease: float) -> bool:
        """Whether everything was renewed a moment ago, for as long as it is needed now."""
        known = self.state.get("renewed") or b"0"
        return self.state.age("renewed") < PAUSE and known.isdigit() and int(known) >= int(lease)


def remember_claims(state: AgentState, claims: list[Task]) -> None:
    """Which grants this agent works under, for the git guard: it asks later whether they are still the current ones."""
    lines = known_claims(state)
    known = dict(lines)
    known.update((task.id, task.epoch) for task in claims)
    if list(known.items()) != lines:
        state.put("claims", "".join(f"{each} {epoch}\n" for each, epoch in known.items()).encode())


def known_claims(state: AgentState) -> list[tuple[str, int]]:
    """The grants that this agent was seen to have: a task's id and the epoch."""
    found = (state.get("claims") or b"").decode("ascii", "replace").split("\n")
    pairs = [line.split(" ") for line in found if line.count(" ") == 1]
    return [(task, int(epoch)) for task, epoch in pairs if epoch.isdecimal()]
