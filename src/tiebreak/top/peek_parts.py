"""The parts that a peek is made of: a terminal, a job's output, holds, unread messages, history and diff.

Each is bounded, so that the peek at a huge log or a huge diff is as quick as any other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ..errors import NotFound, TiebreakError
from ..held_files import called, is_file, path_of
from ..names import FINAL, short
from ..text import ago, block, plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..board import Board
    from ..model import Hold, Session, Task

TAIL = 8_000
"""How many bytes at the end of a job's output are shown."""
DIFF_LINES = 200
DIFF_PATIENCE = 2.0
"""Seconds for git."""
_DIFF = ["diff", "--no-color", "--no-ext-diff", "--no-textconv"]
LINES = 40
"""At most this many lines of one message or description."""
UNREAD = 10
"""How many unread messages or comments are shown."""


class PeekPart(NamedTuple):
    """A heading and lines that are safe to show. `style` is for all of them; `diff` colours each by its sign."""

    title: str
    lines: list[str]
    style: str = ""
    live: bool = False
    """Whether it changes without an event, as a terminal does: its end is what a person wants to see."""


class Peeked(NamedTuple):
    """What is known of a thing."""

    title: str
    parts: list[PeekPart]

    @property
    def live(self) -> bool:
        """Whether a part of it changes without an event: a running job's output, a terminal."""
        return any(part.live for part in self.parts)


def described(agent: Any, now: float) -> Iterator[str]:
    """An agent in a few lines."""
    yield f"{agent.status}, seen {ago(now - agent.seen_at)} ago, here since {ago(now - agent.joined_at)}"
    if agent.doing:
        yield plain(agent.doing)
    facts = [agent.program, f"on {agent.host}" if agent.host else None, f"pid {agent.pid}" if agent.pid else None]
    facts.append(f"started by {short(agent.parent)}" if agent.parent else None)
    if any(facts):
        yield plain(" · ".join(each for each in facts if each))


def terminal(session: Session) -> PeekPart:
    """The end of what is on the screen of a session."""
    from ..sessions.terminal import screen

    try:
        lines = block(screen(session)).splitlines()
    except TiebreakError as exc:
        return PeekPart("terminal", [plain(exc.message)], "warn", live=True)
    while lines and not lines[-1].strip():
        lines.pop()
    return PeekPart(f"terminal of {plain(session.agent)}", lines[-LINES:] or ["(empty)"], live=True)


def held(holds: list[Hold], now: float) -> PeekPart:
    """What an agent holds."""
    return PeekPart(
        "holds",
        [
            f"{plain(called(each.resource))} · epoch {each.epoch} · {ago((each.until or now) - now)} left"
            for each in holds
        ],
    )


def unread_messages(board: Board, name: str, now: float) -> PeekPart:
    """The messages that an agent has not read."""
    unread = board.messages.inbox(agent=name, limit=UNREAD)
    said = [f"{plain(each.sender)}, {ago(now - each.sent_at)} ago: {first_line(each.body)}" for each in unread]
    return PeekPart("unread messages", said)


def output(board: Board, task: Task) -> PeekPart:
    """The end of a job's output."""
    answer = board.jobs.output(ref=f"#{task.number}")
    if answer["total"] > TAIL and answer["next"] < answer["total"]:
        answer = board.jobs.output(ref=f"#{task.number}", epoch=answer["epoch"], after=answer["total"] - TAIL)
    text = "".join(chunk["text"] for chunk in answer["chunks"])
    lines = block(text[-TAIL:]).splitlines()[-LINES:]
    what = "output" if task.state == "claimed" else f"output, {task.state}"
    return PeekPart(what, lines or ["(nothing yet)"], live=task.state not in FINAL)


def history(board: Board, ref: str, limit: int) -> PeekPart:
    """Why a task or a resource is as it is."""
    try:
        found = board.events.why(ref=ref, limit=limit)
    except NotFound:
        return PeekPart("why", ["nothing is known of it"], "dim")
    now = board.upkeep.now()
    return PeekPart("why", [f"{'' if not each.event else ago(now - each.at):>4}  {plain(each.text)}" for each in found])


def diff(board: Board, resources: list[str], session: Session | None) -> PeekPart:
    """What is changed in the held files: in the session's folder if it runs here, else in this checkout."""
    from ..guard.bounded_command import run_bounded

    paths = [path_of(each) for each in resources if is_file(each)][:50]
    root = (session.cwd if session and os.path.isdir(session.cwd or "") else None) or board.root()
    if not paths or root == "/":
        return PeekPart("diff", [])
    wanted = ["--", *(f":(top,glob){path}" for path in paths)]
    lines: list[str] = []
    for words in (["ls-files", "--others", "--exclude-standard", "--full-name"], [*_DIFF, "HEAD"]):
        done = run_bounded(["git", "-C", root, *words, *wanted], os.environ, None, b"", DIFF_PATIENCE)
        if done.code:
            continue  # no repository, no commit yet, or too large to be read in time
        found = block(done.out.expandtabs(4)).splitlines()
        lines += found if words[0] == "diff" else [f"{path}: new, not in git yet" for path in found]
    more = [f"… {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
    return PeekPart("diff", [*lines[:DIFF_LINES], *more], "diff")


def first_line(body: str) -> str:
    """The beginning of a text, in one line."""
    return plain(body.strip().partition("\n")[0])
