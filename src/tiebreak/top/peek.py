"""What `tb top` shows of one selected thing: what is live comes first, then its diff, holds, messages and history.

Each part is bounded, so that the peek at a huge log or a huge diff is as quick as any other. It runs in a thread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ..errors import NotFound, TiebreakError
from ..held_files import called, is_file, path_of
from ..limits import LISTED, SHOWN
from ..names import FINAL, short
from ..text import ago, block, plain, rfc3339
from .actions import session_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..board import Board
    from ..model import Session, Task
    from .actions import Target

TAIL = 8_000
"""How many bytes at the end of a job's output are shown."""
SENTENCES = 12
"""How many sentences of `why` are shown beside the rest."""
DIFF_LINES = 200
DIFF_PATIENCE = 2.0
"""Seconds for git."""
_DIFF = ["diff", "--no-color", "--no-ext-diff", "--no-textconv"]
LINES = 40
"""At most this many lines of one message or description."""
UNREAD = 10


class PeekPart(NamedTuple):
    """A heading and lines that are safe to show. `style` is for all of them; `diff` colours each by its sign."""

    title: str
    lines: list[str]
    style: str = ""


class Peeked(NamedTuple):
    """What is known of a thing."""

    title: str
    parts: list[PeekPart]
    live: bool = False
    """Whether it changes without an event: a running job's output, a terminal."""


def look(board: Board, wanted: Target, *, only_why: bool = False) -> Peeked:
    """Read what is shown of a thing."""
    title = plain(wanted.title)
    if only_why:
        return Peeked(f"why {title}", [_why(board, wanted, 200)])
    readers = {"agent": _agent, "hold": _hold, "message": _message, "queue": _queue, "question": _question}
    parts: list[PeekPart] = []
    live = False
    for part, changes in _each(readers.get(wanted.kind, _task)(board, wanted)):
        live = live or changes
        if part.lines:
            parts.append(part)
    return Peeked(title, parts, live)


def _each(found: Iterator[PeekPart | tuple[PeekPart, bool]]) -> Iterator[tuple[PeekPart, bool]]:
    """The parts of a thing; one that cannot be read says why, and the others are shown all the same."""
    while True:
        try:
            part = next(found)
        except StopIteration:
            return
        except TiebreakError as exc:
            yield PeekPart("", [plain(exc.message)], "warn"), False
            return
        yield (part, False) if isinstance(part, PeekPart) else part


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────────────


def _agent(board: Board, wanted: Target) -> Iterator[PeekPart | tuple[PeekPart, bool]]:
    name = wanted.agent or ""
    now = board.upkeep.now()
    known = board.agents.list(agent=name, limit=1)
    yield PeekPart("", [line for each in known for line in _described(each, now)])
    session = session_of(board, name)
    if session is not None:
        yield _terminal(session), True
    if wanted.number:
        task = board.tasks.get(ref=wanted.ref)
        if task.command:
            yield _output(board, task), task.state not in FINAL
    claims = board.tasks.list(agent=name, states=["claimed"], limit=20)
    yield PeekPart("tasks", [f"#{task.number} {plain(task.name)} · epoch {task.epoch}" for task in claims])
    holds = board.holds.list(agent=name, limit=SHOWN)
    yield PeekPart(
        "holds",
        [
            f"{plain(called(each.resource))} · epoch {each.epoch} · {ago((each.until or now) - now)} left"
            for each in holds
        ],
    )
    yield _diff(board, [each.resource for each in holds], session)
    unread = board.messages.inbox(agent=name, limit=UNREAD)
    said = [f"{plain(each.sender)}, {ago(now - each.sent_at)} ago: {_first(each.body)}" for each in unread]
    yield PeekPart("unread messages", said)
    if wanted.number:
        yield _why(board, wanted, SENTENCES)


def _described(agent: Any, now: float) -> Iterator[str]:
    yield f"{agent.status}, seen {ago(now - agent.seen_at)} ago, here since {ago(now - agent.joined_at)}"
    if agent.doing:
        yield plain(agent.doing)
    facts = [agent.program, f"on {agent.host}" if agent.host else None, f"pid {agent.pid}" if agent.pid else None]
    facts.append(f"started by {short(agent.parent)}" if agent.parent else None)
    if any(facts):
        yield plain(" · ".join(each for each in facts if each))


def _terminal(session: Session) -> PeekPart:
    from ..sessions.terminal import screen

    try:
        lines = block(screen(session)).splitlines()
    except TiebreakError as exc:
        return PeekPart("terminal", [plain(exc.message)], "warn")
    while lines and not lines[-1].strip():
        lines.pop()
    return PeekPart(f"terminal of {plain(session.agent)}", lines[-LINES:] or ["(empty)"])


# ── Tasks, jobs and questions ────────────────────────────────────────────────────────────────────────────────


def _task(board: Board, wanted: Target) -> Iterator[PeekPart | tuple[PeekPart, bool]]:
    task = board.tasks.get(ref=wanted.ref)
    now = board.upkeep.now()
    yield PeekPart("", list(_task_facts(task, now)))
    if task.command:
        yield _output(board, task), task.state not in FINAL
    if task.body:
        yield PeekPart("description", block(task.body).splitlines()[:LINES])
    if task.blockers:
        before = board.tasks.after(ref=wanted.ref)
        yield PeekPart("comes after", [f"#{each.number} {plain(each.name)} · {each.state}" for each in before[:LINES]])
    holder = task.holder
    if holder:
        yield _diff(
            board, [each.resource for each in board.holds.list(agent=holder, limit=SHOWN)], session_of(board, holder)
        )
    yield _comments(board, wanted, now)
    yield _why(board, wanted, SENTENCES)


