"""Fixtures for the daemon: one in a process of its own, one in this process, and clients for both."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.log import boards
from tests.log.boards import logs_are_sound, unchecked
from tiebreak.limits import DEADLINE

from ..cli.command import Tb, until
from ..daemons import PATIENCE, InProcessDaemon, Reply, Serving, serving

__all__ = ["logs_are_sound", "unchecked"]

WHO = {"agent": "me~1", "project": "demo"}
LONG = 60_000
"""Milliseconds: longer than any of these tests has patience, so what answers earlier was woken."""


class Connection(http.client.HTTPConnection):
    """A connection over a unix socket."""

    def __init__(self, path: Path, timeout: float = 2 * PATIENCE, buffer: int = 0) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path
        self._room = buffer

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if self._room:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._room)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.fspath(self._path))

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """One request on this connection, which stays open."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given = {} if data is None else {"Content-Type": "application/json"}
        self.request(method, path, data, {**given, **(headers or {})})
        answer = self.getresponse()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())


Place = Serving | InProcessDaemon


def ask(place: Place, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
    """One request over the unix socket."""
    with contextlib.closing(Connection(place.socket)) as connection:
        return connection.ask(method, path, body, headers)


def request(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def rpc(place: Place, method: str, **params: Any) -> Any:
    """What an operation answers, be it a result or an error."""
    return ask(place, "POST", "/rpc", request(method, **params)).json


def result(place: Place, method: str, **params: Any) -> Any:
    """The result of an operation that has to succeed."""
    answer = rpc(place, method, **params)
    assert "error" not in answer, answer
    return answer["result"]


def post(place: Place, name: str, **facts: Any) -> Any:
    """Put a task on the board."""
    return result(place, "tasks.post", **{**WHO, "name": name, **facts})


def last(place: Place) -> int:
    """The number of the newest event."""
    return int(result(place, "events.last"))


# ── Metrics ──────────────────────────────────────────────────────────────────────────────────────────

_SAMPLE = re.compile(r'([a-z_]+)(\{[a-z]+="[^"\\]*"(?:,[a-z]+="[^"\\]*")*\})? (\S+)')


def samples(text: str) -> dict[str, float]:
    """Prometheus' text format as a strict reader takes it: each sample's name with its labels, and its value."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith(("# HELP ", "# TYPE ")):
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, f"no sample: {line!r}"
        name = match[1] + (match[2] or "")
        assert name not in found, f"{name} is given twice"
        found[name] = float(match[3])
    return found


def metrics(place: Place) -> dict[str, float]:
    """All that the daemon counts at this moment."""
    return samples(ask(place, "GET", "/metrics").body.decode())


def gauge(place: Place, name: str) -> float:
    """One number of this moment."""
    return metrics(place)[f"tiebreak_{name}"]


def growth(place: Place, work: Callable[[], object], *names: str) -> list[float]:
    """By how much each of these numbers grows while something is done."""
    before = metrics(place)
    work()
    after = metrics(place)
    return [after[f"tiebreak_{name}"] - before.get(f"tiebreak_{name}", 0) for name in names]


def until_waiting(place: Place, count: int = 1) -> None:
    """Until so many waits and streams are open."""
    until(lambda: gauge(place, "waiters") == count, f"{count} waiters")


# ── Things that last ─────────────────────────────────────────────────────────────────────────────────


class Stream:
    """An open stream of events, read one by one."""

    def __init__(self, place: Place, query: str = "", *, resume: int | None = None, buffer: int = 0) -> None:
        self._connection = Connection(place.socket, buffer=buffer)
        headers = {} if resume is None else {"Last-Event-ID": str(resume)}
        self._connection.request("GET", f"/events{query}", headers=headers)
        self.answer = self._connection.getresponse()

    def blocks(self) -> Iterator[list[str]]:
        """Its blocks of lines, until it ends."""
        lines: list[str] = []
        while line := self.answer.readline():
            if line != b"\n":
                lines.append(line.decode().removesuffix("\n"))
            else:
                yield lines
                lines = []
        assert not lines, "the stream ended within an event"

    def events(self, count: int) -> list[dict[str, str]]:
        """The next events, as their fields; comments and other blocks are passed over."""
        found: list[dict[str, str]] = []
        for block in self.blocks() if count else ():
            fields = dict(line.split(": ", 1) for line in block)
            if "data" in fields:
                assert set(fields) - {"event"} == {"id", "data"}  # a brief stream has no names
                found.append(fields)
            if len(found) == count:
                return found
        assert len(found) == count, "the stream ended too early"
        return found

    def close(self) -> None:
        """Hang up."""
        self.answer.close()
        self._connection.close()


@contextlib.contextmanager
def stream(place: Place, query: str = "", **options: Any) -> Iterator[Stream]:
    """A stream that is open, and known to the daemon, while the block lasts."""
    before = gauge(place, "waiters")
    made = Stream(place, query, **options)
    try:
        until(lambda: gauge(place, "waiters") == before + 1, "the stream is open")
        yield made
    finally:
        made.close()
    until(lambda: gauge(place, "waiters") == before, "the stream is forgotten")


@contextlib.contextmanager
def held_gate(board: Path) -> Iterator[Callable[[], None]]:
    """Nobody can write while the block lasts, or until the function it gives is called."""
    fd = os.open(f"{board}-gate", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


class Crowd:
    """Requests that run beside the test."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(40)

    def __call__(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        return self._threads.submit(function, *arguments, **named)

    def close(self) -> None:
        """Wait for all of them."""
        self._threads.shutdown(wait=True)


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """Threads for requests that take their time."""
    made = Crowd()
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon that the tests of a file share: they may add to its board, but not end it."""
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running
    boards.judge(os.fspath(running.board))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Serving]:
    """A daemon of the test's own, which it may end and start."""
    with serving(tmp_path) as running:
        yield running


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Callable[..., InProcessDaemon]]:
    """Makes daemons in this process, with a deadline for writes."""
    made: list[InProcessDaemon] = []

    def make(deadline: float = DEADLINE) -> InProcessDaemon:
        made.append(InProcessDaemon(tmp_path / "board.db", deadline=deadline))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def tb(tmp_path: Path) -> Iterator[Tb]:
    """The real command, with the board of the test's own folder."""
    made = Tb(tmp_path)
    # Short, or the sockets would be in a folder that all tests have in common.
    with tempfile.TemporaryDirectory(prefix="tb-") as state:
        made.environment["XDG_STATE_HOME"] = state
        yield made
