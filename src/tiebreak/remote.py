"""The engine of a board behind a daemon, over HTTP or a unix socket.

The daemon is authoritative: this module only sends operations to it. A connection may break at any moment, even between
a write and its answer. So every write has an idempotency key, and the daemon answers a repeated write with the answer
to the first one. A client that repeats a claim therefore never finds the task claimed by its own first attempt.

This module has an HTTP client of its own, because a command that uses a daemon has to be as quick as one that does not,
and importing an HTTP library takes longer than the whole command (docs/decisions/002). The client talks only to
tiebreak's daemon and supports what that needs: keep-alive, Content-Length and chunked answers.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY, getaddrinfo, socket
from time import monotonic, sleep

from .errors import Invalid, Refused, TiebreakError, Unavailable, as_answer, from_dict
from .limits import DEADLINE, MAX_LIMIT
from .model import decode
from .operations import find
from .text import json, read_json
from .user_folders import host_and_port, token_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .model import Event
    from .operations import Call, Operation

PATIENCE = 3.0
"""Seconds to wait for a daemon that does not answer. A restart takes less than one second."""
ANSWER = DEADLINE + 10.0
"""Seconds to wait for an answer: longer than the daemon itself waits for a busy board."""
LONGEST_WAIT = 55.0
"""Seconds that one request waits for events; then it is sent again."""
MOST_IDLE = 16
"""Idle connections that are kept open."""
PAGE = 4096
"""Bytes in one unit of progress."""
LARGEST_HEAD = 65536
_NO_DAEMON = "board {}: the server there is not a tiebreak daemon"
_TEMPORARY_STATUSES = (502, 503, 504)


class RemoteEngine:
    """Runs operations on a daemon. Threads may share it; a forked child gets connections of its own."""

    def __init__(self, address: str, *, patience: float = PATIENCE) -> None:
        self.address = self.full_address = address
        self.path: str | None = None
        self.writers = 1
        self.shared = False  # the daemon's own engine decides
        self.deferred_work: set[str] = set()  # always empty: the daemon continues it
        self.refusals_dropped = 0  # the daemon counts them
        self.patience = patience
        self._daemon = _DaemonAddress(address)
        self._idle: list[_Connection] = []
        self._pid = os.getpid()
        self._closed = False

    # ── Running operations ───────────────────────────────────────────────────────────────────────────

    def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
        """Run one operation."""
        request = _request(1, operation, operation.checked(params), once)
        answer = self._ask(request, numbered=once is None)
        return _result(operation, answer)

    def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Run several calls together; an error undoes that call alone."""
        answers: list[Any] = [None] * len(calls)
        requests = []
        for i, (operation, params, once) in enumerate(calls):
            try:
                requests.append(_request(i, operation, operation.checked(params), once))
            except TiebreakError as exc:
                answers[i] = as_answer(exc)
        found = self._ask(requests, numbered=all(once is None for _, _, once in calls)) if requests else []
        if not isinstance(found, list):  # an error about the batch as a whole
            _result(find("events.last"), found)
        by_number = {answer.get("id"): answer for answer in found if isinstance(answer, dict)}
        for request in requests:
            i = request["id"]
            if i not in by_number:
                raise Unavailable(_NO_DAEMON.format(self.address))
            try:
                answers[i] = _result(calls[i][0], by_number[i])
            except TiebreakError as exc:
                answers[i] = as_answer(exc)
        return answers

    def batch_at_once(self, calls: Sequence[Call]) -> list[Any] | None:
        """Always None: every call waits for the daemon."""
        return None

    def let_others_pass(self) -> None:
        """Nothing to do: the daemon continues deferred work itself."""

    def wait(self, after: int, timeout: float, **filters: Any) -> bool:
        """Sleep until the daemon has an event after this number that matches; False when the time is up."""
        return bool(self.follow(after, timeout, {"project": None, **filters}, limit=1)[0])

    def follow(
        self, after: int, timeout: float, filters: dict[str, Any], limit: int = MAX_LIMIT
    ) -> tuple[list[Event], int]:
        """The next events that match, as soon as the daemon has them, and the number after which to continue."""
        operation = find("events.read")
        end = monotonic() + timeout
        while True:
            wait_time = max(0.0, min(end - monotonic(), LONGEST_WAIT))
            params = operation.checked({**filters, "after": after, "limit": limit})
            request = _request(1, operation, {**params, "wait_ms": int(wait_time * 1000)}, None)
            found = _result(operation, self._ask(request, wait_time))
            if found or monotonic() >= end:
                return found, found[-1].number if found else after

    # ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────

    def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Download a copy of the board to a new file on this machine, while others use the board."""
        from .files import create_file

        def download(partial: str) -> None:
            with open(partial, "wb") as file:
                self._exchange("GET", "/backup", b"", ANSWER * 10, _FileSink(file, progress))

        try:
            create_file(target, download)
        except FileExistsError:
            raise Refused(f"backup {target}: exists already, and a backup never overwrites") from None
        except OSError as exc:
            raise Unavailable(f"backup {target}: {exc.strerror or exc}", reason="backup-failed") from exc

    def probe(self) -> None:
        """Ask whether the daemon finds its board healthy; raises `Unavailable`."""
        self._exchange("GET", "/health", b"", ANSWER)

    def diagnose(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
        """The findings of the daemon's engine."""
        body = json({"repair": repair}).encode()
        try:
            found = read_json(self._exchange("POST", "/doctor", body, ANSWER * 10).decode())
            findings = [(each["level"], each["what"], each["details"]) for each in found]
        except (ValueError, TypeError, KeyError) as exc:
            raise Unavailable(_NO_DAEMON.format(self.address)) from exc
        return [("ok", "daemon", f"answers at {self.address}"), *findings]

    def shorten_log(self) -> list[str]:
        """Nothing to do: the daemon does this."""
        return []

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._pid == os.getpid():
            while self._idle:
                self._idle.pop().close()

    # ── Asking ───────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, request: Any, wait_time: float = 0.0, *, numbered: bool = False) -> Any:
        answer = self._exchange("POST", "/rpc", json(request).encode(), wait_time + ANSWER, numbered=numbered)
        try:
            return read_json(answer.decode())
        except ValueError as exc:
            raise Unavailable(_NO_DAEMON.format(self.address)) from exc

    def ask(self, method: str, target: str, body: bytes = b"", timeout: float = ANSWER) -> bytes:
        """Send any request to the daemon; returns the body of the answer."""
        return self._exchange(method, target, body, timeout)

    def _exchange(
        self,
        method: str,
        target: str,
        body: bytes,
        timeout: float,
        sink: _FileSink | None = None,
        *,
        numbered: bool = False,
    ) -> bytes:
        """Send a request until it is answered, with a new connection if one breaks, for up to `patience` seconds.

        With `numbered`, each attempt has its number in a header. So the daemon can recognise an earlier attempt that
        arrives late, and ignore it.
        """
        tries = 0
        if self._closed:
            raise Unavailable(f"board {self.address}: is closed here")
        if self._pid != os.getpid():
            self._idle, self._pid = [], os.getpid()
        end, pause, refreshed, broken = monotonic() + self.patience, 0.01, False, False
        while True:
            tries += numbered
            connection, began, token = self._take_idle(), monotonic(), self._daemon.token
            used = connection is not None
            try:
                connection = connection or _Connection(self._daemon)
                status, answer = connection.exchange(method, target, body, timeout, sink, tries)
            except TimeoutError:
                if connection is not None:
                    connection.close()
                raise Unavailable(
                    f"board {self.address}: no answer within {timeout:g} s",
                    hint="whether a change was made is not known; asking again with the same `once` is safe",
                ) from None
            except ValueError as exc:
                if connection is not None:
                    connection.close()
                raise Unavailable(_NO_DAEMON.format(self.address)) from exc
            except OSError as exc:
                if connection is not None:
                    connection.close()
                    if not broken or monotonic() - began > self.patience:
                        broken, end = True, monotonic() + self.patience  # the daemon was there until now
                if used:
                    continue  # the daemon closed it because it was idle; try a new one
                if monotonic() + pause > end:
                    raise self._unreachable(exc) from exc
                sleep(pause)
                pause = min(pause * 2, 0.25)
                continue
            self._give_back(connection)
            if status == 401 and not refreshed and (self._daemon.refresh() or self._daemon.token != token):
                refreshed = True  # the daemon was restarted; another thread may have read the new token already
                continue
            if status in _TEMPORARY_STATUSES and monotonic() + pause < end:
                sleep(pause)
                pause = min(pause * 2, 0.25)
                continue
            if status not in (200, 400):
                raise self._problem(status, answer)
            return answer

    def _take_idle(self) -> _Connection | None:
        try:
            return self._idle.pop()
        except IndexError:  # there is none, or another thread was faster
            return None

    def _give_back(self, connection: _Connection) -> None:
        if connection.open and len(self._idle) < MOST_IDLE and not self._closed:
            self._idle.append(connection)
        else:
            connection.close()

    def _unreachable(self, exc: OSError) -> Unavailable:
        return Unavailable(
            f"board {self.address}: {exc.strerror or exc}",
            reason="daemon-unreachable",
        )

    def _problem(self, status: int, answer: bytes) -> TiebreakError:
        try:
            error = read_json(answer.decode())
            if isinstance(error, dict) and error.get("message"):
                return from_dict(error)
        except (ValueError, TypeError):
            pass
        return Unavailable(f"board {self.address}: answered with HTTP status {status}")


