"""The client's side of waiting: for resources in the wait queue, and for the answer of a person.

A waiter enters the queue after a refusal, keeps its place while it waits, and leaves at the end. The board has the
queue (see `operations.waits`). A place there lapses if its owner is silent for too long, so a waiter that dies does not
block the others.
"""

from __future__ import annotations

from _thread import allocate_lock

from .clock import elapsed
from .errors import Refused, TiebreakError, TimedOut
from .names import FINAL, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .board import Board
    from .model import Task

LOOK_AGAIN = 3600.0
"""The longest sleep, in seconds, of a caller that waits for an answer: an event ends it anyway."""
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


def answer_to(board: Board, ref: str | int, wait: float | str | None) -> str:
    """Wait until a question is answered; raises `TimedOut` after `wait`, and `Refused` if it was cancelled."""
    end = float("inf") if wait is None else elapsed() + seconds(wait, "wait")
    while True:
        seen = board.events.last()  # before reading, so that no answer falls between the two
        question: Task = board.tasks.get(ref=ref)
        facts: dict[str, Any] = {"number": question.number, "id": question.id}
        called = f"#{question.number} {question.name!r}"
        if question.max_attempts:
            raise Refused(f"{called} is a task, not a question", reason="not-a-question", **facts)
        if question.state == "completed":
            return str(question.result["answer"])
        if question.state in FINAL:
            why = f": {question.reason}" if question.reason else ""
            raise Refused(f"{called} was {question.state}{why}", reason="task-ended", state=question.state, **facts)
        left = end - elapsed()
        unanswered = f"{called} is not answered yet"
        if left <= 0:
            raise TimedOut(unanswered, reason="question-open", **facts)
        nap = min(left, board.waiting(Refused(unanswered, reason="question-open", **facts), left), LOOK_AGAIN)
        try:
            board.wait(after=seen, timeout=nap, subject=question.id, project=None)
        except TimedOut:
            pass  # look at it again: the time is over, or the notice wants to be shown
