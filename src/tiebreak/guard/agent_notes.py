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
        state.put(_fact(note), note.encode("utf-8", "surrogateescape"))


def notes_for(state: AgentState) -> list[str]:
    """The notes that are kept for the agent, the oldest first."""
    names = sorted(state.names(_FACT), key=state.moment)
    notes = [(state.get(name) or b"").decode("utf-8", "surrogateescape") for name in names]
    return [note for note in notes if note]


def forget_notes(state: AgentState, notes: Iterable[str]) -> None:
    """These notes have been told."""
    for note in notes:
        state.forget(_fact(note))


def _fact(note: str) -> str:
    return f"{_FACT}/{key(note)}"
