"""No bytes on a socket break the daemon: neither garbage nor requests that try to smuggle in a second one."""

from __future__ import annotations

import contextlib
import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..daemons import PATIENCE, Serving
from .fuzzing import board, bounded

STATUS = rb"HTTP/1\.1 (\d{3}) "


class Wire:
    """Bytes to the daemon, and the statuses that come back until it or we hang up."""

    def __init__(self, daemon: Serving) -> None:
        self.port = daemon.port
        self.usual = b"Host: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n" % (daemon.port, daemon.token.encode())

    def send(self, data: bytes) -> list[int]:
        """Send, say that this was all, read to the end. A daemon that hangs up while we still send is right to."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            said = b""
            with contextlib.suppress(OSError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while piece := connection.recv(65536):
                    said += piece
        return [int(status) for status in re.findall(STATUS, said)]

    def ask(self, data: bytes, answers: int) -> list[int]:
        """Send, and wait for so many answers before saying that this was all."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(data)
            said = b""
            while len(found := re.findall(STATUS, said)) < answers:
                piece = connection.recv(65536)
                if not piece:
                    break
                said += piece
        return [int(status) for status in found]


@pytest.fixture
def wire(daemon: Serving) -> Wire:
    return Wire(daemon)


CALL = b'{"jsonrpc":"2.0","id":1,"method":"tasks.post","params":{"name":"smuggled","project":"demo","agent":"eve"}}'
POST = b"POST /rpc HTTP/1.1\r\n%sContent-Type: application/json\r\n"
GARBAGE: dict[str, bytes] = {
    "a handshake of TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "a preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"GET /health\r\n\r\n",
    "an unknown version": b"GET /health HTTP/9.9\r\n%s\r\n",
    "no method": b" /health HTTP/1.1\r\n%s\r\n",
    "an unknown method": b"FROB /health HTTP/1.1\r\n%s\r\n",
    "a long method": b"G" * 5000 + b" / HTTP/1.1\r\n%s\r\n",
    "a small method": b"get /health HTTP/1.1\r\n%s\r\n",
    "a tunnel": b"CONNECT other:80 HTTP/1.1\r\n%s\r\n",
    "another host's address": b"GET http://other.example/health HTTP/1.1\r\nHost: other.example\r\n\r\n",
    "an address that is none": b"GET http://[ HTTP/1.1\r\n%s\r\n",
    "a star": b"OPTIONS * HTTP/1.1\r\n%s\r\n",
    "a path that leaves": b"GET /../../etc/passwd HTTP/1.1\r\n%s\r\n",
    "a path with bytes": b"GET /\xff\xfe\x80 HTTP/1.1\r\n%s\r\n",
    "a path with escaped bytes": b"GET /%%ff%%00%%zz%% HTTP/1.1\r\n%s\r\n",
    "a path with a NUL": b"GET /he\x00alth HTTP/1.1\r\n%s\r\n",
    "a long path": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n%s\r\n",
    "a long query": b"GET /events?" + b"a=1&" * 30_000 + b" HTTP/1.1\r\n%s\r\n",
    "a query of bytes": b"GET /events?after=\xff&%%ff=%%ff HTTP/1.1\r\n%s\r\n",
    "a query of odd digits": b"GET /events?after=%%D9%%A3%%C2%%B2 HTTP/1.1\r\n%s\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\n%sHost: other.example\r\n\r\n",
    "a blank before the colon": b"GET /health HTTP/1.1\r\n%sX-A : 1\r\n\r\n",
    "a folded header": b"GET /health HTTP/1.1\r\n%sX-A: 1\r\n 2\r\n\r\n",
    "a header without colon": b"GET /health HTTP/1.1\r\n%snothing\r\n\r\n",
    "a header of bytes": b"GET /health HTTP/1.1\r\n%sX-A: \x00\x01\xff\r\n\r\n",
    "a flood of headers": b"GET /health HTTP/1.1\r\n%s" + b"X-A: 1\r\n" * 5000 + b"\r\n",
    "a flood of header bytes": b"GET /health HTTP/1.1\r\n%sX-A: " + b"a" * 300_000 + b"\r\n\r\n",
    "headers without end": b"GET /health HTTP/1.1\r\n%s" + b"X-A: 1\r\n" * 50,
    "bare newlines": b"GET /health HTTP/1.1\nHost: x\n\n",
    "an upgrade": b"GET /nothing HTTP/1.1\r\n%sConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "a length that is none": POST + b"Content-Length: 1e3\r\n\r\n" + CALL,
    "a negative length": POST + b"Content-Length: -1\r\n\r\n" + CALL,
    "a length with a sign": POST + b"Content-Length: +107\r\n\r\n" + CALL,
    "a length beyond all bounds": POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n" + CALL,
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 107\r\n\r\n" + CALL,
    "two lengths in one": POST + b"Content-Length: 107, 107\r\n\r\n" + CALL,
    "a length and chunks": POST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n6b\r\n"
    + CALL
    + b"\r\n0\r\n\r\n",
    "chunks that are not the last word": POST
    + b"Transfer-Encoding: chunked, identity\r\n\r\n6b\r\n"
    + CALL
    + b"\r\n0\r\n\r\n",
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + CALL,
    "a chunk size that is none": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + CALL + b"\r\n0\r\n\r\n",
    "a negative chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + CALL + b"\r\n0\r\n\r\n",
    "a chunk beyond all bounds": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n" + CALL,
    "a chunk that is longer than it says": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n" + CALL + b"\r\n0\r\n\r\n",
    "chunks without end": POST + b"Transfer-Encoding: chunked\r\n\r\n6b\r\n" + CALL + b"\r\n",
    "too many chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 200_000,
    "a body without end": POST + b"Content-Length: 200\r\n\r\n" + CALL,
    "a body for a route that takes none": b"GET /health HTTP/1.1\r\n%sContent-Length: 5\r\n\r\n12345",
    "a body in another coding": POST + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
}
REFUSALS = {400, 401, 404, 405, 408, 413, 415, 421, 431}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_refused_and_changes_nothing(daemon: Serving, wire: Wire, garbage: str) -> None:
    before = board(daemon)
    sent = GARBAGE[garbage]
    statuses = wire.send(sent % wire.usual if b"%s" in sent else sent)
    assert set(statuses) <= REFUSALS
    daemon.ask("GET", "/health")  # a write of its own, behind whatever may still be on its way
    assert board(daemon) == before


