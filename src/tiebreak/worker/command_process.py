"""The process of one command: started as the leader of a process session, with pipes for its output."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys

from ..clock import elapsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .output import Output

READ = 64 * 1024
READS = 16
"""How often one pipe is read in a row before the others get a turn."""

# posix_spawn can neither change the folder nor set limits: a shell does so and then becomes the command.
_PREPARE = 'if [ -n "$1" ]; then cd -- "$1" || exit 126; fi; eval "$2" || exit 126; shift 2; exec "$@"'
_LIMITS = {"memory": ("-v", 1024), "cpu": ("-t", 1), "files": ("-n", 1)}
_SHELL = "/bin/sh"
SPARE = 2
"""Descriptors that stay free while a process is started; the write ends of its pipes become free afterwards."""


class CommandProcess:
    """A job's command while it runs, and until no process of it is left."""

    def __init__(
        self, command: str | list[str], settings: Mapping[str, Any], environment: Mapping[str, str], output: Output
    ) -> None:
        self.output = output
        self.facts: dict[str, Any] = {}
        self.polled = False
        """Whether its output is polled."""
        self.exited = False
        """Whether its first process has ended."""
        self.since = elapsed()
        self.pid, self.pipes = spawn(_arguments(command, settings), environment)

    def read(self, fd: int) -> bool:
        """Read what it wrote; False when the pipe has ended."""
        stream = self.pipes[fd]
        for _ in range(READS):
            try:
                data = os.read(fd, READ)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.output.feed(stream, data)
        return True

    def close(self, fd: int) -> None:
        """Close a pipe."""
        self.output.feed(self.pipes.pop(fd), b"", final=True)
        os.close(fd)

    def ended(self, status: int, usage: resource.struct_rusage) -> None:
        """Remember how its first process ended."""
        self.exited = True
        code = os.waitstatus_to_exitcode(status)
        self.facts = {
            "exit": code if code >= 0 else None,
            "signal": signal_name(-code) if code < 0 else None,
            "seconds": round(elapsed() - self.since, 3),
            "peak": _peak(usage),
        }

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.facts.get("exit") == 0

    def how(self) -> str:
        """How it ended, in a few words."""
        name = self.facts.get("signal")
        return f"ended by {name}" if name else f"exit code {self.facts.get('exit')}"


def spawn(
    words: list[str], environment: Mapping[str, str], more: list[tuple[int, int]] | None = None
) -> tuple[int, dict[int, int]]:
    """Start a process as the leader of a new process session; its pid, and the descriptors that read its output.

    Standard input is empty, unless `more` (pairs of a descriptor here and its number in the child) says otherwise.
    """
    ends = pipes(2)
    actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    actions += [(os.POSIX_SPAWN_DUP2, write, stream) for stream, (_, write) in enumerate(ends, 1)]
    actions += [(os.POSIX_SPAWN_DUP2, here, there) for here, there in more or ()]
    try:
        pid = os.posix_spawn(_program_file(words[0]), words, environment, file_actions=actions, setsid=True, **_SIGNALS)
    except BaseException:
        for read, _ in ends:
            os.close(read)
        raise
    finally:
        for _, write in ends:
            os.close(write)
    streams = {read: stream for stream, (read, _) in enumerate(ends, 1)}
    for read in streams:
        os.set_blocking(read, False)
    return pid, streams


def pipes(count: int) -> list[tuple[int, int]]:
    """Make that many pipes, or raise `OSError` and make none. It is also raised if too few descriptors would be left.

    The worker itself needs some to reach its board and to look at processes. Descriptors are numbered from the lowest
    free number on, so the largest number tells how many are left.
    """
    made: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            made.append(os.pipe())
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if most != resource.RLIM_INFINITY and max(max(ends) for ends in made) >= most - SPARE:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    except OSError:
        for ends in made:
            for fd in ends:
                os.close(fd)
        raise
    return made


def _program_file(program: str) -> str:
    """The file of a program."""
    if program == "sh":
        return _SHELL
    if "/" in program:
        return program
    from shutil import which

    return which(program) or program


def _arguments(command: str | list[str], settings: Mapping[str, Any]) -> list[str]:
    words = ["sh", "-c", command] if isinstance(command, str) else command
    limits = [
        f"ulimit {flag} {max(1, int(settings['limits'][name]) // unit)}"
        for name, (flag, unit) in _LIMITS.items()
        if (settings.get("limits") or {}).get(name) is not None
    ]
    if not settings.get("cwd") and not limits:
        return words
    return ["sh", "-c", _PREPARE, "sh", settings.get("cwd") or "", " && ".join(limits) or ":", *words]


def signal_name(number: int) -> str:
    """`SIGKILL` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _peak(usage: resource.struct_rusage) -> int | None:
    """Its peak memory in bytes; None if not above the worker's own peak, which every new process starts with."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if usage.ru_maxrss <= own:
        return None
    return int(usage.ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


# A worker blocks and ignores some signals; its jobs start with the defaults, like any other program.
_SIGNALS: dict[str, Any] = {
    "setsigmask": [],
    "setsigdef": [signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGXFSZ],
}
