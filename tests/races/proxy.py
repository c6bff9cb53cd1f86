"""A proxy between a client and a daemon that breaks connections on purpose, each at a moment of the test's choice.

It listens on TCP or on a unix socket and goes on to the daemon's own socket. It reads whole requests and whole
answers, so that "after the daemon has answered, before the client hears it" is a place in its code and not luck.
Each request takes the next fault from a list; when the list is used up, requests pass.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..accepting import accept_each

PATIENCE = 60.0
PASS = "passes"
FAULTS = {
    "request lost": "the connection breaks before the daemon hears of the request",
    "request halved": "the daemon gets half of the request",
    "answer lost": "the daemon has committed and answered, the client hears nothing",
    "head halved": "the client gets a part of the answer's head",
    "body halved": "the client gets the answer without its last bytes",
    "request late": "the connection breaks, and the request reaches the daemon when the test says so",
}


class Proxy:
    """Faults between a client and a daemon. `address` is what the client opens."""

    def __init__(self, daemon: Path, at: Path | None = None) -> None:
        self._daemon = str(daemon)
        self.faults: deque[str] = deque()
        self.requests: list[Any] = []
        """The JSON of all requests that came, whatever became of them."""
        self._held: list[bytes] = []
        self._listening = socket.socket(socket.AF_INET if at is None else socket.AF_UNIX)
        self._listening.bind(("127.0.0.1", 0) if at is None else str(at))
        self._listening.listen(64)
        name = self._listening.getsockname()
        self.address = f"http://127.0.0.1:{name[1]}" if at is None else f"unix:{at}"
        self._accepting = accept_each(self._listening, self._serve)

    def next(self, *faults: str) -> None:
        """What happens to the next requests."""
        assert set(faults) <= {PASS, *FAULTS}
        self.requests.clear()
        self.faults.extend(faults)

    def deliver(self) -> list[Any]:
        """Let the late requests arrive now; what the daemon answers to each, which no client will ever see."""
        held, self._held = self._held, []
        return [json.loads(self._asked(request).partition(b"\r\n\r\n")[2]) for request in held]

    def close(self) -> None:
        """Take no more connections. Those that are open end when the client closes them."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join(PATIENCE)

    # ── In threads ───────────────────────────────────────────────────────────────────────────────────

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while request := _message(client):
                self.requests.append(json.loads(request.partition(b"\r\n\r\n")[2] or b"null"))
                fault = self.faults.popleft() if self.faults else PASS
                if fault == "request lost":
                    return
                if fault == "request late":
                    self._held.append(request)
                    return
                if fault == "request halved":
                    self._half(request)
                    return
                client.sendall(_part(self._asked(request), fault))
                if fault != PASS:
                    return

    def _asked(self, request: bytes) -> bytes:
        with self._connected() as daemon:
            daemon.sendall(_addressed(request))
            return _message(daemon)

    def _half(self, request: bytes) -> None:
        with self._connected() as daemon:
            daemon.sendall(_addressed(request)[:-10])

    def _connected(self) -> socket.socket:
        daemon = socket.socket(socket.AF_UNIX)
        daemon.settimeout(PATIENCE)
        daemon.connect(self._daemon)
        return daemon


@contextlib.contextmanager
def between(daemon: Path, at: Path | None = None) -> Iterator[Proxy]:
    """A proxy for as long as the context lasts."""
    made = Proxy(daemon, at)
    try:
        yield made
    finally:
        made.close()
        if at is not None:
            at.unlink()


def _part(answer: bytes, fault: str) -> bytes:
    """What the client gets of an answer."""
    if fault == "answer lost":
        return b""
    if fault == "head halved":
        return answer[:20]
    return answer[:-3] if fault == "body halved" else answer


def _addressed(request: bytes) -> bytes:
    """The daemon's own socket goes by another name than the proxy."""
    lines = request.split(b"\r\n")
    return b"\r\n".join(b"Host: localhost" if line.startswith(b"Host:") else line for line in lines)


def _message(connection: socket.socket) -> bytes:
    """One whole request or answer; empty when the other side has hung up."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65536)):
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"0")
    while len(body) < int(length):
        if not (more := connection.recv(65536)):
            return b""
        body += more
    return head + b"\r\n\r\n" + body
