"""Where histories take place: a file, a daemon, PostgreSQL, and PostgreSQL through two daemons.

A stage gives each process its way to the board, some of them over a slow line, and knows how to take its servers down.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.daemons import Serving
from tests.postgres import Server
from tests.races.places import database
from tests.slow_line import slow_line

LONGEST = 0.5
"""Seconds that a slow line holds a piece back at most."""


class Stage(NamedTuple):
    """A board, the ways to it, and what can be restarted."""

    board: str
    """Straight to the database, for the judge."""
    quick: list[str]
    slow: list[str]
    restarts: list[Callable[[], None]]


class Daemon(Serving):
    """A daemon of any board, known to serve by its socket."""

    def __init__(self, folder: Path, board: str) -> None:
        folder.mkdir()
        super().__init__(folder)
        self.environment["TIEBREAK_BOARD"] = board

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(os.fspath(self.socket))
            return True
        return False

    @property
    def address(self) -> str:
        """Where it is asked."""
        return f"unix:{self.socket}"

    def restart(self) -> None:
        """As after a crash."""
        self.kill()
        self.start()


@contextmanager
def _daemon(folder: Path, board: str) -> Iterator[Daemon]:
    made = Daemon(folder, board)
    try:
        made.start()
        yield made
    finally:
        made.close()


def _through(server: Server, address: str, folder: Path) -> str:
    """The same database over another socket."""
    return address.replace(str(server.folder), str(folder))


def _restarts(server: Server) -> list[Callable[[], None]]:
    def restart(how: signal.Signals) -> None:
        server.stop(how)
        server.start()

    return [lambda: restart(signal.SIGINT), lambda: restart(signal.SIGQUIT)]


@contextmanager
def on_a_file(folder: Path, server: Callable[[], Server]) -> Iterator[Stage]:
    """One file, and nothing between it and those who use it."""
    path = os.fspath(folder / "board.db")
    yield Stage(path, [path], [], [])


@contextmanager
def through_a_daemon(folder: Path, server: Callable[[], Server]) -> Iterator[Stage]:
    """The same file behind a daemon."""
    path = os.fspath(folder / "board.db")
    with _daemon(folder / "daemon", path) as daemon, slow_line(daemon.socket, LONGEST) as slow:
        yield Stage(path, [daemon.address], [f"unix:{slow.socket}"], [daemon.restart])


@contextmanager
def on_postgres(folder: Path, server: Callable[[], Server]) -> Iterator[Stage]:
    """A database of its own on a server that may crash."""
    there = server()
    with database(there) as address, slow_line(there.folder / ".s.PGSQL.5432", LONGEST) as slow:
        yield Stage(address, [address], [_through(there, address, slow.folder)], _restarts(there))


@contextmanager
def through_two_daemons(folder: Path, server: Callable[[], Server]) -> Iterator[Stage]:
    """Two daemons on one database, one of them far from it."""
    there = server()
    with database(there) as address, ExitStack() as stack:
        far = stack.enter_context(slow_line(there.folder / ".s.PGSQL.5432", LONGEST / 5))
        one = stack.enter_context(_daemon(folder / "one", address))
        two = stack.enter_context(_daemon(folder / "two", _through(there, address, far.folder)))
        slow = stack.enter_context(slow_line(one.socket, LONGEST))
        restarts = [one.restart, two.restart, _restarts(there)[0]]
        yield Stage(address, [one.address, two.address], [f"unix:{slow.socket}"], restarts)


STAGES = {
    "file": on_a_file,
    "daemon": through_a_daemon,
    "postgres": on_postgres,
    "two-daemons": through_two_daemons,
}
