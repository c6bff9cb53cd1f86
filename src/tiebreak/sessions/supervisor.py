"""The supervisor: the parent process of a session's command, in the session's terminal.

It creates the command's process first, and lets it run only after the board has recorded its pid: a session that was
given up meanwhile never runs. It sends heartbeats and renews the seat, so the agent need not. When told to end, it ends
the command and all its descendants. It records how the command ended, which frees the seat at once.

When the supervisor itself is killed, its command must not live on. On Linux the kernel kills the command with its
parent. On every system a guardian, a process that only waits for the supervisor's death, kills the command's process
group. So when both are dead, the seat is proved to be free.

The supervisor does not end a command that has lost its seat: the board refuses its writes, and a person decides. It
does end a command that was replaced by a handoff.

Run as `python -m tiebreak.sessions.supervisor PLAN`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time

from ..errors import Refused, TiebreakError
from ..limits import SESSION_GRACE
from ..process_identity import identity
from ..process_tree import exit_code
from ..text import plain
from .session_command import END_SIGNALS, Guardian, SessionCommand
from .state_files import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board

ASK_AGAIN = 0.5
"""Seconds until the board is asked again to record that the command is alive."""
TERMINAL = ("TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "TMUX", "TMUX_PANE")
"""Variables that are taken from the terminal; all others come from the session's plan."""
LAST_TRIES = 60.0
"""Seconds that a supervisor tries to record the end of its session on a board that cannot be reached."""


