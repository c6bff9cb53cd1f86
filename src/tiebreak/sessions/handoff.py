"""Handoffs: a new session replaces an old one, with the same command, environment, worktree and seat.

The seat passes to the new session in one step, with the next epoch; from then on the board refuses what the old session
writes. When the new session is alive, the old one is ended. If the new one dies before that, the seat goes back to the
old one and nothing is lost. A handoff of a coordinator takes the same spawn lock as `tb spawn`.
"""

from __future__ import annotations

import os

from ..errors import Invalid, Refused
from ..limits import MAX_DOCUMENT, PATIENCE, SETTLE
from ..model import agent_id
from . import remote_control, state_files
from .records import GONE, fate, find, record_end
from .spawn import SessionRequest, already_running, clear_dead_coordinators, inheritable, launch
from .spawn_lock import SpawnLock
from .stop import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..model import Session


def handoff(
    board: Board,
    ref: str,
    *,
    document: str | None = None,
    command: list[str] | None = None,
    ticket: str | None = None,
    settle: float | None = None,
    patience: float = PATIENCE,
) -> tuple[Session, Session]:
    """Replace a session. Returns the new one, which is alive, and the old one, which the caller ends (`stop.retire`).

    At most one session is ever started for a `ticket`: if there is one already, it is returned.
    """
    old = find(board, ref, ended=True)
    changes = {"document": document, "command": command, "ticket": ticket, "settle": settle, "patience": patience}
    if old.role != "coordinator":
        return _replace(board, old, changes)
    with SpawnLock(board.project, "handoff"):
        return _replace(board, old, changes)


def _replace(board: Board, old: Session, changes: dict[str, Any]) -> tuple[Session, Session]:
    started = _started_for(board, changes["ticket"]) if changes["ticket"] else None
    if started is not None:
        return started, current(board, old)
    not_replaced(current(board, old))
    if old.role == "coordinator":
        clear_dead_coordinators(board, agent_id(old))
    elif fate(old) == GONE:
        record_end(board, old)
    request = successor(old, **changes)
    if request.coordinator:
        remote_control.backfill(board.project, request.command)
    return launch(board, request), current(board, old)


def not_replaced(old: Session) -> None:
    """Raise `Refused` if the session was replaced already."""
    if old.replaced_by:
        raise Refused(f"{old.agent} was replaced by {old.replaced_by} already", replaced_by=old.replaced_by)


def _started_for(board: Board, ticket: str) -> Session | None:
    """The session that was started for a ticket; raises `Lost` while one is being started."""
    for found in board.sessions.list(ticket=ticket, every=True):
        if found.alive_at:
            return found
        if not found.ended_at and fate(found) != GONE:
            raise already_running(found)
        record_end(board, found)
    return None


def successor(
    old: Session,
    *,
    command: list[str] | None,
    document: str | None,
    ticket: str | None,
    settle: float | None,
    patience: float,
) -> SessionRequest:
    """A request for a session like the old one, with these changes."""
    plan = state_files.read_json(state_files.plan_path(agent_id(old))) or {}
    facts = old.facts or {}
    environment = plan.get("environment") or inheritable()
    missing = [name for name in facts.get("env", []) if name not in environment]
    if missing:
        raise Refused(
            f"the environment of {old.agent} ({', '.join(missing)}) is not known here: its values are in the state "
            f"folder {facts.get('home')} on host {old.host}",
            hint="hand it off there, or set them here",
        )
    if not os.path.isdir(old.cwd or "/"):
        raise Refused(f"the folder of {old.agent} does not exist any more: {old.cwd}")
    return SessionRequest(
        name=old.agent,
        command=command or plan.get("command") or old.command,
        cwd=old.cwd or "/",
        coordinator=old.role == "coordinator",
        environment=environment,
        given=tuple(facts.get("env", ())),
        worktree=facts.get("worktree"),
        branch=facts.get("branch"),
        settle=facts.get("settle", SETTLE) if settle is None else settle,
        lease=facts.get("lease") or SessionRequest.lease,
        patience=patience,
        replaces=agent_id(old),
        ticket=ticket,
        handoff=document or facts.get("handoff"),
    )


def keep_document(text: str, mark: str) -> str:
    """Store a handoff document; returns its path."""
    if len(text.encode()) > MAX_DOCUMENT:
        raise Invalid(f"the handoff document has more than {MAX_DOCUMENT} bytes")
    path = os.path.join(state_files.folder("handoffs", "documents"), f"{mark}.md")
    state_files.write(path, text)
    return path
