"""What `tb top` shows of one selected thing: what is live comes first, then its diff, holds, messages and history.

Each part is bounded, so that the peek at a huge log or a huge diff is as quick as any other. It runs in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import TiebreakError
from ..held_files import called
from ..limits import LISTED, SHOWN
from ..model import holder_id
from ..names import short
from ..text import ago, block, plain, rfc3339
from .actions import session_of
from .peek_parts import (
    LINES,
    UNREAD,
    Peeked,
    PeekPart,
    described,
    diff,
    first_line,
    held,
    history,
    output,
    terminal,
    unread_messages,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..board import Board
    from ..model import Hold, Task
    from .targets import Target

CLAIMS = 20
"""How many tasks of one agent are listed."""
EXPLAINED = 5
"""How many things of one agent have their history shown."""
WHOLE = 200
"""How many sentences of `why` are shown alone."""
SENTENCES = 12
"""How many sentences of `why` are shown beside the rest."""


def look(board: Board, wanted: Target, *, only_why: bool = False) -> Peeked:
    """Read what is shown of a thing."""
    title = plain(wanted.title)
    if only_why:
        return Peeked(f"why {title}", list(_whole_why(board, wanted)))
    readers = {"agent": _agent, "hold": _hold, "message": _message, "queue": _queue, "question": _question}
    found = _each(readers.get(wanted.kind, _task)(board, wanted))
    return Peeked(title, [part for part in found if part.lines])


def _each(found: Iterator[PeekPart]) -> Iterator[PeekPart]:
    """The parts of a thing; one that cannot be read says why, and the others are shown all the same."""
    try:
        yield from found
    except TiebreakError as exc:
        yield PeekPart("", [plain(exc.message)], "warn")


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────────────


def _agent(board: Board, wanted: Target) -> Iterator[PeekPart]:
    name = wanted.agent or ""
    now = board.upkeep.now()
    known = board.agents.list(agent=name)
    known = [each for each in known if each.id == wanted.who] or known[:1]  # of two sessions, the one that is meant
    yield PeekPart("", [line for each in known for line in described(each, now)])
    session = session_of(board, name, wanted.who)
    if session is not None:
        yield terminal(session)
    if wanted.number:
        task = board.tasks.get(ref=wanted.ref)
        if task.command:
            yield output(board, task)
    claims = _claims(board, wanted)
    yield PeekPart("tasks", [f"#{task.number} {plain(task.name)} · epoch {task.epoch}" for task in claims])
    holds = _holds_of(board, name, wanted.who)
    yield held(holds, now)
    yield diff(board, [each.resource for each in holds], session)
    yield unread_messages(board, name, now)
    if wanted.number or wanted.resource:
        yield _why(board, wanted, SENTENCES)


def _claims(board: Board, wanted: Target) -> list[Task]:
    """The claims of an agent: of one session, where that is known."""
    found = board.tasks.list(agent=wanted.agent, states=["claimed"], limit=LISTED)
    return [task for task in found if wanted.who is None or holder_id(task) == wanted.who][:CLAIMS]


def _holds_of(board: Board, name: str, who: str | None) -> list[Hold]:
    found = board.holds.list(agent=name)
    return [each for each in found if who is None or holder_id(each) == who][:SHOWN]


# ── Tasks, jobs and questions ────────────────────────────────────────────────────────────────────────────────


def _task(board: Board, wanted: Target) -> Iterator[PeekPart]:
    task = board.tasks.get(ref=wanted.ref)
    now = board.upkeep.now()
    yield PeekPart("", list(_task_facts(task, now)))
    holder = (task.holder or "") if task.state == "claimed" else ""
    session = session_of(board, holder, holder_id(task))
    if task.command:
        yield output(board, task)
    elif session is not None:
        yield terminal(session)
    if task.body:
        yield PeekPart("description", block(task.body).splitlines()[:LINES])
    if task.blockers:
        before = board.tasks.after(ref=wanted.ref)
        yield PeekPart("comes after", [f"#{each.number} {plain(each.name)} · {each.state}" for each in before[:LINES]])
    if holder:
        holds = _holds_of(board, holder, holder_id(task))
        yield held(holds, now)
        yield diff(board, [each.resource for each in holds], session)
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
        "comments", [f"{plain(each.sender)}, {ago(now - each.sent_at)} ago: {first_line(each.body)}" for each in found]
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
    holds = [each for each in found if holder_id(each) == wanted.who] or found
    holder = (holds[0].holder or "") if holds else ""
    session = session_of(board, holder, holder_id(holds[0]) if holds else None)
    if session is not None:
        yield terminal(session)
    if holder:
        yield unread_messages(board, holder, now)._replace(title=f"unread messages of {plain(holder)}")
    yield diff(board, [resource], session)
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
            said = [f"{plain(other.sender)}: {first_line(other.body)}" for other in reversed(thread) if len(thread) > 1]
            yield PeekPart("thread", said)


# ── History ─────────────────────────────────────────────────────────────────────────────────────────


def _whole_why(board: Board, wanted: Target) -> Iterator[PeekPart]:
    """The history of a task or a resource; of an agent, that of each task that it has, or else of what it holds."""
    if wanted.number or wanted.resource or wanted.kind != "agent":
        yield _why(board, wanted, WHOLE)
        return
    things = [(f"#{task.number}", f"#{task.number} {plain(task.name)}") for task in _claims(board, wanted)]
    if not things:
        holds = _holds_of(board, wanted.agent or "", wanted.who)
        things = [(each.resource, plain(called(each.resource))) for each in holds]
    for ref, name in things[:EXPLAINED]:
        yield history(board, ref, WHOLE // min(len(things), EXPLAINED))._replace(title=f"why {name}")
    if len(things) > EXPLAINED:
        yield PeekPart("", [f"… {len(things) - EXPLAINED} more: select one (2 lists tasks, 3 holds)"], "dim")
    if not things:
        yield PeekPart("why", ["it has no task and holds nothing"], "dim")


def _why(board: Board, wanted: Target, limit: int) -> PeekPart:
    if not (wanted.number or wanted.resource):
        return PeekPart("why", ["it has no task and is no resource"], "dim")
    return history(board, wanted.ref if wanted.number else wanted.resource or "", limit)
