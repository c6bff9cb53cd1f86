"""Shared by the fuzz tests: a daemon with a filled board, ways to send it anything, and checks for afterwards."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw
from hypothesis import HealthCheck, Phase, settings

from tiebreak.daemon.rpc import INTERNAL
from tiebreak.kinds import Kind
from tiebreak.operations import Operation

from ..daemons import PATIENCE, Serving, serving

BOARD = {
    **{
        name: f"* FROM {name}"
        for name in ("holds", "pools", "queues", "outputs", "messages", "acks", "cursors", "agents", "answers", "edges")
    },
    "tasks": "number, id, epoch, name, payload, result FROM tasks",
    "events": "* FROM events WHERE event NOT IN ('task.expired', 'task.ready', 'task.failed', 'task.cancelled', "
    "'task.refused', 'task.fenced', 'hold.refused', 'hold.fenced')",
}
"""What is read of each table: not what a lapsed claim does by itself while somebody looks."""
SAMPLES = {
    "Name": "a name",
    "Note": "a note",
    "Text": "some text",
    "Ref": "#1",
    "AgentId": "ada",
    "Project": "demo",
    "Resource": "lock:deploy",
    "Number": 0,
    "Label": "label",
    "CommandOrCall": ["true"],
    "Json": {"command": "true"},
    "Epoch": 1,
    "NumberAndEpoch": [1, 1],
    "Outcome": {"number": 1, "epoch": 1, "ok": True},
    "Chunk": {"start": 0, "text": "written"},
    "TaskEntry": {"name": "imported", "after": ["key-0"]},
    "Percent": 50,
    "Role": "worker",
}
"""A good value for each kind of parameter that some operation requires."""
ANYTHING: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**53, 2**63, 2**64, 10**300, 1.5, 1e308, -0.0, 5e-324),
    *("", " ", "x", "-", "~", "#0", "#1", "#1.5", "key-0", "ada~", "~x", "lock:", "lock:deploy", "pool:ports", "file:"),
    *(
        "file:../x",
        "file:/x",
        "file:[",
        "file:**/*",
        "file:a\\b",
        "5m",
        "1e5",
        "-5s",
        "٣",
        "NaN",
        "1h" * 99,
        "x*",
        '"',
        "' OR 1",
    ),
    *("\x00", "\x1b[2J", "\u202e", "\U0001f600", "a" * 2000, "%", "_", "?", ":a", "{now}"),
    *([], [None], [[]], [{}], ["#1"], ["#1", "#1"], ["lock:a"] * 3, [0], [2**64], {}, {"a": {"b": []}}, {"": None}),
]
"""Values of every type that JSON has, and texts that mean something somewhere."""
LABELS = "[A-Za-z0-9_][A-Za-z0-9._:/+@-]{0,63}"
SENSIBLE: dict[str, dict[str, Any]] = {
    "Resource": {"type": "string", "pattern": f"^((lock|seat|pool):{LABELS}|file:[A-Za-z0-9._*/-]+)$"},
    "Key": {"type": "string", "pattern": "^[A-Za-z0-9._:/+@-]+$", "maxLength": 800},
    "Ref": {"type": ["string", "integer"], "pattern": "^#?[A-Za-z0-9._:/+@-]+$", "minimum": 1, "maximum": 2**53},
    "Seconds": {"type": ["number", "string"], "pattern": "^[0-9]{1,6}(ms|s|m|h|d|w)?$", "minimum": 0, "maximum": 1e8},
    "Lease": {"type": ["number", "string"], "pattern": "^[0-9]{1,3}(s|m|h)$", "minimum": 1, "maximum": 604_800},
    "Lasting": {"type": ["number", "string"], "pattern": "^[1-9][0-9]{0,3}(s|m|h)$", "minimum": 1, "maximum": 1e8},
}
"""Narrower than what the server accepts: most of these texts pass the checks, so that made-up calls reach the board.

