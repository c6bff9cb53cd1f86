"""The stage of the demonstration: a temporary folder, a board in it, and every process that plays a part.

Nothing of it outlives the demonstration: all processes are ended and the folder is removed, also after Ctrl-C. If
the demonstration itself is killed, the kernel ends its processes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from ..board import open as open_board
from ..errors import TiebreakError, Unavailable
from ..user_folders import LONGEST_SOCKET

if TYPE_CHECKING:
    from typing import Any

    from ..board import Board

PROJECT = "demo"
_PATIENCE = 30.0
"""Seconds in which a process has to start or to end."""
_LOOK_AGAIN = 0.02


class Stage:
    """A board of its own, with a worker for jobs, a daemon if its packages are installed, and the agents."""

    board: Board

    def __init__(self, tb: list[str], *, with_daemon: bool) -> None:
        self.folder = _new_folder()
        self._tb = tb
        """The command that runs `tb`, and ends it with this process."""
        self.link = ""
        """Where a browser can watch, once; empty without a daemon."""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """By name: the agents, and `daemon` with a worker, or a `worker` alone."""
        self._file = os.path.join(self.folder, "board.db")
        self.address = self._file
        # A repository, so that files are called by their paths in it.
        os.makedirs(os.path.join(self.folder, "project", ".git"))
        try:
            if with_daemon:
                self._serve()
            else:
                self._run_tb("worker", "work", "--concurrency", "1")
            self.board = open_board(self.address, agent="director~1", project=PROJECT)
        except BaseException:
            self.clear()
            raise

    def _serve(self) -> None:
        self.address = f"unix:{self.folder}/s"
        place = f"127.0.0.1:{_free_port()}"
        where = ("--addr", place, "--socket", f"{self.folder}/s")
        self._run_tb("daemon", "--board", self._file, "serve", *where, "--workers", "1")
        end = time.monotonic() + _PATIENCE
        while not self.link:
            if self.processes["daemon"].poll() is not None or time.monotonic() > end:
                raise Unavailable(f"the daemon does not start: {self.said('daemon')}")
            time.sleep(_LOOK_AGAIN)
            self.link = self._new_link()

    def _new_link(self) -> str:
        """A link that signs one browser in, as `tb web` makes it; empty while the daemon does not serve yet."""
        words = [*self._tb, "--board", self.address, "web", "--print", "--json"]
        if not os.path.exists(f"{self.folder}/s"):
            return ""
        asked = subprocess.run(words, env=self._environment(), capture_output=True, check=False)
        return str(json.loads(asked.stdout).get("link", "")) if asked.returncode == 0 else ""

    # ── Processes ────────────────────────────────────────────────────────────────────────────────────

    def _run_tb(self, name: str, *words: str) -> None:
        """Run a `tb` command beside the others."""
        self._start(name, [*self._tb, *words], {})

    def run_agent(self, name: str, plan: dict[str, Any]) -> None:
        """Start one of the agents."""
        more = {"TIEBREAK_AGENT": name, "DEMO_PLAN": json.dumps(plan), "DEMO_PARENT": str(os.getpid())}
        self._start(name, [sys.executable, "-P", "-m", f"{__package__}.agent"], more)

    def _start(self, name: str, words: list[str], more: dict[str, str]) -> None:
        with open(os.path.join(self.folder, f"{name}.log"), "wb") as log:
            self.processes[name] = subprocess.Popen(
                words,
                env={**self._environment(), **more},
                cwd=os.path.join(self.folder, "project"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the director alone, who ends the others in order
            )

    def _environment(self) -> dict[str, str]:
        """The environment of everybody on the stage: nothing of the caller's board, agent or folders."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIEBREAK_")}
        state = {"XDG_STATE_HOME": os.path.join(self.folder, "state"), "TIEBREAK_BOARD": self.address}
        return {**kept, **state, "TIEBREAK_PROJECT": PROJECT}

    def said(self, name: str) -> str:
        """The end of what a process has printed."""
        try:
            with open(os.path.join(self.folder, f"{name}.log"), encoding="utf-8", errors="replace") as log:
                return log.read()[-500:].strip()
        except OSError:
            return ""

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process."""
        self.processes[name].send_signal(number)

    # ── The end ──────────────────────────────────────────────────────────────────────────────────────

    def clear(self) -> None:
        """End all processes, the daemon last, and remove the folder."""
        try:
            if hasattr(self, "board"):
                self.board.close()
        except TiebreakError:
            pass
        agents = [each for name, each in self.processes.items() if name not in ("worker", "daemon")]
        _end(agents, signal.SIGKILL)
        for name in ("worker", "daemon"):  # these have processes of their own to end
            _end([self.processes[name]] if name in self.processes else [], signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


def _end(processes: list[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for each in processes:
        each.send_signal(number)
    for each in processes:
        try:
            each.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()


def _new_folder() -> str:
    """A new folder whose path is short enough for a socket in it."""
    folder = tempfile.mkdtemp(prefix="tb-demo-")
    if len(os.fsencode(folder)) + 2 <= LONGEST_SOCKET:
        return folder
    os.rmdir(folder)
    return tempfile.mkdtemp(prefix="tb-demo-", dir="/tmp")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
