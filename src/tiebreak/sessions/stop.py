"""Ending a session: type a request, then send signals, then kill; finally record that it has ended."""

from __future__ import annotations

import os
import signal
import time

from ..errors import NotFound, Refused, TiebreakError, Unavailable
from ..limits import SESSION_GRACE
from ..model import agent_id
from ..process_identity import alive
from ..process_tree import descendants, end, send
from .records import ALIVE, GONE, ORPHANED, command, fate, record_end, supervisor
from .tmux import Tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board
    from ..model import Session
    from ..process_identity import Identity

SPARE = 10.0
"""Seconds that a supervisor gets beyond its grace period before it is killed itself."""


def stop(
    board: Board, found: Session, *, ask: str | None = None, patience: float = 0.0, spare: float = SPARE
) -> Session:
    """End a session and all its processes; returns its record. `ask` is typed first, and given `patience` seconds."""
    if ask is not None and fate(found) == ALIVE:
        Tmux(socket_of(found)).type(found.tmux or "", ask)
        if (over := _ended(board, found, patience)) is not None:
            return over
    return retire(board, found, spare)


def retire(board: Board, found: Session, spare: float = SPARE) -> Session:
    """Tell the supervisor to end its command, and wait; if it does not, kill all of it from here."""
    who = supervisor(found)
    if alive(who) is None:
        return found  # on another machine; its supervisor reads on the board that it was replaced
    if not found.child and alive(who):
        raise Refused(f"{found.agent} is only just being started by pid {found.pid}", hint="try again when it is alive")
    if send(who, signal.SIGTERM):
        over = _ended(board, found, SESSION_GRACE + spare)
        if over is not None:
            return over
    kill(found)
    if fate(found) != GONE:
        raise Unavailable(f"{found.agent} cannot be ended: pid {found.child or found.pid} does not die")
    record_end(board, found, "was stopped")
    return current(board, found)


def kill(found: Session) -> None:
    """Kill the processes that the record names, and their descendants."""
    if not found.child:
        return  # the record names the process that starts it; its command never ran
    known: dict[Identity, None] = {}

    def living() -> list[Identity]:
        roots = [each for each in (supervisor(found), command(found)) if each.pid and alive(each)]
        known.update(dict.fromkeys((*roots, *descendants(*(each.pid for each in roots)))))
        return [each for each in known if each.pid != os.getpid() and alive(each)]

    end(living, SESSION_GRACE if fate(found) == ORPHANED else 0.0)


def current(board: Board, found: Session) -> Session:
    """The record as it is now."""
    for each in board.sessions.list(project=found.project, session=agent_id(found), every=True):
        return each
    raise NotFound(f"the record of {found.agent} is gone")


def _ended(board: Board, found: Session, patience: float) -> Session | None:
    """Wait for the end of a session; its record, or None if it is still alive when time is up."""
    until = time.monotonic() + patience
    while True:
        seen = board.events.last()
        now = current(board, found)
        if now.ended_at:
            return now
        if fate(now) == GONE:
            return record_end(board, now) or current(board, found)
        left = until - time.monotonic()
        if left <= 0:
            return None
        board.waiting(f"{found.agent} to end", left)
        try:
            board.engine.wait(seen, min(left, 0.5), project=found.project)
        except TiebreakError:
            time.sleep(min(left, 0.5))


def socket_of(found: Session) -> str | None:
    """The tmux server that a session lives in."""
    return (found.facts or {}).get("socket")
