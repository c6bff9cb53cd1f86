"""Messages of the guard to the holders of files.

A hook can be killed at any moment, and two hooks can notice the same thing. So a message is sent before the guard notes
that something was noticed, and whoever notices it again sends the same message, which the board takes once.

Sub-agents have no turns of their own, in which clients show messages. So a message to one goes to its main agent, and
the sub-agent gets a note.
"""

from __future__ import annotations

from ..errors import Invalid
from ..names import checksum, short
from .agent_notes import leave_notes
from .agent_state import MAIN_FACT, AgentState

CHANNEL = "guard"
_HOME = "home"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board


def note_home(state: AgentState, project: str) -> None:
    """Remember in which project an agent reads its messages: that of the folder in which its session is."""
    if (state.get(_HOME) or b"").decode() != project:
        state.put(_HOME, project.encode())


def home_of(state: AgentState) -> str:
    """The project in which an agent reads its messages; "" if its hooks have not run here."""
    return (state.get(_HOME) or b"").decode()


def note_main(state: AgentState, main: str) -> None:
    """Remember whose sub-agent an agent is."""
    if main_of(state) != main:
        state.put(MAIN_FACT, main.encode())


def main_of(state: AgentState) -> str:
    """The main agent of a sub-agent; "" if it is none, or if its hooks have not run here."""
    return (state.get(MAIN_FACT) or b"").decode()


def tell(board: Board, holder: str, body: str, *, once: str, project: str = "") -> None:
    """Tell a holder what concerns its files. `once` says what has happened: about the same a holder is told once."""
    reader = main_of(AgentState(holder)) or holder
    if reader != holder:
        leave_notes(AgentState(holder), [f"tiebreak: {body}"], copies=True)
    params = {
        "to": short(reader),
        "body": body if reader == holder else f"To your sub-agent {short(holder)}: {body}",
        "importance": "high",
        "channel": CHANNEL,
        "later": True,  # it holds a file, so it exists
        "project": home_of(AgentState(reader)) or project or board.project_names,
    }
    key = checksum(f"{once} {holder}".encode("utf-8", "surrogateescape"))
    try:
        board.call("messages.send", params, once=f"guard-{key:016x}")
    except Invalid as refused:
        if "already used" not in refused.message:
            raise  # otherwise another hook has told it, in other words
