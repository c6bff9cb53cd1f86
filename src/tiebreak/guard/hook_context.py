"""What every decision about a hook call needs: the call, the agent, its board, and what the guard knows about it."""

from __future__ import annotations

import os

from ..agent_names import default_agent, incarnation, within
from ..board import Board
from ..limits import CLAIM_LEASE, HOLD_LEASE
from ..names import agent as check_agent
from ..repository import repository
from .agent_state import AgentState
from .guarded_file import project_of
from .holder_messages import home_of, note_home, note_main
from .hook_call import PROMPT, START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..engine.protocol import Engine
    from ..model import Task
    from .hook_call import HookCall

PAUSE = 15.0
"""Least seconds between two renewals. Leases are much longer, so most calls of a hook need not write to the board."""
ROOM = 60.0
"""Seconds that a lease lasts beyond the longest run of a tool."""


def agent_of(call: HookCall, environ: Mapping[str, str]) -> str:
    """The agent's id: the one that `tb` uses in this session's shell; a sub-agent has an id derived from it."""
    known = (call.client, call.session)
    name = environ.get("TIEBREAK_AGENT") or default_agent(environ, known)
    agent = check_agent(name if "~" in name else f"{name}~{incarnation(environ, known)}")
    return within(agent, call.subagent) if call.subagent else agent


def main_agent(call: HookCall, environ: Mapping[str, str]) -> str:
    """The id of the session's main agent, also for a call of a sub-agent."""
    part, call.subagent = call.subagent, ""
    try:
        return agent_of(call, environ)
    finally:
        call.subagent = part


class HookContext:
    """One hook call, and what is needed to decide about it."""

    def __init__(self, engine: Engine, call: HookCall, environ: Mapping[str, str] = os.environ) -> None:
        self.call = call
        self.environ = environ
        self.agent = agent_of(call, environ)
        self.state = AgentState(self.agent, environ)
        if call.subagent:
            note_main(self.state, main_agent(call, environ))
        self.board = Board(engine, agent=self.agent, project=self._project())

    def _project(self) -> str:
        """The project of the session's folder; outside of any repository, the one in which the session began."""
        home = home_of(self.state)
        if home and (not os.path.isdir(self.call.cwd) or repository(self.call.cwd) is None):
            return home
        project = project_of(self.call.cwd, self.environ)
        if self.call.phase in (START, PROMPT):
            note_home(self.state, project)
        return project

    def board_in(self, project: str) -> Board:
        """The same board as the agent sees it in another project."""
        return Board(self.board.engine, agent=self.agent, project=project)

    def at(self, folder: str) -> HookContext:
        """The same call, with the board as the agent sees it in another folder, if that is still there."""
        project = project_of(folder, self.environ) if os.path.isdir(folder) else self.board.project_names
        if project == self.board.project_names:
            return self
        made = HookContext.__new__(HookContext)
        made.__dict__.update(self.__dict__)
        made.board = self.board_in(project)
        return made

    def renew(self, *, seconds: float = 0.0, resources: list[str] | None = None, hashes: Any = ()) -> list[Task]:
        """Renew the agent's claims and holds, if it is time; `seconds` is how long the next tool may run."""
        lease = max(CLAIM_LEASE, seconds + ROOM)
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
        """Whether everything was renewed a moment ago, for at least this long."""
        known = self.state.get("renewed") or b"0"
        return self.state.age("renewed") < PAUSE and known.isdigit() and int(known) >= int(lease)


def remember_claims(state: AgentState, claims: list[Task]) -> None:
    """Remember the agent's grants. The git guard checks later whether they are still current."""
    lines = known_claims(state)
    known = dict(lines)
    known.update((task.id, task.epoch) for task in claims)
    if list(known.items()) != lines:
        state.put("claims", "".join(f"{each} {epoch}\n" for each, epoch in known.items()).encode())


def known_claims(state: AgentState) -> list[tuple[str, int]]:
    """The grants that the agent has had: task id and epoch."""
    found = (state.get("claims") or b"").decode("ascii", "replace").split("\n")
    pairs = [line.split(" ") for line in found if line.count(" ") == 1]
    return [(task, int(epoch)) for task, epoch in pairs if epoch.isdecimal()]
