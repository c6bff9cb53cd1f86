"""Watching the board's events for the loss of a grant, for holders that asked to be told (`Grant.on_loss`).

The watch decides nothing. When an event says that a grant may be over, it has the grant renewed at once, and the board
accepts or refuses that renewal as it would any other. So a missed event costs time only: the loss is noticed at the
next renewal. Each watch has a thread and, while that waits, what a waiting call costs on the engine; a grant without
`on_loss` has no watch.
"""

from __future__ import annotations

import threading

from .clock import elapsed
from .errors import TiebreakError
from .limits import MAX_LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board
    from .model import Event

    Subject = tuple[str, int, int | None]
    """What was granted: a task's id or a resource, the epoch, and the slot of a pool."""

LONG = 30.0
"""Longest wait in seconds for an event, after which the watch looks whether it is still needed."""
LONGEST_REST = 0.05
"""Longest pause in seconds between two looks at a busy board; on a quiet board an event is noticed at once."""
AGAIN = 1.0
"""Seconds until the next look at a board that cannot be reached."""
ENDINGS = ("broken", "released", "expired", "cancelled", "completed", "failed", "retrying", "reopened")
"""The second halves of the names of events that end the grant whose epoch they carry."""


class LossWatch:
    """Calls `then` when events say that one of these grants of a project may be over, until it is stopped."""

    def __init__(self, board: Board, project: str, subjects: list[Subject], then: Callable[[], None]) -> None:
        self._board = board
        self._project = project
        self._epochs = {(subject, slot): epoch for subject, epoch, slot in subjects}
        names = {subject for subject, _, _ in subjects}
        self._only = names.pop() if len(names) == 1 else None
        self._then = then
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="watch for a loss", daemon=True).start()

    def stop(self) -> None:
        """Stop soon. Nobody has to wait for that: what the watch asks for after this is done by nobody."""
        self._stop.set()

    def _run(self) -> None:
        seen, rest = None, 0.0
        while not self._stop.wait(rest):
            asked = elapsed()
            try:
                seen = self._look(seen)
                pause = min(LONGEST_REST, 2 * rest or 0.001)
                rest = 0.001 if elapsed() - asked > LONGEST_REST else pause
            except (TiebreakError, OSError):  # the loss is noticed at the next renewal, if not before
                rest = AGAIN

    def _look(self, seen: int | None) -> int:
        """Look at the events after a number, or at the newest ones; returns the number after which to look next."""
        if seen is not None and not self._board.engine.wait(seen, LONG, project=self._project, subject=self._only):
            return seen
        newest: int = self._board.events.last()
        found = self._board.events.read(
            after=seen or 0, project=self._project, subject=self._only, limit=MAX_LIMIT, newest=seen is None
        )
        if any(self._ends(event) for event in found) and not self._stop.is_set():
            self._then()
        if len(found) == MAX_LIMIT and seen is not None:
            return found[-1].number  # there may be more
        return max(newest, found[-1].number if found else 0)

    def _ends(self, event: Event) -> bool:
        """Whether an event says that one of the grants is over, or that somebody has a later one."""
        slot = event.data.get("slot") if event.kind == "pool" and isinstance(event.data, dict) else None
        epoch = self._epochs.get((event.subject or "", slot))
        if epoch is None or event.event.endswith((".refused", ".fenced")):
            return False
        return event.epoch > epoch or (event.epoch == epoch and event.event.endswith(ENDINGS))
