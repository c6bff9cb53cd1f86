"""What a worker asks the board for, and what it does with the answers.

Everything that is due goes in one batch: reports, heartbeats, claims. While the board cannot be reached, requests are
repeated. When the board was moved, the worker continues at the new address and sends undelivered reports there.

If an answer never came, the worker does not know what the board did: it may hold a job without knowing. So it asks the
board which jobs it holds, and gives back those that it does not know.
"""

from __future__ import annotations

import os

from ..clock import elapsed
from ..errors import Invalid, Refused, TiebreakError
from ..limits import HEARTBEAT, MAX_LIMIT
from ..model import holder_id
from ..names import JOB, short
from .attempt import CANCELLED, LOST, Attempt
from .request_sender import RequestBatch, RequestSender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from ..board import Board
    from .options import WorkerOptions
    from .pending_reports import PendingReports, Say
    from .running_attempts import RunningAttempts

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds before the first, second, … new try to reach the board."""
LAST_TRIES = 60.0
"""Seconds that a stopping worker tries to deliver its last reports, and any worker to reach a moved board."""
_NEVER_HEARD = "given back because its worker never heard that it had it"


class BoardRequests:
    """The requests of one worker, sent by a thread of their own."""

    def __init__(
        self,
        board: Board,
        options: WorkerOptions,
        attempts: RunningAttempts,
        reports: PendingReports,
        say: Say,
        wake: Callable[[], None],
    ) -> None:
        self.heartbeat_every = min(HEARTBEAT, options.lease / 4)
        self._board = board
        self._options = options
        self._attempts = attempts
        self._reports = reports
        self._say = say
        self._sender = RequestSender(board, wake)
        self._wants_claim = True
        self._found_nothing = False
        self._due_asked = False
        self._due_at = float("inf")
        self._waits_for_retries = options.burst and not options.once
        self._retry_possible = self._waits_for_retries
        self._retry_told = 0.0
        self._heartbeat_at = 0.0
        self._retry_at = 0.0
        self._failures = 0
        self._must_look = False
        self._unknown_grants: list[dict[str, Any]] = []
        self._stranded_at = float("inf")
        self._failing = False
        self._file = _file(board)

    # ── What the loop asks and tells ─────────────────────────────────────────────────────────────────

    def next_send(self, now: float) -> float:
        """When `send` has something to do again, if nothing happens before."""
        if self._sender.busy:
            return float("inf")
        times = [max(self._retry_at, min(self._heartbeat_at, self._reports.flush_at))]
        if self._wants_more():
            times.append(self._due_at)
        if now < self._retry_at:
            times.append(self._retry_at)
        return min(times)

    def pending(self) -> bool:
        """Whether something is still to be sent or answered before the worker may end."""
        return bool(self._reports or self._sender.busy or self._must_look or self._unknown_grants)

    def found_nothing(self) -> bool:
        """Whether the last claim won nothing, nothing has happened since, and no retry is due later (for a burst)."""
        return self._found_nothing and not self._wants_claim and not self._retry_possible

    def claim_soon(self) -> None:
        """Claim with the next batch: a job may be ready, or there is more room."""
        self._wants_claim = True

    def claim_if_due(self, now: float) -> None:
        """Claim if a job that was delayed is ready by now."""
        if now >= self._due_at:
            self._due_at = float("inf")
            self._wants_claim = True

    def heartbeat_if_running(self, tasks: Collection[str]) -> None:
        """Send a heartbeat at once if one of these cancelled or broken tasks runs here: its answer ends the job."""
        if tasks and any(attempt.job.id in tasks for attempt in self._attempts):
            self._heartbeat_at = 0.0

    def after_failure(self) -> None:
        """The worker ends because of an error: answers may have been lost, and a board that is gone is no new error."""
        self._failing = self._must_look = True

    def stop(self) -> None:
        """Send no more."""
        self._sender.stop()

    # ── Sending ──────────────────────────────────────────────────────────────────────────────────────

    def send(self) -> None:
        """Send everything that is due in one batch, unless one is under way."""
        now = elapsed()
        if self._sender.busy or now < self._retry_at:
            return
        batch = RequestBatch()
        if self._reports.add_to(batch, now):
            self._wants_claim = True  # jobs that depend on the reported ones may be ready now
        if now >= self._heartbeat_at:
            self._add_heartbeat(batch)
            self._heartbeat_at = now + self.heartbeat_every
        if self._unknown_grants:  # before the claims, which may win these jobs again
            batch.add("jobs.report", {"outcomes": list(self._unknown_grants)}, lambda *_: self._unknown_grants.clear())
            self._wants_claim = True
        if self._wants_claim and self._wants_more():
            self._add_claims(batch)
        if self._due_asked:
            self._due_asked = False
            batch.add("tasks.due", {}, self._due)
            if self._waits_for_retries:
                batch.add("jobs.next_retry", {**self._attempts.runnable(), **self._selection()}, self._next_retry)
        if self._must_look:  # the last call, so that its answer includes what the calls before it did
            filters = {"states": ["claimed"], "kind": JOB, "agent": short(self._board.agent), "limit": MAX_LIMIT}
            batch.add("tasks.list", filters, self._find_unknown_grants)
        if batch.calls:
            self._sender.send(batch)

    def _wants_more(self) -> bool:
        return not self._attempts.stopping and not (self._options.once and self._attempts.begun)

    def _add_heartbeat(self, batch: RequestBatch) -> None:
        batch.add("agents.heartbeat", {}, lambda answer, _: _raise_if_invalid(answer))
        kept = {attempt.key: attempt for attempt in self._attempts}
        self._attempts.kill_strays()
        if kept:
            params = {"grants": [list(key) for key in kept], "lease": self._options.lease}
            batch.add("jobs.heartbeat", params, lambda answer, batch: self._renewed(kept, answer, batch))

    def _add_claims(self, batch: RequestBatch) -> None:
        wanted = self._attempts.room()
        for params in wanted:
            options = {**self._selection(), "lease": self._options.lease}
            batch.add("jobs.next", {**params, **options}, self._granted(params["count"]))
        if wanted:
            self._wants_claim = False
            self._found_nothing = True
            self._retry_possible = self._waits_for_retries
            self._due_at = float("inf")

    def _selection(self) -> dict[str, Any]:
        """The jobs that the operator chose for this worker, as parameters of `jobs.next`."""
        return {"queues": self._options.queues, "tags": self._options.tags}

    # ── Answers ──────────────────────────────────────────────────────────────────────────────────────

    def handle_answers(self) -> None:
        """Handle the batches that have been answered; raises the errors that end a worker."""
        while (batch := self._sender.answered()) is not None:
            self._answered(batch)

    def _answered(self, batch: RequestBatch) -> None:
        trouble = batch.trouble()
        batch.handle_answers()
        if trouble is None:
            self._failures, self._stranded_at = 0, float("inf")
            return
        if not isinstance(trouble, TiebreakError) or isinstance(trouble, (Invalid, Refused)):
            raise trouble
        self._wants_claim, self._found_nothing, self._must_look = True, False, True
        if batch.followed is not None:
            self._followed(batch.followed)
            return
        now = elapsed()
        self._retry_at = now + PAUSES[min(self._failures, len(PAUSES) - 1)]
        self._failures += 1
        self._heartbeat_at = min(self._heartbeat_at, self._retry_at)
        self._say("unreachable", None, trouble)
        self._raise_if_gone(trouble, now)

    def _followed(self, where: str) -> None:
        self._file = _file(self._board)
        self._heartbeat_at = 0.0
        self._attempts.use_address_of(self._board)
        self._say("followed", None, where)

    def _raise_if_gone(self, trouble: TiebreakError, now: float) -> None:
        """Give up on a board whose file was deleted or replaced, or that moved out of reach; a server may come back."""
        if "moved" in trouble.data:
            self._stranded_at = min(self._stranded_at, now)
        if not self._failing and (self._file != _file(self._board) or now >= self._stranded_at + LAST_TRIES):
            raise trouble

    def _renewed(self, kept: dict[tuple[int, int], Attempt], answer: Any, batch: RequestBatch) -> None:
        """Count the new leases, and end the jobs that this worker has lost."""
        if isinstance(answer, Exception):
            _raise_if_invalid(answer)
            return
        gone = {(each["number"], each["epoch"]): each["reason"] for each in answer}
        for key, attempt in kept.items():
            if key not in gone:
                attempt.expires = batch.asked + self._options.lease
        running = {attempt.key for attempt in self._attempts}
        for key in gone.keys() & running:
            cancelled = gone[key] == "cancelled"
            self._attempts.end(kept[key], CANCELLED if cancelled else LOST, kept[key].grace if cancelled else 0.0)

    def _granted(self, count: int) -> Callable[[Any, RequestBatch], None]:
        def then(answer: Any, batch: RequestBatch) -> None:
            if isinstance(answer, Exception):
                _raise_if_invalid(answer)
                return
            if answer:
                self._found_nothing = False
            if len(answer) >= count:
                self._wants_claim = True  # there may be more jobs
            else:
                self._due_asked = True  # ask when the next job is due
            self._attempts.begin([Attempt(job, batch.asked + self._options.lease) for job in answer])

        return then

    def _due(self, answer: Any, _: RequestBatch) -> None:
        if isinstance(answer, (int, float)):
            # A job that is due and was not won is held back by a limit, or meant for other workers.
            self._due_at = elapsed() + max(answer + 0.001, 0.25)

    def _next_retry(self, answer: Any, _: RequestBatch) -> None:
        """Let a burst go on until the next retry. `tasks.due`, which is asked with this, tells the time to claim it."""
        self._retry_possible = isinstance(answer, (int, float))  # a daemon of an older version refuses to tell
        if self._retry_possible and elapsed() + answer > self._retry_told + 0.5:
            self._retry_told = elapsed() + answer
            self._say("waiting", None, {"seconds": round(answer, 3)})

    def _find_unknown_grants(self, answer: Any, _: RequestBatch) -> None:
        """Find the jobs that this worker holds without knowing, because the answer to its claim never came."""
        self._must_look = False
        if isinstance(answer, Exception):
            _raise_if_invalid(answer)
            return
        known = {attempt.key for attempt in self._attempts} | self._reports.keys()
        self._unknown_grants = [
            {
                "number": task.number,
                "epoch": task.epoch,
                "ok": False,
                "result": None,
                "reason": _NEVER_HEARD,
                "drained": True,
            }
            for task in answer
            if holder_id(task) == self._board.agent and (task.number, task.epoch) not in known
        ]
        if self._unknown_grants:
            self._wants_claim = True
            self._say("unheard", None, len(self._unknown_grants))


def _raise_if_invalid(answer: Any) -> None:
    """Handle a call that was refused alone: only `Invalid` means that this worker cannot go on."""
    if isinstance(answer, Invalid):
        raise answer


def _file(board: Board) -> tuple[int, int] | None:
    """The file of a board, by device and inode; None if it is not a file."""
    try:
        found = os.stat(board.engine.path) if board.engine.path is not None else None
    except OSError:
        return None
    return found and (found.st_dev, found.st_ino)
