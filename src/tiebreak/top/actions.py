"""What the keys of `tb top` do: each is one function that calls the board and says in one line what became of it.

They run in threads, and a refusal is an exception that the screen shows as it is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..choices import chosen
from ..errors import Invalid, NotFound, Refused
from ..model import agent_id, holder_id
from ..names import FINAL, JOB
from ..operations.session_fence import SEAT
from ..sessions.records import fate, find
from ..sessions.terminal import attach_words, outside_tmux, tell
from ..text import plain

if TYPE_CHECKING:
    from ..board import Board
    from ..model import Hold, Session, Task
    from .targets import Target

__all__ = ["attach_words", "outside_tmux"]

NUDGE = "How does it stand? Please say what you wait for, or go on."
"""What a nudge says if nobody changes it."""
NAMED, FOLLOWED = 3, 50
"""How many tasks that would be cancelled with another one are named, and counted."""
NEW_COORDINATOR = "lead claude"
"""The name and command of a coordinator, if the project never had one."""


# ── Sessions ─────────────────────────────────────────────────────────────────────────────────────────────────


def session_of(board: Board, name: str | None, who: str | None = None) -> Session | None:
    """The session of an agent that runs on this machine; None if it has none, or runs elsewhere.

    With `who`, its full id: a session of another agent with the same name is not taken for it.
    """
    if not name:
        return None
    from ..process_identity import identity

    try:
        found = find(board, who or name)
    except (NotFound, Invalid):
        return None
    return found if found.host == identity().host and fate(found) != "gone" else None


def coordinator(board: Board) -> Session | None:
    """The session of the project's coordinator, if it is alive as far as this machine can tell."""
    seat = coordinator_hold(board)
    for found in board.sessions.list(role="coordinator"):
        has_seat = seat is None or holder_id(seat) == agent_id(found)
        if has_seat and not found.replaced_by and fate(found) != "gone":
            return found
    return None


def coordinator_hold(board: Board) -> Hold | None:
    """The hold of the coordinator's seat, if somebody has it: whoever does is the coordinator."""
    return next(iter(board.holds.list(matching=SEAT, limit=1)), None)


def coordinator_words(board: Board) -> str:
    """The name and the command of the last coordinator, to start another one like it."""
    from shlex import join

    for found in board.sessions.list(role="coordinator", every=True, limit=1):
        return f"{found.agent} {join(found.command)}"
    return NEW_COORDINATOR


def spawn_coordinator(board: Board, text: str) -> str:
    """Start a coordinator from `NAME COMMAND…`; refused if there is one, or one is being started."""
    from shlex import split

    from ..board import here
    from ..names import label
    from ..sessions.spawn import SessionRequest, inheritable, spawn

    try:
        name, *command = split(text)
    except ValueError as exc:
        raise Invalid(f"expected NAME COMMAND…: {exc}") from None
    if not command:
        raise Invalid("expected NAME COMMAND…, such as: lead claude --continue")
    request = SessionRequest(
        name=label(name, "name"),
        command=command,
        cwd=os.path.realpath(here()),
        coordinator=True,
        environment=inheritable(),
    )
    try:
        found = spawn(board, request)
    except Refused as exc:
        raise Refused(exc.message) from None  # its advice is about options of a command, and this is a key
    return f"{plain(found.agent)} is alive as coordinator, epoch {found.epoch}; Enter attaches to it"


def hand_off(board: Board, wanted: Target, document: str) -> str:
    """Replace a session by a new one like it; the text becomes the document that the new one gets."""
    from ..sessions.handoff import handoff, keep_document
    from ..sessions.stop import retire

    if not wanted.agent:
        raise Refused("only a session can be handed off: select its agent")
    session = session_of(board, wanted.agent, wanted.who)
    name = agent_id(session) if session else wanted.agent
    mark = os.urandom(6).hex()
    new, old = handoff(board, name, document=keep_document(document, mark) if document.strip() else None)
    if not old.ended_at:
        retire(board, old)
    return f"{plain(new.agent)} was replaced by a new session, which is alive"


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────


def reply_hint(board: Board, wanted: Target) -> str:
    """What the line to reply does for a thing; "" if there is nothing to reply to."""
    if wanted.kind == "question":
        choices = " | ".join(plain(each) for each in board.questions.get(wanted.ref).choices or [])
        return f"answer {wanted.ref}" + (f": {choices}" if choices else "")
    if wanted.kind == "task":
        return f"comment on {wanted.ref}"
    if wanted.kind == "message":
        return f"reply to {plain(wanted.agent or '')}"
    if not wanted.agent:
        return ""
    if session_of(board, wanted.agent, wanted.who):
        return f"type into the terminal of {plain(wanted.agent)}"
    return f"message to {plain(wanted.agent)}"


