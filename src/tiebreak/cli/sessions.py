"""Commands about sessions: agents that run in terminals of their own, and the one coordinator of a project."""

from __future__ import annotations

import os
import sys

from ..errors import Invalid, Unavailable
from ..limits import PATIENCE, SEAT_LEASE, SETTLE, STOP_PATIENCE
from ..names import seconds, short
from ..text import Styled, ago, block, plain, table
from .context import standard_input
from .parser import Argument, Option, command, duration, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..model import Session
    from ..sessions.handoff_queue import DrainResult
    from .context import Context
    from .parser import Args

AGENT = Argument("agent", "its name, name~session or terminal, as `tb ps` shows it")
STYLES = {"alive": "good", "starting": "accent", "fenced": "warn", "gone": "bad", "orphaned": "bad", "ended": "dim"}
LEVELS = {"ok": "good", "warn": "warn", "bad": "bad"}


@command(
    "spawn",
    "Start an agent in a terminal of its own; a project has at most one coordinator.",
    Argument("name", "what to call the agent"),
    Option("coordinator", text="as the project's coordinator; refused if there is one already"),
    Option("worktree", text="in a new git worktree with a new branch"),
    Option("cwd", "FOLDER", "where it runs (default: here)"),
    Option("env", "NAME=VALUE", "an environment variable (repeatable)", many=True),
    duration("settle", "how long it must run to count as alive", SETTLE),
    duration("lease", "lease of a coordinator's seat, renewed every third of this", SEAT_LEASE),
    duration("patience", "how long to wait until it is alive", PATIENCE),
    rest="COMMAND…",
    example="tb spawn lead --coordinator -- claude --continue",
)
def spawn(context: Context, args: Args) -> None:
    """Returns when it is alive. Exit 1 if there is a coordinator already, or one is being started."""
    from ..board import here
    from ..names import label, lease
    from ..sessions.spawn import SessionRequest, inheritable
    from ..sessions.spawn import spawn as start

    if not args.rest:
        raise Invalid("spawn: COMMAND is missing", hint="usage: tb spawn NAME -- COMMAND…")
    given = dict(_variable(each) for each in args.env)
    found = start(
        context.board,
        SessionRequest(
            name=label(args.name, "name"),
            command=args.rest,
            cwd=_folder(args.cwd or here()),
            coordinator=args.coordinator,
            environment={**inheritable(), **given},
            given=tuple(given),
            own_worktree=args.worktree,
            settle=seconds(args.settle, "--settle"),
            lease=lease(args.lease, "--lease"),
            patience=seconds(args.patience, "--patience"),
        ),
    )
    context.answer(found, "" if context.json else _alive(context, found))


