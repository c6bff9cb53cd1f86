"""Everything that a client can accumulate is limited, with a clear error, and is freed when the client disconnects."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import until
from tests.daemons import PATIENCE, serving
from tiebreak.daemon import event_stream, http_protocol, waiters
from tiebreak.daemon.service import WAIT_MS
from tiebreak.limits import MAX_CLIENT_WAITS, MAX_HEAD, MOST_IN_A_BATCH

from .conftest import Door, Seen, Starting, call, door_of, ended

AT_ONCE = 45.0
"""Seconds: on a busy machine too, and before any wait would have ended by itself."""
MOST = MAX_CLIENT_WAITS


@pytest.fixture
def door(start: Starting, monkeypatch: pytest.MonkeyPatch) -> Door:
    """The door of a daemon that learns nothing from the heartbeats of its streams."""
    monkeypatch.setattr(event_stream, "STREAM_HEARTBEAT", 3600.0)
    return door_of(start())


@pytest.fixture
def kept() -> Iterator[ExitStack]:
    """Connections that stay open until the end of the test."""
    with ExitStack() as stack:
        yield stack


def waiting(door: Door, count: int, kept: ExitStack, client: str = "") -> list[socket.socket]:
    """So many open waits, every other one a stream, all of them begun."""
    before = door.waiters()
    headers = {"Tiebreak-Client": client}
    begun = [door.begin("GET", "/events", headers) if i % 2 else door.wait(client) for i in range(count)]
    for each in begun:
        kept.enter_context(each)
    until(lambda: door.waiters() == before + count, f"{count} more wait")
    return begun


def another(door: Door, client: str = "") -> Seen:
    """What one more wait is answered: nothing comes for as long as it waits, so it waits for a moment only."""
    body = call("events.read", after=10**9, project=None, wait_ms=1)
    return door.ask("POST", "/rpc", {"Tiebreak-Client": client}, body)


def left(door: Door, count: int) -> None:
    until(lambda: door.waiters() == count, f"{count} wait", AT_ONCE)


def refused(seen: Seen, bound: int) -> None:
    assert seen.status == 429
    assert seen.header("retry-after").isdecimal()
    assert str(bound) in seen.message
    assert json.loads(seen.body)["hint"]


# ── Waits ────────────────────────────────────────────────────────────────────────────────────────────


def test_one_client_cannot_open_all_waits_and_gets_one_back_by_disconnecting(door: Door, kept: ExitStack) -> None:
    begun = waiting(door, MOST, kept)
    refused(another(door), MOST)
    refused(door.ask("GET", "/events"), MOST)
    assert door.waiters() == MOST
    for each in begun[:2]:
        each.close()
        left(door, MOST - 1)
        waiting(door, 1, kept)
        refused(another(door), MOST)


def test_another_client_still_gets_in(door: Door, kept: ExitStack) -> None:
    waiting(door, MOST, kept)
    assert another(door, "somebody else").status == 200


def test_forwarding_headers_do_not_make_a_client_another_client(door: Door, kept: ExitStack) -> None:
    waiting(door, MOST, kept)
    headers = {"X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.1", "X-Real-IP": "192.0.2.1"}
    refused(door.ask("GET", "/events", headers), MOST)


def test_all_clients_together_are_bounded_too(door: Door, kept: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiters, "MAX_OPEN_WAITS", 6)
    for name in ("a", "b", "c"):
        waiting(door, 2, kept, name)
    refused(another(door, "d"), 6)
    kept.close()
    left(door, 0)
    assert another(door, "d").status == 200


def sent_away(waiting: socket.socket) -> bool:
    waiting.settimeout(0)
    with suppress(BlockingIOError):
        return waiting.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 429"
    return False


def test_of_many_simultaneous_waits_only_the_allowed_number_stays(door: Door, kept: ExitStack) -> None:
    begun = [kept.enter_context(door.wait()) for _ in range(MOST + 20)]
    until(lambda: sum(map(sent_away, begun)) == 20, "those for whom there is no place have gone")
    assert door.waiters() == MOST


@pytest.mark.parametrize("first", ["wait", "stream"])
def test_a_client_that_asks_for_more_and_hangs_up_is_forgotten_with_all_it_asked(first: str, door: Door) -> None:
    with door.wait() if first == "wait" else door.begin("GET", "/events") as knocking:
        left(door, 1)
        knocking.sendall(door.head("GET", "/health") * 3)
    left(door, 0)


def test_a_client_that_is_killed_is_forgotten(door: Door) -> None:
    knocking = door.wait()
    left(door, 1)
    # No farewell: what the kernel does for a killed client that had something unread.
    knocking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    knocking.close()
    left(door, 0)


WAITS: list[Any] = [WAIT_MS + 1, 10**30, -1, 1.5, "1000", "", True, None, [], {}]


@pytest.mark.parametrize("wait", WAITS, ids=repr)
def test_an_invalid_wait_is_refused_and_the_valid_range_is_named(wait: Any, door: Door) -> None:
    error = door.rpc("events.read", after=0, project=None, wait_ms=wait)["error"]
    assert error["code"] == -32602
    assert "wait_ms" in error["message"]
    assert str(WAIT_MS) in error["message"]
    assert door.waiters() == 0


def test_the_longest_wait_is_taken(door: Door, kept: ExitStack) -> None:
    kept.enter_context(door.wait(wait_ms=WAIT_MS))
    left(door, 1)


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────


def batch(door: Door, count: int) -> Seen:
    calls = [json.loads(call("tasks.post", i, name="x", project="p", agent="a~1")) for i in range(count)]
    return door.ask("POST", "/rpc", None, json.dumps(calls).encode())


def test_the_largest_batch_is_taken_and_a_larger_one_does_nothing(door: Door) -> None:
    seen = batch(door, MOST_IN_A_BATCH + 1)
    assert seen.status == 400
    assert str(MOST_IN_A_BATCH) in json.loads(seen.body)["error"]["message"]
    assert door.rpc("events.last")["result"] == 0
    assert len(json.loads(batch(door, MOST_IN_A_BATCH).body)) == MOST_IN_A_BATCH
    assert door.rpc("upkeep.status", project="p")["result"]["pending"] == MOST_IN_A_BATCH


# ── Heads ────────────────────────────────────────────────────────────────────────────────────────────

HEADS = {
    "many headers": lambda door: door.head("GET", "/health", {f"X-{i}": "x" for i in range(101)}),
    "one large header": lambda door: door.head("GET", "/health", {"X": "x" * MAX_HEAD}),
    "many large headers": lambda door: door.head("GET", "/health", {f"X-{i}": "x" * 4000 for i in range(50)}),
    "a long name": lambda door: door.head("GET", "/health", {"X" * MAX_HEAD: "x"}),
    "a long path": lambda door: door.head("GET", "/" + "x" * 10 * MAX_HEAD),
    "a long question": lambda door: door.head("GET", "/events?project=" + "x" * 10 * MAX_HEAD),
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_head_that_is_too_large_is_refused(head: Any, door: Door) -> None:
    with door.open() as knocking:
        with suppress(ConnectionError):
            knocking.sendall(head(door))
        came = ended(knocking)
        assert came == b"" or came.split(b" ")[1] in (b"431", b"414")
    assert door.ask("GET", "/health").status == 200


def test_a_head_of_a_usual_size_is_taken(door: Door) -> None:
    assert door.ask("GET", "/health", {f"X-{i}": "x" * 200 for i in range(80)}).status == 200


ENDLESS = {
    "one header": (b"X: ", b"x" * 65536),
    "headers": (b"X: x", b"\r\nX: x" * 10000),
    "the path": (b"", b"x" * 65536),
    "headers after the body": (b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: x", b"\r\nX: x" * 10000),
    "one header after the body": (b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"x" * 65536),
}


def pour(knocking: socket.socket, more: bytes) -> None:
    for _ in range(1000):
        knocking.sendall(more)


@pytest.mark.parametrize(("first", "more"), ENDLESS.values(), ids=ENDLESS)
def test_an_endless_request_is_cut_off_long_before_it_fills_the_memory(first: bytes, more: bytes, door: Door) -> None:
    with door.open() as knocking:
        knocking.sendall(door.head("POST", "/rpc")[:-2] + first if first else b"GET /")
        with pytest.raises(ConnectionError):
            pour(knocking, more)
    assert door.ask("GET", "/health").status == 200


def test_a_large_body_that_comes_in_one_piece_is_no_large_head(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        door = door_of(daemon)
        assert daemon.process
        body = call("events.last")
        body += b" " * (1024 * 1024 - len(body))
        with door.open() as knocking:
            knocking.sendall(door.head("GET", "/health"))
            assert door.answer(knocking).status == 200
            os.kill(daemon.process.pid, signal.SIGSTOP)  # it is busy, so that much piles up
            whole = door.head("POST", "/rpc", None, body) + body
            sending = threading.Thread(target=knocking.sendall, args=(whole,))
            sending.start()
            sending.join(0.2)
            os.kill(daemon.process.pid, signal.SIGCONT)
            sending.join(PATIENCE)
            assert door.answer(knocking).status == 200


# ── Connections ──────────────────────────────────────────────────────────────────────────────────────


def test_hundreds_of_silent_connections_do_not_block_other_clients(door: Door, kept: ExitStack) -> None:
    for i in range(400):
        knocking = kept.enter_context(door.open())
        if i % 2:
            knocking.sendall(door.head("GET", "/health")[: i % 100])
    assert door.ask("GET", "/health").status == 200
    waiting(door, MOST, kept)
    assert door.rpc("tasks.post", name="x", project="p", agent="a~1")["result"]["name"] == "x"


def test_connections_are_bounded_and_there_is_room_again_when_some_are_closed(
    door: Door, kept: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 10)
    for _ in range(10):
        knocking = kept.enter_context(door.begin("GET", "/health"))
        assert door.answer(knocking).status == 200
    with door.open() as one_more:
        assert ended(one_more) == b""
    kept.close()

    def answers() -> bool:
        with suppress(OSError):
            return door.ask("GET", "/health").status == 200
        return False

    until(answers, "there is room again", AT_ONCE)