def reply(board: Board, wanted: Target, text: str) -> str:
    """Answer a question, comment on a task, reply to a message, or reach an agent."""
    if wanted.kind == "question":
        return f"answered {wanted.ref}: {plain(str(_answered(board, wanted, text)))}"
    if wanted.kind == "task":
        sent = board.messages.send(body=text, about=wanted.ref)
        to = f", to {plain(sent.recipient)}" if sent.recipient else ""
        return f"commented on {wanted.ref}{to}"
    if wanted.kind == "message":
        sent = board.messages.send(body=text, to=wanted.agent, reply_to=wanted.message, later=True)
        return f"replied to {plain(wanted.agent or '')} (message {sent.number})"
    return reach(board, wanted, text)


def _answered(board: Board, wanted: Target, text: str) -> str:
    """Answer a question; a choice may be given by its number or its beginning, as `tb answer` takes it."""
    choices: list[str] = board.questions.get(wanted.ref).choices or []
    answered = board.questions.answer(wanted.ref, answer=chosen(text, choices) or text)
    return str(answered.result["answer"])


def send(board: Board, name: str | None, text: str) -> str:
    """Send a message to an agent, or to everybody without one."""
    sent = board.messages.send(body=text, to=name)
    gone = ", who is gone" if sent.gone_since else ""
    return f"sent message {sent.number} to {plain(name) if name else 'everybody'}{gone}"


def reach(board: Board, wanted: Target, text: str) -> str:
    """Type it into the agent's terminal if that is on this machine; otherwise send it as a message."""
    name = wanted.agent
    if not name:
        raise Refused("there is nobody to reach: select an agent, or something that one holds")
    found = session_of(board, name, wanted.who)
    if found is None:
        return send(board, name, text)
    message = tell(board, found, text)
    return f"typed into the terminal of {plain(name)} (message {message.number})"


# ── Tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


def dispatch(board: Board, text: str) -> str:
    """Post a task. `@NAME …` is for that agent: it also gets a message about it."""
    name, task = "", text.strip()
    if task.startswith("@"):
        name, _, task = task[1:].partition(" ")
        if not board.agents.list(agent=name, limit=1):
            raise NotFound(f"nobody called {name} has been here", reason="recipient-unknown", to=name, near=[])
    if not task.strip():
        raise Invalid("expected the name of a task, or @AGENT and the name of a task")
    posted = board.tasks.post(name=task.strip())
    if not name:
        return f"posted #{posted.number} {plain(posted.name)}"
    body = f"#{posted.number} {posted.name} is for you: tb claim {posted.number}"
    board.messages.send(body=body, to=name, about=f"#{posted.number}")
    if (found := session_of(board, name)) is not None:
        tell(board, found, body)
    return f"posted #{posted.number} {plain(posted.name)}, and told {plain(name)}"


def retry(board: Board, wanted: Target) -> str:
    """Reopen a failed or cancelled task."""
    task = board.tasks.retry(ref=_task(wanted), reason="retried in tb top")
    return f"#{task.number} {plain(task.name)} is {task.state} again"


def cancel(board: Board, wanted: Target) -> str:
    """Cancel a task."""
    task = board.tasks.cancel(ref=_task(wanted), reason="cancelled in tb top")
    return f"cancelled #{task.number} {plain(task.name)}"


def cancel_questions(board: Board, wanted: Target) -> list[str]:
    """What to ask before a task is cancelled: the second question says what else happens by it."""
    task = board.tasks.get(ref=_task(wanted))
    name = f"#{task.number} {plain(task.name)}".rstrip("?")
    lost = []
    if task.state == "claimed" and task.holder:
        holder = plain(task.holder)
        lost.append(f"{holder} runs it: the job is ended." if task.kind == JOB else _next_write(holder))
    after = _cancelled_too(board, task)
    if after:
        more = f" and {len(after) - NAMED}{'+' if len(after) > FOLLOWED else ''} more" if len(after) > NAMED else ""
        names = ", ".join(f"#{each.number}" for each in after[:NAMED])
        one = len(after) == 1
        lost.append(f"{names}{more} {'comes' if one else 'come'} after it and {'is' if one else 'are'} cancelled, too.")
    return [f"Cancel {name}?", " ".join([f"Really cancel {name}?", *lost])]


def _next_write(holder: str) -> str:
    return f"{holder} works on it and is not stopped: its next write is refused."


def _cancelled_too(board: Board, task: Task) -> list[Task]:
    """The open tasks that come after a task, directly or through others; a few more than `FOLLOWED` at most."""
    found: dict[int, Task] = {}
    left = [task]
    while left and len(found) <= FOLLOWED:
        after = board.tasks.dependents(ref=left.pop(0).id, limit=FOLLOWED + 1)
        new = [each for each in after if each.state not in FINAL and each.number not in found]
        found.update({each.number: each for each in new})
        left += new
    return [found[number] for number in sorted(found)][: FOLLOWED + 1]


def _task(wanted: Target) -> str:
    if not wanted.number:
        raise Refused(f"{plain(wanted.title)} is no task: select one (2 lists them)")
    return wanted.ref
