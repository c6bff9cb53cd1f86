"""Awkward texts: every engine refuses a text, or every engine stores it unchanged.

Each text is tried as every text parameter of every operation, on SQLite and PostgreSQL side by side.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from tiebreak import Board, Invalid, TiebreakError, Unavailable
from tiebreak.engine.schema import TABLES
from tiebreak.kinds import Kind
from tiebreak.model import encode
from tiebreak.operations import every, find
from tiebreak.paths import canonical

from .engines import PostgresPlace, SqlitePlace

_random = random.Random(1)


def incompressible(size: int) -> str:
    """A text of so many bytes that no database makes shorter."""
    return "".join(chr(_random.randrange(0x4E00, 0x9FFF)) for _ in range(size // 3)) + "x" * (size % 3)


TEXTS = {
    "nul": "a\0b",
    "high surrogate": "a\ud800b",
    "odd characters": "\ufeffa\ue000\ufffe\uffff\U0010ffff\u202eb",
    "controls": "a\x01\x1b[31m\x7f\x85\u2028b",
    "lines": "a\r\nb\n\tc",
    "decomposed": "e\u0301\u0958",
    "quotes and blanks": " a'b\"c`d\u00a0\u3000 ",
    "placeholders": "%s%(now)s{now}:now$1?1",
    "escapes": "\\u0000\\x00\\\\",
    "words of a query": "a'b:*&!(c|d)<->*",
    "a long word": "x" * 3000,
    "as long as a resource": incompressible(2043),
    "as long as a note": incompressible(4000),
    "as long as a text": incompressible(65_536),
    "many words": " ".join(f"{i:x}-{i * 7:x}" for i in range(6000)),
}
Calls = list[tuple[str, dict[str, Any]]]

_SESSION = {"session": "a~spawn-{}", "command": ["true"], "host": "h", "boot": "b", "role": "worker"}
_FOUND: list[tuple[str, Calls]] = [
    (
        "holds.renew holds.release holds.break holds.transfer agents.renew",
        [("holds.take", {"resources": ["lock:held-{}"]})],
    ),
    (
        "tasks.complete tasks.fail tasks.release tasks.extend jobs.progress jobs.append",
        [("tasks.claim", {"ref": "key-{}"})],
    ),
    (
        "tasks.cancel tasks.depend tasks.claim tasks.claim_many",
        [("tasks.post", {"name": "t", "key": "key-{}"})],
    ),
    (
        "tasks.retry",
        [("tasks.post", {"name": "t", "key": "key-{}"}), ("tasks.cancel", {"ref": "key-{}"})],
    ),
    (
        "schedules.pause schedules.resume schedules.remove schedules.next",
        [("schedules.add", {"name": "s-{}", "expression": "@daily", "command": "true"})],
    ),
    (
        "sessions.adopt sessions.alive sessions.renew sessions.end sessions.remove",
        [("sessions.begin", {**_SESSION, "pid": 1, "started": 1})],
    ),
]
BEFORE = {name: calls for names, calls in _FOUND for name in names.split()}
"""What must be there for an operation to find something."""
BY_NAME = {"session": "a~spawn-{}", "expression": "@daily", "holder": "bob~1", "pid": 1, "started": 1}
SAMPLES: dict[str, Any] = {
    **dict.fromkeys(("Name", "Note", "Text", "Label", "Key", "Folder"), "/given"),
    **dict.fromkeys(("Label", "Key", "Role"), "worker"),
    **{
        "Ref": "key-{}",
        "Resource": "lock:held-{}",
        "CommandOrCall": "true",
        "Json": {"command": "true"},
        "Percent": 1.0,
    },
    **{"Number": 1, "Epoch": 1, "Lease": 60, "NumberAndEpoch": [1, 1], "Chunk": {"start": 0, "text": "x"}},
    "Outcome": {"number": 1, "epoch": 1, "ok": True},
}
FORMS: dict[str, Any] = {
    **{kind: lambda text: text for kind in ("Name", "Note", "Text", "Label", "Key", "Ref", "AgentId", "Project")},
    **{kind: lambda text: text for kind in ("Priority", "State", "Seconds", "Moment", "GroupLimit")},
    "Folder": lambda text: "/" + text,
    "Resource": lambda text: "file:" + text,
    "Json": lambda text: {"command": "true", "name": text[:200], "payload": {"of": text}},
    "CommandOrCall": lambda text: ["echo", text],
    "Environ": lambda text: {"A": text, text: "B"},
    "Chunk": lambda text: {"start": 0, "text": text},
    "Outcome": lambda text: {"number": 1, "epoch": 1, "ok": False, "reason": text},
}
"""How a text is given as each kind of parameter."""


def calls(text: str) -> Iterator[tuple[str, str, Calls]]:
    """For every parameter that may be a text: its operation, its name, and the calls that try it."""
    number = 0
    for operation in every().values():
        for name, declared in operation.parameters.items():
            if declared.base not in FORMS:
                continue
            number += 1
            given = FORMS[declared.base](text)
            params = required(operation.parameters, operation.defaults)
            params[name] = given if declared.item is None else [given]
            before = BEFORE.get(operation.name, []) if passes(declared, params[name]) else []
            if operation.name.startswith("schedules") and "name" in params and name != "name":
                params["name"] = "s-{}"
            if operation.name.startswith("sessions") and "command" in params and name != "command":
                params["command"] = ["true"]
            yield (
                operation.name,
                name,
                [(each, numbered(some, number)) for each, some in (*before, (operation.name, params))],
            )


def passes(declared: Kind, value: Any) -> bool:
    """Whether a value is let through to an engine at all."""
    try:
        declared.check(value, "value")
    except Invalid:
        return False
    return True


def numbered(value: Any, number: int) -> Any:
    """With the number of this try in every name that has room for it."""
    if isinstance(value, dict):
        return {key: numbered(inner, number) for key, inner in value.items()}
    if isinstance(value, list):
        return [numbered(inner, number) for inner in value]
    return value.replace("{}", str(number)) if isinstance(value, str) else value


def required(parameters: dict[str, Kind], defaults: dict[str, Any]) -> dict[str, Any]:
    """A good value for each parameter that must be given."""
    found = {}
    for name, declared in parameters.items():
        if name not in defaults:
            value = BY_NAME.get(name, SAMPLES.get(declared.base, "worker"))
            found[name] = value if declared.item is None else [value]
    return found


def outcome(board: Board, name: str, params: dict[str, Any], text: str) -> str:
    """How a call ended: what it was refused for, or whether its answer has the text in it."""
    known = find(name).parameters
    given = {"agent": "alice~1", "project": "demo", **params}
    try:
        answer = board.engine.run(find(name), {each: given[each] for each in given if each in known})
    except Unavailable as exc:
        return f"Unavailable: {exc.message}"
    except TiebreakError as exc:
        return type(exc).__name__
    if name in ("messages.search", "messages.list"):
        return "answers"  # PostgreSQL has no word of more than 2 KB in its index, and finds none
    return f"answers {text in list(strings(encode(answer)))}"


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def kept(rows: Any, text: str) -> set[str]:
    """The stored texts in which this one occurs, without the ids that are new each time."""
    found = {value for row in rows for value in row if isinstance(value, str) and text in value}
    return {re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", value) for value in found}


def stored(files: SqlitePlace, server: PostgresPlace, text: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    with psycopg.connect(server.address, autocommit=True) as there:
        here = apsw.Connection(str(files.path), flags=apsw.SQLITE_OPEN_READONLY)
        both = (
            {table: kept(here.execute(f"SELECT * FROM {table}"), text) for table in TABLES},
            {table: kept(there.execute(f"SELECT * FROM {table}".encode()), text) for table in TABLES},
        )
        here.close()
    return both


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_engine_stores_a_text_that_another_cannot(text: str, tmp_path: Path) -> None:
    files, server = SqlitePlace(tmp_path), PostgresPlace(tmp_path)
    here, there = files.open("alice~1"), server.open("alice~1")
    try:
        for operation, parameter, steps in calls(text):
            for name, params in steps:
                ended = outcome(here, name, params, text)
                assert ended == outcome(there, name, params, text), f"{operation}, {parameter}"
                assert not ended.startswith("Unavailable"), f"{operation}, {parameter}: {ended}"
        here.tasks.post(name="carries all that was refused")
        there.tasks.post(name="carries all that was refused")
        on_file, on_server = stored(files, server, text)
        assert on_file == on_server
        assert (here.engine.refusals_dropped, there.engine.refusals_dropped) == (0, 0)
    finally:
        files.close()
        server.close()


def test_a_text_reaches_what_is_stored(tmp_path: Path) -> None:
    """If nothing was stored, there would be nothing to compare."""
    place = SqlitePlace(tmp_path)
    board = place.open("alice~1")
    found = {
        operation
        for operation, _, steps in calls("plain")
        if [outcome(board, name, params, "plain") for name, params in steps][-1] == "answers True"
    }
    place.close()
    assert found >= {
        *("tasks.post", "tasks.cancel", "tasks.fail", "tasks.complete", "tasks.claim", "queues.pause"),
        *("jobs.submit", "jobs.submit_many", "jobs.progress", "holds.take", "messages.send", "messages.inbox"),
        *("agents.announce", "agents.list", "sessions.begin", "sessions.end", "schedules.pause"),
    }


def test_the_longest_texts_are_stored_and_come_back(tmp_path: Path) -> None:
    """Each as long as its rule allows, and of text that no database makes shorter."""
    resource = "file:" + canonical(incompressible(2043))
    name, key, note = incompressible(800), incompressible(800), incompressible(4000)
    for place in (SqlitePlace(tmp_path), PostgresPlace(tmp_path)):
        board = place.open()
        board.holds.take(resources=[resource], note=note)
        assert [(hold.resource, hold.note) for hold in board.holds.list()] == [(resource, note)]
        board.tasks.post(name=name, key=key)
        assert board.tasks.get(ref=key).name == name
        job = board.jobs.submit(command={"call": key}, name=name, limit="g" * 64 + "=1", queue="q" * 64)
        assert job.name == name
        assert board.tasks.cancel(ref=key, reason=note).reason == note
        place.close()
