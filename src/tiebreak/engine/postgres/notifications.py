"""Wake-ups on PostgreSQL: NOTIFY as a hint, never more than that.

A notification carries nothing, is sent at most every few milliseconds however much happens, and after the commit that
it tells of: inside a transaction it would make all commits of the database queue. Whoever waits looks at the board
anyway once a second, so one that is lost costs a second.
"""

from __future__ import annotations

from _thread import start_new_thread
from threading import Condition
from time import monotonic, sleep

import psycopg

from ...errors import TiebreakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CHANNEL = "tiebreak"
PAUSE = 0.005
"""Seconds between two notifications of one process."""
# It has to be on no disk before the next one: a hint that is lost costs a second.
_RING = f"BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {CHANNEL}; COMMIT"


class Notifications:
    """Tells others that something happened, and hears it from them; one connection of its own for listening."""

    def __init__(self, connect: Callable[[], Any], borrow: Callable[[Callable[[Any], None]], None]) -> None:
        self._connect = connect
        self._borrow = borrow
        self._told = 0
        self._rung = 0.0
        self._owed = self._ringing = False
        self._turn = Condition()
        self._ears: Any = None
        self._hearing = self._deaf = False
        self._closed = False

    def ring(self, connection: Any) -> None:
        """Something was committed: tell now, or soon if it was told just now."""
        with self._turn:
            due = self._rung + PAUSE - monotonic()
            if due > 0 or self._ringing:
                self._owed = True
                if not self._ringing and not self._closed:
                    self._begin_to_ring(due)
                return
            self._rung = monotonic()
        _quietly(connection)

    def _begin_to_ring(self, due: float) -> None:
        try:
            start_new_thread(self._ring_later, (due,))
            self._ringing = True
        except RuntimeError:
            pass  # no more threads here; whoever waits looks by itself

    def _ring_later(self, due: float) -> None:
        """In a thread that lives as long as a burst: one for each hint would cost more than the hint."""
        while True:
            sleep(max(0.0, due))
            if not self._settle_up():
                return
            due = PAUSE

    def _settle_up(self) -> bool:
        """Tell what is owed; False when nothing is, and the thread may go."""
        with self._turn:
            self._ringing = self._owed and not self._closed
            if not self._owed:
                return False
            self._owed, self._rung = False, monotonic()
        try:
            self._borrow(_quietly)
        except TiebreakError:
            pass  # whoever waits looks by itself
        return self._ringing

    def listen(self) -> int:
        """From now on, hear what is told; how often something was heard so far, for `sleep`."""
        with self._turn:
            if not self._deaf and (self._ears is None or self._ears.closed):
                self._ears = self._new_ears()
            return self._told

    def _new_ears(self) -> Any:
        try:
            ears = self._connect()
        except psycopg.Error:
            return None
        try:
            ears.execute(f"LISTEN {CHANNEL}")
            return ears
        except psycopg.Error:
            self._deaf = not ears.closed  # a server or pooler where one cannot listen: looking has to do
            ears.close()
            return None

    def sleep(self, seconds: float, heard: int) -> None:
        """Sleep until something is told, or for that long. One thread hears for all that sleep."""
        end = monotonic() + seconds
        with self._turn:
            if self._told != heard:
                return  # somebody heard it between the look and now
            if self._hearing or self._ears is None:
                self._turn.wait(seconds)
                return
            self._hearing, ears = True, self._ears
        try:
            for _ in ears.notifies(timeout=max(0.0, end - monotonic()), stop_after=1):
                self._told += 1
        except psycopg.Error:
            self._ears = None
        finally:
            with self._turn:
                self._hearing = False
                self._turn.notify_all()

    def close(self) -> None:
        """Tell what is still to be told, and hang up."""
        with self._turn:
            self._closed = True
        self._settle_up()
        if self._ears is not None and not self._hearing:
            self._ears.close()


def _quietly(connection: Any) -> None:
    try:
        connection.execute(_RING)
    except psycopg.Error:
        pass  # the commit has happened; a hint is only a hint
