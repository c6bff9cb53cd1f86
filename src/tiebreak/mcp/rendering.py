"""Renders records for language models: short, with the tokens that the tools need.

Text that an agent wrote is always inside an object with `untrusted: true` and the name of the agent. So neither a model
nor a client can mistake it for a statement of the board.
"""

from __future__ import annotations

from typing import Any

from ..model import Agent, Hold, Imported, Message, Released, Sentence, Task, Wait, holder_id
from ..names import short
from ..text import rfc3339
from .advice import next_step, own_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import TiebreakError


def said(who: str | None, **words: Any) -> dict[str, Any] | None:
    """Text that an agent wrote, marked as untrusted. None if there is none."""
    words = {name: value for name, value in words.items() if value is not None}
    return {"from": who or "unknown", "untrusted": True, **words} if words else None


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _time(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)


def task(one: Task, *, whole: bool = True, me: str | None = None) -> dict[str, Any]:
    """A task. It has a token if the caller holds the claim."""
    claimed = one.state == "claimed"
    mine = claimed and me is not None and holder_id(one) == me
    return _without_none(
        ref=f"#{one.number}",
        state=one.state,
        kind=one.kind,
        priority=one.priority,
        token=f"#{one.number}@{one.epoch}" if mine else None,
        holder=one.holder if claimed else None,
        epoch=one.epoch if claimed else None,
        until=_time(one.until) if claimed else None,
        lapsed=True if claimed and one.lapsed else None,
        ready_at=_time(one.ready_at),
        part_of=None if one.parent is None else f"#{one.parent}",
        attempts=f"{one.attempts}/{one.max_attempts}" if one.attempts else None,
        posted=said(
            one.created_by,
            name=one.name,
            key=one.key,
            tags=list(one.tags) or None,
            body=one.body if whole else None,
            payload=one.payload if whole else None,
        ),
        outcome=said(one.holder or _answered_by(one), result=one.result if whole else None, reason=one.reason),
    )


def _answered_by(one: Task) -> str | None:
    """Who answered a question, which nobody ever holds."""
    return str(one.result["by"]) if one.max_attempts == 0 and one.state == "completed" else None


def answer(one: Task) -> dict[str, Any] | None:
    """The answer to a question. The board cannot know whether a person gave it, so it is untrusted, too."""
    return said(_answered_by(one), text=one.result["answer"])


def imported(one: Imported) -> dict[str, Any]:
    """What became of an entry."""
    return _without_none(ref=f"#{one.number}", state=one.state, known=one.known or None)


def exported(page: dict[str, Any]) -> dict[str, Any]:
    """Tasks as entries. `next` is the task after which the next page begins."""
    return _without_none(
        exported=said("the board", entries=page["entries"]),
        next=None if page["next"] is None else f"#{page['next']}",
        cut=[f"#{number}" for number in page["cut"]] or None,
    )


def hold(one: Hold, me: str) -> dict[str, Any]:
    """A hold. It has a token if the caller is the holder."""
    return _without_none(
        resource=one.resource,
        slot=one.slot if one.resource.startswith("pool:") else None,
        token=hold_token(one) if holder_id(one) == me else None,
        holder=one.holder,
        epoch=one.epoch,
        until=_time(one.until),
        said=said(one.holder, note=one.note),
    )


def hold_token(one: Hold) -> str:
    """`lock:deploy@3`, or `pool:ports#2@3` with the slot."""
    slot = f"#{one.slot}" if one.resource.startswith("pool:") else ""
    return f"{one.resource}{slot}@{one.epoch}"


def released(one: Released) -> dict[str, Any]:
    """A released hold."""
    return {"resource": one.resource, "epoch": one.epoch}


def wait(one: Wait) -> dict[str, Any]:
    """An agent that waits for resources."""
    return _without_none(
        agent=one.agent,
        resources=one.resources,
        waits_for=one.waits_for,
        since=_time(one.since_at),
        said=said(one.agent, note=one.note),
    )


def agent(one: Agent) -> dict[str, Any]:
    """An agent."""
    return _without_none(
        name=short(one.id),
        id=one.id,
        status=one.status,
        seen_at=_time(one.seen_at),
        said=said(short(one.id), doing=one.doing),
    )


def message(one: Message) -> dict[str, Any]:
    """A message."""
    sender = short(one.sender)
    return _without_none(
        number=one.number,
        thread=one.thread if one.thread != one.number else None,
        to="everybody" if one.recipient is None else short(one.recipient) or None,
        about=None if one.task is None else f"#{one.task}",
        importance=one.importance,
        ack_requested=one.ack_requested or None,
        sent_at=_time(one.sent_at),
        gone_since=_time(one.gone_since),
        said=said(sender, text=one.body),
    )


def sentence(one: Sentence) -> dict[str, Any]:
    """A sentence of `why`. It may quote agents, so all of it is untrusted."""
    return {"at": rfc3339(one.at), **(said("the log", text=one.text) or {})}


def error(problem: TiebreakError) -> dict[str, Any]:
    """A refusal: its kind, its facts, and what to do next. Its message may quote agents, so it is untrusted."""
    facts = problem.to_dict(hint="")
    note, holder = facts.pop("note", None), facts.get("holder")
    message = str(facts.pop("message", ""))
    if note:
        message = message.removesuffix(f": {note}")
    kept = {name: facts[name] for name in ("holder", "until", "epoch", "waiting", "cycle", "state") if facts.get(name)}
    return {
        "error": type(problem).__name__,
        "next": next_step(problem),
        **kept,
        "details": said("the board", text=message, hint=own_hint(problem)),
        **({"said": said(holder, note=note)} if note else {}),
    }
