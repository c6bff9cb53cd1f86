"""What a decision works with: the board as this agent sees it, its memory, and its sign of life."""

from __future__ import annotations

import os

from ..agent_names import default_agent, incarnation, within
from ..board import Board
from ..limits import CLAIM_LEASE, HOLD_LEASE
from ..names import agent as check_agent
from .memory import Memory
from .places import project_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..engine.protocol import Engine
    from ..model import Task
    from .calls import Call

PAUSE = 15.0
"""Seconds between two renewals of everything: leases are many times longer, and most calls can spare the write."""
ROOM = 60.0
"""Seconds that a lease outlives the longest run of a tool."""


def agent_of(call: Call, environ: Mapping[str, str]) -> str:
    """Who acts: the same id that `tb` has in the shell of this session, and one below it for a sub-agent."""
    known = (call.client, call.session)
    name = environ.get("TIEBREAK_AGENT") or default_agent(environ, known)
    agent = check_agent(name if "~" in name else f"{name}~{incarnation(environ, known)}")
    return within(agent, call.part) if call.part else agent


def main_agent(call: Call, environ: Mapping[str, str]) -> str:
    """The agent of the session itself, of which a sub-agent is a part."""
    part, call.part = call.part, ""
    try:
        return agent_of(call, environ)
    finally:
        call.part = part


class Desk:
    """One call at work."""

    def __init__(self, engine: Engine, call: Call, environ: Mapping[str, str] = os.environ) -> None:
        self.call = call
        self.environ = environ
        self.agent = agent_of(call, environ)
        self.board = Board(engine, agent=self.agent, project=project_of(call.cwd, environ))
        self.memory = Memory(self.agent, environ)

    def renew(self, *, seconds: float = 0.0, resources: list[str] | None = None, hashes: Any = ()) -> list[Task]:
        """Keep the agent's claims and holds, if it is time to; `seconds` is how long it may now be silent."""
        lease = max(CLAIM_LEASE, seconds + ROOM)
        if not resources and self._is_renewed(lease):
            return []
        params: dict[str, Any] = {"lease": lease, "hold_lease": max(HOLD_LEASE, lease)}
        if resources:
            params |= {"resources": resources, "hashes": list(hashes)}
        claims: list[Task] = self.board.call("agents.renew", params)
        self.memory.put("renewed", str(int(lease)).encode())
        remember_claims(self.memory, claims)
        return claims

    def _is_renewed(self, lease: float) -> bool:
        """Whether everything was renewed a moment ago, for as long as it is needed now."""
        known = self.memory.get("renewed") or b"0"
        return self.memory.age("renewed") < PAUSE and known.isdigit() and int(known) >= int(lease)


def remember_claims(memory: Memory, claims: list[Task]) -> None:
    """Which grants this agent works under, for the git guard: it asks later whether they are still the current ones."""
    lines = known_claims(memory)
    known = dict(lines)
    known.update((task.id, task.epoch) for task in claims)
    if list(known.items()) != lines:
        memory.put("claims", "".join(f"{each} {epoch}\n" for each, epoch in known.items()).encode())


def known_claims(memory: Memory) -> list[tuple[str, int]]:
    """The grants that this agent was seen to have: a task's id and the epoch."""
    found = (memory.get("claims") or b"").decode("ascii", "replace").split("\n")
    pairs = [line.split(" ") for line in found if line.count(" ") == 1]
    return [(task, int(epoch)) for task, epoch in pairs if epoch.isdecimal()]
