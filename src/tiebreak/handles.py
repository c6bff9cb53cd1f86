"""Handles: a claimed task or held resources as an object that knows its epoch.

As a context manager, a handle renews its lease in a background thread and ends the grant when the block ends. The board
stays authoritative: every renewal and every end is checked against the epoch there. If the grant is lost, the handle
cannot interrupt the code in the block. It remembers the loss, and raises it at the end of the block or from `check()`.

A loss is noticed at the next renewal. A handle with `on_loss` also watches the board (see `loss_watch`) and notices at
the event that ended its grant.
"""

from __future__ import annotations

import threading

from .clock import elapsed
from .errors import Fenced, Refused, TiebreakError
from .fingerprints import fingerprint
from .model import created_by_claim
from .names import seconds
from .text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, TypeVar

    from .board import Board
    from .loss_watch import LossWatch, Subject
    from .model import Hold, Released, Task

    G = TypeVar("G", bound="Grant")
    R = TypeVar("R")


class Grant:
    """A grant of the board: a claim or holds. As a context manager it renews itself and notices its loss.

    `asked` is the time (see `clock.elapsed`) right before the board was asked for the grant.
    """

    def __init__(self, board: Board, lease: float | str, asked: float) -> None:
        self.board = board
        self.lease = seconds(lease)
        self.loss: TiebreakError | None = None
        """Why the grant is lost; None as long as no loss is known."""
        self._on_loss: Callable[[], None] | None = None
        self.over = False
        """Whether its holder has finished or released it."""
        self._expires = asked + self.lease
        self._lock = threading.Lock()
        self._renewer: Renewer | None = None
        self._watch: LossWatch | None = None

    @property
    def on_loss(self) -> Callable[[], None] | None:
        """Called in the renewing thread when a loss is noticed: at once, because the board is then watched for it."""
        return self._on_loss

    @on_loss.setter
    def on_loss(self, then: Callable[[], None] | None) -> None:
        self._on_loss = then
        self._watch_if_wanted()

    def _watch_if_wanted(self) -> None:
        """Watch the board from now on, if somebody wants to hear of a loss and the grant is being renewed."""
        if self._watch is None and self._on_loss is not None and self._renewer is not None:
            from .loss_watch import LossWatch

            self._watch = LossWatch(self.board, self._project(), self._subjects(), self._renewer.renew_now)

    def left(self) -> float:
        """The least number of seconds that the lease still lasts, counted from before the last renewal was sent."""
        return self._expires - elapsed()

    def check(self) -> None:
        """Raise `Fenced` if this grant is lost, as far as this process knows."""
        if self.loss is not None:
            raise self.loss
        if self.left() <= 0:
            raise Fenced(f"{self!r}: the lease ran out before it could be renewed")

    @property
    def epoch(self) -> int:
        """The epoch, against which every later write is checked."""
        raise NotImplementedError

    def renew(self) -> None:
        """Extend the grant by another lease."""
        with self._lock:
            asked = elapsed()
            self._renew()
            self._expires = asked + self.lease

    def release(self) -> Any:
        """Release it."""
        raise NotImplementedError

    def _renew(self) -> None:
        raise NotImplementedError

    def _project(self) -> str:
        raise NotImplementedError

    def _subjects(self) -> list[Subject]:
        raise NotImplementedError

    def _end(self, failed: BaseException | None) -> None:
        raise NotImplementedError

    def _finish(self, action: Callable[[], R]) -> R:
        """Finish or release, and keep renewals out meanwhile: one that came later would report a loss."""
        with self._lock:
            answer = action()
            self.over = True
            return answer

    def leave(self) -> None:
        """Stop renewing, and release it unless it is over."""
        self._stop_renewing()
        if not self.over:
            self.release()

    def _stop_renewing(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        if self._renewer is not None:
            self._renewer.stop()

    def __enter__(self: G) -> G:
        self._renewer = Renewer(self)
        self._watch_if_wanted()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_renewing()
        try:
            if self.loss is not None:
                raise self.loss
            if not self.over:
                self._end(error)
        except TiebreakError as exc:
            if error is None:
                raise
            error.add_note(f"and meanwhile {exc}")  # the error inside the block matters more


class Claim(Grant):
    """A claimed task. As a context manager it completes the task at the end, or fails it with the exception's text."""

    def __init__(self, board: Board, task: Task, lease: float | str, asked: float) -> None:
        super().__init__(board, lease, asked)
        self.task = task

    @property
    def epoch(self) -> int:
        """The epoch of this claim."""
        return self.task.epoch

    @property
    def created(self) -> bool:
        """Whether this claim also posted the task, because no task had the key."""
        return created_by_claim(self.task)

    def _project(self) -> str:
        return self.task.project

    def _subjects(self) -> list[Subject]:
        return [(self.task.id, self.task.epoch, None)]

    def _params(self) -> dict[str, Any]:
        return {"ref": self.task.id, "project": self.task.project, "epoch": self.task.epoch}

    def _renew(self) -> None:
        self.task = self.board.tasks.extend(lease=self.lease, **self._params())

    def complete(self, result: Any = None, **ack: Any) -> Task:
        """Finish the task; with `ack=True` and so on, announce it in the same step."""
        return self._ended(lambda: self.board.tasks.complete(result=result, **ack, **self._params()))

    def fail(self, reason: str | None = None, *, retry: bool = True) -> Task:
        """Report that this attempt failed."""
        return self._ended(lambda: self.board.tasks.fail(reason=reason, retry=retry, **self._params()))

    def release(self, reason: str | None = None) -> Task:
        """Release the task without using up an attempt."""
        return self._ended(lambda: self.board.tasks.release(reason=reason, **self._params()))

    def _ended(self, action: Callable[[], Task]) -> Task:
        self.task = self._finish(action)
        return self.task

    def _end(self, failed: BaseException | None) -> None:
        if failed is None:
            self.complete()
        elif isinstance(failed, Exception):
            self.fail(plain(f"{type(failed).__name__}: {failed}")[:1000])
        else:
            self.release("interrupted")

    def __repr__(self) -> str:
        return f"<Claim #{self.task.number} {self.task.name!r} epoch={self.epoch}>"


class Holding(Grant):
    """Held resources. As a context manager it releases them at the end."""

    def __init__(self, board: Board, holds: list[Hold], lease: float | str, asked: float, root: str) -> None:
        super().__init__(board, lease, asked)
        self.holds = holds
        self.released: list[Released] = []
        """The board's answer to the release."""
        self._root = root

    @property
    def epoch(self) -> int:
        """The epoch of the first resource."""
        return self.holds[0].epoch

    @property
    def slot(self) -> int:
        """The slot of the first resource, counted from 0."""
        return self.holds[0].slot

    def _project(self) -> str:
        return self.holds[0].project

    def _subjects(self) -> list[Subject]:
        slots = [hold.slot if hold.resource.startswith("pool:") else None for hold in self.holds]
        return [(hold.resource, hold.epoch, slot) for hold, slot in zip(self.holds, slots, strict=True)]

    def _params(self) -> dict[str, Any]:
        return {
            "resources": [hold.resource for hold in self.holds],
            "project": self.holds[0].project,
            "epochs": [hold.epoch for hold in self.holds],
            "slots": [hold.slot for hold in self.holds],
        }

    def _hashes(self) -> list[str | None]:
        return [fingerprint(hold.resource, self._root) for hold in self.holds]

    def _renew(self) -> None:
        self.holds = self.board.holds.renew(lease=self.lease, **self._params())

    def vouch(self) -> None:
        """Renew, and declare the present contents of the files the holder's own.

        `release` then tells whether a file has changed since. It does not know by whom.
        """
        with self._lock:
            asked = elapsed()
            self.holds = self.board.holds.renew(lease=self.lease, hashes=self._hashes(), **self._params())
            self._expires = asked + self.lease

    def release(self) -> list[Released]:
        """Release them; the answer says for each file whether it has changed since it was taken or vouched for."""
        self.released = self._finish(lambda: self.board.holds.release(hashes=self._hashes(), **self._params()))
        return self.released

    def _end(self, failed: BaseException | None) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Holding {', '.join(hold.resource for hold in self.holds)} epoch={self.epoch}>"


class Renewer:
    """Renews a grant every third of its lease, until it is stopped or the grant is lost."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._stopped = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"renew {grant!r}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, after the current renewal: none comes later."""
        self._stopped = True
        self._wake.set()
        self._thread.join()

    def renew_now(self) -> None:
        """Renew without waiting any longer, because the grant may be lost."""
        self._wake.set()

    def _run(self) -> None:
        pause = self._grant.lease / 3
        while self._is_due(pause):
            pause = self._grant.lease / 3
            try:
                self._grant.renew()
            except Refused as exc:
                return self._lose(exc)
            except TiebreakError as exc:
                # The board cannot be reached. Try again soon, as long as the lease may be valid.
                pause = min(1.0, self._grant.lease / 10)
                if self._grant.left() <= 0:
                    return self._lose(Fenced(f"{self._grant!r}: the lease ran out unrenewed ({exc})"))

    def _is_due(self, pause: float) -> bool:
        """Wait until the grant has to be renewed; False if it is not to be renewed any more."""
        self._wake.wait(pause)
        self._wake.clear()
        return not self._stopped and not self._grant.over

    def _lose(self, why: TiebreakError) -> None:
        if self._grant.over:
            return  # it was finished while this renewal waited for the lock
        self._grant.loss = why
        if self._grant.on_loss is not None:
            self._grant.on_loss()
