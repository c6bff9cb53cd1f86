"""The worker's loop: the main thread, which never waits for the board.

It does everything that concerns processes (`running_attempts`). The request sender and the board watcher wait for the
board, in threads of their own; what is asked and answered is decided here (`board_requests`).

Draining: after the first signal, running jobs may finish and no new ones are claimed. After the drain time-out, or at
the second signal, running jobs are ended and given back; their attempts do not count. When the worker cannot go on at
all, it gives back its jobs and exits with an error.
"""

from __future__ import annotations

import os
import selectors
import signal

from .. import process_tree
from ..clock import elapsed
from ..errors import TiebreakError, Unavailable
from ..process_identity import is_shortage
from .board_requests import LAST_TRIES, BoardRequests
from .board_watcher import BoardWatcher
from .pending_reports import PendingReports
from .running_attempts import RunningAttempts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from .options import WorkerOptions
    from .pending_reports import Say

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that ask a worker to stop."""


class Worker:
    """One worker on one board."""

    def __init__(self, board: Board, options: WorkerOptions, say: Say, keeper: int | None = None) -> None:
        self._board = board
        self._options = options
        self._say = say
        self._keeper = keeper
        self._selector = selectors.DefaultSelector()
        self._reports = PendingReports(say)
        self._attempts = RunningAttempts(board, options, self._selector, self._reports, say, self._nothing_starts)
        self._signals = 0
        self._stops = 0
        self._drain_at = float("inf")
        self._give_up_at = float("inf")
        self._failure: TiebreakError | None = None

    def run(self) -> int:
        """Run jobs until told to stop; returns the exit code."""
        process_tree.become_subreaper()
        try:
            self._prepare()
        except BaseException:
            self._attempts.register.close()  # nothing was started
            raise
        try:
            while not self._finished():
                self._round_or_fail()
        finally:
            self._requests.stop()
            self._selector.close()  # looking at processes needs a descriptor
            if process_tree.end_descendants() and self._failure is None and not self._reports.outcomes:
                self._attempts.register.close()  # otherwise it stays, as proof for others that nothing runs
        for outcome, attempt in self._reports.outcomes:
            self._say("undelivered", attempt, outcome)
        if self._failure is not None:
            raise self._failure
        return 0 if not self._reports.outcomes else 3

    def _prepare(self) -> None:
        self._listen()
        try:
            self._requests = BoardRequests(
                self._board, self._options, self._attempts, self._reports, self._say, self._wake
            )
            self._watcher = BoardWatcher(self._board, self._wake, self._requests.heartbeat_every)
        except RuntimeError as exc:  # no more threads
            raise cannot_go_on(exc) from exc
        self._attempts.start_child()

    # ── Rounds ───────────────────────────────────────────────────────────────────────────────────────

    def _round_or_fail(self) -> None:
        """One round of the loop; after an error of the worker itself, its jobs are given back before it ends."""
        try:
            self._round()
        except (TiebreakError, OSError, MemoryError) as exc:
            if self._failure is not None:
                raise cannot_go_on(exc) from exc
            self._fail(exc)

    def _round(self) -> None:
        self._requests.send()
        for key, _ in self._selector.select(self._longest_wait()):
            handle, about = key.data
            handle(key.fd, about)
        self._tick(elapsed())

    def _longest_wait(self) -> float:
        """Seconds until something is due, if nothing happens before."""
        now = elapsed()
        times = [self._attempts.next_look(now), self._requests.next_send(now), self._drain_at]
        if now < self._give_up_at:
            times.append(self._give_up_at)
        return max(0.0, min(times) - now)

    def _tick(self, now: float) -> None:
        """Do what is due, and handle what the other threads and signals have noted."""
        self._attempts.tick(now)
        if self._watcher.error is not None:
            error, self._watcher.error = self._watcher.error, None
            raise error
        if self._attempts.more_room(now):
            self._requests.claim_soon()
        if self._watcher.news:
            self._watcher.news = False
            self._requests.claim_soon()
            self._requests.heartbeat_if_running(self._watcher.take_ended())
        self._requests.claim_if_due(now)
        while self._signals:
            self._signals -= 1
            self._stop()
        if now >= self._drain_at:
            self._drain_at = float("inf")
            self._attempts.end_all()

    def _finished(self) -> bool:
        if any(True for _ in self._attempts):
            return False
        if self._requests.pending():
            return elapsed() >= self._give_up_at
        if self._attempts.stopping or (self._options.once and self._attempts.begun):
            return True
        return self._options.burst and self._requests.found_nothing() and not self._attempts.starting()

    # ── What wakes the loop ──────────────────────────────────────────────────────────────────────────

    def _listen(self) -> None:
        """Let signals, the threads and the keeper wake the loop."""
        self._wake_read, self._wake_write = os.pipe()
        for fd in (self._wake_read, self._wake_write):
            os.set_blocking(fd, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, (self._woken, None))
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in STOPPING:
            signal.signal(number, self._signalled)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        if self._keeper is not None:
            self._selector.register(self._keeper, selectors.EVENT_READ, (self._keeper_killed, None))

    def _signalled(self, *_: Any) -> None:
        self._signals += 1  # handled at the end of the current round

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            pass  # the loop is about to wake up already

    def _woken(self, *_: Any) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass
        self._attempts.reap()
        self._requests.handle_answers()

    # ── Stopping ─────────────────────────────────────────────────────────────────────────────────────

    def _stop(self) -> None:
        """Handle a stop signal: the first lets jobs finish, the second ends them."""
        self._stops += 1
        if self._stops == 1:
            self._say("draining", None, sum(1 for _ in self._attempts))
            self._drain_at = elapsed() + self._options.drain
            self._attempts.drain()
        else:
            self._drain_at = elapsed()
        self._give_up_at = max(elapsed(), self._drain_at) + LAST_TRIES

    def _keeper_killed(self, *_: Any) -> None:
        """End at once: nobody would clean up after this worker."""
        self._selector.unregister(self._keeper or 0)
        self._stops += 1
        self._attempts.drain()
        self._give_up_at = elapsed() + LAST_TRIES
        self._attempts.kill_all()

    def _nothing_starts(self, why: OSError) -> None:
        """End, because no command could be started several times in a row."""
        if self._failure is None:
            self._fail(why)

    def _fail(self, why: BaseException) -> None:
        """Give back all jobs, and end with this error."""
        self._failure = cannot_go_on(why)
        self._say("failing", None, self._failure)
        self._stops += 1
        self._drain_at = float("inf")
        # Without a board there is nobody to report to.
        self._give_up_at = elapsed() + (0.0 if isinstance(why, Unavailable) else LAST_TRIES)
        self._requests.after_failure()
        self._attempts.drain()
        self._attempts.end_all(self._options.lease / 4)


def cannot_go_on(why: BaseException) -> TiebreakError:
    """The error that ends a worker, with its exit code."""
    if isinstance(why, TiebreakError):
        return why
    what = getattr(why, "strerror", None) or str(why) or type(why).__name__
    return Unavailable(f"this worker cannot go on: {what}", reason="worker-short" if _is_ours(why) else "")


def _is_ours(why: BaseException) -> bool:
    """Whether an error means that this worker lacks threads, processes, memory or descriptors."""
    return isinstance(why, (MemoryError, RuntimeError)) or (isinstance(why, OSError) and is_shortage(why))
