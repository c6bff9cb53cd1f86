"""The attempts that this worker runs: it starts them, ends them in time, and counts how many fit.

An attempt is ended when its time-out is over, and before its lease ends by this machine's clock, even if the board does
not answer. A job that cannot be started because the worker lacks descriptors, processes or memory is given back, its
attempt does not count, and the worker runs fewer jobs at once.
"""

from __future__ import annotations

import os
import signal

from .. import process_tree
from ..clock import elapsed
from ..errors import Invalid
from ..limits import MAX_COUNT
from ..process_identity import is_shortage
from .attempt import DRAINED, KEEPER_KILLED, LATE, LOST, SHORT, TIMED_OUT, Attempt
from .capacity import Capacity
from .command_runner import FRESH, CommandRunner, reap
from .function_runner import FunctionRunner
from .job_processes import JobProcesses
from .leftover_processes import end_earlier
from .register import Register

TYPE_CHECKING = False
if TYPE_CHECKING:
    import selectors
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ..board import Board
    from .options import WorkerOptions
    from .pending_reports import PendingReports, Say

LONG = 60.0
"""Longest time in seconds until the attempts are looked at again."""
REMEMBERED = 10_000
"""Most ended jobs that a worker remembers, to know that it ran their latest attempt itself."""


class RunningAttempts:
    """The jobs that this worker has claimed and not finished."""

    def __init__(
        self,
        board: Board,
        options: WorkerOptions,
        selector: selectors.BaseSelector,
        reports: PendingReports,
        say: Say,
        nothing_starts: Callable[[OSError], None],
    ) -> None:
        self.stopping = False
        """Whether no more jobs may begin."""
        self.begun = 0
        """How many jobs were claimed and not given back before they began."""
        self._options = options
        self._reports = reports
        self._say = say
        self._nothing_starts = nothing_starts
        self._environment = _environment(board)
        self.register = Register(self._environment["TIEBREAK_BOARD"])
        self._processes = JobProcesses()
        self._capacity = Capacity(options.concurrency)
        shared = (selector, self._processes, self.register, self._environment, self._done, reports.wrote)
        self._commands = CommandRunner(*shared)
        self._functions = FunctionRunner(*shared, options.modules, options.concurrency)
        self._ended: dict[str, int] = {}
        self._deadline = 0.0
        # A job is ended this long before its lease ends, and its grace period earlier still.
        self._margin = min(1.0, options.lease / 20)

    def __iter__(self) -> Iterator[Attempt]:
        yield from self._commands.running.values()
        yield from self._functions.attempts()

    # ── Beginning ────────────────────────────────────────────────────────────────────────────────────

    def start_child(self) -> None:
        """Start the first child for functions, if the operator named modules."""
        if self._options.modules:
            self._functions.start()

    def starting(self) -> bool:
        """Whether functions are to be run and no child is ready for them yet."""
        return bool(self._options.modules) and not self._functions.ready()

    def room(self) -> list[dict[str, Any]]:
        """How many jobs of which kind to claim now, as parameters of `jobs.next`: commands, and known functions."""
        free = self._capacity.most - len(self._commands.running)
        names, room = self._functions.names, min(MAX_COUNT, self._functions.room())
        if self._options.once:
            ready = self._capacity.most and not self.starting()
            return [{"count": 1, **self.runnable()}] if ready else []
        wanted: list[dict[str, Any]] = [{"count": min(MAX_COUNT, free)}] if free > 0 else []
        return [*wanted, {"count": room, "calls": names}] if names and room > 0 else wanted

    def runnable(self) -> dict[str, Any]:
        """The kinds of jobs that this worker can run, as parameters of `jobs.next`: commands, and known functions."""
        return {"commands": True, "calls": self._functions.names}

    def more_room(self, now: float) -> bool:
        """Whether one more command is allowed from now on, or a child has become ready."""
        news, self._functions.news = self._functions.news, False
        return self._capacity.grow(now) or news

    def begin(self, attempts: list[Attempt]) -> None:
        """Start the jobs that were just claimed, or give back those that may not begin."""
        self.begun += len(attempts)
        calls = []
        self._end_earlier([each for each in attempts if not each.is_function and self._may_run(each)])
        for attempt in attempts:
            if self.stopping:  # told to stop while the claim was under way
                self._give_back(attempt, DRAINED)
            elif elapsed() >= self._last_moment(attempt):  # the lease has ended: somebody else may have the job by now
                self._give_back(attempt, LATE)
            elif attempt.is_function:
                self._say("begun", attempt, None)
                calls.append(attempt)
            elif len(self._commands.running) >= self._capacity.most:  # lowered while the claim was under way
                self._give_back(attempt, SHORT)
            else:
                self._start(attempt)
        if calls and not self.stopping:
            self._functions.offer(calls)
        elif calls:  # a command among them could not be started, and the worker is ending
            for attempt in calls:
                self._give_back(attempt, DRAINED)
        self._deadline = 0.0

    def _may_run(self, attempt: Attempt) -> bool:
        """Whether an earlier attempt at this job, by another worker, may still run."""
        return attempt.job.epoch > 1 and self._ended.get(attempt.job.id) != attempt.job.epoch - 1

    def _end_earlier(self, attempts: list[Attempt]) -> None:
        if attempts:
            epochs = {each.job.id: each.job.epoch for each in attempts}
            # Bounded, so that the leases of running jobs are renewed in time.
            end_earlier(epochs, self._environment["TIEBREAK_BOARD"], min(2.0, self._options.lease / 10))

    def _start(self, attempt: Attempt) -> None:
        try:
            self._commands.start(attempt)
        except OSError as exc:
            self._give_back(attempt, SHORT)
            self._lower(exc)
        else:
            self._capacity.started()
            self._say("begun", attempt, None)

    def _give_back(self, attempt: Attempt, why: int) -> None:
        """Give a job back that has not begun."""
        attempt.why = why
        self.begun -= 1
        self._reports.done(attempt, attempt.outcome(False))
        self._say("unbegun", attempt, None)

    def _lower(self, why: OSError) -> None:
        """Run fewer jobs at once, because one could not be started."""
        enough = self._capacity.lower(len(self._commands.running), elapsed())
        self._say("short", None, f"{why.strerror or why}; {self._capacity}")
        if not enough:
            self._nothing_starts(why)

    # ── Time ─────────────────────────────────────────────────────────────────────────────────────────

    def next_look(self, now: float) -> float:
        """When `tick` has something to do again."""
        times = [self._deadline, self._capacity.again_at]
        if self._functions.backlog:
            times.append(now + 0.05)
        if self._commands.fresh:
            times.append(self._commands.fresh[0].since + FRESH)
        return min(times)

    def tick(self, now: float) -> None:
        """End what is due, and go on with what is being started or ended."""
        if now >= self._deadline:
            self.reap()  # a job that ended by itself meanwhile must not count as ended by this worker
            self._expire(now)
            self._commands.tick(now)
            self._functions.tick(now)
            self._deadline = min((time for each in self for time in self._deadlines(each)), default=now + LONG)
        self._commands.poll_fresh(now)
        self._functions.start_if_needed(now)
        if self._functions.broken:
            broken, self._functions.broken = self._functions.broken, None
            raise Invalid(f"{self._options.module_called} {broken}", reason="module-broken")
        if self._functions.short is not None:
            why, self._functions.short = self._functions.short, None
            if not self._functions.processes:
                self._lower(why)

    def _expire(self, now: float) -> None:
        """End the attempts whose time-out or lease is over."""
        for attempt in list(self):
            if attempt.why != LOST and now >= self._last_moment(attempt):
                self.end(attempt, LOST, attempt.expires - self._margin - now)
            elif attempt.timeout is not None and not attempt.why:
                began = _began(attempt)
                if began is not None and now >= began + attempt.timeout:
                    self.end(attempt, TIMED_OUT, attempt.grace)

    def _deadlines(self, attempt: Attempt) -> Iterator[float]:
        if attempt.kill_at is not None:
            exited = attempt.command_process is not None and attempt.command_process.exited
            yield min(attempt.kill_at, elapsed() + 0.02) if exited else attempt.kill_at
        if attempt.why != LOST:
            yield self._last_moment(attempt)
        if attempt.timeout is not None and not attempt.why:
            began = _began(attempt)
            yield (elapsed() if began is None else began) + attempt.timeout

    def _last_moment(self, attempt: Attempt) -> float:
        """When an attempt has to be ended, so that it is gone before its lease ends."""
        return attempt.expires - self._margin - min(attempt.grace, self._options.lease / 4)

    # ── Ending ───────────────────────────────────────────────────────────────────────────────────────

    def reap(self) -> None:
        """Handle the children that have ended."""
        for pid, status, usage in reap():
            if pid in self._commands.running:
                self._commands.exited(pid, status, usage)
            elif pid in self._functions.processes:
                self._functions.exited(pid, status)
            else:
                self._processes.discard(pid)
            self._deadline = 0.0

    def end(self, attempt: Attempt, why: int, grace: float) -> None:
        """End an attempt; it is over when none of its processes is left."""
        if attempt.why < why:
            self._say("ending", attempt, why)
        if attempt.command_process is not None:
            self._commands.end(attempt, why, grace)
        else:
            self._functions.end(attempt, why, grace)
        self._deadline = 0.0

    def drain(self) -> None:
        """Begin no more jobs, and give back the calls that wait; what runs may finish."""
        self.stopping = True
        self._functions.drain()

    def end_all(self, longest: float = float("inf")) -> None:
        """End what runs. Each job has the grace period that it asked for, or the `longest` if that is shorter."""
        for attempt in list(self):
            self.end(attempt, DRAINED, min(attempt.grace, longest))

    def kill_all(self) -> None:
        """Kill what runs, because the keeper was killed."""
        for attempt in list(self):
            self.end(attempt, DRAINED if _began(attempt) is None else KEEPER_KILLED, 0.0)

    def _done(self, attempt: Attempt, outcome: dict[str, Any] | None) -> None:
        """An attempt has ended, and no process of it is left."""
        if attempt.kills:
            self.kill_strays([attempt])
        self._ended[attempt.job.id] = attempt.job.epoch
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]
        self._reports.done(attempt, outcome)
        self._say("done", attempt, outcome)

    def kill_strays(self, over: Iterable[Attempt] = ()) -> None:
        """Kill the processes that no running job can have started; `over` are attempts that have just ended."""
        calls = [each.mark for each in self._functions.attempts()]
        try:
            if self._processes.has_orphans():
                process_tree.signal_tree(self._processes.strays(calls, [each.mark for each in over]), signal.SIGKILL)
        except OSError as exc:
            if not is_shortage(exc):
                raise  # otherwise it is tried again with the next heartbeat

    # ── A moved board ────────────────────────────────────────────────────────────────────────────────

    def use_address_of(self, board: Board) -> None:
        """Tell jobs and other workers the new address of the board."""
        self._environment.update(_environment(board))
        address = self._environment["TIEBREAK_BOARD"]
        self.register.moved(address)
        self._functions.set_environment({"TIEBREAK_BOARD": address})


def _began(attempt: Attempt) -> float | None:
    """When an attempt began to run; None for a function that waits for its turn."""
    if attempt.command_process is not None:
        return attempt.since
    process = attempt.function_process
    return process.begun if process is not None and process.first() is attempt else None


def _environment(board: Board) -> dict[str, str]:
    return {
        **os.environ,
        "TIEBREAK_AGENT": board.agent,
        "TIEBREAK_WORKER": board.agent,
        "TIEBREAK_PROJECT": board.project,
        "TIEBREAK_BOARD": board.engine.full_address,
    }