def _request(number: int, operation: Operation[..., Any], params: dict[str, Any], once: str | None) -> dict[str, Any]:
    request = {"jsonrpc": "2.0", "id": number, "method": operation.name, "params": params}
    if operation.writes:
        request["once"] = os.urandom(16).hex() if once is None else once
    return request


def _result(operation: Operation[..., Any], answer: Any) -> Any:
    if not isinstance(answer, dict) or ("result" not in answer and "error" not in answer):
        raise Unavailable("the daemon's answer is not JSON-RPC")
    try:
        if "error" not in answer:
            return decode(operation.returns, answer["result"])
        error = answer["error"]
        problem = from_dict({"message": error["message"], **(error.get("data") or {})})
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as exc:
        raise Unavailable("the daemon's answer is not JSON-RPC") from exc
    raise problem


def _size(text: str, base: int) -> int:
    size = int(text, base)
    if size < 0:
        raise ValueError("a negative size")
    return size


class _DaemonAddress:
    """The address of a daemon, and the token for it."""

    def __init__(self, address: str) -> None:
        scheme, _, rest = address.partition(":")
        self.path = self.host = ""
        self.port = 0
        self.secure = scheme == "https"
        if scheme == "unix":
            self.path = "/" + rest.lstrip("/") if rest.startswith("/") else os.path.abspath(rest)
            if not rest:
                raise Invalid("board: unix: needs the path of a socket", reason="socket-missing")
        else:
            place = rest.removeprefix("//").rstrip("/")
            if "@" in place or "/" in place or "?" in place:
                raise Invalid(f"board: expected {scheme}://HOST:PORT", hint="a token goes into TIEBREAK_TOKEN")
            if self.secure and ":" not in place.rpartition("]")[2]:
                place += ":443"
            self.host, self.port = host_and_port(place, "board")
        self.token = ""
        self.refresh()

    def refresh(self) -> bool:
        """Read the token again; returns whether it has changed."""
        before, self.token = self.token, "" if self.path else token_for(self.host, self.port)
        return self.token != before

    def head(self) -> str:
        """The headers that every request has."""
        host = (
            "localhost"
            if self.path
            else f"[{self.host}]:{self.port}"
            if ":" in self.host
            else f"{self.host}:{self.port}"
        )
        token = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        return f"Host: {host}\r\nTiebreak-Client: {os.getpid()}-{id(self):x}\r\n{token}"

    def connect(self) -> Any:
        """Connect, and return the socket."""
        if self.path:
            made = socket(AF_UNIX, SOCK_STREAM)
            made.settimeout(5.0)
            made.connect(self.path)
            return made
        problem: OSError = OSError(f"{self.host} has no address")
        try:
            # As bytes: a `str` would load a codec, which takes 10 ms.
            host = self.host.encode() if self.host.isascii() else self.host
            found = getaddrinfo(host, self.port, 0, SOCK_STREAM)
        except OSError as exc:
            raise Unavailable(f"board: {self.host}: {exc.strerror or exc}") from exc
        for family, kind, protocol, _, where in found:
            try:
                return self._with_tls(self._open_socket(family, kind, protocol, where))
            except OSError as exc:
                problem = exc
        raise problem

    def _open_socket(self, family: int, kind: int, protocol: int, where: Any) -> Any:
        if self.secure:  # TLS needs a socket of the standard library
            import socket as standard

            made: Any = standard.socket(family, kind, protocol)
        else:
            made = socket(family, kind, protocol)
        try:
            made.settimeout(5.0)
            made.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            made.connect(where)
        except BaseException:
            made.close()
            raise
        return made

    def _with_tls(self, made: Any) -> Any:
        if not self.secure:
            return made
        import ssl

        return ssl.create_default_context().wrap_socket(made, server_hostname=self.host)


