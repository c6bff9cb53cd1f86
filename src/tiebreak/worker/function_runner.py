"""Runs the jobs that are Python functions, in child processes that have imported the operator's modules."""

from __future__ import annotations

import os
import selectors
import signal
from collections import deque

from .. import process_tree
from ..clock import elapsed
from ..process_identity import is_shortage
from .attempt import CANCELLED, DRAINED, LOST
from .command_process import READ, signal_name
from .function_child import DONE, FAILED, NOT_BEGUN, READY
from .function_process import FunctionProcess
from .register import HELPER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .attempt import Attempt
    from .command_runner import Done
    from .job_processes import JobProcesses
    from .register import Register

LONG = 0.05
"""Seconds after which a call counts as long, so that another child is started for the calls behind it."""
AGAIN = 0.1
"""Seconds until a killed child is looked at again."""
RETRY = 5.0
"""Seconds until a child that could not be started, or could not import its modules, is tried again."""


class FunctionRunner:
    """The children, and the calls that they run or that wait for them."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        processes: JobProcesses,
        register: Register,
        environment: Mapping[str, str],
        done: Done,
        wrote: Callable[[Attempt], None],
        modules: list[str],
        size: int,
    ) -> None:
        self.names: list[str] = []
        """The functions that the modules declare."""
        self.broken: str | None = None
        """Why the modules cannot be imported, if they cannot."""
        self.backlog: deque[Attempt] = deque()
        self.processes: dict[int, FunctionProcess] = {}
        self._selector = selector
        self._processes = processes
        self._register = register
        self._environment = environment
        self._done = done
        self._wrote = wrote
        self._modules = modules
        self._size = size
        self.news = False
        """Whether a child has become ready; the loop sets it back."""
        self.short: OSError | None = None
        """Why no child could be started; the loop sets it back."""
        self.draining = False
        self._retry_at = 0.0

    def start(self) -> None:
        """Start one more child; later, if this worker lacks processes, memory or descriptors now."""
        place = self._register.intend(HELPER)
        try:
            process = FunctionProcess(self._modules, self._environment)
        except OSError as exc:
            self._register.cancel(place)
            if not is_shortage(exc):
                raise
            self.short, self._retry_at = exc, elapsed() + RETRY
            return
        self._register.started(place, process.pid)
        self._register.confirm(process.pid)
        self.processes[process.pid] = process
        self._processes.add_helper(process.pid)
        self._selector.register(process.answers, selectors.EVENT_READ, (self._read_answers, process))
        for fd in process.pipes:
            self._selector.register(fd, selectors.EVENT_READ, (self._read_raw_output, process))

    def set_environment(self, variables: Mapping[str, str]) -> None:
        """Set environment variables for the calls that begin from now on, in running children too."""
        for process in self.processes.values():
            process.set_environment(variables)
            self._poll_while_unsent(process)

    def ready(self) -> bool:
        """Whether some child can take calls."""
        return any(process.names is not None for process in self.processes.values())

    def room(self) -> int:
        """How many calls to claim now, so that the children need not wait for the next ones."""
        wanted = sum(process.window for process in self.processes.values() if process.names is not None)
        return 0 if self.draining or 2 * len(self.backlog) > wanted else wanted - len(self.backlog)

    def attempts(self) -> Iterator[Attempt]:
        """Every claimed call that has not ended."""
        yield from self.backlog
        for process in self.processes.values():
            yield from process.waiting.values()

    def offer(self, attempts: list[Attempt]) -> None:
        """Run these calls as soon as a child has room."""
        self.backlog.extend(attempts)
        self._send_backlog()

    def _send_backlog(self) -> None:
        for process in self.processes.values():
            count = min(process.room(), len(self.backlog))
            if count:
                process.send([self.backlog.popleft() for _ in range(count)])
            self._poll_while_unsent(process)

    def _poll_while_unsent(self, process: FunctionProcess) -> None:
        """Poll the pipe to a child for room, but only while something waits to be written."""
        if process.pid not in self.processes:
            return
        waits, listening = process.push(), process.to in self._selector.get_map()
        if waits and not listening:
            self._selector.register(
                process.to, selectors.EVENT_WRITE, (lambda _, who: self._poll_while_unsent(who), process)
            )
        elif listening and not waits:
            self._selector.unregister(process.to)

    # ── What children say ────────────────────────────────────────────────────────────────────────────

    def _read_answers(self, _: int, process: FunctionProcess) -> None:
        if process.pid in self.processes:  # not closed by an event handled earlier in the same round
            self._handle_answers(process)

    def _handle_answers(self, process: FunctionProcess) -> None:
        answers, ended = process.read()
        for ticket, code, value in answers:
            self._handle_answer(process, ticket, code, value)
        if ended:
            self._stop_polling(process.answers)
        self._send_backlog()

    def _stop_polling(self, *descriptors: int) -> None:
        for fd in descriptors:
            if fd in self._selector.get_map():
                self._selector.unregister(fd)

    def _handle_answer(self, process: FunctionProcess, ticket: int, code: int, value: object) -> None:
        if ticket == 0:
            self._handle_announcement(process, code, value)
        elif code in (1, 2):
            attempt = process.waiting.get(ticket)
            if attempt is not None:
                attempt.output.feed(code, str(value).encode("utf-8", "replace"))
                self._wrote(attempt)
        elif (attempt := process.answered(ticket)) is not None:
            attempt.function_process = None
            if code == NOT_BEGUN:
                self._not_begun(attempt)
            else:
                # It ended by itself, even if it was about to be ended.
                attempt.why = LOST if attempt.why == LOST else 0
                self._done(attempt, attempt.outcome(code == DONE, value if code == DONE else None, str(value)))

    def _handle_announcement(self, process: FunctionProcess, code: int, value: object) -> None:
        """An answer that belongs to no call: sent when the child starts, or by a thread that a call left behind."""
        if code == READY and isinstance(value, list):
            process.names = self.names = value
            self.news = True
        elif code == FAILED:
            self.broken = str(value)

    def _not_begun(self, attempt: Attempt) -> None:
        if attempt.why in (LOST, CANCELLED):
            self._done(attempt, None)
        elif self.draining:
            self._give_back(attempt)
        else:
            self.backlog.appendleft(attempt)  # the lease was renewed meanwhile; only the child did not know

    def _give_back(self, attempt: Attempt) -> None:
        attempt.why = DRAINED
        self._done(attempt, attempt.outcome(False))

    def _read_raw_output(self, fd: int, process: FunctionProcess) -> None:
        """Output that C code or a subprocess wrote to the descriptor itself: counted as output of the running call."""
        if process.pid not in self.processes:
            return
        try:
            data = os.read(fd, READ)
        except BlockingIOError:
            return
        if not data:
            self._stop_polling(fd)
            return
        if attempt := process.first():
            attempt.output.feed(process.pipes[fd], data)
            self._wrote(attempt)

    def exited(self, pid: int, status: int) -> None:
        """A child has ended: the call that it ran is over; the calls behind it had not begun."""
        process = self.processes.pop(pid)
        self._handle_answers(process)
        marks = [attempt.mark for attempt in process.waiting.values()]
        process_tree.end(lambda: self._processes.of(pid, marks))
        self._forget(process)
        waiting = list(process.waiting.values())
        for attempt in waiting:
            attempt.function_process = None
        self.backlog.extendleft(reversed(waiting[1:]))
        if waiting:
            self._interrupted(waiting[0], process, status)
        if process.names is None:
            self._retry_at = elapsed() + RETRY
        self.start_if_needed(elapsed())

    def _interrupted(self, attempt: Attempt, process: FunctionProcess, status: int) -> None:
        if not attempt.why and process.ending:
            self._give_back(attempt)  # the child was killed because of another call
            return
        code = os.waitstatus_to_exitcode(status)
        how = (
            f"its process was ended by {signal_name(-code)}" if code < 0 else f"its process ended with exit code {code}"
        )
        outcome = attempt.outcome(False, None, attempt.sentence(how))
        self._done(attempt, None if attempt.why == CANCELLED else outcome)

    def _forget(self, process: FunctionProcess) -> None:
        self._stop_polling(process.answers, process.to, *process.pipes)
        self._processes.discard(process.pid)
        self._register.ended(process.pid)
        process.close()

    # ── Ending ───────────────────────────────────────────────────────────────────────────────────────

    def end(self, attempt: Attempt, why: int, grace: float) -> None:
        """End a running call, or take back one that has not begun."""
        if why <= attempt.why:
            return
        attempt.why = why
        process = attempt.function_process
        if process is None:
            self.backlog.remove(attempt)
            self._done(attempt, attempt.outcome(False) if why == DRAINED else None)
        elif process.first() is attempt:
            self._end(process, attempt, grace)
        else:
            process.take_back(attempt)
            attempt.kill_at = elapsed() + AGAIN

    def _end(self, process: FunctionProcess, attempt: Attempt, grace: float) -> None:
        process.ending = True
        number = signal.SIGTERM if grace > 0 else signal.SIGKILL
        marks = [each.mark for each in process.waiting.values()]
        try:
            process_tree.signal_tree(self._processes.of(process.pid, marks), number)
        except OSError as exc:
            if not is_shortage(exc):
                raise
            grace = 0.0  # tried again in a moment
        attempt.kill_at = elapsed() + (grace or AGAIN)

    def drain(self) -> None:
        """Let running calls finish, and give back the others."""
        self.draining = True
        while self.backlog:
            self._give_back(self.backlog.popleft())
        for process in self.processes.values():
            for attempt in list(process.waiting.values())[1:]:
                process.take_back(attempt)

    def tick(self, now: float) -> None:
        """Go on with calls that are being ended."""
        for process in list(self.processes.values()):
            first = process.first()
            if first is not None and first.kill_at is not None and now >= first.kill_at:
                self._end(process, first, 0.0)

    def start_if_needed(self, now: float) -> None:
        """Start a child if there is none, or if calls wait behind long ones in every child."""
        if not self._modules:
            return
        if self.draining or now < self._retry_at or len(self.processes) >= self._size:
            return
        busy = [process for process in self.processes.values() if process.waiting and now - process.begun > LONG]
        starting = any(process.names is None for process in self.processes.values())
        if not self.processes or (self.backlog and len(busy) == len(self.processes) and not starting):
            self.start()
