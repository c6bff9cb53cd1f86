"""Bugs that are planted on purpose, to see that the explorer finds them. Only for tests; nothing here is installed.

A plant rewrites the messages of the clients on their way to the server, so all that it knows of the code is its SQL.
One that finds nothing to rewrite plants nothing: it counts what it has rewritten, and the test fails if that is zero.
`tests/bugs.md` lists which defect each of them brings back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from .samples import ANSWER_YES, CANCEL_O, COMPLETE_A, DEFECTS, Sample, one
from .scheduler import Client
from .world import LONG


class Plant:
    """Replaces patterns in every message that is about something."""

    def __init__(self, *replacements: tuple[str, str], about: str = "") -> None:
        self._replacements = [(re.compile(pattern), new) for pattern, new in replacements]
        self._about = re.compile(about)
        self.count = 0

    def __call__(self, message: Any) -> Any:
        """The message as it is sent."""
        if not isinstance(message, str) or not self._about.search(message):
            return message
        for pattern, new in self._replacements:
            message, count = pattern.subn(new, message)
            self.count += count
        return message


class Planted(NamedTuple):
    """A bug, the clients that show it, and how the explorer calls what it finds."""

    number: int
    name: str
    plant: Plant
    samples: tuple[Sample, Sample]
    kind: str = "outcome"


ROW_LOCK = r"\bFOR (?:SHARE|UPDATE)(?: OF \w+)?(?: SKIP LOCKED)?"
EVERY = r"(?s)^(.*)$"


def _samples(number: int, place: int = 0) -> tuple[Sample, Sample]:
    _, first, second = DEFECTS[number][place]
    return first, second


def planted_bugs() -> list[Planted]:
    """One or more for each defect, by its number; those of number 0 are for the harness alone."""
    passes_by_lapsed = Plant(
        (r"holder IS NOT NULL(?= AND (glob|holder <>))", "holder IS NOT NULL AND until > %(now)s"),
        about=r"FROM holds WHERE project = .*substr\(resource",
    )
    counts_live_slots = Plant(
        (r"AND \(holder IS NOT NULL AND until <= %\(now\)s\) ORDER BY slot", "AND FALSE"),
        (r"AND holder IS NULL", "AND (holder IS NULL OR until <= %(now)s)"),
        (r"AND holder IS NOT NULL\) <", "AND holder IS NOT NULL AND until > %(now)s) <"),
        about=r"FROM holds WHERE project = %\(project\)s AND resource",
    )
    picks_anew = Plant(
        (ROW_LOCK, ""),
        (
            r"DELETE FROM tasks WHERE number IN \((.*)\) RETURNING",
            r"DELETE FROM tasks WHERE number IN (SELECT number FROM tasks WHERE finished_at > 0 "
            r"AND number <= greatest(\1) + 1 ORDER BY finished_at, number LIMIT 1) RETURNING",
        ),
        about=r"FROM tasks WHERE (finished_at|number IN)",
    )
    prunes_without_locks = Plant((ROW_LOCK, ""), about=r"FROM tasks WHERE finished_at")
    reads_predecessors = Plant((r"\bFOR SHARE", ""), about=r"FROM tasks")
    never_waits = Plant((r"\bFOR UPDATE(?! SKIP LOCKED)", "FOR UPDATE SKIP LOCKED"), about="^WITH picked")
    tells_failed = Plant(
        (
            r"CASE WHEN \(\((state = 'claimed' AND until <= %\(now\)s)\) AND attempts < max_attempts\) "
            r"THEN 'pending' ELSE state END",
            r"CASE WHEN \1 THEN CASE WHEN attempts < max_attempts THEN 'pending' ELSE 'failed' END ELSE state END",
        ),
        about=r"^SELECT",
    )
    reads_the_seat = Plant((r"\bFOR SHARE", ""), about=r"FROM (holds|sessions)")
    scope_after_row = Plant(
        (
            r"FROM edges WHERE \(after, task\) >",
            r"FROM (SELECT pg_advisory_xact_lock(7, 7)) AS late, edges WHERE (after, task) >",
        ),
        (r"^(BEGIN.*?; )(SELECT pg_advisory_xact_lock\()", r"\1SELECT pg_advisory_xact_lock(7, 7); \2"),
    )
    no_scopes = Plant((r"SELECT pg_advisory_xact_lock(?:_shared)?\((%s::int|\d+), (%s::int|\d+)\)", r"SELECT \1, \2"))
    answers_unfenced = Plant(
        (r" AND state IN \('blocked', 'pending'\) AND max_attempts = 0", ""),
        (ROW_LOCK, ""),
        about=r"(SELECT|UPDATE tasks) .*\bnumber = ",
    )
    return [
        Planted(1, "a glob passes by what has lapsed", passes_by_lapsed, _samples(1), "two holders"),
        Planted(1, "a glob passes by, all are renewed", passes_by_lapsed, _samples(1, 1), "two holders"),
        Planted(1, "a pool counts the live slots", counts_live_slots, _samples(1, 2), "two holders"),
        Planted(3, "pruning picks anew what it deletes", picks_anew, _samples(3)),
        Planted(4, "pruning locks nothing", prunes_without_locks, _samples(4)),
        Planted(5, "a retry only reads what it comes after", reads_predecessors, _samples(5)),
        Planted(6, "next never waits for a locked task", never_waits, _samples(6)),
        Planted(6, "next does not wait for a claim that dies", never_waits, _samples(6, 1)),
        Planted(7, "a lapsed last attempt is told as failed", tells_failed, _samples(7), "not final"),
        Planted(8, "the seat is only read", reads_the_seat, _samples(8)),
        Planted(8, "the session is only read", reads_the_seat, _samples(8, 1)),
        Planted(10, "an end takes a scope after its row", scope_after_row, _samples(10), "deadlock"),
        Planted(0, "a new task only reads what it comes after", reads_predecessors, (POST_AFTER_A, COMPLETE_A)),
        Planted(0, "an answer does not look whether the question is open", answers_unfenced, (ANSWER_YES, CANCEL_O)),
        Planted(0, "decisions about several holds take no turns", no_scopes, (TAKE_FILE, TAKE_GLOB), "two holders"),
    ]


POST_AFTER_A = one("tasks.post", "A", name="after A", after=["A"])
TAKE_FILE = one("holds.take", "new", resources=["file:new/x.py"], lease=LONG)
TAKE_GLOB = one("holds.take", "new", resources=["file:new/*.py"], lease=LONG)


@contextmanager
def planted(clients: Sequence[Client], plant: Plant) -> Iterator[None]:
    """For as long as the block, these clients have the bug."""
    for client in clients:
        client.rewrites.append(plant)
    try:
        yield
    finally:
        for client in clients:
            client.rewrites.clear()
