"""Every entry of every index fits: PostgreSQL refuses one of more than 2,704 bytes, and with it the whole write.

The texts are the widest that the rules let through, and count in full: random text cannot be compressed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import tiebreak.engine
from tiebreak.engine.refusal_counts import FIELDS
from tiebreak.limits import MAX_KEY, MAX_LABEL, MAX_RESOURCE
from tiebreak.names import STATES

SCHEMA = Path(os.path.dirname(tiebreak.engine.__file__)) / "schema"
ENOUGH = 2600
"""Less than what PostgreSQL takes, because others may store the board differently."""
OWN = 16
"""What an entry has beside its columns: its header and which of them are null."""
AGENT = 2 * MAX_LABEL + 1
UUID = 36
ONCE = 128
WIDEST = {
    "agent": AGENT,
    "agents.id": AGENT,
    "answers.once": ONCE,
    "board.name": MAX_LABEL,
    "callee": MAX_KEY,
    "chores.chore": MAX_LABEL,
    "chores.subject": MAX_LABEL,
    "events.subject": MAX_RESOURCE,
    "key": MAX_KEY,
    "kind": MAX_LABEL,
    "limit_group": MAX_LABEL,
    "project": MAX_LABEL,
    "projects.name": MAX_LABEL,
    "queue": MAX_LABEL,
    "resource": MAX_RESOURCE,
    "role": MAX_LABEL,
    "schedules.name": MAX_LABEL,
    "session": MAX_LABEL,
    "state": max(map(len, STATES)),
    "tasks.id": UUID,
}
"""The bytes of each text that is in an index, by its column, and by its table where columns of that name differ."""
UNLIMITED = {("sqlite", "tasks_ready_tagged"), ("sqlite", "messages_words"), ("postgres", "messages_words")}
"""A thousand tags are more than an index of PostgreSQL takes; SQLite, which has no such limit, keeps them in one.
Words have indexes of their own kind."""

_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\)", re.S)
_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+) ON (\w+) (?:USING (\w+) )?\(([^;]*?)\)(?:\s*WHERE|;)")
_ADDED = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (\w+) (?:bigint|INTEGER)")
_COLUMN = re.compile(r"^  (\w+) +(text|bigint|INTEGER|TEXT)\b(.*)$", re.M)


def indexes(engine: str) -> dict[str, tuple[str, list[str]]]:
    """Each index of an engine's schema: its table and its columns."""
    found: dict[str, tuple[str, list[str]]] = {}
    for path in sorted(SCHEMA.glob(f"{engine}-*.sql")):
        text = re.sub(r"--.*", "", path.read_text())
        for table, body in _TABLE.findall(text):
            for name, _, rest in _COLUMN.findall(body):
                if "PRIMARY KEY" in rest or "UNIQUE" in rest:
                    found[f"{table} {name}"] = (table, [name])
            for columns in re.findall(r"^  PRIMARY KEY \((.*?)\)", body, re.M):
                found[f"{table} primary key"] = (table, columns.split(", "))
        for name, table, _, columns in _INDEX.findall(text):
            found[name] = (table, [column.split()[0] for column in columns.split(", ")])
    return found


def numbers(engine: str) -> set[str]:
    """The columns that hold numbers, with their tables."""
    found = set()
    for path in sorted(SCHEMA.glob(f"{engine}-*.sql")):
        text = re.sub(r"--.*", "", path.read_text())
        for table, body in _TABLE.findall(text):
            found |= {f"{table}.{name}" for name, kind, _ in _COLUMN.findall(body) if kind in ("bigint", "INTEGER")}
        found |= {f"{table}.{name}" for table, name in _ADDED.findall(text)}
    return found


def widest(engine: str, table: str, column: str) -> int:
    if f"{table}.{column}" in numbers(engine):
        return 8
    size = WIDEST.get(f"{table}.{column}") or WIDEST.get(column)
    assert size, f"{table}.{column} is in an index: say in WIDEST how many bytes it may have"
    return size + 8  # with its length, and room to align it


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_no_entry_of_an_index_can_be_too_large(engine: str) -> None:
    known = indexes(engine)
    assert len(known) > 40, "the schema reads differently now"
    for name, (table, columns) in known.items():
        if (engine, name) not in UNLIMITED:
            size = OWN + sum(widest(engine, table, column) for column in columns)
            assert size <= ENOUGH, f"{name}: {size} bytes"


def test_a_refusal_is_cut_to_what_the_index_over_its_subject_takes() -> None:
    assert FIELDS[2] <= WIDEST["events.subject"]
    assert OWN + FIELDS[2] + 8 + 8 <= ENOUGH
