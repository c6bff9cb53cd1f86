"""The connection: who is at the other end, and that a request arrives whole, in time and within bounds.

uvicorn's protocol does the HTTP. What is added here concerns a connection before any request can be judged: the
user behind a unix socket, the number of connections, the size of the headers, and one deadline for the receipt of a
request, headers and body, so that nobody keeps a place by sending a byte now and then.

A request may be refused while it is still arriving, because it is too large for example. To close a connection on which
unread bytes arrive is to reset it, and a reset throws away the answer that the client has not read yet. So our side is
closed first, and what still arrives is read and thrown away, for a while and up to a bound.
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
    from collections.abc import Callable

    from uvicorn.config import Config
    from uvicorn.server import ServerState

LARGEST_HEAD = 32 * 1024
LARGEST_REQUEST = 8 * 1024 * 1024
"""Bytes on the wire: the largest body, cut into chunks of one byte each, and its headers."""
LINGER = 5.0
"""Seconds for a refused client to stop sending and read its answer."""
MOST_DISCARDED = 16 * 1024 * 1024
"""Bytes that it may still send meanwhile."""
MOST_AHEAD = 1000
"""Requests that a client may send before it has the answer to the first."""
ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
"""Headers of every answer."""
_ALWAYS = b"".join(b"%b: %b\r\n" % each for each in ALWAYS)
MOST_HEADERS = 100
MOST_CONNECTIONS = 8192
log = logging.getLogger("tiebreak")


class Outbox:
    """What is to be sent, kept until the end of this turn of the event loop.

    The answers of a batch become ready one after the other, each some microseconds after the last. Sent together they
    cost one system call for each connection instead of two, and wake a client that reads them all once instead of
    for each.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Late] = []

    def add(self, sender: Late) -> None:
        """Send what it has at the end of this turn."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(sender)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            sender.flush()


class Late:
    """A transport that sends by way of the outbox, and closes so that the last answer can be read."""

    __slots__ = ("_arriving", "_outbox", "_pieces", "_real", "lingering")

    def __init__(self, real: asyncio.Transport, outbox: Outbox, arriving: Callable[[], bool]) -> None:
        self._real = real
        self._outbox = outbox
        self._arriving = arriving
        self._pieces: list[bytes] = []
        self.lingering = False
        """Whether our side is closed, and theirs is only read to be thrown away."""

    def write(self, data: bytes) -> None:
        """Send this soon."""
        if not self._pieces:
            self._outbox.add(self)
        self._pieces.append(data)

    def flush(self) -> None:
        """Send now what has been kept."""
        pieces, self._pieces = self._pieces, []
        if pieces and not self.is_closing():
            self._real.write(b"".join(pieces))

    def is_closing(self) -> bool:
        """Whether nothing more is to be answered."""
        return self.lingering or self._real.is_closing()

    def close(self) -> None:
        """Send what has been kept, and close; while a request is arriving, our side only."""
        self.flush()
        if self.lingering or self._real.is_closing() or not self._arriving():
            self._real.close()
            return
        self.lingering = True
        self._real.write_eof()
        self._real.resume_reading()
        asyncio.get_running_loop().call_later(LINGER, self._real.close)

    def close_at_once(self) -> None:
        """Send what has been kept, and close, whatever still arrives."""
        self.flush()
        self._real.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, config: Config, state: ServerState, outbox: Outbox) -> None:
        super().__init__(config, state, {})
        self._outbox = outbox
        self._receiving_since: float | None = self.loop.time()
        self._in_head = self._large = False
        self._head = self._received = self._discarded = 0
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects: find out who, and let in only who may come in."""
        self._late = Late(transport, self._outbox, self._arriving)
        super().connection_made(self._late)  # type: ignore[arg-type]
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is None or len(self.connections) > MOST_CONNECTIONS:
            log.warning("connection refused", extra={"facts": {"why": "another user" if peer is None else "too many"}})
            transport.abort()
        self.app_state = {"peer": peer or "nobody"}

    def data_received(self, data: bytes) -> None:
        """Something arrives: what cannot be anything but headers is counted."""
        if self._late.lingering:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED:
                self._late.close_at_once()
            return
        before = self._in_head
        self._large = len(data) > LARGEST_HEAD or self._head > 0
        self._received += len(data)
        super().data_received(data)
        if self._received > LARGEST_REQUEST:
            self._refuse(b"413 Content Too Large")
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
        if self.url[:1] != b"/":  # it would name a host that nobody checks
            self._refuse(b"421 Misdirected Request")
        if len(self.pipeline) >= MOST_AHEAD:
            self.transport.close()
        if not self.transport.is_closing():
            super().on_headers_complete()
            self.headers = []  # what follows the body in the manner of headers is none
            if self.pipeline:
                self.flow.resume_reading()  # or it would not be noticed that the client hangs up

    def on_body(self, body: bytes) -> None:
        """Some of the body."""
        if not self.transport.is_closing():
            super().on_body(body)
            if self.pipeline and len(self.cycle.body) > LARGEST_HEAD:
                self.transport.close()

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._receiving_since = None
        self._received = 0
        if not self.transport.is_closing():
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone: whatever it asked for is over, also when it has asked for more since."""
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def end_if_slow(self, since: float) -> None:
        """Close the connection if a request has been arriving since before that moment."""
        if self._receiving_since is None or self._receiving_since > since:
            return
        if self._answering():
            return
        self._refuse(b"408 Request Timeout")
        self._late.close_at_once()  # what has not come by now is not waited for

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            if not self._answered():
                rest = _ALWAYS + b"connection: close\r\ncontent-length: 0\r\n\r\n"
                self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + rest)
            self.transport.close()

    def _arriving(self) -> bool:
        """Whether a request has begun to arrive and is not complete."""
        return self._receiving_since is not None and (self._in_head or self._received > 0)

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
