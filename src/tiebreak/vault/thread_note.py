"""The note of a thread of messages that is not about a task. Comments are in the note of their task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .markdown import caption, line, link, properties, time
from .note_names import thread_title
from .source import SHOWN
from .task_note import message_lines

if TYPE_CHECKING:
    from ..model import Message
    from .source import Source


def thread_note(messages: list[Message], source: Source) -> str:
    """The generated part of the note of a thread."""
    first = messages[0]
    people = dict.fromkeys(name for each in messages[:SHOWN] for name in (each.sender, each.recipient) if name)
    lines = properties(
        {
            "tiebreak": "thread",
            "number": first.thread,
            "title": caption(thread_title(first)),
            "project": caption(first.project),
            "channel": first.channel,
            "participants": [link(source.agent_path(name, first.project), name) for name in people],
            "began": time(first.sent_at),
        }
    )
    lines += [f"# {line(thread_title(first))}", ""]
    for each in messages[:SHOWN]:
        lines += message_lines(each, source)
    if len(messages) > SHOWN:
        lines += ["And more, on the board.", ""]
    return "\n".join([*lines, ""])
