"""Shells and terminals of their own: sessions that have nothing to do with the one that runs the tests."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .command import PATIENCE, TB, Environment, Tb

# A new session, with the terminal of its standard input if that is one. With `orphan` it also has no parent
# among the ancestors of the tests, one of which may itself be a coding agent that stands for its session.
_ENTER = """
import fcntl, os, sys, termios
how, command = sys.argv[1], sys.argv[2:]
if how == "orphan" and os.fork():
    os._exit(0)
if os.getsid(0) != os.getpid():
    os.setsid()
if os.isatty(0):
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(command[0], command)
"""


def in_shell(tb: Tb, script: str) -> list[str]:
    """The lines of a script that is run by a shell in a session of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _ENTER, "orphan", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,  # read until the shell, which nobody can wait for, has closed it
        text=True,
        cwd=tb.folder,
        env=tb.environment,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if not line.startswith("tb: no task had the key")] == []
    return done.stdout.splitlines()


class Terminal:
    """A terminal whose keyboard and screen the test has."""

    def __init__(self, *, columns: int = 0, echo: bool = True) -> None:
        self.screen = b""
        self.master, self.slave = pty.openpty()
        if columns:
            termios.tcsetwinsize(self.slave, (24, columns))
        modes = termios.tcgetattr(self.slave)
        modes[1] &= ~termios.OPOST
        if not echo:
            modes[3] &= ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)

    def start(
        self, tb: Tb, *words: str, orphan: bool = False, stderr: Path | None = None, env: Environment | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command as the leader of a session on this terminal."""
        errors = self.slave if stderr is None else os.open(stderr, os.O_WRONLY | os.O_CREAT, 0o600)
        running = subprocess.Popen(
            [sys.executable, "-c", _ENTER, "orphan" if orphan else "child", *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=errors,
            cwd=tb.folder,
            env=tb.changed(env or {}),
            start_new_session=True,
        )
        os.close(self.slave)
        if stderr is not None:
            os.close(errors)
        return running

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def read(self, *, until: bytes | None = None, patience: float = PATIENCE) -> bool:
        """Read until something stands on the screen, or the other side is gone; False when the time is up."""
        end = time.monotonic() + patience
        while until is None or until not in self.screen:
            if not select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0]:
                return False
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # nobody has the other side open any more
                piece = b""
            if not piece:
                return until is None
            self.screen += piece
        return True

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self.master)
        self.master = -1


@contextmanager
def terminal(*, columns: int = 0, echo: bool = True) -> Iterator[Terminal]:
    """A terminal that is gone after the block."""
    made = Terminal(columns=columns, echo=echo)
    try:
        yield made
    finally:
        if made.master >= 0:
            os.close(made.master)


def shown(tb: Tb, *words: str, columns: int = 0, env: Environment | None = None) -> str:
    """What a command puts on a terminal."""
    with terminal(columns=columns) as screen:
        running = screen.start(tb, TB, *words, env=env)
        assert screen.read(), "the command did not end"
        running.wait(PATIENCE)
        return screen.screen.decode()


def in_terminal(tb: Tb, script: str) -> list[str]:
    """The lines of a script that is run by the shell of a terminal of its own."""
    with terminal() as screen:
        running = screen.start(tb, "sh", "-c", script, orphan=True)
        running.wait(PATIENCE)
        assert screen.read(), "the shell did not end"
        return screen.screen.decode().splitlines()