class Supervisor:
    """Supervises one session until it ends."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._wake = os.pipe()
        for fd in self._wake:
            os.set_blocking(fd, False)
        self._must_end = False
        self._alive = False
        """Whether the board has recorded that the session is alive."""
        self._over = threading.Event()
        self._board: Board | None = None

    def run(self) -> int:
        """Run the session; returns the exit code of the command, or 1 if it never ran."""
        self._listen()
        command = SessionCommand(self._plan["words"], self._plan["cwd"], self._plan["environment"])
        # Forked before there are threads and open files of the board.
        guardian = Guardian(command)
        try:
            self._adopt(command)
        except TiebreakError as exc:
            command.discard()
            guardian.dismiss()
            return _complain(exc.message)
        if self._must_end:
            command.discard()
            guardian.dismiss()
            self._record_end(0, "was ended before it began")
            return 0
        failure = command.run()
        renewing = threading.Thread(target=self._renew, daemon=True)
        renewing.start()
        code = self._watch(command)
        command.end_group(SESSION_GRACE)
        guardian.dismiss()
        self._over.set()
        renewing.join(LAST_TRIES)
        self._record_end(code, failure)
        return exit_code(code)

    # ── Beginning ────────────────────────────────────────────────────────────────────────────────────

    def _listen(self) -> None:
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for number in END_SIGNALS:
            signal.signal(number, self._signalled)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def _signalled(self, *_: object) -> None:
        self._must_end = True

    def _adopt(self, command: SessionCommand) -> None:
        from ..board import open as open_board
        from ..boot_history import remember_boot

        remember_boot()
        plan, me = self._plan, identity()
        self._board = open_board(plan["board"], agent=plan["agent"], project=plan["project"])
        self._board.sessions.adopt(
            session=plan["agent"],
            host=me.host,
            boot=me.boot,
            pid=me.pid,
            started=me.started,
            child=command.who.pid,
            child_started=command.who.started,
            lease=plan["lease"],
        )

    # ── Living ───────────────────────────────────────────────────────────────────────────────────────

    def _watch(self, command: SessionCommand) -> int:
        """Wait until the command has ended; returns its exit code."""
        settled = time.monotonic() + self._plan["settle"]
        ending: threading.Thread | None = None
        while True:
            left = None if self._alive or ending else max(0.0, settled - time.monotonic())
            if select.select([self._wake[0]], [], [], left)[0]:
                _drain(self._wake[0])
            status = _reap(command.pid)
            if status is not None:
                break
            if self._must_end and ending is None:
                ending = threading.Thread(target=command.end, args=(SESSION_GRACE,), daemon=True)
                ending.start()
            elif not self._alive and ending is None and time.monotonic() >= settled:
                settled = time.monotonic() + ASK_AGAIN
                self._record_alive()
        if ending is not None:
            ending.join()
        return os.waitstatus_to_exitcode(status)

    def _record_alive(self) -> None:
        """Record that the command has run long enough to count as alive."""
        assert self._board is not None  # noqa: S101
        me = identity()
        try:
            self._board.sessions.alive(session=self._plan["agent"], pid=me.pid, started=me.started)
            self._alive = True
        except Refused as exc:
            _complain(exc.message)
            self._end_soon()
        except TiebreakError as exc:
            _complain(exc.message)

    def _end_soon(self) -> None:
        self._must_end = True
        os.write(self._wake[1], b".")

    def _renew(self) -> None:
        """Send a heartbeat every third of the lease, until the session has ended."""
        pause = self._plan["lease"] / 3
        fenced = False
        while not self._over.wait(pause):
            assert self._board is not None  # noqa: S101
            pause = self._plan["lease"] / 3
            try:
                found = self._board.sessions.renew(session=self._plan["agent"], lease=self._plan["lease"])
            except Refused as exc:
                _complain(exc.message)
                continue
            except TiebreakError:
                pause = min(1.0, pause)  # the board cannot be reached: try again soon
                continue
            if found.replaced_by:
                self._end_soon()
            elif found.fenced_by and not fenced:
                _complain(f"the seat is held by {found.fenced_by}; what this coordinator writes is refused")
            fenced = bool(found.fenced_by)

    # ── Ending ───────────────────────────────────────────────────────────────────────────────────────

    def _record_end(self, code: int, failure: str) -> None:
        assert self._board is not None  # noqa: S101
        note = failure or (f"exited with {code}" if code >= 0 else f"ended by signal {-code}")
        if not self._alive and not failure:
            note += self._last_lines()
        until = time.monotonic() + LAST_TRIES
        while True:
            try:
                self._board.sessions.end(session=self._plan["agent"], note=plain(note)[:1000], code=exit_code(code))
                return
            except Refused as exc:
                _complain(exc.message)
                return
            except TiebreakError as exc:
                if time.monotonic() > until:
                    _complain(exc.message)  # others will find its process dead
                    return
                time.sleep(0.2)

    def _last_lines(self) -> str:
        """The last lines of a command that ended at once; its terminal is about to close."""
        from .tmux import Tmux

        try:
            lines = Tmux(self._plan["socket"]).screen(self._plan["tmux"]).split("\n")
        except TiebreakError:
            return ""
        said = " / ".join(line.strip() for line in lines if line.strip())[-300:]
        return f": {said}" if said else ""


def _reap(pid: int) -> int | None:
    """The wait status of the command; None while it is alive. Other children are reaped too."""
    found = None
    while True:
        try:
            who, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return found
        if who == 0:
            return found
        if who == pid and os.WIFSTOPPED(status):
            os.killpg(pid, signal.SIGCONT)  # no shell is there to continue it
        elif who == pid:
            found = status


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass


def _complain(text: str) -> int:
    try:
        print(f"tb: {plain(text)}", file=sys.stderr, flush=True)
    except OSError:
        pass  # the terminal is gone
    return 1


def main(path: str) -> int:
    """Supervise the session whose plan is in this file."""
    plan = read_json(path)
    if plan is None:
        return _complain(f"there is no plan in {path}")
    terminal = {name: os.environ[name] for name in TERMINAL if name in os.environ}
    plan["environment"] = {**plan["environment"], **plan["settings"], **terminal}
    os.environ.clear()
    os.environ.update(plan["environment"])
    return Supervisor(plan).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
