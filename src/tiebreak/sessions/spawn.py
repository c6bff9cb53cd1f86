"""Spawning: starts an agent in a terminal of its own; for a coordinator, everything under the spawn lock.

The order of the steps makes it safe:

1. Check that no coordinator is alive.
2. Take the seat and write the session's record in one transaction. The record names this process.
3. Open the terminal. Its supervisor writes itself into the record before it lets the command run.
4. Return when the command has been alive for a moment.

If this process is killed at any point, the record names a dead process, and the next `tb spawn` cleans up.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field

from ..errors import Lost, Refused, TiebreakError, TimedOut
from ..limits import PATIENCE, SEAT_LEASE, SETTLE
from ..model import agent_id, holder_id
from ..operations import SPAWNED
from ..operations.session_fence import SEAT
from ..process_identity import Identity, from_token, identity, is_dead
from ..text import plain, rfc3339
from . import remote_control, state_files, worktree
from .records import ALIVE, GONE, ORPHANED, described, fate, record_end, settled_fate
from .spawn_lock import SpawnLock
from .tmux import Tmux, session_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..model import Session

LOOK = 0.25
"""Seconds between two looks at a session that starts."""
NOT_INHERITED = {"TMUX", "TMUX_PANE"} | {
    f"TIEBREAK_{name}"
    for name in ("AGENT", "SESSION", "PROJECT", "EPOCH", "HOLD", "SLOT", "HANDOFF", "JOB", "ATTEMPT", "WORKER")
}


@dataclass(frozen=True)
class SessionRequest:
    """What a session should be like."""

    name: str
    command: list[str]
    cwd: str
    coordinator: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    """The whole environment."""
    given: tuple[str, ...] = ()
    """Names of the variables that the caller added. Only names, never values, go to the board."""
    own_worktree: bool = False
    source: str = ""
    """A folder of the repository that the worktree is made from."""
    worktree: str | None = None
    branch: str | None = None
    settle: float = SETTLE
    lease: float = SEAT_LEASE
    patience: float = PATIENCE
    replaces: str | None = None
    ticket: str | None = None
    handoff: str | None = None


def inheritable() -> dict[str, str]:
    """The environment of this process without the variables that must differ in a new session."""
    return {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}


def spawn(board: Board, request: SessionRequest) -> Session:
    """Start an agent and return when it is alive; a coordinator only if there is none."""
    if not request.coordinator:
        return launch(board, request)
    # Before taking the lock too, so that a refused spawn does not block a handoff.
    clear_dead_coordinators(board)
    with SpawnLock(board.project, "spawn"):
        clear_dead_coordinators(board)
        return launch(board, request)


# ── Who is there already ─────────────────────────────────────────────────────────────────────────────


def clear_dead_coordinators(board: Board, old: str | None = None) -> None:
    """Record the end of coordinators that are proved dead; raise `Lost` if one is alive, except `old`."""
    for found in board.sessions.list(role="coordinator"):
        if settled_fate(found) == GONE:
            record_end(board, found)
    refuse_second(board, old)
    _free_seat(board)


def refuse_second(board: Board, old: str | None = None) -> None:
    """Raise `Lost` if a coordinator is alive, whether or not it has the seat right now."""
    for found in board.sessions.list(role="coordinator"):
        if agent_id(found) != old and not found.replaced_by and settled_fate(found) in (ALIVE, ORPHANED):
            raise already_running(found)


def _free_seat(board: Board) -> None:
    """Free a seat whose holder is not a session and is proved dead."""
    for hold in board.holds.list(matching=SEAT):
        holder = holder_id(hold) or ""
        if not board.sessions.list(session=holder) and agent_is_dead(board, holder):
            params = {"resource": SEAT, "reason": "the process of its holder is dead", "epoch": hold.epoch}
            try:
                board.call("holds.break", params)
            except Refused:
                pass  # another process freed it first


def agent_is_dead(board: Board, agent: str) -> bool:
    """Whether the process of an agent is known to be dead."""
    who = from_token(agent.partition("~")[2])
    for known in board.agents.list(agent=agent):
        if known.id == agent and known.pid:
            who = Identity(known.host or "", known.boot or "", known.pid, known.started)
    return is_dead(who)


def already_running(found: Session) -> Lost:
    """The error for a second coordinator, or a second replacement for one ticket."""
    name, state = found.agent, fate(found)
    seat = f"project {found.project} has a coordinator already: " if found.role == "coordinator" else ""
    facts: dict[str, Any] = {"holder": name, "epoch": found.epoch, "pid": found.child or found.pid, "tmux": found.tmux}
    if state == ORPHANED:
        return Lost(
            f"{seat}the supervisor of {name} is gone, but its command (pid {found.child}) still runs",
            reason="session-orphaned",
            **facts,
        )
    if found.state == "starting":
        start = f"project {found.project} is getting a coordinator already: {name}" if seat else f"{name} is starting"
        return Lost(
            f"{start}, by pid {found.pid} on {found.host} since {rfc3339(found.created_at)}",
            reason="session-starting",
            **facts,
        )
    return Lost(
        f"{seat}{described(found)}, since {rfc3339(found.created_at)}",
        reason="session-alive",
        **facts,
    )


# ── Starting ─────────────────────────────────────────────────────────────────────────────────────────


def launch(board: Board, request: SessionRequest) -> Session:
    """Start a session without further checks; return when it is alive, or raise why it is not."""
    mark = os.urandom(5).hex()
    session = f"{request.name}{SPAWNED}{mark}"
    tmux = Tmux()
    terminal = session_name(board.project, request.name, mark)
    if request.own_worktree:
        request = worktree.planned(request, mark)
    flags = remote_control.flags(board.project, request.command, terminal) if request.coordinator else []
    found = _begin(board, request, session, terminal, tmux.socket, flags)
    try:
        if request.own_worktree:
            worktree.make(request)
        _write_plan(board, request, found, terminal, tmux.socket, flags)
        supervise = [sys.executable, "-P", "-m", f"{__package__}.supervisor", state_files.plan_path(session)]
        tmux.start(terminal, request.cwd, supervise)
        return _until_alive(board, session, tmux, terminal, request.patience)
    except BaseException as exc:
        _give_up(board, found, exc)
        raise


def _begin(
    board: Board, request: SessionRequest, session: str, terminal: str, socket: str, flags: list[str]
) -> Session:
    me = identity()
    facts = {
        "env": sorted(request.given),
        "worktree": request.worktree,
        "branch": request.branch,
        "socket": socket,
        "home": state_files.folder(),
        "flags": flags,
        "settle": request.settle,
        "lease": request.lease,
        "handoff": request.handoff,
    }
    try:
        return board.sessions.begin(
            session=session,
            role="coordinator" if request.coordinator else "worker",
            command=request.command,
            cwd=request.cwd,
            tmux=terminal,
            facts={name: value for name, value in facts.items() if value},
            host=me.host,
            boot=me.boot,
            pid=me.pid,
            started=me.started,
            lease=request.lease,
            replaces=request.replaces,
            ticket=request.ticket,
        )
    except Lost as refusal:
        holder = f"{refusal.holder}~{refusal.data.get('session')}"
        for found in board.sessions.list(session=holder):
            raise already_running(found) from None
        raise


def _write_plan(
    board: Board, request: SessionRequest, found: Session, terminal: str, socket: str, flags: list[str]
) -> None:
    session = agent_id(found)
    settings = {
        "TIEBREAK_AGENT": session,
        "TIEBREAK_SESSION": session.partition("~")[2],
        "TIEBREAK_PROJECT": board.project,
        "TIEBREAK_BOARD": address_of(board),
        "TIEBREAK_EPOCH": str(found.epoch),
        **({"TIEBREAK_HANDOFF": request.handoff} if request.handoff else {}),
    }
    plan = {
        "board": address_of(board),
        "agent": session,
        "project": board.project,
        "words": [*request.command, *flags],
        "command": request.command,
        "cwd": request.cwd,
        "environment": request.environment,
        "settings": settings,
        "settle": request.settle,
        "lease": request.lease,
        "tmux": terminal,
        "socket": socket,
    }
    state_files.write_json(state_files.plan_path(session), plan)


def address_of(board: Board) -> str:
    """The address of a board including its password, for processes that this one starts."""
    return str(board.engine.full_address)


def _until_alive(board: Board, session: str, tmux: Tmux, terminal: str, patience: float) -> Session:
    end = time.monotonic() + patience
    missing = 0
    while True:
        seen = board.events.last()
        known = board.sessions.list(session=session, every=True)
        if not known:
            raise Refused(f"{session} was ended and forgotten before it came to life")
        found = known[0]
        if found.state == "alive":
            return found
        if found.ended_at:
            raise Refused(f"{found.agent} did not come to life: {found.note}", code=found.code)
        left = end - time.monotonic()
        if left <= 0:
            what = f"{found.agent} is not alive after {patience:g} s"
            raise TimedOut(what, reason="session-silent", holder=found.agent)
        board.waiting(f"{found.agent} to come to life", left)
        if not board.engine.wait(seen, min(LOOK, left), project=board.project):
            missing = missing + 1 if _vanished(found, tmux, terminal) else 0
            if missing > 1:  # twice, with a look at the board in between
                raise Refused(f"{found.agent} did not come to life: its terminal was ended")


def _vanished(found: Session, tmux: Tmux, terminal: str) -> bool:
    return fate(found) == GONE if found.child else not tmux.exists(terminal)


def _give_up(board: Board, found: Session, why: BaseException) -> None:
    """Record that the session has ended, unless its supervisor is alive."""
    note = plain(f"not started: {getattr(why, 'message', '') or type(why).__name__}")[:1000]
    try:
        if record_end(board, found, note) is None:
            for now in board.sessions.list(session=agent_id(found)):
                if settled_fate(now) == GONE:
                    record_end(board, now, note)
    except TiebreakError:
        pass  # the next process finds this one dead
