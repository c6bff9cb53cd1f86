"""The process of a session's command, and the guardian process that kills it if its supervisor dies."""

from __future__ import annotations

import os
import signal

from ..process_identity import alive, identity, table
from ..process_tree import descendants, die_with_parent, end, identities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..process_identity import Identity

END_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""The signals that tell a supervisor to end its command."""


class SessionCommand:
    """The command's process. It is created at once, but runs the command only after `run`."""

    def __init__(self, words: list[str], cwd: str, environment: dict[str, str]) -> None:
        go, self.start_pipe = os.pipe()
        self._failure, failure = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.start_pipe)
            _exec_when_told(words, cwd, environment, parent, go, failure)
        os.close(go)
        os.close(failure)
        self.who = identity(self.pid)

    def run(self) -> str:
        """Let it run the command; returns what went wrong, or "" if nothing did."""
        _give_terminal_to(self.pid)
        os.write(self.start_pipe, b"!")
        os.close(self.start_pipe)
        with open(self._failure, "rb") as file:
            return file.read().decode("utf-8", "replace")

    def discard(self) -> None:
        """End the process without having run the command."""
        os.close(self.start_pipe)
        os.waitpid(self.pid, 0)

    def end(self, grace: float) -> None:
        """End it and its descendants: SIGTERM, then SIGKILL. A process that has detached itself is no descendant."""
        known: dict[Identity, None] = {}

        def living() -> list[Identity]:
            known.update(dict.fromkeys((self.who, *descendants(self.pid))))
            return [each for each in known if alive(each)]

        end(living, grace)

    def end_group(self, grace: float) -> None:
        """End what the command has left in its process group."""
        end(lambda: _members(self.pid), grace)


def _members(group: int) -> list[Identity]:
    """The living processes of a group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []  # the usual case, and much cheaper than a look at all processes
    except PermissionError:
        pass
    return identities(each for each in table().values() if not each.dead and _group(each.pid) == group)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _exec_when_told(
    words: list[str], cwd: str, environment: dict[str, str], parent: int, go: int, failure: int
) -> None:
    try:
        die_with_parent(signal.SIGKILL, parent)
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        if os.read(go, 1) != b"!":
            os._exit(0)
        for number in (*END_SIGNALS, signal.SIGCHLD, signal.SIGTTOU, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(cwd)
        os.execvpe(words[0], words, environment)  # noqa: S606  (a shell is not needed)
    except OSError as exc:
        os.write(failure, f"cannot run {words[0]!r} in {cwd}: {exc.strerror or exc}".encode())
    finally:
        os._exit(127)


class Guardian:
    """A process that waits for the supervisor to die, and then kills the command's process group."""

    def __init__(self, command: SessionCommand) -> None:
        reader, self._writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _guard(reader, (self._writer, command.start_pipe), command.pid)
        os.close(reader)

    def dismiss(self) -> None:
        """End the guardian: the command has ended."""
        try:
            os.write(self._writer, b".")
            os.close(self._writer)
            os.waitpid(self._pid, 0)
        except (BrokenPipeError, ChildProcessError):
            pass  # it has been killed, and was reaped with other children


def _guard(reader: int, close: tuple[int, ...], group: int) -> None:
    try:
        os.setsid()  # signals from the terminal must not reach it
        for fd in (*close, 0, 1, 2):
            os.close(fd)
        if not os.read(reader, 1):
            os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # the group has ended already
    finally:
        os._exit(0)


def _give_terminal_to(group: int) -> None:
    try:
        os.setpgid(group, group)
        os.tcsetpgrp(0, group)
    except OSError:
        pass  # no terminal
