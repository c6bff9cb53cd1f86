"""The note of a task: what it says, what it belongs to, what was said about it, and what happened to it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ..names import ANNOUNCEMENTS
from .markdown import caption, json_block, line, link, properties, prose, time, time_shown
from .source import SHOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model import Event, Message, Task
    from .source import Source

_WORDS = {
    "task.posted": "posted by",
    "task.claimed": "claimed by",
    "task.completed": "completed by",
    "task.failed": "failed by",
    "task.retrying": "failed, to be tried again, by",
    "task.released": "given back by",
    "task.expired": "abandoned by",
    "task.broken": "taken away by",
    "task.cancelled": "cancelled by",
    "task.reopened": "reopened by",
    "task.refused": "refused to",
    "task.fenced": "late write refused to",
    "task.extended": "renewed by",
    "task.edited": "edited by",
    "task.linked": "linked by",
    "message.sent": "commented by",
}


def task_link(task: Task, source: Source) -> str:
    """A link to a task's note."""
    return link(source.task_path(task), f"#{task.number} {task.name}")


def task_note(task: Task, source: Source) -> str:
    """The generated part of the note of a task."""
    state, holder = source.state_and_holder(task)
    lines = [*_properties(task, state, holder, source), f"# {line(task.name)}", ""]
    if task.body:
        lines += [prose(task.body), ""]
    lines += _related(task, source)
    if task.reason and state != "claimed":  # else it tells of an earlier attempt, which is in the history
        lines += [f"**Reason:** {line(task.reason)}", ""]
    for title, value in (("Payload", task.payload), ("Result", task.result)):
        if value is not None:
            lines += [f"## {title}", *json_block(value), ""]
    lines += _comments(task, source)
    if task.kind not in ANNOUNCEMENTS:
        lines += _history(task, source)
    return "\n".join([*lines, ""])


def _properties(task: Task, state: str, holder: str | None, source: Source) -> list[str]:
    def agent(name: str | None) -> str | None:
        return None if name is None else link(source.agent_path(name, task.project), name)

    return properties(
        {
            "tiebreak": "task",
            "number": task.number,
            "id": task.id,
            "title": caption(task.name),
            "project": caption(task.project),
            "kind": task.kind,
            "state": state,
            "priority": task.priority,
            "queue": None if task.queue == "default" else task.queue,
            "labels": list(task.tags),
            "key": None if task.key is None else caption(task.key),
            "holder": agent(holder),
            "epoch": task.epoch or None,
            "attempts": task.attempts or None,
            "posted_by": agent(task.created_by),
            "posted": time(task.created_at),
            "finished": time(task.finished_at),
        }
    )


def _related(task: Task, source: Source) -> list[str]:
    parent = None if task.parent is None else source.task(task.parent)
    about = None if task.about is None else source.task(task.about)
    lines = [
        *_links("Part of", [parent] if parent else [], source),
        *_links("About", [about] if about else [], source),
        *_links("Parts", source.children(task), source),
        *_links("Comes after", source.after(task), source),
        *_links("Needed by", source.dependents(task), source),
        *_links("See also", source.tasks_about(task), source),
    ]
    return [*lines, ""] if lines else []


def _links(title: str, tasks: Iterable[Task], source: Source) -> list[str]:
    found = list(islice(tasks, SHOWN + 1))
    if not found:
        return []
    kinds = [f"{each.kind} " if title == "See also" else "" for each in found[:SHOWN]]
    shown = [f"{kind}{task_link(each, source)}" for kind, each in zip(kinds, found, strict=False)]
    return [f"- **{title}:** {', '.join(shown)}{' and more' if len(found) > SHOWN else ''}"]


def _comments(task: Task, source: Source) -> list[str]:
    found = source.comments(task)
    if not found:
        return []
    lines = ["## Comments", ""]
    for each in found[:SHOWN]:
        lines += message_lines(each, source)
    return [*lines, "And more, on the board.", ""] if len(found) > SHOWN else lines


def message_lines(message: Message, source: Source) -> list[str]:
    """A message: who, to whom, when, and its text."""
    sender = link(source.agent_path(message.sender, message.project), message.sender)
    to = message.recipient and link(source.agent_path(message.recipient, message.project), message.recipient)
    urgent = "" if message.importance == "normal" else f", {message.importance}"
    acked = f", acknowledged {time_shown(message.acked_at)}" if message.acked_at else ""
    return [
        f"**{sender}**{f' to {to}' if to else ''}, {time_shown(message.sent_at)}{urgent}{acked}",
        "",
        prose(message.body),
        "",
    ]


def _history(task: Task, source: Source) -> list[str]:
    events = source.history(task)
    return ["## History", "", *(_event(each, source) for each in events), ""] if events else []


def _event(event: Event, source: Source) -> str:
    words = _WORDS.get(event.event, event.event.partition(".")[2].replace("_", " "))
    told = [time_shown(event.at), words if event.agent else words.removesuffix(" by").removesuffix(" to")]
    if event.agent:
        told.append(link(source.agent_path(event.agent, event.project), event.agent))
    if event.times > 1:
        told.append(f"{event.times} times")
    if event.epoch:
        told.append(f"(epoch {event.epoch})")
    note = f": {line(event.note)}" if event.note else ""
    return f"- {' '.join(filter(None, told))}{note}"