def _variable(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name.isidentifier() or not name.isascii() or "\0" in value:
        raise Invalid(f"spawn: --env: expected NAME=VALUE, got {plain(name)!r}")
    if name.startswith("TIEBREAK_") and name not in ("TIEBREAK_TOKEN", "TIEBREAK_TMUX_SOCKET"):
        raise Invalid(f"spawn: --env: {name} is set by tb itself")
    return name, value


def _folder(path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise Invalid(f"spawn: --cwd: {plain(path)} is no folder")
    return real


def _alive(context: Context, found: Session) -> str:
    seat = f", epoch {found.epoch}" if found.role == "coordinator" else ""
    where = f"pid {found.child}, terminal {plain(found.tmux or '')}"
    return f"{context.styled('alive', 'good')} {plain(found.agent)}  {found.role}{seat}, {where}"


@command(
    "ps",
    "List sessions: who runs where, and who is the coordinator.",
    Option("all", text="also sessions that have ended"),
    Option("check", text="compare with processes and terminals, and repair what is safe to repair"),
    Option("every-project", text="of all projects, not only this one"),
    example="tb ps --check",
)
def ps(context: Context, args: Args) -> int:
    """Exit 0 if --check finds at most warnings, 3 if something is broken."""
    board = context.board
    findings = []
    if args.check:
        from ..sessions.recovery import examine
        from .advice import with_commands

        findings = with_commands(examine(board, repair=True))
    found = board.sessions.list(project=None if args.every_project else board.project_names, every=args.all)
    if context.json:
        _answer_json(context, args, found, findings)
    else:
        _show(context, board, found)
        rows: list[list[str]] = [[Styled(level, LEVELS[level]), what, text] for level, what, text in findings]
        if rows:
            context.say(table(rows, colour=context.colour))
    return 3 if any(level == "bad" for level, _, _ in findings) else 0


def _answer_json(context: Context, args: Args, found: list[Session], findings: list[tuple[str, str, str]]) -> None:
    from ..model import encode
    from ..sessions.records import fate

    rows = [{**encode(each), "fate": fate(each)} for each in found]
    told = [dict(zip(("level", "what", "details"), each, strict=True)) for each in findings]
    context.answer({"sessions": rows, "findings": told} if args.check else rows)


def _show(context: Context, board: Board, found: list[Session]) -> None:
    if not found:
        context.say("no sessions")
        return
    now = board.upkeep.now()
    rows: list[list[str]] = []
    for each in found:
        word = _word(each)
        rows.append(
            [
                each.agent,
                each.role,
                Styled(word, STYLES.get(word, "dim")),
                ago(now - each.created_at),
                str(each.epoch or "-"),
                f"{each.host}:{each.child or each.pid}",
                each.tmux or "-",
                (each.note or "") if each.ended_at else " ".join(each.command),
            ]
        )
    header = ["AGENT", "ROLE", "STATE", "AGE", "EPOCH", "PROCESS", "TERMINAL", "COMMAND"]
    context.say(table(rows, header=header, right={3, 4}, limit=context.width, colour=context.colour))


def _word(found: Session) -> str:
    """The state of a session in one word, from its record, its processes and its seat."""
    from ..sessions.records import fate

    if found.ended_at:
        return "ended"
    now = fate(found)
    if now in ("gone", "orphaned"):
        return now
    return "fenced" if found.fenced_by else found.state


@command("attach", "Attach to the terminal of a session.", AGENT, example="tb attach lead")
def attach(context: Context, args: Args) -> None:
    """Detach as from every tmux session: Ctrl-b d."""
    from ..sessions.records import find
    from ..sessions.terminal import attach_words, outside_tmux

    words = attach_words(find(context.board, args.agent))
    if context.json or not sys.stdin.isatty():
        from shlex import join

        context.answer({"command": words}, f"this is not a terminal; in one, run: {join(words)}")
        return
    context.close()
    try:
        os.execvpe(words[0], words, outside_tmux(dict(os.environ)))  # noqa: S606  (a shell is not needed)
    except FileNotFoundError:
        raise Unavailable("tmux is not installed", hint="sessions live in tmux; install it") from None


@command(
    "peek",
    "Show the screen of a session.",
    AGENT,
    Option("lines", "N", "also this many lines above the screen (default 0)", default=0, convert=whole),
    example="tb peek lead",
)
def peek(context: Context, args: Args) -> None:
    """Does not affect the session."""
    from ..sessions.records import find
    from ..sessions.terminal import screen

    if args.lines < 0:
        raise Invalid(f"peek: --lines: expected a number from 0, got {args.lines}")
    found = find(context.board, args.agent)
    shown = screen(found, args.lines)
    context.answer({"agent": found.agent, "tmux": found.tmux, "screen": shown}, block(shown))


@command(
    "tell",
    "Type a line into the terminal of a session; it is also sent as a message.",
    AGENT,
    Argument("text", "what to type; - reads it from standard input", many=True),
    example="tb tell lead 'please look at the failing tests'",
)
def tell(context: Context, args: Args) -> None:
    """As if you had attached, typed it and pressed Enter."""
    from ..sessions.records import find
    from ..sessions.terminal import tell as type_into

    text = (standard_input() if args.text == ["-"] else " ".join(args.text)).rstrip("\n")
    found = find(context.board, args.agent)
    message = type_into(context.board, found, text)
    context.answer(message, f"told {plain(found.agent)} (message {message.number})")


@command(
    "stop",
    "End a session and all its processes: SIGTERM first, then SIGKILL.",
    AGENT,
    Option("ask", "TEXT", "first type this, such as /exit"),
    duration("patience", "with --ask: how long to wait until it ends by itself", STOP_PATIENCE),
    Option("reason", "TEXT", "why; part of the message that it gets"),
    example="tb stop lead --ask /exit",
)
def stop(context: Context, args: Args) -> None:
    """The seat of a coordinator is free as soon as it has ended."""
    from ..sessions.records import find, on_this_host
    from ..sessions.stop import stop as end

    board = context.board
    found = find(board, args.agent)
    on_this_host(found)
    why = f": {args.reason}" if args.reason else ""
    board.messages.send(
        body=f"you are being stopped by {short(board.agent)}{why}", to=found.agent, channel="terminal", later=True
    )
    over = end(board, found, ask=args.ask, patience=seconds(args.patience, "--patience"))
    context.answer(over, f"stopped {plain(over.agent)} ({plain(over.note or '')})")


@command(
    "rm",
    "Remove the record and files of a session that has ended.",
    AGENT,
    Option("worktree", text="also remove its worktree, if everything in it is committed"),
    example="tb rm lead",
)
def rm(context: Context, args: Args) -> None:
    """Refused while the session runs."""
    from ..model import agent_id
    from ..sessions import state_files
    from ..sessions.records import GONE, fate, find, on_this_host, record_end

    board = context.board
    found = find(board, args.agent, ended=True)
    if not found.ended_at and fate(found) == GONE:
        found = record_end(board, found) or found
    tree = (found.facts or {}).get("worktree")
    if args.worktree and tree and found.ended_at:
        from ..sessions.worktree import remove

        on_this_host(found)
        remove(tree)
    gone = board.sessions.remove(session=agent_id(found))
    state_files.forget(agent_id(found))
    context.answer(gone, f"forgot {plain(agent_id(gone))}")


@command(
    "handoff",
    "Replace a session by a new one with the same command, environment, worktree and seat.",
    AGENT,
    Option("doc", "FILE", "a document for the new session; - reads it from standard input"),
    Option("queue", text="only queue it, for `tb drain` or the daemon"),
    Option("settle", "DURATION", "how long it must run to count as alive (default: as for the old one)"),
    duration("patience", "how long to wait until the new one is alive", PATIENCE),
    rest="COMMAND…",
    example="tb handoff lead --doc notes.md",
)
def handoff(context: Context, args: Args) -> None:
    """The old one can no longer write, and ends when the new one is alive. If the new one dies, the old one goes on."""
    from ..model import agent_id
    from ..sessions.handoff import handoff as replace
    from ..sessions.handoff import keep_document
    from ..sessions.handoff_queue import enqueue
    from ..sessions.stop import retire

    board, mark = context.board, os.urandom(6).hex()
    settle = None if args.settle is None else seconds(args.settle, "--settle")
    patience = seconds(args.patience, "--patience")
    document = keep_document(_document(args.doc), mark) if args.doc else None
    changes: dict[str, Any] = {"document": document, "command": args.rest or None, "settle": settle}
    if args.queue:
        path = enqueue(board, args.agent, ticket=mark, **changes)
        context.answer({"ticket": mark, "file": path}, f"queued as {mark}; `tb drain` starts it")
        return
    new, old = replace(board, args.agent, patience=patience, **changes)
    inside = os.environ.get("TIEBREAK_AGENT") == agent_id(old)
    if not inside and not old.ended_at:
        retire(board, old)
    context.answer(new, "" if context.json else f"{_alive(context, new)}\n{plain(agent_id(old))} was replaced")
    if inside and not old.ended_at:
        sys.stdout.flush()
        retire(board, old)  # this ends the session that this command itself runs in


def _document(path: str) -> str:
    if path == "-":
        return standard_input()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise Invalid(f"handoff: --doc: cannot read {path!r}: {exc}") from None


@command(
    "drain",
    "Start the handoffs that `tb handoff --queue` has queued.",
    Option("every-project", text="of all projects, not only this one"),
    Option("wait", "DURATION", "retry for that long what cannot be started now", default="0s"),
    duration("patience", "how long to wait until a new session is alive", PATIENCE),
    example="tb drain --wait 60s",
)
def drain(context: Context, args: Args) -> int:
    """Exit 1 if a handoff is left in the queue or was put aside; none is ever lost."""
    import time

    from ..sessions.handoff_queue import DONE, LEFT
    from ..sessions.handoff_queue import drain as go_through

    board = context.board
    project = None if args.every_project else board.project
    until = time.monotonic() + seconds(args.wait, "--wait")
    told: list[DrainResult] = []
    while True:
        found = go_through(board, project=project, patience=seconds(args.patience, "--patience"))
        told = [*(each for each in told if each.outcome != LEFT), *found]
        left = [each for each in found if each.outcome == LEFT]
        if not left or time.monotonic() >= until:
            break
        context.waiting(f"{len(left)} handoffs that cannot be started now", until - time.monotonic())
        time.sleep(0.5)
    context.answer([each._asdict() for each in told])
    for each in told if not context.json else []:
        word = context.styled(each.outcome, "good" if each.outcome == DONE else "warn")
        context.say(f"{word} {each.ticket} for {plain(each.agent)}: {plain(each.detail)}")
    if not told and not context.json:
        context.say("the queue is empty")
    return 1 if any(each.outcome != DONE for each in told) else 0


@command(
    "rc",
    "Show or set whether coordinators get the remote-control flag.",
    Argument("action", "up, down or status"),
    Argument("where", "the project (default: this one)", optional=True),
    example="tb rc up",
)
def rc(context: Context, args: Args) -> None:
    """TIEBREAK_RC_FLAG sets the flag; default: `--remote-control {session}`."""
    from ..names import project as check
    from ..sessions import remote_control

    project = check(args.where) if args.where else context.board.project
    if args.action not in (remote_control.UP, remote_control.DOWN, "status"):
        raise Invalid(f"rc: up, down or status, got {args.action!r}")
    if args.action != "status":
        remote_control.put(project, args.action)
    now = remote_control.state(project)
    facts = {"project": project, "remote_control": now, "flag": remote_control.flag_words("{session}")}
    context.answer(facts, f"remote control is {now} for {plain(project)}")
