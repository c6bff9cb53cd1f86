"""One HTTP connection: finds out which user is connected, and limits the time and size of each request.

`HttpProtocol` extends the protocol class of uvicorn, which parses HTTP. It adds what must be decided before the
application sees a request: the user behind a unix socket, the number of connections, the size of the headers, and one
deadline for the whole request. A client cannot keep a connection busy by sending a byte now and then.

The parent class is internal to uvicorn. `tests/daemon/test_uvicorn_internals.py` names every part of it that is used.

Lingering close: a request may be refused while its body is still arriving. Closing a socket that has unread input
resets the connection, and the client may then lose the answer. So the daemon first closes its sending side only. It
reads and discards what still arrives, for `LINGER` seconds and up to `MOST_DISCARDED` bytes, and then closes.
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

from ..limits import MAX_CONNECTIONS, MAX_HEAD, MAX_HEADERS
from .peer_user import PeerUser

if TYPE_CHECKING:
    from collections.abc import Callable

    from uvicorn.config import Config
    from uvicorn.server import ServerState

LARGEST_REQUEST = 8 * 1024 * 1024
"""Bytes of one request on the wire. Enough for the largest body in chunks of one byte each, with its headers."""
LINGER = 5.0
"""Seconds that a refused client has to stop sending and read its answer."""
MOST_DISCARDED = 16 * 1024 * 1024
"""Bytes that a refused client may still send in that time."""
MOST_AHEAD = 1000
"""Pipelined requests: how many a client may send before it has the answer to the first."""
CACHE_CONTROL = b"cache-control"
ALWAYS = ((b"x-content-type-options", b"nosniff"), (CACHE_CONTROL, b"no-store"))
"""Headers of every response."""
CACHED = "/static/"
"""Paths that begin so are answered with a `Cache-Control` header of their own."""
_ALWAYS = b"".join(b"%b: %b\r\n" % each for each in ALWAYS)
log = logging.getLogger("tiebreak")


class FlushQueue:
    """Flushes the buffered transports at the end of the current turn of the event loop.

    The answers of a group commit become ready within microseconds of each other. When they are sent together, each
    connection needs one system call instead of two, and a client that reads many answers is woken once.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[BufferedTransport] = []

    def add(self, sender: BufferedTransport) -> None:
        """Flush this transport at the end of the turn."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(sender)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            sender.flush()


class BufferedTransport:
    """A transport that collects what is written until the queue flushes it, and that closes with a lingering close."""

    __slots__ = ("_arriving", "_flush_queue", "_pieces", "_real", "lingering")

    def __init__(self, real: asyncio.Transport, flush_queue: FlushQueue, arriving: Callable[[], bool]) -> None:
        self._real = real
        self._flush_queue = flush_queue
        self._arriving = arriving
        self._pieces: list[bytes] = []
        self.lingering = False
        """Whether the sending side is closed, and what arrives is discarded."""

    def write(self, data: bytes) -> None:
        """Buffer data until the next flush."""
        if not self._pieces:
            self._flush_queue.add(self)
        self._pieces.append(data)

    def flush(self) -> None:
        """Send what is buffered."""
        pieces, self._pieces = self._pieces, []
        if pieces and not self.is_closing():
            self._real.write(b"".join(pieces))

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self.lingering or self._real.is_closing()

    def close(self) -> None:
        """Send what is buffered, and close. While a request is arriving, this is a lingering close."""
        self.flush()
        if self.lingering or self._real.is_closing() or not self._arriving():
            self._real.close()
            return
        self.lingering = True
        self._real.write_eof()
        self._real.resume_reading()
        asyncio.get_running_loop().call_later(LINGER, self._real.close)

    def close_at_once(self) -> None:
        """Send what is buffered, and close both sides, whatever still arrives."""
        self.flush()
        self._real.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class HttpProtocol(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(self, config: Config, state: ServerState, flush_queue: FlushQueue) -> None:
        super().__init__(config, state, {})
        self._flush_queue = flush_queue
        self._receiving_since: float | None = self.loop.time()
        self._in_head = self._large = False
        self._head = self._received = self._discarded = 0
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, unless another user connects or there are too many connections."""
        self._buffered = BufferedTransport(transport, self._flush_queue, self._arriving)
        super().connection_made(self._buffered)  # type: ignore[arg-type]
        connected = transport.get_extra_info("socket")
        peer = peer_of(connected)
        if peer is None or len(self.connections) > MAX_CONNECTIONS:
            log.warning("connection refused", extra={"facts": {"why": "another user" if peer is None else "too many"}})
            transport.abort()
        self.app_state = {"peer": peer or "nobody", "user": PeerUser(connected)}

    def data_received(self, data: bytes) -> None:
        """Parse what arrives, and count the bytes of the request and of its headers."""
        if self._buffered.lingering:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED:
                self._buffered.close_at_once()
            return
        before = self._in_head
        self._large = len(data) > MAX_HEAD or self._head > 0
        self._received += len(data)
        super().data_received(data)
        if self._received > LARGEST_REQUEST:
            self._refuse(b"413 Content Too Large")
        self._head = self._head + len(data) if before and self._in_head else 0
        if self._head > MAX_HEAD:
            self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        """A request begins: start its deadline."""
        self._receiving_since = self._receiving_since or self.loop.time()
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The headers are complete: check their number, their size and the request target."""
        self._in_head = False
        if len(self.headers) > MAX_HEADERS or (self._large and _size(self.headers) > MAX_HEAD):
            self._refuse(b"431 Request Header Fields Too Large")
        if self.url[:1] != b"/":  # an absolute URL names a host, which nobody would check
            self._refuse(b"421 Misdirected Request")
        if len(self.pipeline) >= MOST_AHEAD:
            self.transport.close()
        if not self.transport.is_closing():
            super().on_headers_complete()
            self.headers = []  # trailers, which arrive after the body, must not count as headers
            if self.pipeline:
                self.flow.resume_reading()  # else a disconnect would go unnoticed

    def on_body(self, body: bytes) -> None:
        """A part of the body. A pipelined request may buffer only a small one."""
        if not self.transport.is_closing():
            super().on_body(body)
            if self.pipeline and len(self.cycle.body) > MAX_HEAD:
                self.transport.close()

    def on_message_complete(self) -> None:
        """The request is complete: end its deadline."""
        self._receiving_since = None
        self._received = 0
        if not self.transport.is_closing():
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        if cycle.scope["path"].startswith(CACHED):
            cycle.default_headers = [each for each in ALWAYS if each[0] != CACHE_CONTROL]  # the app says it
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected: end its running request, and drop the pipelined ones behind it."""
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def end_if_slow(self, since: float) -> None:
        """Close the connection if a request began to arrive before that moment and is not complete."""
        if self._receiving_since is None or self._receiving_since > since:
            return
        if self._answering():
            return
        self._refuse(b"408 Request Timeout")
        self._buffered.close_at_once()  # no lingering close: the client has had its time

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            if not self._answered():
                rest = _ALWAYS + b"connection: close\r\ncontent-length: 0\r\n\r\n"
                self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + rest)
            self.transport.close()

    def _arriving(self) -> bool:
        """Whether a part of a request has arrived, but not all of it."""
        return self._receiving_since is not None and (self._in_head or self._received > 0)

    def _answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_started and not cycle.response_complete

    def _answered(self) -> bool:
        """Whether the request that is still arriving has been answered already."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_complete and not self._in_head


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)


def peer_of(connected: socket.socket) -> str | None:
    """The client: `tcp:ADDRESS`, or `unix:PID`. None when the process belongs to another user, unless that is root."""
    if connected.family != socket.AF_UNIX:
        return f"tcp:{connected.getpeername()[0]}"
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    else:  # macOS: LOCAL_PEERPID, and getpeereid by way of LOCAL_PEERCRED (version, uid, …)
        pid = struct.unpack("i", connected.getsockopt(0, 2, 4))[0]
        uid = struct.unpack("2I", connected.getsockopt(0, 1, 8))[1]
    return f"unix:{pid}" if uid in (os.geteuid(), 0) else None
