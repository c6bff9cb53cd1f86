"""The servers that are measured, each in a process of its own: `python -m benchmarks.servers KIND BOARD PORT`.

`tb` is the command itself, `tb serve`; `daemon` the same in a process of this module; `alone` the same with one commit
for each request; `leaking` the same with a list that keeps every refusal; `echo` the same server stack (event loop,
HTTP parser, protocol, ASGI) with an application that answers at once and does nothing.
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
def server(kind: str, place: str, board: str = "", **variables: str) -> Iterator[Server]:
    """Start one with these variables in its environment, and end it afterwards."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "XDG_STATE_HOME": place, "PYTHONPATH": REPOSITORY, **variables}
    command = [sys.executable, "-m", "benchmarks.servers", kind, board, str(port), place]
    if kind == "tb":
        command = [os.path.join(os.path.dirname(sys.executable), "tb"), *_serving(board, port)]
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

    from tiebreak.daemon.http_protocol import FlushQueue, HttpProtocol

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
    state, flush_queue = ServerState(), FlushQueue()
    listening = await asyncio.get_running_loop().create_server(
        lambda: HttpProtocol(config, state, flush_queue), "127.0.0.1", port, backlog=1024
    )
    await listening.serve_forever()


def main(kind: str, board: str, port: str, place: str) -> None:
    """Serve until ended."""
    if kind == "echo":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve_echo(int(port)))
        return
    from tiebreak.daemon import writer
    from tiebreak.program import main as command

    if kind == "alone":
        writer.MOST_TOGETHER = 1
    if kind == "leaking":
        _keep_every_refusal()
    command(_serving(board, port))


def _serving(board: str, port: int | str) -> list[str]:
    return ["--board", board, "serve", "--addr", f"127.0.0.1:{port}", "--socket", f"/tmp/tb-bench-{port}.sock"]


def _keep_every_refusal() -> None:
    """A planted leak: with its traceback, a refusal keeps all that was known when it was made."""
    from tiebreak.errors import Lost

    kept: list[Lost] = []
    begin = Lost.__init__

    def keep(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        kept.append(self)

    Lost.__init__ = keep  # type: ignore[method-assign]


if __name__ == "__main__":
    main(*sys.argv[1:])
