"""Commands that run: what an agent's hook saw before a command, for the hook after it.

Each running command has one mark in its agent's state: when it began, in which checkout, on which branch, and what was
at the places of held files. A mark does not count any more if its command must have ended long ago, or if its client
is known to have ended: no event comes after that command.
"""

from __future__ import annotations

import os
import time

from ...agent_names import same_family
from ...process_identity import from_token, is_dead
from ..agent_state import CLIENT_FACT, MAIN_FACT, PROMPT_FACT, AgentState, common_facts, folder, key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..hook_context import HookContext

DEFAULT = 600.0
"""Seconds that a command may run if the client does not say."""
ROOM = 60.0
"""Seconds for which a command counts as running beyond the longest time that it may run."""
MARK = "shell-"
MADE_BY = "tiebreak command 5"
LENGTH = len(key(""))
"""Of the name of an agent's folder."""


class Look:
    """What was at a held place before a command."""

    __slots__ = ("fingerprint", "signature")

    def __init__(self, signature: str, fingerprint: str = "") -> None:
        self.signature = signature
        self.fingerprint = fingerprint
        """"" if it was as in its record."""


class RunningCommand:
    """What was found before a command."""

    __slots__ = ("agent", "branch", "root", "seconds", "seen", "session", "since")

    def __init__(self, agent: str, session: str, root: str, seconds: float) -> None:
        self.agent = agent
        self.session = session
        """The client's session: several can act as one agent."""
        self.root = root
        """The top of the checkout; "" outside of any repository."""
        self.seconds = seconds
        self.branch = ""
        self.since = 0
        """When the command began, on the clock that stamps files, in nanoseconds."""
        self.seen: dict[str, Look] = {}
        """For each held path."""

    @property
    def is_old(self) -> bool:
        """Whether it must have ended long ago."""
        return time.time() - self.since / 1e9 > self.seconds + ROOM

    def save(self, state: AgentState, tool_use: str) -> int:
        """Store the mark; returns the time that the command begins at."""
        lines = [MADE_BY, self.agent, self.session, self.root, str(self.seconds), self.branch]
        for path, look in self.seen.items():
            lines += [path, look.signature, look.fingerprint]
        name = f"{_beginning(tool_use)}{os.urandom(4).hex()}"
        state.put(name, b"\0".join(line.encode("utf-8", "surrogateescape") for line in lines))
        return state.moment(name)


def _beginning(tool_use: str) -> str:
    """How the names of the marks of this use of a tool begin; there are several if the client has no ids for them."""
    return f"{MARK}{key(tool_use)}-"


class EndedCommands:
    """The marks of commands that have ended.

    They stay until all has been told: if this hook is killed before, a later one makes up for it.
    """

    def __init__(self, state: AgentState, names: list[str]) -> None:
        self._state = state
        self._names = names

    def commands(self) -> list[RunningCommand]:
        """The oldest command of each checkout."""
        oldest: dict[str, RunningCommand] = {}
        for each in (_read(self._state, name) for name in self._names):
            if each is not None:
                oldest.setdefault(each.root, each)
        return list(oldest.values())

    def forget(self) -> None:
        """All that these commands changed has been told."""
        for name in self._names:
            self._state.forget(name)


def ended(hook: HookContext) -> EndedCommands:
    """The command of this call; of several that the client calls the same, the oldest, so that nothing is missed."""
    return EndedCommands(hook.state, _marks(hook.state, _beginning(hook.call.tool_use))[:1])


def unfinished(hook: HookContext) -> EndedCommands:
    """The commands of a session that has no command running now: no event came after them."""
    marks = ((name, _read(hook.state, name)) for name in _marks(hook.state))
    of_session = [name for name, found in marks if found is None or found.session == hook.call.session]
    return EndedCommands(hook.state, of_session)


def _marks(state: AgentState, beginning: str = MARK) -> list[str]:
    """The names of the marks that begin so, the oldest first."""
    return sorted((each for each in state.names("") if each.startswith(beginning)), key=state.moment)


def is_at_prompt(agent: str, since: int) -> bool:
    """Whether a person is asked, since that time, if the agent may go on: what it is about to do has not begun."""
    return AgentState(agent).moment(PROMPT_FACT) >= since > 0


def running() -> list[RunningCommand]:
    """The commands of all agents of this user that run now."""
    homes = (common_facts(name) for name in os.listdir(folder()) if len(name) == LENGTH)
    found = ((home, [each for each in _marked(home) if not each.is_old]) for home in homes)
    return [each for home, commands in found if commands and not _is_gone(home) for each in commands]


def _is_gone(state: AgentState) -> bool:
    """Whether the client of an agent is known to have ended. A sub-agent has that of its main agent."""
    main = (state.get(MAIN_FACT) or b"").decode()
    state = AgentState(main) if main else state
    client = (state.get(CLIENT_FACT) or b"").decode("ascii", "replace")
    return bool(client) and is_dead(from_token(client))


def others_in(root: str, agent: str, commands: Iterable[RunningCommand]) -> list[RunningCommand]:
    """Those of these commands that may change a checkout and are not of this agent or its family.

    A command that was started outside of any repository may change any.
    """
    return [each for each in commands if each.root in (root, "") and not same_family(each.agent, agent)]


def own(state: AgentState, root: str) -> list[RunningCommand]:
    """The commands of an agent that run in a checkout."""
    return [each for each in _marked(state) if each.root == root]


def _marked(state: AgentState) -> Iterator[RunningCommand]:
    for name in _marks(state):
        found = _read(state, name)
        if found is not None:
            yield found


def _read(state: AgentState, name: str) -> RunningCommand | None:
    stored = state.get(name, -1)  # it names all held files
    values = [] if stored is None else stored.decode("utf-8", "surrogateescape").split("\0")
    if values[:1] != [MADE_BY] or len(values) % 3:
        return None
    _, agent, session, root, seconds, branch, *seen = values
    found = RunningCommand(agent, session, root, float(seconds))
    found.branch, found.since = branch, state.moment(name)
    for at in range(0, len(seen), 3):
        path, signature, fingerprint = seen[at : at + 3]
        found.seen[path] = Look(signature, fingerprint)
    return found
