"""The client's side of the wait queue: enter it after a refusal, keep the place while waiting, and leave at the end.

The board has the queue (see `operations.waits`). A place there lapses if its owner is silent for too long, so a waiter
that dies does not block the others.
"""

from __future__ import annotations

from _thread import allocate_lock

from .clock import elapsed
from .errors import TiebreakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .board import Board

KEEP = 10.0
"""Seconds after which the place is renewed: a third of the time after which it lapses."""


class WaitQueuePlace:
    """A place in the wait queue for some resources; `number` is 0 while it is not entered."""

    def __init__(self, board: Board, resources: tuple[str, ...], note: str | None = None) -> None:
        self._board = board
        self._resources = resources
        self._note = note
        self._renewed = 0.0
        self._over = False
        self._lock = allocate_lock()  # one thread may leave while another still waits
        self.number = 0

    def keep(self) -> bool:
        """Enter the queue, or renew the place if that is due; returns whether it is a new place."""
        with self._lock:
            if self._over or (self.number and self.due() > 0):
                return False
            from .process_identity import identity, token

            asked, before = elapsed(), self.number
            place = self._board.waits.enter(
                resources=self._board.resources(self._resources),
                place=before,
                note=self._note,
                process=token(identity()),
            )
            self.number, self._renewed = place.number, asked
            return self.number != before

    def due(self) -> float:
        """Seconds until the place has to be renewed."""
        return self._renewed + KEEP - elapsed() if self.number else KEEP

    def won(self) -> None:
        """Note that the grant was won, which removes the place from the queue."""
        self.number = 0

    def leave(self) -> None:
        """Leave the queue; if the board cannot be reached, the place lapses by itself."""
        with self._lock:
            self._over = True
            number, self.number = self.number, 0
            if number:
                try:
                    self._board.waits.leave(place=number)
                except TiebreakError:
                    pass
