"""A request that is too large gets an answer and no reset, although real clients send all of it before they read."""

from __future__ import annotations

import http.client
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.daemons import PATIENCE
from tiebreak.daemon import http_protocol

from .conftest import Door, Starting, door_of, ended

SIZE = 5 * 1024 * 1024
TIMES = 5
"""A reset does not always overtake the answer."""


def by_http_client(door: Door, token: str, body: bytes, chunked: bool, folder: Path) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=PATIENCE)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    connection.request("POST", "/rpc", pieces if chunked else body, headers, encode_chunked=chunked)
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def by_httpx(door: Door, token: str, body: bytes, chunked: bool, folder: Path) -> int:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    content = (body[at : at + 65536] for at in range(0, len(body), 65536)) if chunked else body
    return httpx2.post(
        f"http://127.0.0.1:{door.port}/rpc", content=content, headers=headers, timeout=PATIENCE, trust_env=False
    ).status_code


def by_curl(door: Door, token: str, body: bytes, chunked: bool, folder: Path) -> int:
    (folder / "body").write_bytes(body)
    words = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--noproxy", "*", "-H", "Expect:"]
    words += ["-H", "Content-Type: application/json", "-H", f"Authorization: Bearer {token}"]
    words += ["-H", "Transfer-Encoding: chunked"] if chunked else []
    words += ["--data-binary", f"@{folder / 'body'}", f"http://127.0.0.1:{door.port}/rpc"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


CLIENTS = [by_http_client, by_httpx, by_curl]
Client = Callable[[Door, str, bytes, bool, Path], int]


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "chunked"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_real_client_reads_why_its_large_body_was_refused(
    client: Client, chunked: bool, start: Starting, tmp_path: Path
) -> None:
    door = door_of(start())
    for _ in range(TIMES):
        assert client(door, door.token, b" " * SIZE, chunked, tmp_path) == 413


@pytest.mark.parametrize("client", CLIENTS)
def test_a_real_client_without_the_token_reads_why_its_large_body_was_refused(
    client: Client, start: Starting, tmp_path: Path
) -> None:
    door = door_of(start())
    for _ in range(TIMES):
        assert client(door, "wrong", b" " * SIZE, False, tmp_path) == 401


def pour(knocking: socket.socket) -> None:
    for _ in range(10_000):
        knocking.sendall(b" " * 65536)


def test_a_refused_client_that_sends_on_is_cut_off(start: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "MOST_DISCARDED", 1024 * 1024)
    monkeypatch.setattr(http_protocol, "LINGER", 3600.0)
    door = door_of(start())
    with door.begin("POST", "/rpc", {"Content-Type": "application/json", "Content-Length": str(10**12)}) as knocking:
        knocking.settimeout(PATIENCE)
        with pytest.raises(ConnectionError):
            pour(knocking)


def test_a_refused_client_that_stays_silent_is_cut_off(start: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LINGER", 0.1)
    door = door_of(start())
    with door.begin("POST", "/rpc", {"Content-Type": "application/json", "Content-Length": str(10**12)}) as knocking:
        assert ended(knocking).startswith(b"HTTP/1.1 413 ")
        with pytest.raises(ConnectionError):
            pour(knocking)
