"""tmux: terminals that stay open when nobody is attached.

Sessions run in a tmux server of their own (`tmux -L tiebreak`), apart from the user's. `TIEBREAK_TMUX_SOCKET` names
another server. Values that may be secret are never put on a command line.
"""

from __future__ import annotations

import os
import subprocess
import time

from ..errors import Refused, Unavailable

SOCKET = "tiebreak"
PREFIX = "tb-"
"""The beginning of all names of our tmux sessions."""
_GOING = ("server exited", "lost server", "no server running", "error connecting")
_TRIES = 20
_MAX_NAME = 100


class Tmux:
    """One tmux server."""

    def __init__(self, socket: str | None = None) -> None:
        self.socket = socket or os.environ.get("TIEBREAK_TMUX_SOCKET") or SOCKET

    def start(self, name: str, cwd: str, words: list[str]) -> None:
        """Run a command in a new tmux session, without a shell; raises `Refused` with the error of tmux."""
        for left in range(_TRIES, -1, -1):
            done = self._run("new-session", "-d", "-s", name, "-c", cwd, "-x", "200", "-y", "50", "--", *words)
            if done.returncode == 0:
                return
            said = done.stderr.strip()
            # A tmux server ends with its last session; a start at that moment fails and has to be repeated.
            if not left or not any(word in said for word in _GOING):
                raise Refused(f"tmux could not start session {name}: {said or done.returncode}")
            time.sleep(0.05)

    def exists(self, name: str) -> bool:
        """Whether the tmux session exists."""
        return self._run("has-session", "-t", f"={name}").returncode == 0

    def names(self) -> list[str]:
        """The names of our tmux sessions on this server."""
        done = self._run("list-sessions", "-F", "#{session_name}")
        return [name for name in done.stdout.splitlines() if name.startswith(PREFIX)] if done.returncode == 0 else []

    def screen(self, name: str, history: int = 0) -> str:
        """The screen of the terminal, with `history` more lines above it."""
        done = self._run("capture-pane", "-p", "-t", f"={name}:", "-S", str(-history))
        if done.returncode:
            raise Refused(f"session {name} has no terminal any more: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")

    def type(self, name: str, text: str) -> None:
        """Paste a text and press Enter."""
        buffer = f"{PREFIX}{os.getpid()}"
        steps = [
            self._run("load-buffer", "-b", buffer, "-", stdin=text),
            self._run("paste-buffer", "-p", "-d", "-b", buffer, "-t", f"={name}:"),
            self._run("send-keys", "-t", f"={name}:", "Enter"),
        ]
        for done in steps:
            if done.returncode:
                raise Refused(f"could not type into session {name}: {done.stderr.strip()}")

    def attach(self, name: str) -> list[str]:
        """The command that attaches a person to the session."""
        return ["tmux", "-L", self.socket, "attach-session", "-t", f"={name}"]

    def _run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
        try:
            return subprocess.run(
                ["tmux", "-L", self.socket, *words],
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                env=environment,
                timeout=60,
                check=False,
            )
        except FileNotFoundError:
            raise Unavailable("tmux is not installed", hint="sessions live in tmux; install it") from None
        except subprocess.TimeoutExpired:
            raise Unavailable(f"the tmux server {self.socket} does not answer") from None


def session_name(project: str, name: str, mark: str) -> str:
    """A name that tmux accepts unchanged and that people recognise."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in f"{project}-{name}")
    return f"{PREFIX}{safe[:_MAX_NAME]}-{mark}"
