"""Queued handoffs: each is a file, and whoever drains the queue starts the replacement.

A file stays in the queue until its replacement is alive. Contention, crashes and commands that fail leave it there. The
record of each session that was started for a file carries the file's ticket, so a second run knows what the first one
did, and exactly one replacement comes to life.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from ..board import Board
from ..clock import micros
from ..errors import Lost, NotFound, Refused, TiebreakError, TimedOut, Unavailable
from ..files import try_lock
from ..limits import PATIENCE
from ..model import Need, agent_id, record
from ..names import short
from . import state_files
from .handoff import handoff, not_replaced
from .records import find
from .spawn import address_of
from .stop import retire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_TRIES = 3
"""Failed replacements after which a queued handoff is put aside."""
_NEEDED = {"ticket", "board", "project", "agent", "document", "command", "settle"}
DONE, LEFT, ASIDE = "done", "left", "put aside"


class DrainResult(NamedTuple):
    """What became of one queued handoff."""

    ticket: str
    project: str
    agent: str
    outcome: str
    """`done`; `left` in the queue, to be tried again; or `put aside`, because trying again does not help."""
    detail: str


def enqueue(
    board: Board,
    ref: str,
    *,
    ticket: str,
    document: str | None = None,
    command: list[str] | None = None,
    settle: float | None = None,
) -> str:
    """Put a handoff into the queue; returns its file, which is synced to disk."""
    old = find(board, ref, ended=True)
    not_replaced(old)
    order = {
        "ticket": ticket,
        "board": address_of(board),
        "project": board.project,
        "agent": agent_id(old),
        "document": document,
        "command": command,
        "settle": settle,
        "by": board.agent,
        "at": time.time(),
    }
    path = os.path.join(state_files.folder("handoffs", "queue"), f"{time.time_ns():020d}-{ticket}.json")
    state_files.write_json(path, order)
    return path


def queued() -> list[str]:
    """The files in the queue, oldest first."""
    folder = state_files.folder("handoffs", "queue")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json")]


def waiting(concerns: Callable[[dict[str, Any]], bool]) -> list[Need]:
    """The queued handoffs whose order concerns the caller, for people who watch; the board does not know of them."""
    try:
        orders = [state_files.read_json(path) for path in queued()]
    except (OSError, Unavailable):
        return []  # without a folder of our own nothing was queued
    return [_need(order) for order in orders if order is not None and concerns(order)]


def _need(order: dict[str, Any]) -> Need:
    agent, at = str(order.get("agent") or "?"), order.get("at")
    since = micros(float(at)) if isinstance(at, (int, float)) else 0
    what = ("handoff", str(order.get("project") or ""), short(agent), 0, None, 0)
    note = "waits for its replacement to be started"
    return record(Need, (*what, f"hand over from {short(agent)}", agent, True, since, note))


def queued_boards() -> set[str]:
    """The addresses of the boards that have something in the queue, as whoever queued it called them."""
    try:
        orders = [state_files.read_json(path) for path in queued()]
    except (OSError, Unavailable):
        return set()  # without a folder of our own nothing was queued
    return {str(order["board"]) for order in orders if order is not None and "board" in order}


def drain(board: Board, *, project: str | None = None, patience: float = PATIENCE) -> list[DrainResult]:
    """Try each queued handoff of this board once, or only those of one project."""
    out = []
    for path in queued():
        order = state_files.read_json(path)
        if order is None and not os.path.exists(path):
            continue  # another process has just drained it
        if order is None or not order.keys() >= _NEEDED:
            state_files.move(path, _beside(path, "aside"))
            out.append(DrainResult("?", "?", os.path.basename(path), ASIDE, "the file cannot be understood"))
        elif order["board"] == address_of(board) and project in (None, order["project"]):
            out += _one(board, path, order, patience)
    return out


def _one(board: Board, path: str, order: dict[str, Any], patience: float) -> list[DrainResult]:
    """Try one file; one process at a time does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        if not try_lock(fd):
            outcome, detail = LEFT, "another process is draining it"
        elif not os.path.exists(path):
            return []
        else:
            outcome, detail = _tried(Board(board.engine, agent=board.agent, project=order["project"]), order, patience)
            if outcome != LEFT:
                state_files.move(path, _beside(path, "done" if outcome == DONE else "aside"))
    finally:
        os.close(fd)
    return [DrainResult(order["ticket"], order["project"], order["agent"], outcome, detail)]


def _tried(board: Board, order: dict[str, Any], patience: float) -> tuple[str, str]:
    try:
        new, old = handoff(
            board,
            order["agent"],
            document=order["document"],
            command=order["command"],
            ticket=order["ticket"],
            settle=order["settle"],
            patience=patience,
        )
    except Lost as exc:
        return LEFT, exc.message
    except (Refused, TimedOut) as exc:
        return _failed(board, order, exc)
    if not old.ended_at:
        retire(board, old)
    return DONE, f"{agent_id(new)} took over"


def _failed(board: Board, order: dict[str, Any], why: TiebreakError) -> tuple[str, str]:
    if why.data.get("replaced_by") or isinstance(why, NotFound):  # the old session was replaced, or its record removed
        return ASIDE, why.message
    tries = len(board.sessions.list(ticket=order["ticket"], every=True))
    if tries == 0 or tries >= MOST_TRIES:
        return (ASIDE if tries else LEFT), f"{why.message} ({tries} tries)"
    return LEFT, f"{why.message} (try {tries} of {MOST_TRIES})"


def _beside(path: str, name: str) -> str:
    return os.path.join(state_files.folder("handoffs", name), os.path.basename(path))
