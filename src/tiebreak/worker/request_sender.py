"""Everything between a worker and its board, on threads of its own: the loop must never wait for a board.

One batch is under way at a time. What comes together meanwhile goes with the next one, all in one transaction: a
worker that is idle is answered at once, and a busy one pays for one commit where it would have paid for hundreds.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from queue import SimpleQueue

from ..board import open
from ..clock import elapsed
from ..errors import Invalid, Refused, TiebreakError, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..board import Board

    Then = Callable[[Any, "RequestBatch"], None]


class RequestBatch:
    """Calls that go to the board together, each with what to do with its answer, and with what if none came."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.then: list[Then] = []
        self.undo: list[Callable[[], None] | None] = []
        self.asked = 0.0
        """When it was sent: a lease is counted from here."""
        self.answers: list[Any] = []
        self.error: BaseException | None = None
        self.followed: str | None = None
        """Where the board was found anew, if it had moved."""
        self.stranded: TiebreakError | None = None
        """Why it could not be followed there."""

    def add(self, name: str, params: dict[str, Any], then: Then, undo: Callable[[], None] | None = None) -> None:
        """One more call. `undo` is done when it is not known to have been delivered."""
        self.calls.append((name, params))
        self.then.append(then)
        self.undo.append(undo)

    def trouble(self) -> BaseException | None:
        """Why the batch, or a part of it, was not delivered; nothing if every call was answered."""
        return self.stranded or self.error or next((answer for answer in self.answers if undelivered(answer)), None)

    def open(self) -> None:
        """Hand each answer to whom it is for, after what was not delivered has been taken back."""
        lost = [self.error is not None or undelivered(answer) for answer in self.answers or self.calls]
        for undo, gone in zip(reversed(self.undo), reversed(lost), strict=True):
            if gone and undo is not None:
                undo()
        for answer, then, gone in zip(self.answers, self.then, lost, strict=False):
            if not gone:
                then(answer, self)


_ABOUT_THE_CALL = ("22", "23", "54")
"""How the SQLSTATEs begin by which a server says that it cannot take what it was given, however often it is asked."""


def undelivered(answer: Any) -> bool:
    """Whether an answer tells nothing about its call, but that the board could not be used for it."""
    if not isinstance(answer, TiebreakError) or isinstance(answer, (Invalid, Refused)):
        return False
    return not str(answer.data.get("sqlstate") or "").startswith(_ABOUT_THE_CALL)


class RequestSender:
    """Carries batch, one at a time; rings when an answer has come."""

    def __init__(self, board: Board, ring: Callable[[], None]) -> None:
        self._board = board
        self._ring = ring
        self._out: SimpleQueue[RequestBatch | None] = SimpleQueue()
        self._answered: deque[RequestBatch] = deque()
        self.busy = False
        """Whether a batch is under way."""
        threading.Thread(target=self._run, name="courier", daemon=True).start()

    def send(self, batch: RequestBatch) -> None:
        """Send it; only when the courier is not away."""
        self.busy = True
        self._out.put(batch)

    def answered(self) -> RequestBatch | None:
        """The batch that has been answered, if it has."""
        if not self._answered:
            return None
        self.busy = False
        return self._answered.popleft()

    def stop(self) -> None:
        """Carry no more."""
        self._out.put(None)

    def _run(self) -> None:
        while (batch := self._out.get()) is not None:
            batch.asked = elapsed()
            try:
                batch.answers = self._board.batch(batch.calls)
            except BaseException as exc:  # the loop decides what it means
                batch.error = exc
            try:
                batch.followed = follow(self._board, batch.trouble())
            except TiebreakError as exc:
                batch.stranded = exc
            self._answered.append(batch)
            self._ring()


def follow(board: Board, trouble: BaseException | None) -> str | None:
    """If a board says where it was moved to, go on with it there; the new address.

    Not past a daemon: which board that serves is its operator's to say.
    """
    where = trouble.data.get("moved") if isinstance(trouble, Unavailable) else None
    if where is None or board.engine.address.startswith(("http:", "https:", "unix:")):
        return None
    try:
        there = reopened(where, board.agent, board.project)
    except TiebreakError as exc:
        hint = exc.hint or "start this worker again with the board's new address"
        raise Unavailable(f"{trouble}, where it cannot be opened: {exc}", hint=hint, moved=where) from exc
    left, board.engine = board.engine, there.engine
    left.close()
    return str(where)


def reopened(where: str, agent: str, project: str | None) -> Board:
    """A board where it was moved to. It knows this agent: a new and empty one, which opening would make, does not."""
    if "://" not in where and not os.path.exists(where):
        raise Unavailable(f"board {where}: does not exist")
    there = open(where, agent=agent, project=project)
    if all(each.id != agent for each in there.agents.list(agent=agent)):
        there.close()
        raise Unavailable(f"board {where}: is not the one that was moved")
    return there