def _task_facts(task: Task, now: float) -> Iterator[str]:
    last = "" if task.state == "claimed" else ", last held"
    by = f"{last} by {plain(short(task.holder))}, epoch {task.epoch}" if task.holder else ""
    lapsed = ", lapsed" if task.lapsed else ""
    yield f"{task.state}{by}{lapsed} · {task.priority} {plain(task.kind)} · queue {plain(task.queue)}"
    yield f"posted {ago(now - task.created_at)} ago by {plain(short(task.created_by or '-'))}"
    if task.attempts:
        yield f"attempt {task.attempts} of {task.max_attempts}"
    if task.reason:
        yield f"reason: {plain(task.reason)}"
    if isinstance(task.progress, dict) and "percent" in task.progress:
        yield f"{task.progress['percent']:g} % {plain(str(task.progress.get('note') or ''))}".rstrip()


def _output(board: Board, task: Task) -> PeekPart:
    """The end of a job's output."""
    answer = board.jobs.output(ref=f"#{task.number}")
    if answer["total"] > TAIL and answer["next"] < answer["total"]:
        answer = board.jobs.output(ref=f"#{task.number}", epoch=answer["epoch"], after=answer["total"] - TAIL)
    text = "".join(chunk["text"] for chunk in answer["chunks"])
    lines = block(text[-TAIL:]).splitlines()[-LINES:]
    what = "output" if task.state == "claimed" else f"output, {task.state}"
    return PeekPart(what, lines or ["(nothing yet)"])


def _question(board: Board, wanted: Target) -> Iterator[PeekPart]:
    question = board.questions.get(wanted.ref)
    now = board.upkeep.now()
    yield PeekPart("", [f"asked {ago(now - question.asked_at)} ago by {plain(short(question.asked_by or '-'))}"])
    if question.body:
        yield PeekPart("", block(question.body).splitlines()[:LINES])
    choices = [f"{place}  {plain(each)}" for place, each in enumerate(question.choices or [], 1)]
    yield PeekPart("choices: type one, or its number", choices, "accent")
    if question.about:
        yield PeekPart("about", [f"#{question.about['number']} {plain(question.about['name'])}"])
    waiting = [f"#{each['number']} {plain(each['name'])} · {each['state']}" for each in question.waiting or []]
    yield PeekPart("waits for the answer", waiting)
    yield _comments(board, wanted, now)


def _comments(board: Board, wanted: Target, now: float) -> PeekPart:
    found = board.messages.comments(ref=wanted.ref, limit=LISTED)[-UNREAD:]
    return PeekPart(
        "comments", [f"{plain(each.sender)}, {ago(now - each.sent_at)} ago: {_first(each.body)}" for each in found]
    )


# ── Holds, queues and messages ───────────────────────────────────────────────────────────────────────────────


def _hold(board: Board, wanted: Target) -> Iterator[PeekPart]:
    resource = wanted.resource or ""
    now = board.upkeep.now()
    found = board.holds.list(matching=resource, limit=20)
    yield PeekPart(
        "held by",
        [
            f"{plain(short(each.holder or '-'))} · epoch {each.epoch} · {ago((each.until or now) - now)} left"
            + (f" · {plain(each.note)}" if each.note else "")
            for each in found
        ]
        or ["nobody"],
    )
    waiting = board.waits.list(matching=resource, limit=20)
    yield PeekPart("waits for it", [f"{plain(short(each.agent))} since {ago(now - each.since_at)}" for each in waiting])
    holder = found[0].holder if found else None
    yield _diff(board, [resource], session_of(board, holder))
    yield _why(board, wanted, SENTENCES)


def _queue(board: Board, wanted: Target) -> Iterator[PeekPart]:
    name = wanted.title.removeprefix("queue ")
    ready = board.tasks.list(queue=name, states=["pending"], limit=LINES)
    yield PeekPart("ready, newest first", [f"#{task.number} {plain(task.name)}" for task in ready])
    failed = board.tasks.list(queue=name, states=["failed"], limit=UNREAD)
    yield PeekPart("failed", [f"#{task.number} {plain(task.name)}" for task in failed], "bad")
    yield PeekPart("", [f"tb queue pause {plain(name)}", f"tb queue resume {plain(name)}"], "dim")


def _message(board: Board, wanted: Target) -> Iterator[PeekPart]:
    for each in board.messages.list(after=wanted.message - 1, limit=1):
        if each.number == wanted.message:
            whom = f"to {plain(each.recipient)}" if each.recipient else "to everybody"
            about = f" on #{each.task}" if each.task else ""
            yield PeekPart("", [f"from {plain(each.sender)} {whom}{about}, {rfc3339(each.sent_at)[:19]}Z"])
            yield PeekPart("", block(each.body).splitlines()[:200])
            thread = board.messages.list(thread=each.thread, limit=UNREAD)
            said = [f"{plain(other.sender)}: {_first(other.body)}" for other in reversed(thread) if len(thread) > 1]
            yield PeekPart("thread", said)


# ── History and diff ─────────────────────────────────────────────────────────────────────────────────────────


def _why(board: Board, wanted: Target, limit: int) -> PeekPart:
    if not (wanted.number or wanted.resource):
        return PeekPart("why", ["it has no task and is no resource"], "dim")
    ref = wanted.ref if wanted.number else wanted.resource or ""
    try:
        found = board.events.why(ref=ref, limit=limit)
    except NotFound:
        return PeekPart("why", ["nothing is known of it"], "dim")
    now = board.upkeep.now()
    return PeekPart("why", [f"{'' if not each.event else ago(now - each.at):>4}  {plain(each.text)}" for each in found])


def _diff(board: Board, resources: list[str], session: Session | None) -> PeekPart:
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


def _first(body: str) -> str:
    return plain(body.strip().partition("\n")[0])
