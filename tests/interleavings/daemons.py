"""A daemon whose group commits a test decides: which calls of which callers go into one transaction."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic, sleep
from typing import Any

import tiebreak
from tiebreak.daemon.server import Daemon, Settings
from tiebreak.remote import RemoteEngine

from .scheduler import PATIENCE, Client

Ask = Callable[[tiebreak.Board], Any]


class Held:
    """The engine of a client, whose next transaction waits until the test lets it begin."""

    writers = 1
    """So that later calls queue behind the transaction that waits, and share the next one."""

    def __init__(self, client: Client, name: str) -> None:
        self._engine = client.engine
        self.address = f"{client.engine.address}#{name}"  # each daemon has a lock of its own
        self.waits, self.begin = threading.Event(), threading.Event()
        self.begin.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def batch(self, calls: Sequence[Any]) -> list[Any]:
        """Run them, as soon as that is allowed."""
        self.waits.set()
        assert self.begin.wait(PATIENCE)
        return list(self._engine.batch(calls))


class GroupingDaemon:
    """A daemon on the connections of a client, asked over its socket by several callers at once."""

    def __init__(self, client: Client, name: str) -> None:
        self._held: Any = Held(client, name)
        self._folder = tempfile.mkdtemp(prefix="tb-")
        socket = os.path.join(self._folder, "s")
        self._daemon = Daemon(self._held, Settings(address=None, socket=socket, sweep=3600.0))
        ready = threading.Event()
        self._thread = threading.Thread(target=self._daemon.serve, args=(ready.set,), daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE)
        self._board = tiebreak.open(f"unix:{socket}", agent=client.board.agent, project=client.board.project)

    def ask_together(self, asks: Sequence[Ask]) -> list[Any]:
        """The first one is alone in its transaction; the others arrive meanwhile, and share one."""
        first = threading.Event()

        def later(ask: Ask) -> Any:
            assert first.wait(PATIENCE)
            return ask(self._board)

        def gather() -> None:
            try:
                assert self._held.waits.wait(PATIENCE)
                first.set()
                self._wait_for(len(asks))
            finally:
                self._held.begin.set()

        self._held.waits.clear()
        self._held.begin.clear()
        callers = [partial(asks[0], self._board), *(partial(later, ask) for ask in asks[1:])]
        return side_by_side([*callers, gather])[:-1]

    def _wait_for(self, waiting: int) -> None:
        """Until the daemon has so many writes that wait."""
        end = monotonic() + PATIENCE
        engine = self._board.engine
        assert isinstance(engine, RemoteEngine)
        while f"\ntiebreak_queue_depth {waiting}\n".encode() not in engine.ask("GET", "/metrics"):
            assert monotonic() < end, "not all calls arrive"
            sleep(0.0005)

    def close(self) -> None:
        """End it; the connections stay with the client."""
        self._board.close()
        self._daemon.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the daemon does not end"
        shutil.rmtree(self._folder, ignore_errors=True)


def side_by_side(work: Sequence[Callable[[], Any]]) -> list[Any]:
    """Do several things in threads; what each of them gave. If one fails, so does this."""
    with ThreadPoolExecutor(len(work)) as threads:
        return [each.result(2 * PATIENCE) for each in [threads.submit(one) for one in work]]
