"""Daemons for tests: a real `tb serve` in a process of its own, or one in this process; asked over real connections."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tiebreak.limits import DEADLINE

from .cli.command import TB, clean_environment, measured

PATIENCE = 50.0
"""Seconds within which anything that is going to happen has happened, also on a busy machine."""


class Reply(NamedTuple):
    """What the daemon answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Serving:
    """A daemon in a process of its own. `start` and `kill` may be called again and again."""

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        self.folder = folder
        self.board = folder / "board.db"
        self.port = free_port() if port is None else port
        self.url = f"http://127.0.0.1:{self.port}"
        self.options = options
        # Sockets have short paths, tests have long folders.
        self.private = Path(tempfile.mkdtemp(prefix="tb-"))
        self.socket = self.private / "s"
        self.environment = {**clean_environment(folder), **measured(), "TIEBREAK_BOARD": str(self.board)}
        self.log = folder / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Serving:
        """Start it, and come back when it answers."""
        words = [TB, "serve", "--addr", f"127.0.0.1:{self.port}", "--socket", str(self.socket), "--log", "json"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*words, *self.options], env=self.environment, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, "it does not serve"
            time.sleep(0.01)
        return self

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            facts = json.loads(Path(f"{self.board}-daemon").read_text() or "{}")
            return bool(self.process and facts.get("pid") == self.process.pid)
        return False

    @property
    def token(self) -> str:
        """What its own user's clients find in the token file."""
        return (self.folder / "state" / "tiebreak" / "run" / f"{self.port}.token").read_text().strip()

    def kill(self) -> None:
        """SIGKILL: no time to tidy up."""
        assert self.process
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        """SIGTERM, and how it ended."""
        assert self.process
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: dict[str, str] | None = None,
        timeout: float = PATIENCE,
    ) -> Reply:
        """One request over TCP, with the right token by default (None: without); a body that is no bytes is JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            given = {} if token is None else {"Authorization": f"Bearer {token or self.token}"}
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            if data is not None:
                given["Content-Type"] = "application/json"
            connection.request(method, path, data, {**given, **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def rpc(self, method: str, **params: Any) -> Any:
        """The result of an operation; fails on an error."""
        answer = self.ask("POST", "/rpc", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).json
        assert "error" not in answer, answer
        return answer["result"]

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged so far."""
        found = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in found if line.startswith("{")]

    def close(self) -> None:
        """End it if it still runs, in good order if it can, and remove its socket."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        with contextlib.suppress(OSError):
            os.unlink(self.socket)
        self.private.rmdir()


class InProcessDaemon:
    """A daemon in a thread of this process, so that a test can reach into it; asked over its real sockets."""

    def __init__(self, board: Path | None = None, *, deadline: float = DEADLINE, **settings: Any) -> None:
        from tiebreak.daemon.server import Settings
        from tiebreak.engine.sqlite.engine import SqliteEngine
        from tiebreak.program.daemon_assembly import assemble_daemon

        self.private = Path(tempfile.mkdtemp(prefix="tb-"))
        self.socket = self.private / "s"
        self.board = board or self.private / "board.db"
        self._engine = SqliteEngine(os.fspath(self.board), deadline=deadline)
        try:
            given = Settings(**{"address": None, **settings, "socket": os.fspath(self.socket)})
            self._daemon = assemble_daemon(self._engine, given)
        except BaseException:
            self._clean_up()
            raise
        ready = threading.Event()
        self._thread = threading.Thread(target=self._daemon.serve, args=(ready.set,))
        self._thread.start()
        assert ready.wait(PATIENCE)

    @property
    def port(self) -> int:
        """Where it serves over TCP."""
        return int(self._daemon.addresses[-1].rpartition(":")[2])

    @property
    def token(self) -> str:
        """What its clients have to send over TCP."""
        return self._daemon.token

    def close(self) -> None:
        """End it as SIGTERM would, and leave nothing behind."""
        self._daemon.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert not self.socket.exists()
        self._clean_up()

    def _clean_up(self) -> None:
        self._engine.close()
        shutil.rmtree(self.private)


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[Serving]:
    """A daemon that runs for as long as the context lasts."""
    made = Serving(folder, *options)
    try:
        yield made.start()
    finally:
        made.close()


_PORTS = 1000
"""For each test process. All are below those that the system gives to clients, who could take the port of a daemon
that is being started again."""


def free_port() -> int:
    """A port that nobody uses, nor is given to anybody else."""
    first = 15_000 + _PORTS * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    while True:
        port = random.randrange(first, first + _PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
