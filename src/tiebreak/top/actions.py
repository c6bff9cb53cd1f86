"""What the keys of `tb top` do: each is one function that calls the board and says in one line what became of it.

They run in threads, and a refusal is an exception that the screen shows as it is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ..errors import Invalid, NotFound, Refused
from ..held_files import called
from ..names import short
from ..sessions.records import fate, find
from ..sessions.terminal import attach_words, outside_tmux, tell
from ..text import plain

if TYPE_CHECKING:
    from ..board import Board
    from ..model import Session
    from .snapshot import Selected, Snapshot

__all__ = ["attach_words", "outside_tmux"]

NUDGE = "How does it stand? Please say what you wait for, or go on."
"""What a nudge says if nobody changes it."""
NEW_COORDINATOR = "lead claude"
"""The name and command of a coordinator, if the project never had one."""


class Target(NamedTuple):
    """What an action is about: a thing, and whom and which task it concerns."""

    kind: str
    """`agent`, `task`, `question`, `hold`, `queue` or `message`."""
    title: str
    agent: str | None = None
    number: int = 0
    """The number of a task."""
    resource: str | None = None
    message: int = 0
    state: str = ""
    """The state of the task, where it is known."""

    @property
    def ref(self) -> str:
        """The task, as operations take it."""
        return f"#{self.number}"


def target(taken: Snapshot, selected: Selected | None) -> Target | None:
    """What a selected row means; None if it is not there any more."""
    if selected is None:
        return None
    makers = {"need": _of_need, "agent": _of_agent, "task": _of_task, "hold": _of_hold, "message": _of_message}
    if selected.kind == "queue":
        return Target("queue", f"queue {selected.ref}")
    return makers[selected.kind](taken, selected.ref)


def _of_need(taken: Snapshot, ref: str) -> Target | None:
    for need in taken.needs:
        if f"{need.kind}:{need.ref}" != ref:
            continue
        agent = short(need.agent) if need.agent else None
        if need.kind == "question":
            return Target("question", f"#{need.number} {need.name}", agent, need.number, state="pending")
        if need.kind in ("failed", "stalled"):
            state = "failed" if need.kind == "failed" else "claimed"
            return Target("task", f"#{need.number} {need.name}", agent, need.number, state=state)
        if need.kind == "dead":
            resource = None if need.number else need.ref
            return Target("agent", need.name, agent, need.number, resource, state="claimed")
        if need.kind == "deadlock":
            return Target("hold", called(need.ref), agent, resource=need.ref)
        return _of_agent(taken, agent or need.ref) or Target("agent", agent or need.ref, agent or need.ref)
    return None


def _of_agent(taken: Snapshot, name: str) -> Target | None:
    for each in taken.agents:
        if each.agent == name:
            tasks = each.tasks or []
            number = int(tasks[0]["number"]) if len(tasks) == 1 else 0
            return Target("agent", short(name), short(name), number, state="claimed" if number else "")
    return (
        Target("agent", short(name), short(name)) if any(short(w.agent) == short(name) for w in taken.waits) else None
    )


def _of_task(taken: Snapshot, ref: str) -> Target | None:
    for found in taken.tasks.values():
        for task in found:
            if str(task.number) == ref:
                kind = "question" if task.kind == "question" and task.state == "pending" else "task"
                return Target(kind, f"#{task.number} {task.name}", task.holder, task.number, state=task.state)
    return None


def _of_hold(taken: Snapshot, ref: str) -> Target | None:
    for hold in taken.holds:
        if hold.resource == ref:
            return Target("hold", called(ref), hold.holder, resource=ref)
    return None


def _of_message(taken: Snapshot, ref: str) -> Target | None:
    for each in taken.messages:
        if str(each.number) == ref:
            return Target("message", f"message {each.number}", short(each.sender), message=each.number)
    return None


# ── Sessions ─────────────────────────────────────────────────────────────────────────────────────────────────


def session_of(board: Board, name: str | None) -> Session | None:
    """The session of an agent that runs on this machine; None if it has none, or runs elsewhere."""
    if not name:
        return None
    from ..process_identity import identity

    try:
        found = find(board, name)
    except (NotFound, Invalid):
        return None
    return found if found.host == identity().host and fate(found) != "gone" else None


def coordinator(board: Board) -> Session | None:
    """The project's coordinator, if it is alive as far as this machine can tell."""
    for found in board.sessions.list(role="coordinator"):
        if not found.replaced_by and fate(found) != "gone":
            return found
    return None


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
    found = spawn(
        board,
        SessionRequest(
            name=label(name, "name"),
            command=command,
            cwd=os.path.realpath(here()),
            coordinator=True,
            environment=inheritable(),
        ),
    )
    return f"{plain(found.agent)} is alive as coordinator, epoch {found.epoch}; Enter attaches to it"


def hand_off(board: Board, name: str | None, document: str) -> str:
    """Replace a session by a new one like it; the text becomes the document that the new one gets."""
    from ..sessions.handoff import handoff, keep_document
    from ..sessions.stop import retire

    if not name:
        raise Refused("only a session can be handed off: select its agent")
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
    if session_of(board, wanted.agent):
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
    return reach(board, wanted.agent, text)


def _answered(board: Board, wanted: Target, text: str) -> str:
    """Answer a question; a choice may be given by its number or in other case, as `tb answer` takes it."""
    choices: list[str] = board.questions.get(wanted.ref).choices or []
    known = {str(place): choice for place, choice in enumerate(choices, 1)}
    known.update({choice.lower(): choice for choice in choices})
    said = text if text in choices else known.get(text.strip().lower(), text)
    answered = board.questions.answer(wanted.ref, answer=said)
    return str(answered.result["answer"])


def send(board: Board, name: str | None, text: str) -> str:
    """Send a message to an agent, or to everybody without one."""
    sent = board.messages.send(body=text, to=name)
    gone = ", who is gone" if sent.gone_since else ""
    return f"sent message {sent.number} to {plain(name) if name else 'everybody'}{gone}"


def reach(board: Board, name: str | None, text: str) -> str:
    """Type it into the agent's terminal if that is on this machine; otherwise send it as a message."""
    if not name:
        raise Refused("there is nobody to reach: select an agent, or something that one holds")
    found = session_of(board, name)
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


def _task(wanted: Target) -> str:
    if not wanted.number:
        raise Refused(f"{plain(wanted.title)} is no task: select one (2 lists them)")
    return wanted.ref
