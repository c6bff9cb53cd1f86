"""Notes for an agent: what its next hook tells it, because the hook that found it has no place for it."""

from __future__ import annotations

from .agent_state import key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .agent_state import AgentState

_FACT = "untold"


def leave_notes(state: AgentState, notes: Iterable[str]) -> None:
    """Keep these notes for the agent. Each is a fact of its own, because hooks of several agents leave some at once."""
    for note in notes:
        state.put(f"{_FACT}/{key(note)}", note.encode("utf-8", "surrogateescape"))


def take_notes(state: AgentState) -> list[str]:
    """The notes that are kept for the agent, the oldest first. They are kept no longer."""
    names = sorted(state.names(_FACT), key=state.moment)
    notes = [(state.get(name) or b"").decode("utf-8", "surrogateescape") for name in names]
    for name in names:
        state.forget(name)
    return [note for note in notes if note]
