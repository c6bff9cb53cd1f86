"""The engines that the conformance suite runs on. A new engine is one class here and nothing else.

The suite defines what an engine must do. It knows a board only through `Place`, which opens boards as different agents
and has a clock that a test can move.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from unittest.mock import patch

import apsw

import tiebreak
from tiebreak import Board
from tiebreak.clock import micros, wall
from tiebreak.daemon.server import Daemon, Settings
from tiebreak.engine import connect
from tiebreak.engine.postgres.engine import LOOK_EVERY, PostgresEngine

from ..pooler import Pooler
from ..postgres import server

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine


class Place(Protocol):
    """A fresh board of its own for one test."""

    wakes_within: float
    """Seconds in which one who waits hears of a change, on a machine that is not busy."""

    def open(self, agent: str = "alice", project: str = "demo") -> Board:
        """The board, as seen by an agent; several may be open at once, as in several processes."""

    def advance(self, seconds: float) -> None:
        """Let board time pass."""

    def looking(self, board: Board) -> Engine:
        """The engine that looks when this board waits."""

    def close(self) -> None:
        """Clean up."""


@cache
def _empty_board() -> bytes:
    """A file with a board and nothing on it: to copy it takes a fifth of the time that making one does.

    It stays there until the process ends. If it went, a copy could get its inode number, and would be taken for it.
    """
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "board.db")
    tiebreak.open(path).close()
    with contextlib.closing(apsw.Connection(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(path).read_bytes()


def board_file(folder: Path) -> Path:
    """A new board in this folder."""
    path = folder / "board.db"
    path.touch(0o600)
    path.write_bytes(_empty_board())
    return path


class SqlitePlace:
    """A SQLite file in a temporary folder, with a clock that only the test moves."""

    wakes_within = 0.5

    def __init__(self, folder: Path) -> None:
        self.path = board_file(folder)
        self.now = wall()
        self._boards: list[Board] = []

    def open(self, agent: str = "alice", project: str = "demo") -> Board:
        session = agent if "~" in agent else f"{agent}~test"
        board = tiebreak.open(os.fspath(self.path), agent=session, project=project, clock=lambda: self.now)
        self._boards.append(board)
        return board

    def advance(self, seconds: float) -> None:
        self.now += micros(seconds)

    def looking(self, board: Board) -> Engine:
        return board.engine

    def close(self) -> None:
        for board in self._boards:
            board.close()


class DaemonPlace:
    """The same file behind a daemon: real requests over a real socket, to a daemon with the test's clock.

    It does not sweep: what time has done is written down when a test says so.
    """

    wakes_within = 0.5

    def __init__(self, folder: Path) -> None:
        self.now = wall()
        self._engine = connect(self.behind(folder), clock=lambda: self.now)
        self._boards: list[Board] = []
        # Short, whatever the test's folder is called: the kernel takes about a hundred bytes.
        self._socket = os.path.join(tempfile.mkdtemp(prefix="tb-"), "s")
        self._daemon = Daemon(self._engine, Settings(address=None, socket=self._socket, sweep=3600.0))
        ready = threading.Event()
        self._thread = threading.Thread(target=self._daemon.serve, args=(ready.set,))
        self._thread.start()
        assert ready.wait(60)

    def behind(self, folder: Path) -> str:
        """The board that the daemon serves."""
        return os.fspath(board_file(folder))

    def open(self, agent: str = "alice", project: str = "demo") -> Board:
        session = agent if "~" in agent else f"{agent}~test"
        board = tiebreak.open(f"unix:{self._socket}", agent=session, project=project)
        self._boards.append(board)
        return board

    def advance(self, seconds: float) -> None:
        self.now += micros(seconds)

    def looking(self, board: Board) -> Engine:
        return self._engine

    def close(self) -> None:
        for board in self._boards:
            board.close()
        self._daemon.stop()
        self._thread.join(60)
        self._engine.close()
        os.rmdir(os.path.dirname(self._socket))


class PostgresPlace:
    """A board on a real server, emptied for each test, with a clock that only the test moves.

    The connections of one test serve the next one: what a new one costs the server is most of what a test costs.
    """

    wakes_within = 0.5

    def __init__(self, folder: Path) -> None:
        self.address = self.empty_board()
        self.now = wall()
        self._boards: list[Board] = []

    def empty_board(self) -> str:
        """The address of the board, with nothing on it."""
        return server().empty_board(server().database("conformance"))

    def open(self, agent: str = "alice", project: str = "demo") -> Board:
        session = agent if "~" in agent else f"{agent}~test"
        with patch.object(PostgresEngine, "_connect", _kept_or_new):
            board = tiebreak.open(self.address, agent=session, project=project, clock=lambda: self.now)
        self._boards.append(board)
        return board

    def advance(self, seconds: float) -> None:
        self.now += micros(seconds)

    def looking(self, board: Board) -> Engine:
        return board.engine

    def close(self) -> None:
        with patch.object(PostgresEngine, "_forget_idle", _keep):
            for board in self._boards:
                board.close()


_KEPT: dict[str, list[Any]] = {}
_new = PostgresEngine._connect


def _kept_or_new(engine: PostgresEngine) -> Any:
    while True:
        try:
            connection = _KEPT[engine.full_address].pop()
        except LookupError:  # there is none, or another thread was faster
            return _new(engine)
        if not connection.closed:
            return connection


def _keep(engine: PostgresEngine) -> None:
    with engine._lock:
        _KEPT.setdefault(engine.full_address, []).extend(engine._idle)
        engine._idle = []


class HostilePlace(PostgresPlace):
    """A board in a database whose defaults would break every promise that was left to them."""

    def empty_board(self) -> str:
        return server().empty_board(server().hostile_database("repeatable read"))


class PooledPlace(PostgresPlace):
    """The same behind a pooler, where each transaction may run on another connection than the last one."""

    wakes_within = LOOK_EVERY + 0.5  # nobody can listen there, so one who waits looks now and then

    def empty_board(self) -> str:
        database = server().hostile_database("serializable")
        server().empty_board(database)
        return pooler().address_of(database)


@cache
def pooler() -> Pooler:
    """One pooler for all tests of this process."""
    made = Pooler()
    atexit.register(made.close)
    return made


class PostgresDaemonPlace(DaemonPlace):
    """A daemon in front of a board on a real server."""

    def behind(self, folder: Path) -> str:
        self._before = os.environ.get("XDG_STATE_HOME")
        os.environ["XDG_STATE_HOME"] = os.fspath(folder)  # where such a daemon has its lock
        return server().empty_board()

    def close(self) -> None:
        super().close()
        if self._before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = self._before


ENGINES: dict[str, Callable[[Path], Place]] = {
    "sqlite": SqlitePlace,
    "daemon": DaemonPlace,
    "postgres": PostgresPlace,
    "postgres-daemon": PostgresDaemonPlace,
}
MORE: dict[str, Callable[[Path], Place]] = {"postgres-hostile": HostilePlace, "postgres-pooled": PooledPlace}
"""The same engine in rougher places; only under `make soak`."""