@bounded(150)
@given(data=st.binary(max_size=400), where=st.sampled_from(["alone", "line", "header", "body", "chunks"]))
def test_bytes_at_random_are_no_request(wire: Wire, data: bytes, where: str) -> None:
    sent = {
        "alone": data,
        "line": b"GET " + data + b" HTTP/1.1\r\n" + wire.usual + b"\r\n",
        "header": b"GET /nothing HTTP/1.1\r\n" + wire.usual + data + b"\r\n\r\n",
        "body": POST % wire.usual + b"Content-Length: %d\r\n\r\n" % len(data) + data,
        "chunks": POST % wire.usual + b"Transfer-Encoding: chunked\r\n\r\n" + data,
    }
    assert set(wire.send(sent[where])) <= REFUSALS


def test_requests_in_a_pipeline_are_answered_in_their_order(daemon: Serving, wire: Wire) -> None:
    good = b"GET /health HTTP/1.1\r\n" + wire.usual + b"\r\n"
    unknown = b"GET /nothing HTTP/1.1\r\n" + wire.usual + b"\r\n"
    call = POST % wire.usual + b"Content-Length: 2\r\n\r\n[]"
    assert wire.ask(good + unknown + call + good, 4) == [200, 404, 400, 200]


def test_after_a_refusal_that_closes_nothing_more_of_a_pipeline_is_done(daemon: Serving, wire: Wire) -> None:
    """Who shows no token, or an odd length, must not get a second request through behind the first."""
    before = board(daemon)
    smuggled = POST % wire.usual + b"Content-Length: %d\r\n\r\n" % len(CALL) + CALL
    for first in (
        b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % wire.port,
        b"GET /health HTTP/1.1\r\nHost: other.example\r\n\r\n",
        POST % wire.usual + b"Content-Length: 5, 6\r\n\r\n",
        POST % wire.usual + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ):
        assert set(wire.ask(first + smuggled, 2)) <= {400, 401, 421}
    assert board(daemon) == before


def test_a_long_pipeline_is_answered_to_its_end(daemon: Serving, wire: Wire) -> None:
    one = POST % wire.usual + b"Content-Length: 0\r\n\r\n"
    assert wire.ask(one * 300, 300) == [400] * 300
