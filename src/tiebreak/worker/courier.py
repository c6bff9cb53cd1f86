"""Everything between a worker and its board, on threads of its own: the loop must never wait for a board.

One mail is under way at a time. What comes together meanwhile goes with the next one, all in one transaction: a
worker that is idle is answered at once, and a busy one pays for one commit where it would have paid for hundreds.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from queue import SimpleQueue
from time import sleep

from ..board import open
from ..clock import elapsed
from ..errors import Invalid, Refused, TiebreakError, Unavailable
from ..limits import MAX_LIMIT
from ..model import holder_id
from ..process_identity import alive, from_token
from .leftovers import end_left_by
from .register import forget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..board import Board
    from .kin import Mark

    Then = Callable[[Any, "Mail"], None]

CALM = 0.05
"""Seconds between two looks at a board where something always happens; on a quiet one nothing waits."""
LONG = 30.0


class Mail:
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
        """Why the mail, or a part of it, was not delivered; nothing if every call was answered."""
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


class Courier:
    """Carries mail, one at a time; rings when an answer has come."""

    def __init__(self, board: Board, ring: Callable[[], None]) -> None:
        self._board = board
        self._ring = ring
        self._out: SimpleQueue[Mail | None] = SimpleQueue()
        self._back: deque[Mail] = deque()
        self.away = False
        """Whether a mail is under way."""
        threading.Thread(target=self._run, name="courier", daemon=True).start()

    def send(self, mail: Mail) -> None:
        """Send it; only when the courier is not away."""
        self.away = True
        self._out.put(mail)

    def back(self) -> Mail | None:
        """The mail that has been answered, if it has."""
        if not self._back:
            return None
        self.away = False
        return self._back.popleft()

    def stop(self) -> None:
        """Carry no more."""
        self._out.put(None)

    def _run(self) -> None:
        while (mail := self._out.get()) is not None:
            mail.asked = elapsed()
            try:
                mail.answers = self._board.batch(mail.calls)
            except BaseException as exc:  # the loop decides what it means
                mail.error = exc
            try:
                mail.followed = follow(self._board, mail.trouble())
            except TiebreakError as exc:
                mail.stranded = exc
            self._back.append(mail)
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


class Lookout:
    """Tells when something has happened on the board and who cancelled what; fires schedules, buries dead workers."""

    def __init__(self, board: Board, ring: Callable[[], None], pause: float) -> None:
        self._board = board
        self._ring = ring
        self._pause = pause
        self.news = False
        """Whether something happened since this was last taken back."""
        self.cancelled: deque[str] = deque()
        """The ids of tasks that were cancelled."""
        self.error: BaseException | None = None
        """Why it looks no more; nobody expects that."""
        self._seen = board.events.last()
        for each, name in ((self._watch, "lookout"), (self._bury, "undertaker")):
            threading.Thread(target=self._again_and_again, args=(each,), name=name, daemon=True).start()

    def _again_and_again(self, look: Callable[[], None]) -> None:
        try:
            while True:
                look()
        except BaseException as exc:  # the loop decides what it means
            self.error = exc
            self._ring()

    def _watch(self) -> None:
        """Wait until something happens."""
        asked = elapsed()
        try:
            if self._board.engine.wait(self._seen, self._fire(), project=self._board.project):
                self._look()
        except (TiebreakError, OSError, MemoryError):
            sleep(1.0)  # the courier meets the same trouble, and the loop tells of it
        self.news = True
        self._ring()
        self._calm = 0.001 if elapsed() - asked > CALM else min(CALM, 2 * self._calm)
        sleep(self._calm)

    _calm = 0.001

    def _fire(self) -> float:
        """Submit the jobs whose instants have come; how long it is until the next."""
        due = self._board.schedules.due()
        if due is not None and due <= 0:
            self._board.schedules.fire()
            return 0.0
        return LONG if due is None else min(LONG, due)

    def _look(self) -> None:
        newest = self._board.events.last()
        found = self._board.events.read(after=self._seen, event="task.cancelled", limit=MAX_LIMIT)
        self.cancelled.extend(event.subject or "" for event in found)
        self._seen = max(newest, self._seen)

    def _bury(self) -> None:
        """Give back what dead workers of this machine held, from time to time."""
        try:
            bury(self._board)
        except (TiebreakError, OSError, MemoryError):
            pass  # the board will be reached again, or the leases run out
        sleep(self._pause)


def bury(board: Board) -> int:
    """Give back the jobs of workers whose processes are known to be dead on this machine; how many there were.

    What they left running is ended first. Where that is not certain, their leases are waited for.
    """
    held: dict[str, set[Mark]] = {}
    for task in board.tasks.list(states=["claimed"], kind="job", limit=MAX_LIMIT):
        held.setdefault(holder_id(task) or "", set()).add((task.id, str(task.epoch)))
    return sum(
        _give_back(board, holder)
        for holder, marks in held.items()
        if holder != board.agent and _dead(holder) and end_left_by(holder, marks)
    )


def _give_back(board: Board, holder: str) -> int:
    count: int = board.call("tasks.forfeit", {"holder": holder, "reason": "its worker died"})
    who = from_token(holder.partition("~")[2])
    if who is not None:
        forget(who)
    return count


def _dead(holder: str) -> bool:
    who = from_token(holder.partition("~")[2])
    return who is not None and alive(who) is False
