"""The servers that are measured, each in a process of its own: `python -m benchmarks.servers KIND BOARD PORT`.

`daemon` is `tb serve` as it is; `alone` the same with one commit for each request; `echo` the same server stack (event
loop, HTTP parser, protocol, ASGI) with an application that answers at once and does nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from .measure import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"%s":1}}' % (b"x" * 520)
"""As large as the answer to a claim."""


class Server:
    """A server that runs."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, token: str) -> None:
        self.process = process
        self.port = port
        self.token = token

    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """MiB that it has in memory."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


@contextlib.contextmanager
def server(kind: str, place: str, board: str = "") -> Iterator[Server]:
    """Start one, and end it afterwards."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "XDG_STATE_HOME": place, "PYTHONPATH": REPOSITORY}
    command = [sys.executable, "-m", "benchmarks.servers", kind, board, str(port), place]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        token = f"{place}/tiebreak/run/{port}.token"
        end = time.monotonic() + 20
        while not _listens(port) or (kind != "echo" and not os.path.exists(token)):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the {kind} server does not serve")
            time.sleep(0.01)
        if kind == "echo":
            yield Server(process, port, "none")
        else:
            with open(token, encoding="ascii") as file:
                yield Server(process, port, file.read().strip())
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


async def _echo(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


async def _serve_echo(port: int) -> None:
    import uvicorn
    from uvicorn.server import ServerState

    from tiebreak.daemon.protocol import Outbox, Protocol

    config = uvicorn.Config(
        _echo,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        proxy_headers=False,
    )
    config.load()
    state, outbox = ServerState(), Outbox()
    listening = await asyncio.get_running_loop().create_server(
        lambda: Protocol(config, state, outbox), "127.0.0.1", port, backlog=1024
    )
    await listening.serve_forever()


def main(kind: str, board: str, port: str, place: str) -> None:
    """Serve until ended."""
    if kind == "echo":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve_echo(int(port)))
        return
    from tiebreak.cli import main as command
    from tiebreak.daemon import writer

    if kind == "alone":
        writer.MOST_TOGETHER = 1
    command(["--board", board, "serve", "--addr", f"127.0.0.1:{port}", "--socket", f"/tmp/tb-bench-{port}.sock"])


if __name__ == "__main__":
    main(*sys.argv[1:])
