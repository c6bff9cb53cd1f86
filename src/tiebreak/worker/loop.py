"""The worker's loop: it claims jobs, looks after their processes, renews their leases, and reports.

One thread does everything that concerns processes. It never waits for the board; the request sender and the board
watcher do. When the lease of a job runs out by this machine's clock, this thread ends the job, even if the board does
not answer.

Draining: after the first signal, running jobs may finish and no new ones are claimed. After the drain time-out, or at
the second signal, running jobs are ended and given back; their attempts do not count.

A job that cannot be started because the worker lacks descriptors, processes or memory is given back, its attempt does
not count, and the worker runs fewer jobs at once. When the worker cannot go on at all, it gives back its jobs and exits
with an error. When the board was moved, the worker continues at the new address and sends undelivered reports there.

If an answer never came, the worker does not know what the board did: it may hold a job without knowing. So it asks the
board which jobs it holds, and gives back those that it does not know.
"""

from __future__ import annotations

import os
import selectors
import signal

from .. import process_tree
from ..clock import elapsed
from ..errors import Invalid, Refused, TiebreakError, Unavailable
from ..limits import DRAIN, HEARTBEAT, JOB_LEASE
from ..model import holder_id
from ..names import short
from ..process_identity import is_shortage
from .attempt import CANCELLED, DRAINED, KEEPER_KILLED, LATE, LOST, SHORT, TIMED_OUT, Attempt
from .board_watcher import BoardWatcher
from .capacity import Capacity
from .command_runner import FRESH, CommandRunner, reap
from .function_runner import FunctionRunner
from .job_processes import JobProcesses
from .leftover_processes import end_earlier
from .pending_reports import PendingReports
from .register import Register
from .request_sender import RequestBatch, RequestSender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..board import Board

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that ask a worker to stop."""
LONG = 60.0
"""Longest wait in seconds when nothing is due."""
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds before the first, second, … new try to reach the board."""
LAST_TRIES = 60.0
"""Seconds that a stopping worker tries to deliver its last reports, and any worker to reach a moved board."""
REMEMBERED = 10_000
"""Most ended jobs that a worker remembers, to know that it ran their latest attempt itself."""
_NEVER_HEARD = "given back because its worker never heard that it had it"


class WorkerOptions:
    """What the operator can choose (see `tb work --help`)."""

    def __init__(
        self,
        *,
        queues: list[str] | None = None,
        tags: list[str] | None = None,
        modules: list[str] | None = None,
        concurrency: int = 1,
        lease: float = JOB_LEASE,
        drain: float = DRAIN,
        burst: bool = False,
        once: bool = False,
    ) -> None:
        self.queues = queues or None
        self.tags = tags or None
        self.modules = modules or []
        self.concurrency = concurrency
        self.lease = lease
        self.drain = drain
        self.burst = burst or once
        self.once = once


