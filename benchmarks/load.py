"""A load generator that costs little: many keep-alive connections in one thread, each asking again when answered."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Run(NamedTuple):
    """What a run found."""

    requests: int
    seconds: float
    latencies: list[float]
    refused: int
    """Answers that were not a result."""

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def request(path: str, body: bytes, token: str, port: int, client: str = "bench") -> bytes:
    """A whole HTTP request."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"Tiebreak-Client: {client}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection(asyncio.Protocol):
    """Sends a request, reads its answer, sends the next one."""

    def __init__(self, requests: Iterator[bytes], done: Callable[[], None], run: Tally) -> None:
        self._requests = requests
        self._done = done
        self._tally = run
        self._buffer = b""
        self._sent = 0.0
        self._warm = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport  # type: ignore[assignment]
        self._next()

    def _next(self) -> None:
        following = next(self._requests, None)
        assert self._transport is not None
        if following is None:
            self._transport.close()
            self._done()
            return
        self._sent = time.perf_counter()
        self._transport.write(following)

    def data_received(self, data: bytes) -> None:
        """Whole answers only: a head with its length, then as many bytes."""
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._buffer.find(b"content-length: ", 0, head)
        end = head + 4 + int(self._buffer[at + 16 : self._buffer.find(b"\r", at)])
        if len(self._buffer) < end:
            return
        answer, self._buffer = self._buffer[:end], self._buffer[end:]
        if self._warm:  # the first one waits for the others to be connected
            self._tally.latencies.append(time.perf_counter() - self._sent)
        self._warm = True
        if b'"error"' in answer or not answer.startswith(b"HTTP/1.1 200"):
            self._tally.refused += 1
        self._next()


class Tally:
    """What has been counted so far."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.refused = 0


def drive(port: int, requests: list[bytes], connections: int) -> Run:
    """Ask all requests over so many connections, as fast as they are answered."""

    async def go() -> Run:
        loop = asyncio.get_running_loop()
        tally, finished = Tally(), asyncio.Event()
        source, left = iter(requests), connections

        def done() -> None:
            nonlocal left
            left -= 1
            if not left:
                finished.set()

        began = time.perf_counter()
        for _ in range(connections):
            await loop.create_connection(lambda: Connection(source, done, tally), "127.0.0.1", port)
        await finished.wait()
        return Run(len(requests), time.perf_counter() - began, tally.latencies, tally.refused)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(go())
