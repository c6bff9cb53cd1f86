"""Session records on the board: finding one by name, and telling by its processes whether the session is alive."""

from __future__ import annotations

import time

from ..errors import NotFound, Refused
from ..model import agent_id
from ..process_identity import Identity, alive, identity
from ..text import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board
    from ..model import Session

ALIVE, GONE, ORPHANED, UNKNOWN = "alive", "gone", "orphaned", "unknown"
DYING = 5.0
"""Seconds that a command may take to die with its supervisor before it counts as orphaned."""


def supervisor(found: Session) -> Identity:
    """The process that stands for a session: its supervisor, or before that the process that starts it."""
    return Identity(found.host, found.boot, found.pid, found.started)


def command(found: Session) -> Identity:
    """The process of the session's command."""
    return Identity(found.host, found.boot, found.child, found.child_started)


def fate(found: Session) -> str:
    """`alive`, `gone` (proved), `orphaned` (alive without its supervisor), or `unknown` from this machine."""
    if found.ended_at:
        return GONE
    life = alive(supervisor(found))
    if life is not False:
        return UNKNOWN if life is None else ALIVE
    if not found.child:
        return GONE
    return {True: ORPHANED, False: GONE, None: UNKNOWN}[alive(command(found))]


def settled_fate(found: Session) -> str:
    """The same, after waiting for a command that is about to die with its supervisor."""
    end = time.monotonic() + DYING
    while (now := fate(found)) == ORPHANED and time.monotonic() < end:
        time.sleep(0.01)
    return now


def record_end(board: Board, found: Session, note: str = "its process was found dead") -> Session | None:
    """Record that a session whose process is dead has ended; None if another process has taken it over meanwhile."""
    try:
        return board.sessions.end(
            session=agent_id(found), project=found.project, note=note, pid=found.pid, started=found.started
        )
    except Refused:
        return None


def find(board: Board, ref: str, *, ended: bool = False) -> Session:
    """Find a session by its agent's name or id, or by its terminal; a live one is preferred."""
    from ..names import agent as check_agent

    named = board.sessions.list(every=True, session=check_agent(ref))
    if not named:
        named = [each for each in board.sessions.list(every=True) if each.tmux == ref]
    living = [each for each in named if not each.ended_at]
    living.sort(key=lambda each: bool(each.fenced_by))  # of two, prefer the one that has the seat
    if not living and not (ended and named):
        over = f"; it ended {_time_since_end(board, named[0])} ago ({named[0].note})" if named else ""
        raise NotFound(f"no session of {ref} runs in project {board.project}{over}", reason="session-unknown")
    return (living or named)[0]


def _time_since_end(board: Board, found: Session) -> str:
    return span(max(0.0, board.upkeep.now() - (found.ended_at or 0)))


def on_this_host(found: Session) -> None:
    """Raise `Refused` if the session runs on another machine."""
    if found.host != identity().host:
        raise Refused(
            f"{found.agent} lives on host {found.host}, and this is {identity().host}",
            hint="do it there",
            host=found.host,
        )


def described(found: Session) -> str:
    """A session in a few words, for messages."""
    return f"{found.agent} (pid {found.child or found.pid} on {found.host}, terminal {found.tmux})"
