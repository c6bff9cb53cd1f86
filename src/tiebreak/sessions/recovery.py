"""Recovery: finds where the board, the processes and the terminals of this machine contradict each other.

Two things are safe to repair: the record of a session whose processes are proved dead, and a seat held by a dead agent.
Everything else is only reported, with a code for what would help. No process is ever ended here.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import Refused
from ..model import agent_id, holder_id
from ..operations.session_fence import SEAT
from ..process_identity import identity
from .records import GONE, ORPHANED, fate, record_end
from .spawn import agent_is_dead
from .stop import socket_of
from .tmux import Tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..board import Board
    from ..model import Hold, Session


class Finding(NamedTuple):
    """A finding for `tb doctor` and `tb ps`."""

    level: str
    """`ok`, `warn` or `bad`."""
    what: str
    details: str
    reason: str = ""
    """What would help, as a code for which `cli.advice` has the command."""
    facts: dict[str, str] = {}


def examine(board: Board, *, repair: bool) -> list[Finding]:
    """Find contradictions, and with `repair` remove those that are safe to remove."""
    found = [
        *_records(board, repair),
        *_seats(board, repair),
        *_rivals(board),
        *_terminals(board),
    ]
    return found or [Finding("ok", "sessions", "records, processes, terminals and seats agree")]


def _records(board: Board, repair: bool) -> list[Finding]:
    """Records whose process is dead, and commands without a supervisor."""
    out: list[Finding] = []
    for each in board.sessions.list(project=None):
        now = fate(each)
        what = f"{each.agent} in {each.project}"
        if now == GONE and repair:
            done = "its end is recorded" if record_end(board, each) else "another process took over"
            out.append(Finding("ok", "sessions", f"{what}: its process is dead; {done}"))
        elif now == GONE:
            out.append(Finding("warn", "sessions", f"{what}: its process is dead", "session-dead"))
        elif now == ORPHANED:
            text = f"{what}: its supervisor is gone but its command (pid {each.child}) runs"
            out.append(Finding("warn", "sessions", text, "session-orphaned", {"holder": each.agent}))
        elif each.fenced_by and not each.replaced_by:
            text = (
                f"{what} lives, but {each.fenced_by} has its seat: what it writes is refused; attach to it and decide"
            )
            out.append(Finding("warn", "sessions", text))
    return out


def _seats(board: Board, repair: bool) -> list[Finding]:
    """Seats whose holder is no session."""
    out: list[Finding] = []
    for hold in board.holds.list(project=None, matching=SEAT):
        holder = holder_id(hold) or ""
        if board.sessions.list(project=hold.project, session=holder):
            continue
        what = f"{SEAT} in {hold.project} is held by {hold.holder}, who is no session"
        if not agent_is_dead(board, holder):
            text = f"{what} and not known to be dead"
            out.append(Finding("warn", "seat", text, "seat-holder-unknown", {"seat": SEAT}))
        elif repair and _free(board, hold):
            out.append(Finding("ok", "seat", f"{what} and dead; it is free now"))
        else:
            out.append(Finding("warn", "seat", f"{what} and dead", "seat-holder-dead"))
    return out


def _free(board: Board, hold: Hold) -> bool:
    reason = "the process of its holder is dead"
    params = {"resource": SEAT, "project": hold.project, "reason": reason, "epoch": hold.epoch}
    try:
        board.call("holds.break", params)
    except Refused:
        return False  # another process freed it first
    return True


def _rivals(board: Board) -> list[Finding]:
    """Several live records that claim one seat, as imported data may have them."""
    claims: dict[str, list[Session]] = {}
    for each in board.sessions.list(project=None, role="coordinator"):
        if not each.fenced_by and fate(each) != GONE:
            claims.setdefault(each.project, []).append(each)
    seats = {hold.project: holder_id(hold) for hold in board.holds.list(project=None, matching=SEAT)}
    out: list[Finding] = []
    for project, rivals in claims.items():
        for each in rivals:
            if len(rivals) > 1 and agent_id(each) != seats.get(project):
                owner = seats.get(project) or "nobody"
                text = f"{agent_id(each)} in {project} claims the seat, which {owner} has"
                out.append(Finding("bad", "seat", text, "seat-claimed-twice", {"holder": agent_id(each)}))
    return out


def _terminals(board: Board) -> list[Finding]:
    """Terminals without a record. They may belong to another board, so they are only reported."""
    here = identity().host
    known = {each.tmux: each for each in board.sessions.list(project=None, every=True) if each.host == here}
    out: list[Finding] = []
    for socket in {Tmux().socket, *(s for each in known.values() if not each.ended_at and (s := socket_of(each)))}:
        for name in Tmux(socket).names():
            if name not in known:
                text = f"terminal {name} has no record on this board; `tmux -L {socket} attach -t {name}` shows it"
                out.append(Finding("warn", "terminal", text))
    return out