The daemon's document describes all that is accepted, and most texts that it allows are refused for their form.
"""
LONGEST_WAIT = 20
"""Milliseconds: a made-up call may wait, but not for as long as it likes."""


def bounded(examples: int) -> settings:
    """The same examples each time, and no reason to stop but a failure."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def furnished(folder: Path) -> Iterator[Serving]:
    """A daemon whose board has tasks, a hold and a message."""
    with serving(folder) as made:
        for i in range(3):
            made.rpc("tasks.post", project="demo", agent="ada", name=f"task {i}", key=f"key-{i}")
        made.rpc("holds.take", project="demo", agent="ada", resources=["lock:deploy"])
        made.rpc("messages.send", project="demo", agent="ada", body="hello")
        yield made


@contextlib.contextmanager
def unharmed(daemon: Serving) -> Iterator[Serving]:
    """Whatever happens meanwhile, the daemon lives on, and has not had to write of a mistake of its own."""
    began = daemon.log.stat().st_size
    yield daemon
    assert daemon.process
    assert daemon.process.poll() is None, "the daemon has ended"
    assert daemon.ask("GET", "/health").status == 200
    said = daemon.log.read_bytes()[began:].decode()
    assert "Traceback" not in said, next(line for line in said.splitlines() if "Traceback" in line)
    for line in map(json.loads, said.splitlines()):
        assert line["level"] not in ("error", "critical"), line
        assert line.get("status", 0) < 500, line


def board(daemon: Serving) -> dict[str, list[Any]]:
    """All on the board that time alone does not change, read from its file beside the daemon."""
    connection = apsw.Connection(str(daemon.board), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {table: list(connection.execute(f"SELECT {columns}")) for table, columns in BOARD.items()}
    finally:
        connection.close()


class Line:
    """One connection that is kept, made anew when the daemon has closed it."""

    def __init__(self, daemon: Serving) -> None:
        self.daemon = daemon
        self._headers = {"Authorization": f"Bearer {daemon.token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)

    def post(self, path: str, body: bytes) -> tuple[int, Any]:
        """The status, and the answer as JSON; an answer that is no JSON is a failure."""
        self._connection.request("POST", path, body, self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        return answer.status, json.loads(said) if said else None


def sample(operation: Operation[..., Any], names: Iterable[str]) -> dict[str, Any]:
    """Good values for these parameters of an operation."""
    found = {}
    for name in names:
        kind = operation.parameters[name]
        found[name] = SAMPLES[kind.base] if kind.item is None else [SAMPLES[kind.base]]
    return found


def sensible(schema: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """A parameter as the document has it, or, more often, as a caller with a purpose would write it."""
    narrow = SENSIBLE.get(kind.base)
    if narrow is None:
        return schema
    made = narrow if kind.item is None else {"type": "array", "maxItems": 5, "items": narrow}
    return {"anyOf": [made, made, made, schema]}


def calmed(body: Any) -> Any:
    """The same body with short waits."""
    for message in body if isinstance(body, list) else [body]:
        params = message.get("params") if isinstance(message, dict) else None
        for name in ("wait_ms", "waitMs"):
            if isinstance(params, dict) and type(params.get(name)) in (int, float) and params[name] > LONGEST_WAIT:
                params[name] = LONGEST_WAIT
    return body


def assert_answer(answer: Any) -> None:
    """One answer of JSON-RPC, and no internal error."""
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer)
    if "error" in answer:
        assert isinstance(answer["error"]["message"], str)
        assert answer["error"]["code"] != INTERNAL, answer


def refused(line: Line, path: str, body: bytes) -> None:
    """Send what must be refused in all its parts, with a reason."""
    status, said = line.post(path, body)
    assert status in (200, 204, 400), (status, said)
    for answer in said if isinstance(said, list) else [said] if status != 204 else []:
        assert_answer(answer)
        assert "error" in answer, f"{body[:200]!r} was not refused"
