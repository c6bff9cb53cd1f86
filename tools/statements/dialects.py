"""A statement in the dialect of each database, and what PostgreSQL is sent around the statements of an operation.

Only this module uses private parts of the engines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from string import Formatter
from typing import Any
from unittest.mock import Mock, patch

import psycopg

from tiebreak.engine.postgres import transaction as postgres
from tiebreak.engine.postgres.engine import PostgresEngine
from tiebreak.engine.postgres.transaction_settings import CLOCK, TransactionSettings
from tiebreak.engine.postgres.write_attempt import outcome
from tiebreak.engine.sqlite import transaction as sqlite
from tiebreak.operations import events, scope

_CALLED = {CLOCK: "the server's clock"}
"""Names for fragments that are too long for a comment."""


def in_postgres(sql: str) -> str:
    """The statement as PostgreSQL gets it, but with its parameters by name."""
    return _by_name(postgres._translate(sql, False, False)[0])


def _by_name(sql: str) -> str:
    """A statement of psycopg with `:name` for its parameters. A parameter without a name gets that of its column."""
    sql = re.sub(r"%\((\w+)\)s", r":\1", sql).replace("%%", "%")
    columns = re.search(r"INSERT INTO events \(([^)]*)\) VALUES", sql)
    names = iter(columns.group(1).split(", ") if columns else ["events"])
    return re.sub("%s", lambda _: f":{next(names)}", sql)


def differences(sql: str) -> list[str]:
    """What SQLite gets instead, for each fragment of the statement in which the dialects differ."""
    told = []
    parsed = ((name, f":{given}" if given else "") for _, name, given, _ in Formatter().parse(sql) if name)
    for fragment in dict.fromkeys(f"{{{name}{given}}}" for name, given in parsed):
        there, here = in_postgres(fragment), fragment.format_map(sqlite._FRAGMENTS)
        if there != here:
            told.append(f"{here} instead of {_CALLED.get(there, there)}" if here else f"without {there}")
    return told


class _Wire:
    """A fake connection to PostgreSQL that records what is sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def execute(self, sql: str, *_: Any) -> _Wire:
        self.sent += _by_name(sql).split("; ")
        return self

    def set_result(self, _: int) -> None:
        pass

    def fetchone(self) -> tuple[int, ...]:
        return (0, 0, 0)


Exchange = tuple[str, str, list[str]]
"""A title, what it is for, and the statements."""


def around_operations() -> Iterator[Exchange]:
    """What PostgreSQL is sent before and after the statements of an operation."""
    settings = TransactionSettings("public", 30.0, 170000)
    scopes = [scope("holds", "demo"), scope("keys", "demo", shared=True)]
    yield (
        "A transaction that writes begins",
        "One message. The two advisory locks are the scopes of a call that takes `holds` of the project `demo` "
        "alone and shares its `keys`; their second number is a checksum of both names. The clock is read after them: "
        "it is `:now` in the statements of the operation.",
        _sent(lambda wire: settings.writing(wire, scopes)),
    )
    yield (
        "A transaction that reads begins",
        "One message. All statements of the operation see the same moment.",
        _sent(settings.reading),
    )
    yield (
        "Before events are read",
        "In a transaction of its own: the number up to which all events are committed, which is `:settled`.",
        _sent(lambda wire: PostgresEngine.settled(Mock(settings=settings), wire)),
    )
    yield (
        "A transaction that writes ends",
        f"Events are written last. Up to {postgres.FEW} of them travel in one message with the COMMIT; shown for one. "
        "A transaction that has changed nothing sends END.",
        _sent(lambda wire: _commit(wire, 1)),
    )
    yield (
        "A transaction with many events ends",
        f"More than {postgres.FEW} events are one list in JSON. So are events that a later statement of the same "
        "transaction reads.",
        _sent(lambda wire: _commit(wire, postgres.FEW + 1)),
    )
    yield (
        "After a connection broke during a COMMIT",
        "Two questions on a new connection tell whether the transaction was committed: is it still in progress, and "
        "if not, is one of its events there? Each is asked in a transaction of its own.",
        _sent(lambda wire: outcome(settings, wire, {"transaction": "1"})),
    )


def _commit(wire: _Wire, count: int) -> None:
    tx = postgres.PostgresTransaction(wire, Mock(), 0)
    for _ in range(count):
        events.append(tx, "task.claimed", "demo")
    tx.commit()


def _sent(say: Callable[[_Wire], object]) -> list[str]:
    """What is sent. Values are not filled in, because that needs a real connection."""
    wire = _Wire()
    with patch.multiple(psycopg.ClientCursor, __init__=lambda *_: None, mogrify=lambda _, sql, __: sql):
        say(wire)
    return wire.sent
