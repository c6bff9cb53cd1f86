"""The connection: who is at the other end, and that a request arrives whole, in time and within bounds.

uvicorn's protocol does the HTTP. What is added here concerns a connection before any request can be judged: the
user behind a unix socket, the number of connections, the size of the headers, and one deadline for the receipt of a
request, headers and body, so that nobody keeps a place by sending a byte now and then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

LARGEST_HEAD = 32 * 1024
MOST_HEADERS = 100
MOST_CONNECTIONS = 8192
log = logging.getLogger("tiebreak")


class Joined:
    """A transport that sends the head of an answer together with the beginning of its body.

    One system call instead of two, and whoever waits for the answer is woken once.
    """

    __slots__ = ("_head", "_real")

    def __init__(self, real: asyncio.Transport) -> None:
        self._real = real
        self._head = b""

    def write(self, data: bytes) -> None:
        """Send, or keep a head until something follows."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data[:9] == b"HTTP/1.1 " and data[9:10] != b"1" and data[-4:] == b"\r\n\r\n":
            self._head = data
            return
        self._real.write(data)

    def flush(self) -> None:
        """Send what was kept."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Send what was kept, and close."""
        self.flush()
        self._real.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self._receiving_since: float | None = self.loop.time()
        self._in_head = self._large = False
        self._head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects: find out who, and let in only who may come in."""
        super().connection_made(Joined(transport))  # type: ignore[arg-type]
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is None or len(self.connections) > MOST_CONNECTIONS:
            log.warning("connection refused", extra={"facts": {"why": "another user" if peer is None else "too many"}})
            transport.abort()
        self.app_state = {"peer": peer or "nobody"}

    def data_received(self, data: bytes) -> None:
        """Something arrives: what cannot be anything but headers is counted."""
        before = self._in_head
        self._large = len(data) > LARGEST_HEAD or self._head > 0
        super().data_received(data)
        self._head = self._head + len(data) if before and self._in_head else 0
        if self._head > LARGEST_HEAD:
            self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._receiving_since = self._receiving_since or self.loop.time()
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The headers are complete."""
        self._in_head = False
        if len(self.headers) > MOST_HEADERS or (self._large and _size(self.headers) > LARGEST_HEAD):
            self._refuse(b"431 Request Header Fields Too Large")
        if not self.transport.is_closing():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of the body."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._receiving_since = None
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is complete."""
        self.transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()

    def end_if_slow(self, since: float) -> None:
        """Close the connection if a request has been arriving since before that moment."""
        if self._receiving_since is None or self._receiving_since > since:
            return
        if self._answering():
            return
        self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            if not self._answered():
                self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()

    def _answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_started and not cycle.response_complete

    def _answered(self) -> bool:
        """Whether the request that is still arriving has its answer already."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_complete and not self._in_head


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)


def peer_of(connected: socket.socket) -> str | None:
    """Who is at the other end; None when it is another user's process."""
    if connected.family != socket.AF_UNIX:
        return f"tcp:{connected.getpeername()[0]}"
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    else:  # macOS: LOCAL_PEERPID, and getpeereid by way of LOCAL_PEERCRED (version, uid, …)
        pid = struct.unpack("i", connected.getsockopt(0, 2, 4))[0]
        uid = struct.unpack("2I", connected.getsockopt(0, 1, 8))[1]
    return f"unix:{pid}" if uid in (os.geteuid(), 0) else None
