"""Logs made by hand, for judges to be judged by."""

from __future__ import annotations

from tiebreak import Event
from tiebreak.model import record


def events(story: str, first: int = 1) -> list[Event]:
    """A log from lines: event, subject, agent, epoch, and more facts by name. `-` stands for nothing."""
    lines = [line.split() for line in story.strip().splitlines()]
    return [_event(first + i, *words) for i, words in enumerate(lines)]


def _event(number: int, what: str, subject: str, agent: str = "-", epoch: str = "0", *more: str) -> Event:
    facts = dict(fact.split("=", 1) for fact in more)
    project, state, giver = facts.pop("project", "demo"), facts.pop("state", None), facts.pop("from", None)
    kind, name = facts.pop("kind", "task"), facts.pop("name", subject)
    note = facts.pop("note", None) or (giver and f"handed over by {giver}")
    data = ", ".join(f'"{name}": {value}' for name, value in facts.items())
    who = None if agent == "-" else f"{agent}~1"
    row = (number, 0, what, project, subject, name, kind, state, 1, who, int(epoch), 0, note, 1, f"{{{data}}}")
    return record(Event, row)
