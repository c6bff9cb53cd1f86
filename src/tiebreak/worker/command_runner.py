"""Runs the jobs that are commands: starts them, reads their output, and ends them with all their processes."""

from __future__ import annotations

import os
import resource
import selectors
import signal
from collections import deque

from .. import process_tree
from ..clock import elapsed
from ..process_identity import is_shortage
from .attempt import CANCELLED, LOST
from .command_process import CommandProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..process_identity import Identity
    from .attempt import Attempt
    from .job_processes import JobProcesses
    from .register import Register

    Done = Callable[[Attempt, dict[str, Any] | None], None]

AGAIN = 0.02
"""Seconds until killed processes are looked at again."""
FRESH = 0.01
"""Seconds before a new command's output is polled: most commands end sooner, and reading them once is cheaper."""


class CommandRunner:
    """All commands that this worker runs now."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        processes: JobProcesses,
        register: Register,
        environment: Mapping[str, str],
        done: Done,
        wrote: Callable[[Attempt], None],
    ) -> None:
        self.running: dict[int, Attempt] = {}
        """Attempts by the pid of their first process."""
        self.fresh: deque[Attempt] = deque()
        """Attempts whose output is not polled yet, oldest first."""
        self._selector = selector
        self._processes = processes
        self._register = register
        self._environment = environment
        self._done = done
        self._wrote = wrote

    def start(self, attempt: Attempt) -> None:
        """Start the command of a claimed job; a command that cannot be started fails its job.

        Raises `OSError` when this worker lacks processes, memory or descriptors: then the job is not to blame.
        """
        settings = attempt.settings
        environment = {**self._environment, **(settings.get("env") or {}), **variables(attempt)}
        place = self._register.intend(attempt.mark)
        try:
            command = CommandProcess(attempt.job.command, settings, environment, attempt.output)
        except (OSError, ValueError) as exc:
            self._register.cancel(place)
            if isinstance(exc, OSError) and is_shortage(exc):
                raise
            reason = f"cannot be started: {getattr(exc, 'strerror', None) or exc}"
            self._done(attempt, attempt.outcome(False, None, attempt.sentence(reason)))
            return
        self._register.started(place, command.pid)
        attempt.command_process = command
        attempt.since = command.since
        self.running[command.pid] = attempt
        self._processes.add(command.pid, attempt.mark)
        self.fresh.append(attempt)

    def poll_fresh(self, now: float) -> None:
        """Begin to poll the output of commands that have run for a moment."""
        while self.fresh and now >= self.fresh[0].since + FRESH:
            attempt = self.fresh.popleft()
            command = attempt.command_process
            if command is not None and self.running.get(command.pid) is attempt:
                command.polled = True
                if not command.exited:
                    self._register.confirm(command.pid)
                for fd in command.pipes:
                    self._selector.register(fd, selectors.EVENT_READ, (self._read, attempt))

    def _read(self, fd: int, attempt: Attempt) -> None:
        command = attempt.command_process
        if command is None or fd not in command.pipes:
            return  # closed by an event handled earlier in the same round
        if not command.read(fd):
            self._selector.unregister(fd)
            command.close(fd)
        if attempt.output.waiting:
            self._wrote(attempt)

    def exited(self, pid: int, status: int, usage: resource.struct_rusage) -> None:
        """The first process of a command has ended."""
        attempt = self.running[pid]
        command = attempt.command_process
        assert command is not None  # noqa: S101
        command.ended(status, usage)
        if not attempt.why and self._processes.nothing_left(pid):
            self._finish(attempt, command)
        elif attempt.kill_at is None or not attempt.why:
            self.kill(attempt)  # the command itself is done, so what it left behind is killed at once

    def end(self, attempt: Attempt, why: int, grace: float) -> None:
        """End an attempt: SIGTERM first if there is a grace period, then SIGKILL."""
        command = attempt.command_process
        if command is None or why <= attempt.why or (command.exited and why != LOST):
            return
        asked, attempt.why = attempt.why, why
        if grace <= 0 or command.exited:
            self.kill(attempt)
        elif not asked:
            process_tree.signal_tree(self._left(attempt, command) or (), signal.SIGTERM)
            attempt.kill_at = elapsed() + grace
        elif attempt.kill_at is not None:
            attempt.kill_at = min(attempt.kill_at, elapsed() + grace)

    def kill(self, attempt: Attempt) -> None:
        """Kill every process of an attempt; the attempt is over when none is left."""
        command = attempt.command_process
        assert command is not None  # noqa: S101
        attempt.kills += 1
        left = self._left(attempt, command)
        if command.exited and left == []:
            self._finish(attempt, command)
            return
        process_tree.signal_tree(left or (), signal.SIGKILL)
        attempt.kill_at = elapsed() + (AGAIN if attempt.kills < 50 else 1.0)

    def _left(self, attempt: Attempt, command: CommandProcess) -> list[Identity] | None:
        """The living processes of an attempt; None when this worker cannot look for lack of descriptors or memory."""
        try:
            return self._processes.of(command.pid, [attempt.mark])
        except OSError as exc:
            if not is_shortage(exc):
                raise
            return None

    def _finish(self, attempt: Attempt, command: CommandProcess) -> None:
        for fd in list(command.pipes):
            command.read(fd)
            if command.polled:
                self._selector.unregister(fd)
            command.close(fd)
        del self.running[command.pid]
        self._processes.discard(command.pid)
        self._register.ended(command.pid)
        killed = attempt.why == CANCELLED
        self._done(
            attempt, None if killed else attempt.outcome(command.ok, command.facts, attempt.sentence(command.how()))
        )

    def tick(self, now: float) -> None:
        """Go on with attempts that are being ended."""
        for attempt in list(self.running.values()):
            if attempt.kill_at is None or attempt.command_process is None:
                continue
            if now >= attempt.kill_at:
                self.kill(attempt)
            elif attempt.command_process.exited and self._left(attempt, attempt.command_process) == []:
                self._finish(attempt, attempt.command_process)  # all of it has ended before the grace period was over


def variables(attempt: Attempt) -> dict[str, str]:
    """The environment variables that tell a job which one it is."""
    job = attempt.job
    return {"TIEBREAK_JOB": job.id, "TIEBREAK_EPOCH": str(job.epoch), "TIEBREAK_ATTEMPT": str(job.attempts)}


def reap() -> list[tuple[int, int, resource.struct_rusage]]:
    """Reap all children that have ended, including orphans that this worker adopted."""
    found: list[tuple[int, int, resource.struct_rusage]] = []
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status, usage))
