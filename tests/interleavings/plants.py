"""Bugs that are planted on purpose, to see that the explorer finds them. Only for tests; nothing here is installed.

A plant rewrites the messages of a client on their way to the server, so it needs to know nothing of the code
but its SQL. `tests/bugs.md` lists which defect each of them brings back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .scheduler import Client

Plant = Callable[[Any], Any]


def _text(pattern: str, replacement: str) -> Plant:
    """Replace a pattern in every message that is text."""
    found = re.compile(pattern)
    return lambda message: found.sub(replacement, message) if isinstance(message, str) else message


def without_row_locks() -> Plant:
    """What is read and relied on is not locked."""
    return _text(r"\bFOR (NO KEY UPDATE|KEY SHARE|SHARE|UPDATE)\b( OF \w+)?(?! SKIP LOCKED)", "")


def without_scopes() -> Plant:
    """Decisions over several rows do not keep each other out."""
    return _text(r"\bpg_advisory_xact_lock\((?=%s::int, %s::int|-?\d+, *-?\d+)", "int4pl(")


def without_waiting_for_locked_rows() -> Plant:
    """Whoever wants a task does not wait for one that somebody else is changing."""
    return _text(r"\bFOR UPDATE\b(?! SKIP LOCKED)", "FOR UPDATE SKIP LOCKED")


@contextmanager
def planted(clients: Sequence[Client], *plants: Plant) -> Iterator[None]:
    """For as long as the block, these clients have the bugs."""
    for client in clients:
        client.rewrites[:] = plants
    try:
        yield
    finally:
        for client in clients:
            client.rewrites.clear()
