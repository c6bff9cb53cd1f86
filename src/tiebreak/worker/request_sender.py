"""Sends a worker's requests to the board from a thread of its own, so that the loop never waits for the board.

One batch is under way at a time. Requests that come up meanwhile go with the next batch, in one transaction. So an idle
worker is answered at once, and a busy worker pays for one commit instead of hundreds.
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
    """Calls that go to the board together, each with a function for its answer and one for the case that none comes."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.then: list[Then] = []
        self.undo: list[Callable[[], None] | None] = []
        self.asked = 0.0
        """When it was sent: leases that it wins are counted from here."""
        self.answers: list[Any] = []
        self.error: BaseException | None = None
        self.followed: str | None = None
        """The board's new address, if the board had been moved and was found there."""
        self.stranded: TiebreakError | None = None
        """Why the board could not be used at its new address."""

    def add(self, name: str, params: dict[str, Any], then: Then, undo: Callable[[], None] | None = None) -> None:
        """Add a call. `then` gets its answer; `undo` runs instead if the board may not have received it."""
        self.calls.append((name, params))
        self.then.append(then)
        self.undo.append(undo)

    def trouble(self) -> BaseException | None:
        """Why some call of the batch was not delivered; None if every call was answered."""
        return self.stranded or self.error or next((answer for answer in self.answers if undelivered(answer)), None)

    def handle_answers(self) -> None:
        """Run `undo` for the calls that were not delivered, then `then` for the others."""
        lost = [self.error is not None or undelivered(answer) for answer in self.answers or self.calls]
        for undo, gone in zip(reversed(self.undo), reversed(lost), strict=True):
            if gone and undo is not None:
                undo()
        for answer, then, gone in zip(self.answers, self.then, lost, strict=False):
            if not gone:
                then(answer, self)


_ABOUT_THE_CALL = ("22", "23", "54")
"""Classes of SQLSTATE that mean: the server cannot accept this call, and trying again does not help."""


def undelivered(answer: Any) -> bool:
    """Whether an answer only says that the board could not be reached, and nothing about the call itself."""
    if not isinstance(answer, TiebreakError) or isinstance(answer, (Invalid, Refused)):
        return False
    return not str(answer.data.get("sqlstate") or "").startswith(_ABOUT_THE_CALL)


class RequestSender:
    """Sends one batch at a time, and calls `wake` when it has been answered."""

    def __init__(self, board: Board, wake: Callable[[], None]) -> None:
        self._board = board
        self._wake = wake
        self._out: SimpleQueue[RequestBatch | None] = SimpleQueue()
        self._answered: deque[RequestBatch] = deque()
        self.busy = False
        """Whether a batch is under way."""
        threading.Thread(target=self._run, name="requests", daemon=True).start()

    def send(self, batch: RequestBatch) -> None:
        """Send a batch; only while the sender is not busy."""
        self.busy = True
        self._out.put(batch)

    def answered(self) -> RequestBatch | None:
        """The batch that was under way, once it has been answered; else None."""
        if not self._answered:
            return None
        self.busy = False
        return self._answered.popleft()

    def stop(self) -> None:
        """Send no more."""
        self._out.put(None)

    def _run(self) -> None:
        while (batch := self._out.get()) is not None:
            batch.asked = elapsed()
            try:
                batch.answers = self._board.batch(batch.calls)
            except BaseException as exc:  # the loop decides what to do about it
                batch.error = exc
            try:
                batch.followed = follow(self._board, batch.trouble())
            except TiebreakError as exc:
                batch.stranded = exc
            self._answered.append(batch)
            self._wake()


def follow(board: Board, trouble: BaseException | None) -> str | None:
    """If the board says that it was moved, use it at its new address from now on; returns that address.

    A daemon's board is not followed: the operator of the daemon decides which board it serves.
    """
    where = trouble.data.get("moved") if isinstance(trouble, Unavailable) else None
    if where is None or board.engine.address.startswith(("http:", "https:", "unix:")):
        return None
    try:
        there = reopened(where, board.agent, board.project)
    except TiebreakError as exc:
        hint = exc.own_hint or "start this worker again with the board's new address"
        facts = {"moved": where, **exc.data}
        text = f"{trouble}, where it cannot be opened: {exc}"
        raise Unavailable(text, hint=hint, reason=exc.reason, **facts) from exc
    old, board.engine = board.engine, there.engine
    old.close()
    return str(where)


def reopened(where: str, agent: str, project: str | None) -> Board:
    """Open a moved board at its new address. It must know this agent, which a new and empty board does not."""
    if "://" not in where and not os.path.exists(where):
        raise Unavailable(f"board {where}: does not exist")
    there = open(where, agent=agent, project=project)
    if all(each.id != agent for each in there.agents.list(agent=agent)):
        there.close()
        raise Unavailable(f"board {where}: is not the one that was moved")
    return there
