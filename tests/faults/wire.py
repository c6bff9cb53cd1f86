"""A proxy before PostgreSQL that breaks connections exactly around a COMMIT.

It listens on a unix socket under the name that clients look for, and reads whole messages of the wire protocol from
the client. What makes the server commit is either a simple query that ends with `COMMIT` (and is no hint) or the
execution of a statement that was prepared as `COMMIT`; a parcel of messages up to the Sync goes as one. Each COMMIT
takes the next fault from a list; when the list is used up, they pass.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from select import select

from ..accepting import accept_each

PATIENCE = 60.0
PASS = "passes"
FAULTS = {
    "before": "the connection breaks, and the server never hears of the COMMIT",
    "halved": "the server gets half of the COMMIT",
    "after": "the server has committed and answered, and the client hears nothing",
    "late": "the client's connection breaks; the COMMIT reaches the server when the test says so",
    "stalled": "the COMMIT does not arrive, and both sides think that the connection is well",
}


class Wire:
    """Faults between clients and a server; `folder` is the host that clients connect to."""

    def __init__(self, server: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tb-wire-"))
        self._server = str(server / ".s.PGSQL.5432")
        self.faults: deque[str] = deque()
        self.commits = 0
        """How many COMMITs came, whatever became of them."""
        self.struck = threading.Event()
        """Set when a fault has happened."""
        self._deliver = threading.Event()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listening.listen(64)
        self._accepting = accept_each(self._listening, self._serve)

    def address(self) -> str:
        """The board behind the faults."""
        return f"postgresql://tiebreak@/postgres?host={self.folder}"

    def next(self, *faults: str) -> None:
        """What happens to the next COMMITs."""
        assert set(faults) <= {PASS, *FAULTS}
        self.commits = 0
        self.struck.clear()
        self._deliver.clear()
        self.faults.extend(faults)

    def deliver(self) -> None:
        """Let go of what is late or stalled: a late COMMIT arrives, a stalled connection breaks."""
        self._deliver.set()

    def close(self) -> None:
        """Take no more connections."""
        self._deliver.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ── In threads ───────────────────────────────────────────────────────────────────────────────────

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(self._server)
            server.sendall(_exactly(client, 4, length=True))
            talk = Talk()
            while True:
                ready, _, _ = select([client, server], [], [])
                if server in ready:
                    if not (answer := server.recv(65536)):
                        return
                    client.sendall(answer)
                if client in ready and not self._pass_on(talk.parcel(client), talk, client, server):
                    return

    def _pass_on(self, parcel: bytes, talk: Talk, client: socket.socket, server: socket.socket) -> bool:
        """Send it on, or let it meet a fault; False when the connection ends here."""
        if not talk.commits:
            server.sendall(parcel)
            return bool(parcel)
        self.commits += 1
        fault = self.faults.popleft() if self.faults else PASS
        if fault == PASS:
            server.sendall(parcel)
            return True
        self._strike(fault, parcel, client, server)
        return False

    def _strike(self, fault: str, parcel: bytes, client: socket.socket, server: socket.socket) -> None:
        if fault == "late":
            client.close()
        if fault in ("late", "stalled"):
            self.struck.set()
            self._deliver.wait(3 * PATIENCE)
        if fault == "halved":
            server.sendall(parcel[: len(parcel) // 2])
        elif fault in ("after", "late"):
            server.sendall(parcel)
            while (kind := _message(server)[:1]) and kind != b"Z":
                pass
        self.struck.set()


class Talk:
    """What one client has said so far, as far as it matters for knowing a COMMIT."""

    def __init__(self) -> None:
        self._prepared: dict[bytes, bytes] = {}
        self.commits = False
        """Whether the last parcel makes the server commit."""

    def parcel(self, client: socket.socket) -> bytes:
        """All messages up to one that the server answers; empty when the client has hung up."""
        parcel, bound = b"", b""
        self.commits = False
        while message := _message(client):
            parcel += message
            kind, words = message[:1], message[5:].split(b"\0")
            if kind == b"P":
                self._prepared[words[0]] = words[1]
            elif kind == b"B":
                bound = self._prepared.get(words[1], b"")
            elif kind == b"Q":
                bound = words[0]
            if kind in (b"E", b"Q") and bound.endswith(b"COMMIT") and b"NOTIFY" not in bound:
                self.commits = True
            if kind in (b"Q", b"S", b"X", b"p", b"H"):
                return parcel
        return b""


def _message(side: socket.socket) -> bytes:
    """One whole message; empty when the other side has hung up."""
    kind = _exactly(side, 1)
    return kind and kind + _exactly(side, 4, length=True)


def _exactly(side: socket.socket, count: int, *, length: bool = False) -> bytes:
    """That many bytes; with `length`, they say how long the whole of it is."""
    data = b""
    while len(data) < count:
        if not (more := side.recv(count - len(data))):
            return b""
        data += more
    return data + _exactly(side, struct.unpack("!I", data)[0] - 4) if length else data


@contextlib.contextmanager
def before(server: Path) -> Iterator[Wire]:
    """A proxy before the server in that folder, for as long as the context lasts."""
    made = Wire(server)
    try:
        yield made
    finally:
        made.close()
