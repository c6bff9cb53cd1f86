"""Spawning: an agent in a terminal of its own, and for a coordinator everything under one gate.

The order is what makes it safe. Look who is there; take the seat and write the record in one step, answered for by
this process; open the terminal, whose supervisor takes over the answering before it lets the command run; come back
when the command has lived for a moment. Killed anywhere in between, what is left can be told from the board and from
the processes that it names, and whoever comes next clears it away.
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
from ..process_identity import Identity, alive, from_token, identity
from ..text import plain, rfc3339
from . import files, marker, worktree
from .gate import Gate
from .records import ALIVE, GONE, ORPHANED, bury, described, fate, settled_fate
from .tmux import Tmux, session_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..model import Session

LOOK = 0.25
NOT_INHERITED = {"TMUX", "TMUX_PANE"} | {
    f"TIEBREAK_{name}"
    for name in ("AGENT", "SESSION", "PROJECT", "EPOCH", "HOLD", "SLOT", "HANDOFF", "JOB", "ATTEMPT", "WORKER")
}


@dataclass(frozen=True)
class Wanted:
    """A session as somebody asks for it."""

    name: str
    command: list[str]
    cwd: str
    coordinator: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    """All of it, with the values."""
    given: tuple[str, ...] = ()
    """The names that were asked for by name: what the board may know of it."""
    own_worktree: bool = False
    source: str = ""
    """The folder whose repository the worktree is made from."""
    worktree: str | None = None
    branch: str | None = None
    settle: float = SETTLE
    lease: float = SEAT_LEASE
    patience: float = PATIENCE
    replaces: str | None = None
    ticket: str | None = None
    handoff: str | None = None


def inheritable() -> dict[str, str]:
    """The environment of this process, as far as a session should have it."""
    return {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}


def spawn(board: Board, wanted: Wanted) -> Session:
    """Start an agent and come back when it lives; for a coordinator, only if there is none."""
    if not wanted.coordinator:
        return launch(board, wanted)
    make_way(board)  # also out here, so that a spawn in vain keeps no handoff from passing the gate
    with Gate(board.project, "spawn"):
        make_way(board)
        return launch(board, wanted)


# ── Who is there already ─────────────────────────────────────────────────────────────────────────────


def make_way(board: Board, old: str | None = None) -> None:
    """Clear away coordinators that are dead by proof; raise `Lost` if one lives. `old` is about to be replaced."""
    for found in board.sessions.list(role="coordinator"):
        if settled_fate(found) == GONE:
            bury(board, found)
    veto(board, old)
    _vacate(board)


def veto(board: Board, old: str | None = None) -> None:
    """Raise `Lost` if a coordinator lives here, whether or not it has its seat at this moment."""
    for found in board.sessions.list(role="coordinator"):
        if agent_id(found) != old and not found.replaced_by and settled_fate(found) in (ALIVE, ORPHANED):
            raise taken(found)


def _vacate(board: Board) -> None:
    """Free a seat that is held for somebody who was never a session and is dead by proof."""
    for hold in board.holds.list(matching=SEAT):
        holder = holder_id(hold) or ""
        if not board.sessions.list(session=holder) and dead(board, holder):
            params = {"resource": SEAT, "reason": "the process of its holder is dead", "epoch": hold.epoch}
            try:
                board.call("holds.break", params)
            except Refused:
                pass  # somebody was quicker


def dead(board: Board, agent: str) -> bool:
    """Whether the process of an agent is known to be dead."""
    who = from_token(agent.partition("~")[2])
    for known in board.agents.list(agent=agent):
        if known.id == agent and known.pid:
            who = Identity(known.host or "", known.boot or "", known.pid, known.started)
    return who is not None and alive(who) is False


def taken(found: Session) -> Lost:
    """What the second one is told."""
    name, state = found.agent, fate(found)
    facts: dict[str, Any] = {"holder": name, "epoch": found.epoch, "pid": found.child or found.pid, "tmux": found.tmux}
    if state == ORPHANED:
        return Lost(
            f"project {found.project} has a coordinator already: the supervisor of {name} is gone, but its command "
            f"(pid {found.child}) still runs",
            hint=f"`tb stop {name}` ends it",
            **facts,
        )
    if found.state == "starting":
        return Lost(
            f"project {found.project} is getting a coordinator already: {name}, by pid {found.pid} on {found.host} "
            f"since {rfc3339(found.created_at)}",
            hint=f"`tb attach {name}` leads to it once it is alive",
            **facts,
        )
    return Lost(
        f"project {found.project} has a coordinator already: {described(found)}, since {rfc3339(found.created_at)}",
        hint=f"`tb attach {name}` leads to it, `tb handoff {name}` replaces it",
        **facts,
    )


# ── Starting ─────────────────────────────────────────────────────────────────────────────────────────


def launch(board: Board, wanted: Wanted) -> Session:
    """Start a session, whoever allowed it; come back when it lives, or raise why it does not."""
    mark = os.urandom(5).hex()
    session = f"{wanted.name}{SPAWNED}{mark}"
    tmux = Tmux()
    terminal = session_name(board.project, wanted.name, mark)
    if wanted.own_worktree:
        wanted = worktree.planned(wanted, mark)
    flags = marker.flags(board.project, wanted.command, terminal) if wanted.coordinator else []
    found = _begin(board, wanted, session, terminal, tmux.socket, flags)
    try:
        if wanted.own_worktree:
            worktree.make(wanted)
        _write_plan(board, wanted, found, terminal, tmux.socket, flags)
        supervise = [sys.executable, "-P", "-m", "tiebreak.sessions.supervisor", files.spec_path(session)]
        tmux.start(terminal, wanted.cwd, supervise)
        return _until_alive(board, session, tmux, terminal, wanted.patience)
    except BaseException as exc:
        _give_up(board, found, exc)
        raise


def _begin(board: Board, wanted: Wanted, session: str, terminal: str, socket: str, flags: list[str]) -> Session:
    me = identity()
    facts = {
        "env": sorted(wanted.given),
        "worktree": wanted.worktree,
        "branch": wanted.branch,
        "socket": socket,
        "home": files.folder(),
        "flags": flags,
        "settle": wanted.settle,
        "lease": wanted.lease,
        "handoff": wanted.handoff,
    }
    try:
        return board.sessions.begin(
            session=session,
            role="coordinator" if wanted.coordinator else "worker",
            command=wanted.command,
            cwd=wanted.cwd,
            tmux=terminal,
            facts={name: value for name, value in facts.items() if value},
            host=me.host,
            boot=me.boot,
            pid=me.pid,
            started=me.started,
            lease=wanted.lease,
            replaces=wanted.replaces,
            ticket=wanted.ticket,
        )
    except Lost as refusal:
        holder = f"{refusal.holder}~{refusal.data.get('session')}"
        for found in board.sessions.list(session=holder):
            raise taken(found) from None
        raise


def _write_plan(board: Board, wanted: Wanted, found: Session, terminal: str, socket: str, flags: list[str]) -> None:
    session = agent_id(found)
    settings = {
        "TIEBREAK_AGENT": session,
        "TIEBREAK_SESSION": session.partition("~")[2],
        "TIEBREAK_PROJECT": board.project,
        "TIEBREAK_BOARD": address_of(board),
        "TIEBREAK_EPOCH": str(found.epoch),
        **({"TIEBREAK_HANDOFF": wanted.handoff} if wanted.handoff else {}),
    }
    plan = {
        "board": address_of(board),
        "agent": session,
        "project": board.project,
        "words": [*wanted.command, *flags],
        "command": wanted.command,
        "cwd": wanted.cwd,
        "environment": wanted.environment,
        "settings": settings,
        "settle": wanted.settle,
        "lease": wanted.lease,
        "tmux": terminal,
        "socket": socket,
    }
    files.write_json(files.spec_path(session), plan)


def address_of(board: Board) -> str:
    """The whole address of a board, as its own processes need it."""
    return str(board.engine.whole)


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
            raise TimedOut(f"{found.agent} is not alive after {patience:g} s", hint=f"`tb peek {found.agent}` shows it")
        if not board.engine.wait(seen, min(LOOK, left), project=board.project):
            missing = missing + 1 if _vanished(found, tmux, terminal) else 0
            if missing > 1:  # seen twice, with another look at the board in between
                raise Refused(f"{found.agent} did not come to life: its terminal was ended")


def _vanished(found: Session, tmux: Tmux, terminal: str) -> bool:
    return fate(found) == GONE if found.child else not tmux.exists(terminal)


def _give_up(board: Board, found: Session, why: BaseException) -> None:
    """What was begun is over, unless its supervisor has it in hand by now."""
    note = plain(f"not started: {getattr(why, 'message', '') or type(why).__name__}")[:1000]
    try:
        if bury(board, found, note) is None:
            for now in board.sessions.list(session=agent_id(found)):
                if settled_fate(now) == GONE:
                    bury(board, now, note)
    except TiebreakError:
        pass  # whoever comes next finds this process dead
