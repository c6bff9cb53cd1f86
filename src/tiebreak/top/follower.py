"""Keeps the screen of `tb top` up to date, in two threads, so that no key ever waits for the board.

One thread waits for the next event after the frame that is shown. The other reads frames: at once if a person asks for
one (another view, a filter, an action), and after events at most every `CALM` seconds, however many there were. So a
thousand events a second cost three frames a second, and a quiet board costs nothing.

Some changes leave no event: leases run out, agents fall silent, heartbeats come. So a frame is also read when a wait
for an event has lasted `QUIET` seconds.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ..errors import TiebreakError
from .snapshot import take

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..board import Board
    from .snapshot import Snapshot

CALM = 0.35
"""Seconds between two frames that are read because of events."""
QUIET = 20.0
"""Seconds after which a frame is read although nothing happened."""
AGAIN = 2.0
"""Seconds until the next try on a board that does not answer."""


class Follower:
    """Reads frames and hands each to `show`; what goes wrong goes to `lost`. Both are called from its threads."""

    def __init__(
        self, board: Board, show: Callable[[Snapshot], None], lost: Callable[[str], None], *, calm: float = CALM
    ) -> None:
        self._board = board
        self._show = show
        self._lost = lost
        self._calm = calm
        self._changed = threading.Condition()
        self._asked = True
        self._happened = False
        self._reading = True
        self._over = False
        self._cursor = 0  # of the frame that was read last
        self.view = "agents"
        self.find = ""
        self.frames = 0
        """How many frames were read."""

    def start(self) -> None:
        """Start the threads. They end with the process, or soon after `stop`."""
        for work in (self._read, self._wait):
            threading.Thread(target=work, name=f"tb-top{work.__name__}", daemon=True).start()

    def ask(self, view: str | None = None, find: str | None = None) -> None:
        """Read a frame at once, perhaps of another view."""
        with self._changed:
            self.view = self.view if view is None else view
            self.find = self.find if find is None else find
            self._asked = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Read nothing any more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    # ── Reading ──────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> None:
        last = 0.0
        while self._until_wanted(last):
            last = time.monotonic()
            try:
                taken = take(self._board, self.view, find=self.find)
            except TiebreakError as exc:
                self._lost(exc.message)
                self._rest()
                continue
            self.frames += 1
            self._show(taken)
            with self._changed:
                self._cursor = taken.cursor
                self._reading = False
                self._changed.notify_all()

    def _until_wanted(self, last: float) -> bool:
        """Wait until a frame is due; false at the end."""
        with self._changed:
            while not self._over:
                left = last + self._calm - time.monotonic()
                if self._asked or (self._happened and left <= 0):
                    self._asked = self._happened = False
                    self._reading = True
                    return True
                self._changed.wait(left if self._happened else None)
            return False

    def _rest(self) -> None:
        """After a failure: wait a moment, then read again."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._asked, AGAIN)
            self._asked = True

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────────────

    def _wait(self) -> None:
        while (seen := self._next_frame()) is not None:
            try:
                self._board.engine.wait(seen, QUIET, project=self._board.project_names)
            except TiebreakError:
                pass  # reading will fail as well, and says so
            with self._changed:
                self._happened = True
                self._changed.notify_all()

    def _next_frame(self) -> int | None:
        """The cursor of the newest frame, once what happened before has been read; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or not (self._reading or self._happened))
            return None if self._over else self._cursor
