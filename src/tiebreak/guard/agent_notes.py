"""Notes for an agent: what its next hook tells it, because the hook that found it has no place for it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .agent_state import AgentState

_NAME = "untold"


def leave_notes(state: AgentState, lines: Iterable[str]) -> None:
    """Keep these lines for the agent, after those that are kept already."""
    lines = list(lines)
    if lines:
        state.put(_NAME, "\n".join([*_kept(state), *lines]).encode("utf-8", "surrogateescape"))


def take_notes(state: AgentState) -> list[str]:
    """The lines that are kept for the agent. They are kept no longer."""
    lines = _kept(state)
    if lines:
        state.forget(_NAME)
    return lines


def _kept(state: AgentState) -> list[str]:
    text = (state.get(_NAME) or b"").decode("utf-8", "surrogateescape")
    return text.split("\n") if text else []