class Worker:
    """One worker on one board."""

    def __init__(
        self,
        board: Board,
        options: WorkerOptions,
        said: Callable[[str, Attempt | None, Any], None],
        keeper: int | None = None,
    ) -> None:
        self._board = board
        self._options = options
        self._say = said
        self._keeper = keeper
        self._reports = PendingReports(said)
        self._selector = selectors.DefaultSelector()
        self._processes = JobProcesses()
        self._capacity = Capacity(options.concurrency)
        self._environment = _environment(board)
        self._register = Register(self._environment["TIEBREAK_BOARD"])
        self._commands = CommandRunner(
            self._selector, self._processes, self._register, self._environment, self._done, self._reports.wrote
        )
        self._functions = FunctionRunner(
            self._selector,
            self._processes,
            self._register,
            self._environment,
            self._done,
            self._reports.wrote,
            options.modules,
            options.concurrency,
        )
        self._wants_claim = True
        self._found_nothing = False
        self._due_asked = False
        self._due_at = float("inf")
        self._deadline = 0.0
        self._signals = 0
        self._heartbeat_at = 0.0
        self._retry_at = 0.0
        self._failures = 0
        self._stops = 0
        self._won = 0
        self._drain_at = float("inf")
        self._give_up_at = float("inf")
        self._failure: TiebreakError | None = None
        self._must_look = False
        self._unknown_grants: list[dict[str, Any]] = []
        self._stranded_at = float("inf")
        self._ended: dict[str, int] = {}
        self._file = _file(board)
        # A job is ended this long before its lease ends, and its grace period earlier still.
        self._margin = min(1.0, options.lease / 20)
        self._heartbeat_every = min(HEARTBEAT, options.lease / 4)

    # ── The loop ─────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> int:
        """Run jobs until told to stop; returns the exit code."""
        process_tree.become_subreaper()
        try:
            self._prepare()
        except BaseException:
            self._register.close()  # nothing was started
            raise
        try:
            while not self._finished():
                self._round_or_fail()
        finally:
            self._sender.stop()
            self._selector.close()  # looking at processes needs a descriptor
            if process_tree.end_descendants() and self._failure is None and not self._reports.outcomes:
                self._register.close()  # otherwise it stays, as proof for others that nothing runs
        for outcome, attempt in self._reports.outcomes:
            self._say("undelivered", attempt, outcome)
        if self._failure is not None:
            raise self._failure
        return 0 if not self._reports.outcomes else 3

    def _prepare(self) -> None:
        self._listen()
        try:
            self._sender = RequestSender(self._board, self._wake)
            self._watcher = BoardWatcher(self._board, self._wake, self._heartbeat_every)
        except RuntimeError as exc:  # no more threads
            raise cannot_go_on(exc) from exc
        if self._options.modules:
            self._functions.start()

    def _round_or_fail(self) -> None:
        """One round of the loop; after an error of the worker itself, its jobs are given back before it ends."""
        try:
            self._round()
        except (TiebreakError, OSError, MemoryError) as exc:
            if self._failure is not None:
                raise cannot_go_on(exc) from exc
            self._fail(exc)

    def _round(self) -> None:
        self._send()
        for key, _ in self._selector.select(self._patience()):
            handle, about = key.data
            handle(key.fd, about)
        self._tick(elapsed())

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
            self._selector.register(self._keeper, selectors.EVENT_READ, (self._orphaned, None))

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
        self._reap()
        while (batch := self._sender.answered()) is not None:
            self._answered(batch)

    def _reap(self) -> None:
        """Handle the children that have ended."""
        for pid, status, usage in reap():
            if pid in self._commands.running:
                self._commands.exited(pid, status, usage)
            elif pid in self._functions.processes:
                self._functions.exited(pid, status)
            else:
                self._processes.discard(pid)
            self._deadline = 0.0

    def _patience(self) -> float:
        now = elapsed()
        times = [self._deadline, self._drain_at, self._capacity.again_at]
        if now < self._give_up_at:
            times.append(self._give_up_at)
        if not self._sender.busy:
            times += [max(self._retry_at, min(self._heartbeat_at, self._reports.flush_at))]
            if self._wants_more():
                times.append(self._due_at)
            if now < self._retry_at:
                times.append(self._retry_at)
        if self._functions.backlog:
            times.append(now + 0.05)
        if self._commands.fresh:
            times.append(self._commands.fresh[0].since + FRESH)
        return max(0.0, min(times) - now)

    def _finished(self) -> bool:
        if any(True for _ in self._attempts()):
            return False
        if self._reports or self._sender.busy or self._must_look or self._unknown_grants:
            return elapsed() >= self._give_up_at
        if self._stops or (self._options.once and self._won):
            return True
        return self._options.burst and self._found_nothing and not self._wants_claim and not self._starting()

    def _starting(self) -> bool:
        """Whether no child is ready to run functions yet."""
        return bool(self._options.modules) and not self._functions.ready()

    # ── Time ─────────────────────────────────────────────────────────────────────────────────────────

    def _attempts(self) -> Iterator[Attempt]:
        yield from self._commands.running.values()
        yield from self._functions.attempts()

    def _deadlines(self, attempt: Attempt) -> Iterator[float]:
        if attempt.kill_at is not None:
            over = attempt.command_process is not None and attempt.command_process.over
            yield min(attempt.kill_at, elapsed() + 0.02) if over else attempt.kill_at
        if attempt.why != LOST:
            yield self._last_moment(attempt)
        if attempt.timeout is not None and not attempt.why:
            # The time-out of a call counts from its beginning.
            yield (attempt.since if self._runs(attempt) else elapsed()) + attempt.timeout

    def _runs(self, attempt: Attempt) -> bool:
        if attempt.function_process is None:
            return attempt.command_process is not None
        if attempt.function_process.first() is not attempt:
            return False
        attempt.since = attempt.function_process.begun
        return True

    def _grace(self, attempt: Attempt) -> float:
        return min(attempt.grace, self._options.lease / 4)

    def _last_moment(self, attempt: Attempt) -> float:
        """When a job has to be ended, so that it is gone before its lease ends."""
        return attempt.expires - self._margin - self._grace(attempt)

    def _tick(self, now: float) -> None:
        if now >= self._deadline:
            self._reap()  # a job that ended by itself meanwhile must not count as ended by this worker
            self._expire(now)
            self._commands.tick(now)
            self._functions.tick(now)
            self._deadline = min(
                (time for each in self._attempts() for time in self._deadlines(each)), default=now + LONG
            )
        self._commands.listen(now)
        self._functions.start_if_needed(now)
        if self._functions.broken:
            broken, self._functions.broken = self._functions.broken, None
            raise Invalid(broken, hint="--import names modules as Python's import does")
        if self._functions.short is not None:
            why, self._functions.short = self._functions.short, None
            if not self._functions.processes:
                self._lower(why)
        if self._watcher.error is not None:
            error, self._watcher.error = self._watcher.error, None
            raise error
        if self._capacity.grow(now):
            self._wants_claim = True
        if self._watcher.news or self._functions.news:
            self._watcher.news = self._functions.news = False
            self._wants_claim = True
            self._cancel()
        if now >= self._due_at:
            self._due_at = float("inf")
            self._wants_claim = True
        while self._signals:
            self._signals -= 1
            self._stop()
        if now >= self._drain_at:
            self._drain_at = float("inf")
            self._force(None)

    def _expire(self, now: float) -> None:
        """End the jobs whose time-out or lease is over."""
        for attempt in list(self._attempts()):
            if attempt.why != LOST and now >= self._last_moment(attempt):
                self._end(attempt, LOST, attempt.expires - self._margin - now)
            elif self._late(attempt, now):
                self._end(attempt, TIMED_OUT, attempt.grace)

    def _late(self, attempt: Attempt, now: float) -> bool:
        if attempt.timeout is None or attempt.why or not self._runs(attempt):
            return False
        return now >= attempt.since + attempt.timeout

    def _cancel(self) -> None:
        """Send a heartbeat at once if one of these jobs was cancelled: its answer ends the job."""
        if not self._watcher.cancelled:
            return
        gone = set(self._watcher.cancelled)
        self._watcher.cancelled.clear()
        if any(attempt.job.id in gone for attempt in self._attempts()):
            self._heartbeat_at = 0.0

    def _end(self, attempt: Attempt, why: int, grace: float) -> None:
        if attempt.why < why:
            self._say("ending", attempt, why)
        if attempt.command_process is not None:
            self._commands.end(attempt, why, grace)
        else:
            self._functions.end(attempt, why, grace)
        self._deadline = 0.0

    # ── Stopping ─────────────────────────────────────────────────────────────────────────────────────

    def _stop(self) -> None:
        """Handle a stop signal: the first lets jobs finish, the second ends them."""
        self._stops += 1
        if self._stops == 1:
            self._say("draining", None, sum(1 for _ in self._attempts()))
            self._drain_at = elapsed() + self._options.drain
            self._functions.drain()
        else:
            self._drain_at = elapsed()
        self._give_up_at = max(elapsed(), self._drain_at) + LAST_TRIES

    def _orphaned(self, *_: Any) -> None:
        """The keeper was killed: nobody would clean up after this worker, so it ends at once."""
        self._selector.unregister(self._keeper or 0)
        self._stops += 1
        self._functions.drain()
        self._give_up_at = elapsed() + LAST_TRIES
        for attempt in list(self._attempts()):
            self._end(attempt, KEEPER_KILLED if self._runs(attempt) else DRAINED, 0.0)

    def _force(self, grace: float | None) -> None:
        for attempt in list(self._attempts()):
            self._end(attempt, DRAINED, attempt.grace if grace is None else grace)

    def _fail(self, why: BaseException) -> None:
        """Give back all jobs, and end with this error."""
        self._failure = cannot_go_on(why)
        self._say("failing", None, self._failure)
        self._stops += 1
        self._drain_at = float("inf")
        # Without a board there is nobody to report to.
        self._give_up_at = elapsed() + (0.0 if isinstance(why, Unavailable) else LAST_TRIES)
        self._must_look = True  # answers may have been lost
        self._functions.drain()
        for attempt in list(self._attempts()):
            self._end(attempt, DRAINED, self._grace(attempt))

    # ── Shortages ────────────────────────────────────────────────────────────────────────────────────

    def _lower(self, why: OSError) -> None:
        """Run fewer jobs at once, because the last one could not be started; if none can be, end."""
        enough = self._capacity.lower(len(self._commands.running), elapsed())
        self._say("short", None, f"{why.strerror or why}; {self._capacity}")
        if not enough and self._failure is None:
            self._fail(why)

    # ── Requests ─────────────────────────────────────────────────────────────────────────────────────────

    def _done(self, attempt: Attempt, outcome: dict[str, Any] | None) -> None:
        """An attempt has ended, and no process of it is left."""
        if attempt.stubborn:
            self._kill_strays([attempt])
        self._ended[attempt.job.id] = attempt.job.epoch
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]
        self._reports.done(attempt, outcome)
        self._say("done", attempt, outcome)

    def _kill_strays(self, over: list[Attempt]) -> None:
        """Kill the processes that no running job can have started."""
        calls = [each.mark for each in self._functions.attempts()]
        try:
            if self._processes.strangers():
                process_tree.signal_tree(self._processes.strays(calls, [each.mark for each in over]), signal.SIGKILL)
        except OSError as exc:
            if not is_shortage(exc):
                raise  # otherwise it is tried again with the next heartbeat

    def _wants_more(self) -> bool:
        return not self._stops and not (self._options.once and self._won)

    def _send(self) -> None:
        """Send everything that is due in one batch, unless one is under way."""
        now = elapsed()
        if self._sender.busy or now < self._retry_at:
            return
        batch = RequestBatch()
        if self._reports.add_to(batch, now):
            self._wants_claim = True  # jobs that depend on the reported ones may be ready now
        if now >= self._heartbeat_at:
            self._add_heartbeat(batch)
            self._heartbeat_at = now + self._heartbeat_every
        if self._unknown_grants:  # before the claims, which may win these jobs again
            batch.add("jobs.report", {"outcomes": list(self._unknown_grants)}, lambda *_: self._unknown_grants.clear())
            self._wants_claim = True
        if self._wants_claim and self._wants_more():
            self._add_claims(batch)
        if self._due_asked:
            self._due_asked = False
            batch.add("tasks.due", {}, self._due)
        if self._must_look:  # the last call, so that its answer includes what the calls before it did
            filters = {"states": ["claimed"], "kind": "job", "agent": short(self._board.agent), "limit": 1000}
            batch.add("tasks.list", filters, self._look_through)
        if batch.calls:
            self._sender.send(batch)

    def _look_through(self, answer: Any, _: RequestBatch) -> None:
        """Find the jobs that this worker holds without knowing, because the answer to its claim never came."""
        self._must_look = False
        if isinstance(answer, Exception):
            self._refused(answer)
            return
        known = {attempt.key for attempt in self._attempts()} | self._reports.keys()
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

    def _add_heartbeat(self, batch: RequestBatch) -> None:
        batch.add("agents.heartbeat", {}, lambda answer, _: self._refused(answer))
        kept = {attempt.key: attempt for attempt in self._attempts()}
        self._kill_strays([])
        if not kept:
            return

        def then(answer: Any, batch: RequestBatch) -> None:
            if isinstance(answer, Exception):
                self._refused(answer)
                return
            gone = {(each["number"], each["epoch"]): each["reason"] for each in answer}
            for key, attempt in kept.items():
                if key not in gone:
                    attempt.expires = batch.asked + self._options.lease
            running = {attempt.key for attempt in self._attempts()}
            for key in gone.keys() & running:
                cancelled = gone[key] == "cancelled"
                self._end(kept[key], CANCELLED if cancelled else LOST, kept[key].grace if cancelled else 0.0)

        grants = [list(key) for key in kept]
        batch.add("jobs.heartbeat", {"grants": grants, "lease": self._options.lease}, then)

    def _add_claims(self, batch: RequestBatch) -> None:
        wanted = self._wanted()
        for params in wanted:
            options = {"queues": self._options.queues, "tags": self._options.tags, "lease": self._options.lease}
            batch.add("jobs.next", {**params, **options}, self._granted(params["count"]))
        if wanted:
            self._wants_claim = False
            self._found_nothing = True
            self._due_at = float("inf")

    def _wanted(self) -> list[dict[str, Any]]:
        """Parameters of the claims to make: for commands, and for functions that this worker knows."""
        free = self._capacity.most - len(self._commands.running)
        names, room = self._functions.names, min(100, self._functions.room())
        if self._options.once:
            ready = self._capacity.most and not self._starting()
            return [{"count": 1, "commands": True, "calls": names}] if ready else []
        wanted: list[dict[str, Any]] = [{"count": min(100, free)}] if free > 0 else []
        return [*wanted, {"count": room, "calls": names}] if names and room > 0 else wanted

    def _granted(self, count: int) -> Callable[[Any, RequestBatch], None]:
        def then(answer: Any, batch: RequestBatch) -> None:
            if isinstance(answer, Exception):
                self._refused(answer)
                return
            if answer:
                self._found_nothing = False
                self._won += len(answer)
            if len(answer) >= count:
                self._wants_claim = True  # there may be more jobs
            else:
                self._due_asked = True  # ask when the next job is due
            self._begin([Attempt(job, batch.asked + self._options.lease) for job in answer])

        return then

    def _begin(self, attempts: list[Attempt]) -> None:
        calls = []
        earlier = {each.job.id: each.job.epoch for each in attempts if not each.is_function and self._may_run(each)}
        if earlier:
            # Bounded, so that the leases of running jobs are renewed in time.
            end_earlier(earlier, self._environment["TIEBREAK_BOARD"], min(2.0, self._options.lease / 10))
        for attempt in attempts:
            if self._stops:  # told to stop while the claim was under way
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
        if calls and not self._stops:
            self._functions.offer(calls)
        elif calls:  # a command among them could not be started, and the worker is ending
            for attempt in calls:
                self._give_back(attempt, DRAINED)
        self._deadline = 0.0

    def _may_run(self, attempt: Attempt) -> bool:
        """Whether an earlier attempt at this job, by another worker, may still run."""
        return attempt.job.epoch > 1 and self._ended.get(attempt.job.id) != attempt.job.epoch - 1

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
        """Give a job back that was not begun."""
        attempt.why = why
        self._won -= 1
        self._reports.done(attempt, attempt.outcome(False))
        self._say("unbegun", attempt, None)

    def _due(self, answer: Any, _: RequestBatch) -> None:
        if isinstance(answer, (int, float)):
            # A job that is due and was not won is held back by a limit, or meant for other workers.
            self._due_at = elapsed() + max(answer + 0.001, 0.25)

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
        self._give_up_if_it_is_gone(trouble, now)

    def _followed(self, where: str) -> None:
        self._file = _file(self._board)
        self._heartbeat_at = 0.0
        self._environment.update(_environment(self._board))
        self._register.moved(self._environment["TIEBREAK_BOARD"])
        self._functions.set_environment({"TIEBREAK_BOARD": self._environment["TIEBREAK_BOARD"]})
        self._say("followed", None, where)

    def _give_up_if_it_is_gone(self, trouble: TiebreakError, now: float) -> None:
        """Give up on a board whose file was deleted or replaced, or that moved out of reach; a server may come back."""
        if "moved" in trouble.data:
            self._stranded_at = min(self._stranded_at, now)
        if self._failure is None and (self._file != _file(self._board) or now >= self._stranded_at + LAST_TRIES):
            raise trouble

    def _refused(self, answer: Any) -> None:
        """Handle a call that was refused alone: only `Invalid` means that this worker cannot go on."""
        if isinstance(answer, Invalid):
            raise answer


def _environment(board: Board) -> dict[str, str]:
    return {
        **os.environ,
        "TIEBREAK_AGENT": board.agent,
        "TIEBREAK_WORKER": board.agent,
        "TIEBREAK_PROJECT": board.project,
        "TIEBREAK_BOARD": board.engine.full_address,
    }


def _file(board: Board) -> tuple[int, int] | None:
    """The file of a board, by device and inode; None if it is not a file."""
    try:
        found = os.stat(board.engine.path) if board.engine.path is not None else None
    except OSError:
        return None
    return found and (found.st_dev, found.st_ino)


def cannot_go_on(why: BaseException) -> TiebreakError:
    """The error that ends a worker, with its exit code."""
    if isinstance(why, TiebreakError):
        return why
    what = getattr(why, "strerror", None) or str(why) or type(why).__name__
    hint = "`ulimit -a` shows its limits; fewer jobs at once (--concurrency) need less" if _is_ours(why) else ""
    return Unavailable(f"this worker cannot go on: {what}", hint=hint)


def _is_ours(why: BaseException) -> bool:
    return isinstance(why, (MemoryError, RuntimeError)) or (isinstance(why, OSError) and is_shortage(why))
