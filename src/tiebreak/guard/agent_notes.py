"""Notes for an agent: what its next hook tells it, because the hook that found it has no place for it."""

from __future__ import annotations

from .agent_state import key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .agent_state import AgentState

LONGEST = 2200
"""Most bytes that an agent is told at once: well below 600 tokens."""
_NOTES, _COPIES = "untold", "untold-copies"


def leave_notes(state: AgentState, notes: Iterable[str], *, copies: bool = False) -> None:
    """Keep these notes for the agent. Each is a fact of its own, because hooks of several agents leave some at once.

    `copies`: they are copies of messages to its main agent.
    """
    for note in notes:
        state.put(f"{_COPIES if copies else _NOTES}/{key(note)}", note.encode("utf-8", "surrogateescape"))


def notes_for(state: AgentState, *, copies: bool = True) -> list[str]:
    """The notes that are kept for the agent, the oldest first."""
    names = [name for under in (_NOTES, _COPIES)[: 1 + copies] for name in state.names(under)]
    notes = [(state.get(name) or b"").decode("utf-8", "surrogateescape") for name in sorted(names, key=state.moment)]
    return [note for note in notes if note]


def fitting(notes: list[str]) -> list[str]:
    """The first notes, as many as an agent is told at once, and at least one. The others come with the next hook."""
    room = LONGEST
    for count, note in enumerate(notes):
        room -= len(note.encode("utf-8", "surrogateescape")) + 1
        if room < 0 and count:
            return notes[:count]
    return notes


def forget_notes(state: AgentState, notes: Iterable[str]) -> None:
    """These notes have been told."""
    for note in notes:
        for under in (_NOTES, _COPIES):
            state.forget(f"{under}/{key(note)}")
