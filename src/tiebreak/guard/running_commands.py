"""Commands that run: what an agent's hook saw before a command, for the hook after it.

Each running command has one mark in its agent's state: when it began, in which checkout, on which branch, and what was
at the places of held files. A mark whose command must have ended long ago does not count any more: its
client was killed, or sent no event after the command.
"""

from __future__ import annotations

import os
import time

from ..agent_names import same_family
from .agent_state import AgentState, common_facts, folder, key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hook_context import HookContext

DEFAULT = 600.0
"""Seconds that a command may run if the client does not say."""
ROOM = 60.0
"""Seconds for which a command counts as running beyond the longest time that it may run."""
MARK = "shell-"


class RunningCommand:
    """What was found before a command."""

    __slots__ = ("agent", "branch", "commit", "root", "seconds", "seen", "since")

    def __init__(self, agent: str, root: str, seconds: float) -> None:
        self.agent = agent
        self.root = root
        """The top of the checkout; "" outside of any repository."""
        self.seconds = seconds
        self.branch = ""
        self.commit = ""
        """The commit that the checkout was at; "" before the first one."""
        self.since = 0
        """When the command began, on the clock that stamps files, in nanoseconds."""
        self.seen: dict[str, tuple[str, str]] = {}
        """For each held path: its signature, and the fingerprint if it was not what the holder left."""

    def save(self, state: AgentState, tool_use: str) -> int:
        """Store the mark; returns the time that the command begins at."""
        lines = ["tiebreak command 1", self.agent, self.root, str(self.seconds), self.branch, self.commit]
        lines += [text for path, found in self.seen.items() for text in (path, *found)]
        name = _name(tool_use)
        state.put(name, b"\0".join(line.encode("utf-8", "surrogateescape") for line in lines))
        return state.moment(name)


def _name(tool_use: str) -> str:
    return f"{MARK}{key(tool_use or 'the only one')}"


def take(hook: HookContext) -> RunningCommand | None:
    """The command of this call, which has ended; None if nothing was marked before it."""
    name = _name(hook.call.tool_use)
    found = _read(hook.state, name)
    hook.state.forget(name)
    return found


def take_unfinished(hook: HookContext) -> RunningCommand | None:
    """The oldest command of an agent that has no command running now: no event came after it."""
    names = sorted(
        (each for each in hook.state.names("") if os.path.basename(each).startswith(MARK)), key=hook.state.moment
    )
    found = [each for each in (_read(hook.state, name) for name in names) if each is not None]
    for name in names:
        hook.state.forget(name)
    return found[0] if found else None


def of_others(agent: str, root: str) -> Iterator[str]:
    """The agents, apart from this one and its family, whose commands run in a checkout."""
    for home in os.listdir(folder()):
        for found in own(common_facts(home), root):
            is_old = time.time() - found.since / 1e9 > found.seconds + ROOM
            if not is_old and not same_family(found.agent, agent):
                yield found.agent


def own(state: AgentState, root: str) -> Iterator[RunningCommand]:
    """The commands of an agent that run in a checkout."""
    for name in state.names(""):
        found = _read(state, name) if os.path.basename(name).startswith(MARK) else None
        if found is not None and found.root == root:
            yield found


def _read(state: AgentState, name: str) -> RunningCommand | None:
    stored = state.get(name)
    values = [] if stored is None else stored.decode("utf-8", "surrogateescape").split("\0")
    if len(values) < 6 or len(values) % 3:
        return None
    _, agent, root, seconds, branch, commit, *seen = values
    found = RunningCommand(agent, root, float(seconds))
    found.branch, found.commit, found.since = branch, commit, state.moment(name)
    for at in range(0, len(seen), 3):
        found.seen[seen[at]] = (seen[at + 1], seen[at + 2])
    return found
