"""*Messages*: the threads of a project, newest first; one thread; and a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import NotFound
from ...operations.messages import has_words
from .page import TEXT, page
from .templates import href

if TYPE_CHECKING:
    from .page import Visit

_ROWS = 40
"""Threads, or messages found, on one page."""
_LONGEST = 200
"""Messages of one thread that are shown: the newest."""
_QUERY = {
    "q": {**TEXT, "description": "only messages that contain all these words"},
    "thread": {**TEXT, "description": "one thread: the number of its first message"},
    "agent": {**TEXT, "description": "only what this agent sent or was sent"},
    "before": {**TEXT, "description": "the page of messages before this number"},
}


@page(
    "/messages",
    "messages.html",
    "The threads of messages, one thread, or a search.",
    title="Messages",
    query=_QUERY,
    watch=("message.",),
)
async def messages(visit: Visit) -> dict[str, Any]:
    """Each thread is shown by its last message."""
    thread = visit.count("thread")
    if thread:
        found = await visit.read("messages.list", thread=thread, limit=_LONGEST)
        if not found:
            raise NotFound(f"no thread {thread} of messages")
        return {
            "thread": thread,
            "messages": list(reversed(found)),
            "cut": len(found) == _LONGEST,
            "reply_to": found[0].recipient if found[0].sender == visit.person else found[0].sender,
            "direct": found[-1].recipient is not None,
        }
    words, agent = visit.given.get("q"), visit.given.get("agent")
    before = visit.count("before") or None
    found = await _found(visit, words, agent, before)
    kept = {"project": visit.project, "q": words, "agent": agent}
    older = href("/messages", **kept, before=found[_ROWS - 1].number) if len(found) > _ROWS else ""
    newest = href("/messages", **kept) if before else ""
    return {"thread": 0, "messages": found[:_ROWS], "q": words, "agent": agent, "older": older, "newest": newest}


async def _found(visit: Visit, words: str | None, agent: str | None, before: int | None) -> list[Any]:
    """The messages of one window and one more. A search without a letter or digit finds nothing."""
    if words and not has_words(words):
        return []
    last = not words and not agent
    found: list[Any] = await visit.read(
        "messages.list", query=words, agent=agent, last=last, before=before, limit=_ROWS + 1
    )
    return found
