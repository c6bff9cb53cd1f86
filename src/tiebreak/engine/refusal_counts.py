"""Counts of refusals: one entry for all refusals with equal fields (see `RefusalKey`), within fixed limits.

A refusal may quote a text that was never stored, and the side file may contain anything. So every field is cut to what
its column and the index over it accept, and the number of entries and their total size are limited. What does not fit
is counted in `lost`.
"""

from __future__ import annotations

from ..limits import MAX_AGENT, MAX_LABEL, MAX_NOTE, MAX_NUMBER, MAX_RESOURCE
from ..names import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    RefusalKey = tuple[str, str, str, str, str, str, int, str]
    """Event, project, subject, name, kind, agent, epoch, note."""

MOST = 10_000
"""The most different refusals that are counted at once."""
MOST_BYTES = 4 << 20
"""The most bytes of text that they may have together."""
FIELDS = (MAX_LABEL, MAX_LABEL, MAX_RESOURCE, MAX_RESOURCE, MAX_LABEL, MAX_AGENT, 0, MAX_NOTE)
"""The most bytes of each field of a `RefusalKey`; 0 for a number."""
_AS_SPACE = str.maketrans(dict.fromkeys("\0\t\n\r", " "))
"""PostgreSQL stores no NUL; the others end a field or a line of the side file."""


class RefusalCounts:
    """Refusals, how often each happened, and when it happened last."""

    def __init__(self) -> None:
        self.entries: dict[RefusalKey, list[int]] = {}
        self.lost = 0
        """How many refusals were not counted because they did not fit."""
        self._bytes = 0

    def add(self, key: RefusalKey, count: int, at: int) -> None:
        """Count a refusal."""
        known = self.entries.get(key)
        if known is not None:
            known[0] = min(known[0] + count, MAX_NUMBER)
            known[1] = max(known[1], at)
            return
        size = sum(len(text.encode()) for text in key if isinstance(text, str))
        if len(self.entries) >= MOST or self._bytes + size > MOST_BYTES:
            self.lost += count
            return
        self._bytes += size
        self.entries[key] = [count, at]

    def merge(self, other: RefusalCounts) -> None:
        """Add everything that the other one has counted or lost."""
        for key, (count, at) in other.entries.items():
            self.add(key, count, at)
        self.lost += other.lost

    def rows(self) -> list[tuple[Any, ...]]:
        """All of them as rows of the table `events`."""
        return [event_row(key, count, at) for key, (count, at) in self.entries.items()]

    def total(self) -> int:
        """How many refusals these are, including the lost ones."""
        return self.lost + sum(count for count, _ in self.entries.values())


def cut_to_fit(key: RefusalKey) -> RefusalKey:
    """A refusal with every field cut to its limit."""
    pairs = zip(key, FIELDS, strict=True)
    return tuple(_cut(each, most) if isinstance(each, str) else each for each, most in pairs)  # type: ignore[return-value]


def _cut(text: str, most: int) -> str:
    if len(text) * 4 <= most and text.isprintable():
        return text
    return cut(text.translate(_AS_SPACE).encode("utf-8", "replace").decode(), most)


def event_row(key: RefusalKey, count: int, at: int) -> tuple[Any, ...]:
    """A refusal as a row of the table `events`; its number is still 0."""
    event, project, subject, name, kind, agent, epoch, note = key
    texts = [text or None for text in (subject, name, kind)]
    return (0, at, event, project, *texts, None, 1, agent or None, epoch, 0, note or None, count, None)
