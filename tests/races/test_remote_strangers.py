"""Another program's server on the daemon's port: the client reports a clear error and never hangs."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Tb, complaint
from tiebreak import Board, TiebreakError, Unavailable, remote
from tiebreak.remote import RemoteEngine

from .crew import PROJECT


def board_at(address: str) -> Board:
    """A board with little patience."""
    return Board(RemoteEngine(address, patience=0.1), agent="me~1", project=PROJECT)


def http(body: bytes | str, status: str = "200 OK", more: str = "", length: str | None = None) -> bytes:
    """An answer in HTTP."""
    data = body.encode() if isinstance(body, str) else body
    size = len(data) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{more}\r\n".encode() + data


def rpc(rest: str) -> bytes:
    """Something like JSON-RPC."""
    return http(f'{{"jsonrpc": "2.0", "id": 1, {rest}}}')


STRANGERS = {
    "hangs up": b"",
    "noise": bytes(range(256)) * 4,
    "noise with an empty line": b"\xff\xfe\r\n\r\n" * 10,
    "another protocol": b"SSH-2.0-OpenSSH_9.7\r\n\r\n",
    "another version": b"HTTP/9 200 OK\r\n\r\n",
    "a status that is none": b"HTTP/1.1 abc OK\r\n\r\n",
    "a page": http("<!doctype html><title>It works!</title>"),
    "a page of errors": http("<h1>500</h1>", "500 Internal Server Error"),
    "a way elsewhere": http("", "302 Found", "Location: http://127.0.0.1:9/\r\n"),
    "nothing": http(""),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "no text": http(b"\xff\xfe\x00"),
    "a list": http("[]"),
    "a list of nothing": http("[null]"),
    "a number": http("5"),
    "a word": http('"yes"'),
    "an object": http("{}"),
    "deep": http("[" * 100_000),
    "a problem that is a number": http("5", "409 Conflict"),
    "a problem that is a list": http("[1]", "409 Conflict"),
    "no token is good enough": http("{}", "401 Unauthorized"),
    "a length that is none": http("{}", length="many"),
    "a length below nothing": http("{}", length="-5"),
    "more promised than sent": http("{}", length="1000000000000"),
    "chunks that are none": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "chunks without an end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    "headers that are none": b"HTTP/1.1 200 OK\r\n:::\r\n\x00\r\n\r\n",
    "a head without an end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
}
NEARLY = {
    "a result that is none": rpc('"result": 5'),
    "a result of another kind": rpc('"result": [1, 2, 3]'),
    "a record with wrong fields": rpc('"result": {"number": "x", "id": 7, "created_at": "noon", "tags": 3}'),
    "an error that is none": rpc('"error": 5'),
    "an error without a word": rpc('"error": {}'),
    "an error with strange facts": rpc('"error": {"message": 5, "data": {"self": 1, "until": "noon", "message": []}}'),
    "an error with no facts": rpc('"error": {"message": "no", "data": 5}'),
    "a problem with strange facts": http('{"error": "Lost", "until": "noon", "self": 1}', "409 Conflict"),
}
"""What might be taken for an answer, as far as it goes."""


@contextlib.contextmanager
def stranger(says: bytes, again: bytes = b"") -> Iterator[str]:
    """Somebody else's server: it hears something, says its piece (and the rest again and again) and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer(client: socket.socket) -> None:
            with client, contextlib.suppress(OSError):
                client.recv(65536)
                client.sendall(says)
                while again:
                    time.sleep(0.05)
                    client.sendall(again)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60.0)


def asked(board: Board) -> Iterator[Callable[[], Any]]:
    """Everything that a client asks a daemon for."""
    yield lambda: board.tasks.post(name="t")
    yield lambda: board.tasks.list()
    yield lambda: board.batch([("tasks.post", {"name": "t"})])
    yield lambda: board.engine.wait(0, 0.05)
    yield lambda: board.engine.diagnose()
    yield lambda: board.engine.probe()


@pytest.mark.parametrize("says", STRANGERS)
def test_a_stranger_on_the_port_is_recognised(says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "ANSWER", 2.0)
    with stranger(STRANGERS[says]) as address, board_at(address) as board:
        for ask in list(asked(board))[:4]:
            with pytest.raises(Unavailable):
                ask()


@pytest.mark.parametrize("says", [*STRANGERS, *NEARLY])
def test_whatever_a_stranger_says_is_an_answer_or_a_clear_error(says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "ANSWER", 2.0)
    with stranger({**STRANGERS, **NEARLY}[says]) as address, board_at(address) as board:
        for ask in asked(board):
            with contextlib.suppress(TiebreakError):
                ask()


@pytest.mark.parametrize("says", ["noise", "a page", "deep", "a problem that is a number", "a length that is none"])
@pytest.mark.parametrize("words", [["post", "t"], ["tasks"]], ids=lambda words: words[0])
def test_the_command_reports_another_server_in_one_line(tmp_path: Path, says: str, words: list[str]) -> None:
    with stranger(STRANGERS[says]) as address:
        assert address in complaint(Tb(tmp_path)("--board", address, *words), 3)


@pytest.mark.parametrize(
    ("says", "again"), [(b"", b"x"), (http("", length="100000"), b"x"), (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n")]
)
def test_an_answer_without_end_is_cut_off(says: bytes, again: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "ANSWER", 0.5)
    silence = pytest.raises(Unavailable, match=r"no answer within 0\.5 s")
    with stranger(says, again) as address, board_at(address) as board, silence:
        board.tasks.post(name="t")
