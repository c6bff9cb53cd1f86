"""What every proxy of the tests begins with: a socket that takes connections until it is closed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable


def accept_each(listening: socket.socket, serve: Callable[[socket.socket], None]) -> threading.Thread:
    """Serve each connection in a thread of its own; the thread that accepts them ends when the socket is closed."""

    def accept() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    return accepting
