"""A slow line: a socket that passes everything on to another one, each piece after a while."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .accepting import accept_each


class SlowLine:
    """Listens on a unix socket of the same name as the one it leads to, in a folder of its own."""

    def __init__(self, target: Path, longest: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tb-slow-"))
        self.socket = self.folder / target.name
        self._target = str(target)
        self._longest = longest
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(os.fspath(self.socket))
        self._listening.listen(64)
        accept_each(self._listening, self._serve)

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._target)
        except OSError:  # nobody is there just now, as without this line
            client.close()
            server.close()
            return
        threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()
        self._pass_on(client, server)

    def _pass_on(self, here: socket.socket, there: socket.socket) -> None:
        """Every third piece is held back, mostly for a moment and sometimes for long."""
        chance = random.Random(id(here))
        with contextlib.suppress(OSError):
            while data := here.recv(65536):
                if chance.random() < 1 / 3:
                    time.sleep(self._longest * chance.random() ** 2)
                there.sendall(data)
        for side in (here, there):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def slow_line(target: Path, longest: float) -> Iterator[SlowLine]:
    """A slow line to a socket, for as long as the context lasts."""
    made = SlowLine(target, longest)
    try:
        yield made
    finally:
        made.close()
