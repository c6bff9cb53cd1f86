"""The terminal of a session: its screen, typing into it, and attaching to it. Only on the machine where it runs."""

from __future__ import annotations

from .records import on_this_host
from .stop import socket_of
from .tmux import Tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board
    from ..model import Message, Session


def screen(found: Session, history: int = 0) -> str:
    """What the terminal shows, with `history` more lines above it."""
    on_this_host(found)
    return Tmux(socket_of(found)).screen(found.tmux or "", history)


def tell(board: Board, found: Session, text: str) -> Message:
    """Type a line into the terminal; it is also sent as a message, so that the log knows of it."""
    on_this_host(found)
    message = board.messages.send(body=text, to=found.agent, channel="terminal", later=True)
    Tmux(socket_of(found)).type(found.tmux or "", text)
    return message


def attach_words(found: Session) -> list[str]:
    """The command that attaches a person to the terminal; run it without the variables of `outside_tmux`."""
    on_this_host(found)
    return Tmux(socket_of(found)).attach(found.tmux or "")


def outside_tmux(environ: dict[str, str]) -> dict[str, str]:
    """An environment in which tmux does not take itself for nested."""
    return {name: value for name, value in environ.items() if name not in ("TMUX", "TMUX_PANE")}
