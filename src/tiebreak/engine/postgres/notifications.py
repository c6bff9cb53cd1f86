"""Wake-ups on PostgreSQL, by NOTIFY and LISTEN.

A notification is only a hint that something was committed. It has no content. It is sent after the commit, because a
NOTIFY inside a transaction makes all commits of the database wait for each other. A process sends at most one in a few
milliseconds, however much it commits. Waiters also look at the board once a second, so a lost notification costs a
second.
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
# It need not wait for the disk: a lost notification costs a second.
_NOTIFY = f"BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {CHANNEL}; COMMIT"


class Notifications:
    """Sends notifications to other processes, and receives theirs on a connection of its own."""

    def __init__(self, connect: Callable[[], Any], borrow: Callable[[Callable[[Any], None]], None]) -> None:
        self._connect = connect
        self._borrow = borrow
        self._received = 0
        self._sent_at = 0.0
        self._due = self._sender_runs = False
        self._condition = Condition()
        self._listener: Any = None
        self._receiving = self._cannot_listen = False
        self._closed = False

    def notify(self, connection: Any) -> None:
        """After a commit: send a notification now, or soon if one was sent just now."""
        with self._condition:
            delay = self._sent_at + PAUSE - monotonic()
            if delay > 0 or self._sender_runs:
                self._due = True
                if not self._sender_runs and not self._closed:
                    self._start_sender(delay)
                return
            self._sent_at = monotonic()
        send(connection)

    def _start_sender(self, delay: float) -> None:
        try:
            start_new_thread(self._send_later, (delay,))
            self._sender_runs = True
        except RuntimeError:
            pass  # no more threads are possible; waiters look once a second

    def _send_later(self, delay: float) -> None:
        """In a thread that lives as long as commits keep coming: one thread for each notification would cost more."""
        while True:
            sleep(max(0.0, delay))
            if not self._send_due():
                return
            delay = PAUSE

    def _send_due(self) -> bool:
        """Send a notification if one is due; False if none is, and the thread may end."""
        with self._condition:
            self._sender_runs = self._due and not self._closed
            if not self._due:
                return False
            self._due, self._sent_at = False, monotonic()
        try:
            self._borrow(send)
        except TiebreakError:
            pass  # waiters look once a second
        return self._sender_runs

    def listen(self) -> int:
        """Listen from now on; returns how many notifications were received so far, for `sleep`."""
        with self._condition:
            if not self._cannot_listen and (self._listener is None or self._listener.closed):
                self._listener = self._new_listener()
            return self._received

    def _new_listener(self) -> Any:
        try:
            listener = self._connect()
        except psycopg.Error:
            return None
        try:
            listener.execute(f"LISTEN {CHANNEL}")
            return listener
        except psycopg.Error:
            self._cannot_listen = not listener.closed  # a server or pooler without LISTEN: waiters look once a second
            listener.close()
            return None

    def sleep(self, seconds: float, received: int) -> None:
        """Sleep until a notification comes, or for that long. One of the sleeping threads receives for all."""
        end = monotonic() + seconds
        with self._condition:
            if self._received != received:
                return  # one came after the caller looked at the board
            if self._receiving or self._listener is None:
                self._condition.wait(seconds)
                return
            self._receiving, listener = True, self._listener
        try:
            for _ in listener.notifies(timeout=max(0.0, end - monotonic()), stop_after=1):
                self._received += 1
        except psycopg.Error:
            self._listener = None
        finally:
            with self._condition:
                self._receiving = False
                self._condition.notify_all()

    def close(self) -> None:
        """Send a notification that is still due, and close the connection."""
        with self._condition:
            self._closed = True
        self._send_due()
        if self._listener is not None and not self._receiving:
            self._listener.close()


def send(connection: Any) -> None:
    """Wake all waiters, on a connection that is in no transaction."""
    try:
        connection.execute(_NOTIFY)
    except psycopg.Error:
        pass  # the commit has happened, and a notification is only a hint
