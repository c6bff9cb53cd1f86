"""A place in the wait queue: entered when a call is refused and may wait, renewed while it waits, left at the end."""

from __future__ import annotations

from _thread import allocate_lock

from .clock import elapsed
from .errors import TiebreakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .board import Board

KEEP = 10.0
"""Seconds between two renewals of a place: a third of its lease."""


class InLine:
    """A caller's place in the wait queue for some resources; `number` is 0 while it has none."""

    def __init__(self, board: Board, resources: tuple[str, ...], note: str | None = None) -> None:
        self._board = board
        self._resources = resources
        self._note = note
        self._kept = 0.0
        self._over = False
        self._turn = allocate_lock()  # one thread may leave while another still waits
        self.number = 0

    def keep(self) -> bool:
        """Enter the wait queue, or renew the place when that is due; True if the place is new."""
        with self._turn:
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
            self.number, self._kept = place.number, asked
            return self.number != before

    def due(self) -> float:
        """Seconds until the place has to be renewed."""
        return self._kept + KEEP - elapsed() if self.number else KEEP

    def won(self) -> None:
        """Record that the grant ended the wait."""
        self.number = 0

    def leave(self) -> None:
        """Leave the wait queue. If the board cannot be reached, the place lapses by itself."""
        with self._turn:
            self._over = True
            number, self.number = self.number, 0
            if number:
                try:
                    self._board.waits.leave(place=number)
                except TiebreakError:
                    pass
