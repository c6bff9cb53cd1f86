"""Output and outcomes of jobs that the board has not received yet."""

from __future__ import annotations

from ..clock import elapsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .attempt import Attempt
    from .request_sender import RequestBatch

    Pair = tuple[dict[str, Any], Attempt]
    """An outcome and its attempt."""
    Say = Callable[[str, Attempt | None, Any], None]

FLUSH = 0.2
"""Longest time in seconds that output waits."""
MOST = 200
"""Most outcomes in one batch."""
LARGEST = 384 * 1024
"""Most bytes in one batch, roughly: a daemon accepts at most a megabyte."""


class PendingReports:
    """What is still to be reported, and how it goes into batches."""

    def __init__(self, say: Say) -> None:
        self.outcomes: list[Pair] = []
        self.flush_at = float("inf")
        """When the waiting output has to be sent."""
        self._say = say
        self._written: dict[tuple[int, int], Attempt] = {}
        self._send_singly = 0
        """How many reports to send one by one."""

    def __bool__(self) -> bool:
        return bool(self.outcomes or self._written)

    def keys(self) -> set[tuple[int, int]]:
        """The attempts whose outcome has not been delivered."""
        return {attempt.key for _, attempt in self.outcomes}

    def wrote(self, attempt: Attempt) -> None:
        """A job has written something."""
        self._written[attempt.key] = attempt
        self.flush_at = 0.0 if attempt.output.urgent() else min(self.flush_at, elapsed() + FLUSH)

    def done(self, attempt: Attempt, outcome: dict[str, Any] | None) -> None:
        """A job has ended; without an outcome there is nothing to report, and its output is dropped."""
        if outcome is None:
            self._written.pop(attempt.key, None)
            return
        self.outcomes.append((outcome, attempt))
        if attempt.output.waiting:
            self._written[attempt.key] = attempt

    def add_to(self, batch: RequestBatch, now: float) -> bool:
        """Add what is due to a batch; whether that includes an outcome."""
        most = 1 if self._send_singly else MOST
        outcomes, self.outcomes = self.outcomes[:most], self.outcomes[most:]
        size = self._add_output(batch, now, [attempt for _, attempt in outcomes])
        # An outcome waits until all output of its job has gone: the board accepts no output after the report.
        ready = [pair for pair in outcomes if not pair[1].output.waiting]
        self.outcomes[:0] = [pair for pair in outcomes if pair[1].output.waiting]
        if ready:
            self._add_report(batch, ready, LARGEST - size)
        return bool(ready)

    # ── Output ───────────────────────────────────────────────────────────────────────────────────────

    def _add_output(self, batch: RequestBatch, now: float, ending: list[Attempt]) -> int:
        due = list(self._written.values()) if now >= self.flush_at else [a for a in ending if a.key in self._written]
        size = 0
        for attempt in due:
            if size < LARGEST:
                size += self._append(batch, attempt)
        if now >= self.flush_at:
            self.flush_at = now + FLUSH if self._written else float("inf")
        return size

    def _append(self, batch: RequestBatch, attempt: Attempt) -> int:
        chunks = attempt.output.take()
        if not attempt.output.waiting:
            self._written.pop(attempt.key, None)
        if not chunks:
            return 0

        def again() -> None:
            attempt.output.put_back(chunks)
            self.wrote(attempt)

        params = {"ref": attempt.job.id, "project": attempt.job.project, "epoch": attempt.job.epoch, "chunks": chunks}
        # Refused output is dropped: this worker has lost the job, which the heartbeat tells.
        batch.add("jobs.append", params, lambda *_: None, again)
        return sum(len(chunk["text"]) for chunk in chunks)

    # ── Outcomes ─────────────────────────────────────────────────────────────────────────────────────

    def _add_report(self, batch: RequestBatch, pairs: list[Pair], room: int) -> None:
        taken = 0
        for outcome, _ in pairs:
            room -= 200 + (len(repr(outcome["result"])) if outcome["result"] is not None else 0)
            if room < 0 and taken:
                break
            taken += 1
        pairs, later = pairs[:taken], pairs[taken:]
        self.outcomes[:0] = later

        def again() -> None:
            self.outcomes[:0] = pairs

        outcomes = [outcome for outcome, _ in pairs]
        batch.add("jobs.report", {"outcomes": outcomes}, lambda answer, _: self._reported(pairs, answer), again)

    def _reported(self, pairs: list[Pair], answer: Any) -> None:
        self._send_singly = max(0, self._send_singly - 1)
        if isinstance(answer, Exception):
            self._not_taken(pairs, answer)
            return
        for (outcome, attempt), verdict in zip(pairs, answer, strict=True):
            if not verdict["accepted"]:
                self._say("refused", attempt, verdict["reason"])
            elif not outcome["ok"]:
                self._say("told", attempt, verdict)

    def _not_taken(self, pairs: list[Pair], why: Exception) -> None:
        """The board cannot store a report, for example because of a result that is not valid JSON for it."""
        if len(pairs) > 1:
            self.outcomes[:0] = pairs
            self._send_singly = len(pairs)  # sent one by one, so that only the wrong one fails
            return
        outcome, attempt = pairs[0]
        if outcome["ok"]:
            reason = attempt.sentence(f"its result cannot be stored ({why})")
            self.outcomes.append(({**outcome, "ok": False, "result": None, "reason": reason}, attempt))
        else:
            self._say("refused", attempt, str(why))