class _Connection:
    """One keep-alive connection, used by one thread at a time."""

    def __init__(self, where: _DaemonAddress) -> None:
        self._daemon = where
        self._socket = where.connect()
        self._buffer = b""
        self.open = True

    def exchange(
        self, method: str, target: str, body: bytes, timeout: float, sink: _FileSink | None, tries: int = 0
    ) -> tuple[int, bytes]:
        """Send a request and read its answer; raises `OSError` if the connection breaks."""
        head = f"{method} {target} HTTP/1.1\r\n{self._daemon.head()}"
        if tries > 1:
            head += f"Tiebreak-Try: {tries}\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self._deadline = monotonic() + timeout
        self._socket.settimeout(timeout)
        self._socket.sendall(head.encode() + b"\r\n" + body)
        status, headers = self._head()
        if headers.get("connection", "").lower() == "close":
            self.open = False
        if sink is not None and status == 200:
            sink.expect(_size(headers.get("content-length", "0"), 10))
            for piece in self._pieces(status, headers):
                sink.write(piece)
            return status, b""
        return status, b"".join(self._pieces(status, headers))

    def _head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > LARGEST_HEAD:
                raise ValueError("the headers are too long")
            self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        parts = first.split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal():
            raise ValueError("not HTTP")
        fields = (line.partition(":") for line in lines)
        return int(parts[1]), {name.strip().lower(): value.strip() for name, _, value in fields}

    def _pieces(self, status: int, headers: dict[str, str]) -> Any:
        if status == 204:
            return
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while size := _size(self._line().decode("latin-1") or "0", 16):
                yield from self._exactly(size)
                self._line()
            self._line()
        else:
            yield from self._exactly(_size(headers.get("content-length", "0"), 10))

    def _exactly(self, size: int) -> Any:
        while size:
            if not self._buffer:
                self._more()
            piece, self._buffer = self._buffer[:size], self._buffer[size:]
            size -= len(piece)
            yield piece

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._more()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _more(self) -> None:
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionResetError("the daemon closed the connection")
        self._buffer += data

    def close(self) -> None:
        """Close the connection."""
        self.open = False
        self._socket.close()


class _FileSink:
    """Writes the body of an answer to a file, and reports the progress."""

    def __init__(self, file: Any, progress: Callable[[int, int], None] | None) -> None:
        self._file = file
        self._progress = progress
        self._done = self._size = 0

    def expect(self, size: int) -> None:
        """Begin a body of this size, or begin it again."""
        self._file.seek(0)
        self._file.truncate()
        self._done, self._size = 0, size

    def write(self, piece: bytes) -> None:
        """Write a piece of the body."""
        self._file.write(piece)
        self._done += len(piece)
        if self._progress is not None:
            self._progress(self._done // PAGE, self._size // PAGE)
