"""The Python functions that a worker runs at the moment, in children that imported the operator's modules."""

from __future__ import annotations

import os
import selectors
import signal
from collections import deque

from .. import process_tree as trees
from ..clock import elapsed
from ..process_identity import is_shortage
from .attempt import CANCELLED, DRAINED, LOST
from .callables import DONE, FAILED, NOT_BEGUN, READY
from .calls import Caller
from .process import READ, signal_name
from .register import HELPER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .attempt import Attempt
    from .commands import Done
    from .kin import Kin
    from .register import Register

LONG = 0.05
"""Seconds after which a call is not short: others need not wait behind it."""
AGAIN = 0.1
REST = 5.0
"""Seconds until a child that could not import, or could not be started, is tried again."""


class Functions:
    """A few children, the calls that wait for them, and what becomes of both."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        kin: Kin,
        register: Register,
        environment: Mapping[str, str],
        done: Done,
        wrote: Callable[[Attempt], None],
        modules: list[str],
        size: int,
    ) -> None:
        self.names: list[str] = []
        """What the modules declared."""
        self.broken: str | None = None
        """Why the modules cannot be imported, if they cannot."""
        self.backlog: deque[Attempt] = deque()
        self.callers: dict[int, Caller] = {}
        self._selector = selector
        self._kin = kin
        self._register = register
        self._environment = environment
        self._done = done
        self._wrote = wrote
        self._modules = modules
        self._size = size
        self.news = False
        """Whether a child has become ready since this was last taken back."""
        self.short: OSError | None = None
        """Why no child could be started, since this was last taken back."""
        self.draining = False
        self._rest = 0.0

    def start(self) -> None:
        """Start one more child, or try again later if this worker is short of something."""
        place = self._register.intend(HELPER)
        try:
            caller = Caller(self._modules, self._environment)
        except OSError as exc:
            self._register.cancel(place)
            if not is_shortage(exc):
                raise
            self.short, self._rest = exc, elapsed() + REST
            return
        self._register.started(place, caller.pid)
        self._register.confirm(caller.pid)
        self.callers[caller.pid] = caller
        self._kin.add_helper(caller.pid)
        self._selector.register(caller.answers, selectors.EVENT_READ, (self._hear, caller))
        for fd in caller.pipes:
            self._selector.register(fd, selectors.EVENT_READ, (self._overhear, caller))

    def tell(self, variables: Mapping[str, str]) -> None:
        """Change the environment of the calls that begin from now on, in children that run already too."""
        for caller in self.callers.values():
            caller.tell(variables)
            self._mind_pipe(caller)

    def ready(self) -> bool:
        """Whether there is a child that can be called."""
        return any(caller.names is not None for caller in self.callers.values())

    def room(self) -> int:
        """How many calls should be won now: enough to have the next ones at hand."""
        wanted = sum(caller.window for caller in self.callers.values() if caller.names is not None)
        return 0 if self.draining or 2 * len(self.backlog) > wanted else wanted - len(self.backlog)

    def attempts(self) -> Iterator[Attempt]:
        """Every call that was won and not reported."""
        yield from self.backlog
        for caller in self.callers.values():
            yield from caller.waiting.values()

    def offer(self, attempts: list[Attempt]) -> None:
        """Run these."""
        self.backlog.extend(attempts)
        self._feed()

    def _feed(self) -> None:
        for caller in self.callers.values():
            count = min(caller.room(), len(self.backlog))
            if count:
                caller.send([self.backlog.popleft() for _ in range(count)])
            self._mind_pipe(caller)

    def _mind_pipe(self, caller: Caller) -> None:
        """Listen for room in the pipe to a child, but only while something waits for it."""
        if caller.pid not in self.callers:
            return
        waits, listening = caller.push(), caller.to in self._selector.get_map()
        if waits and not listening:
            self._selector.register(caller.to, selectors.EVENT_WRITE, (lambda _, who: self._mind_pipe(who), caller))
        elif listening and not waits:
            self._selector.unregister(caller.to)

    # ── What children say ────────────────────────────────────────────────────────────────────────────

    def _hear(self, _: int, caller: Caller) -> None:
        if caller.pid in self.callers:  # not closed by what came before it in the same round
            self._answers(caller)

    def _answers(self, caller: Caller) -> None:
        answers, ended = caller.read()
        for ticket, code, value in answers:
            self._answer(caller, ticket, code, value)
        if ended:
            self._hear_no_more(caller.answers)
        self._feed()

    def _hear_no_more(self, *descriptors: int) -> None:
        for fd in descriptors:
            if fd in self._selector.get_map():
                self._selector.unregister(fd)

    def _answer(self, caller: Caller, ticket: int, code: int, value: object) -> None:
        if ticket == 0:
            self._said(caller, code, value)
        elif code in (1, 2):
            attempt = caller.waiting.get(ticket)
            if attempt is not None:
                attempt.output.feed(code, str(value).encode("utf-8", "replace"))
                self._wrote(attempt)
        elif (attempt := caller.answered(ticket)) is not None:
            attempt.caller = None
            if code == NOT_BEGUN:
                self._not_begun(attempt)
            else:
                # It ended by itself, though somebody may have wanted to end it.
                attempt.why = LOST if attempt.why == LOST else 0
                self._done(attempt, attempt.outcome(code == DONE, value if code == DONE else None, str(value)))

    def _said(self, caller: Caller, code: int, value: object) -> None:
        """Something that is about no call: at the start, or from a thread that a call left behind."""
        if code == READY and isinstance(value, list):
            caller.names = self.names = value
            self.news = True
        elif code == FAILED:
            self.broken = str(value)

    def _not_begun(self, attempt: Attempt) -> None:
        if attempt.why in (LOST, CANCELLED):
            self._done(attempt, None)
        elif self.draining:
            self._give_back(attempt)
        else:
            self.backlog.appendleft(attempt)  # only its first lease was over

    def _give_back(self, attempt: Attempt) -> None:
        attempt.why = DRAINED
        self._done(attempt, attempt.outcome(False))

    def _overhear(self, fd: int, caller: Caller) -> None:
        """What was written past Python, by C code or a process: taken for the call that runs now."""
        if caller.pid not in self.callers:
            return
        try:
            data = os.read(fd, READ)
        except BlockingIOError:
            return
        if not data:
            self._hear_no_more(fd)
            return
        if attempt := caller.first():
            attempt.output.feed(caller.pipes[fd], data)
            self._wrote(attempt)

    def exited(self, pid: int, status: int) -> None:
        """A child has ended: the call that it ran is over, the others had not begun."""
        caller = self.callers.pop(pid)
        self._answers(caller)
        marks = [attempt.mark for attempt in caller.waiting.values()]
        trees.end(lambda: self._kin.of(pid, marks))
        self._forget(caller)
        waiting = list(caller.waiting.values())
        for attempt in waiting:
            attempt.caller = None
        self.backlog.extendleft(reversed(waiting[1:]))
        if waiting:
            self._interrupted(waiting[0], caller, status)
        if caller.names is None:
            self._rest = elapsed() + REST
        self.mend(elapsed())

    def _interrupted(self, attempt: Attempt, caller: Caller, status: int) -> None:
        if not attempt.why and caller.killed:
            self._give_back(attempt)  # it was another one that was to be ended
            return
        code = os.waitstatus_to_exitcode(status)
        how = (
            f"its process was ended by {signal_name(-code)}" if code < 0 else f"its process ended with exit code {code}"
        )
        outcome = attempt.outcome(False, None, attempt.sentence(how))
        self._done(attempt, None if attempt.why == CANCELLED else outcome)

    def _forget(self, caller: Caller) -> None:
        self._hear_no_more(caller.answers, caller.to, *caller.pipes)
        self._kin.discard(caller.pid)
        self._register.ended(caller.pid)
        caller.close()

    # ── Ending ───────────────────────────────────────────────────────────────────────────────────────

    def end(self, attempt: Attempt, why: int, grace: float) -> None:
        """End a call; one that has not begun is taken back."""
        if why <= attempt.why:
            return
        attempt.why = why
        caller = attempt.caller
        if caller is None:
            self.backlog.remove(attempt)
            self._done(attempt, attempt.outcome(False) if why == DRAINED else None)
        elif caller.first() is attempt:
            self._end(caller, attempt, grace)
        else:
            caller.take_back(attempt)
            attempt.kill_at = elapsed() + AGAIN

    def _end(self, caller: Caller, attempt: Attempt, grace: float) -> None:
        caller.killed = True
        number = signal.SIGTERM if grace > 0 else signal.SIGKILL
        marks = [each.mark for each in caller.waiting.values()]
        try:
            trees.signal_tree(self._kin.of(caller.pid, marks), number)
        except OSError as exc:
            if not is_shortage(exc):
                raise
            grace = 0.0  # looked at again in a moment
        attempt.kill_at = elapsed() + (grace or AGAIN)

    def drain(self) -> None:
        """Finish what runs; give back what has not begun."""
        self.draining = True
        while self.backlog:
            self._give_back(self.backlog.popleft())
        for caller in self.callers.values():
            for attempt in list(caller.waiting.values())[1:]:
                caller.take_back(attempt)

    def tick(self, now: float) -> None:
        """Look after calls that take long, and after those that are being ended."""
        for caller in list(self.callers.values()):
            first = caller.first()
            if first is not None and first.kill_at is not None and now >= first.kill_at:
                self._end(caller, first, 0.0)

    def mend(self, now: float) -> None:
        """Have as many children as there is use for."""
        if not self._modules:
            return
        if self.draining or now < self._rest or len(self.callers) >= self._size:
            return
        busy = [caller for caller in self.callers.values() if caller.waiting and now - caller.begun > LONG]
        starting = any(caller.names is None for caller in self.callers.values())
        if not self.callers or (self.backlog and len(busy) == len(self.callers) and not starting):
            self.start()

    def close(self) -> None:
        """End the children, which run nothing any more."""
        for pid, caller in list(self.callers.items()):
            trees.end(lambda pid=pid: self._kin.of(pid, []))  # type: ignore[misc]
            self._forget(caller)
        self.callers.clear()
