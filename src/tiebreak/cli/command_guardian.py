"""The guardian of `tb run`: the process between `tb run` and its command, which cleans up if `tb run` is killed.

`tb run` renews the hold, the guardian runs the command, and each notices when the other dies, because the pipes between
them end. A killed `tb run` can neither end its command nor release its hold. The guardian does both, in this order. It
is a sub-reaper: every process that the command started is below it, even one that left its group and session. Only when
none of them is left, the hold is given back. Where that is not certain, the hold lasts until its lease ends: a process
cannot be killed, the system has no sub-reapers (macOS), or the guardian was killed together with `tb run`.

The guardian is forked before the board is opened, so it inherits neither connections nor threads. It has a process
group of its own, so that no signal of the terminal or for the group of `tb run` reaches it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from time import sleep

from ..clock import elapsed
from ..errors import Refused, TiebreakError, Unavailable
from ..process_identity import Identity, identity, is_dead
from ..process_tree import PATIENCE, become_subreaper, childless, end_descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ..handles import Holding

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The signals that are passed on to the command."""
AGAIN = 0.5
"""Seconds until the next try to give back a hold on a board that cannot be reached."""
LOOK_AGAIN = 0.005
"""Seconds between two looks whether `tb run`, whose pipe has ended, is dead."""


class CommandGuardian:
    """The guardian, as `tb run` sees it."""

    def __init__(self) -> None:
        orders, self._orders = os.pipe()
        self._news, news = os.pipe()
        self._me = identity()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until the guardian has handlers of its own
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._orders)
            os.close(self._news)
            _GuardianProcess(orders, news).run(blocked)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(orders)
        os.close(news)
        self._told = b""

    def start(self, words: list[str], environment: dict[str, str], holding: Holding) -> int:
        """Start the command as the leader of a new process group; its pid. Raises `OSError` as `Popen` does."""
        order = {
            "words": words,
            "environment": environment,
            "board": holding.board.engine.full_address,
            "agent": holding.board.agent,
            "lease": holding.lease,
            "process": list(self._me),
            "project": holding.holds[0].project,
            "resources": [hold.resource for hold in holding.holds],
            "epochs": [hold.epoch for hold in holding.holds],
            "slots": [hold.slot for hold in holding.holds],
        }
        try:
            _write(self._orders, order)
        except BrokenPipeError:
            pass  # it was killed, which is noticed next
        told = self._next()
        if told is None:
            raise Refused("the process that guards the command was killed; the command was not started")
        if "errno" in told:
            raise OSError(told["errno"], told["strerror"])
        return int(told["pid"])

    def wait(self) -> int | None:
        """Wait until the command has ended; its exit code, -N after signal N; None if the guardian was killed."""
        told = self._next()
        return None if told is None else int(told["code"])

    def _next(self) -> dict[str, Any] | None:
        """The next news of the guardian; None if it was killed."""
        while b"\n" not in self._told:
            more = os.read(self._news, 4096)
            if not more:
                return None
            self._told += more
        line, _, self._told = self._told.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def dismiss(self) -> None:
        """Let it end, because there is nothing to clean up."""
        try:
            _write(self._orders, "done")
        except BrokenPipeError:
            pass  # it was killed
        os.close(self._orders)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass


class _GuardianProcess:
    """What happens in the guardian's own process."""

    def __init__(self, orders: int, news: int) -> None:
        self._orders = orders
        self._news = news
        self._command: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def run(self, mask: set[int | signal.Signals]) -> NoReturn:
        """Guard one command, then end."""
        try:
            self._prepare(mask)
            order = self._order()
            if order is not None and self._start(order) and self._lasts_longer_than_tb_run():
                self._clean_up(order)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(0)

    def _prepare(self, mask: set[int | signal.Signals]) -> None:
        os.setpgid(0, 0)
        self._is_subreaper = become_subreaper()
        self._wake, wake = os.pipe()
        for fd in (self._wake, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in FORWARDED:
            signal.signal(number, self._forward)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _forward(self, number: int, _: object) -> None:
        """Pass a signal on to the command, or keep it until the command has started."""
        if self._command is None:
            self._early.append(number)
        else:
            signal_group(self._command.pid, number)

    def _order(self) -> dict[str, Any] | None:
        """What to run and to guard; None if `tb run` has ended before there was a command."""
        text = b""
        while not text.endswith(b"\n"):
            more = os.read(self._orders, 65536)
            if not more:
                return None
            text += more
        order = json.loads(text)
        return order if isinstance(order, dict) else None

    def _start(self, order: dict[str, Any]) -> bool:
        try:
            self._command = subprocess.Popen(order["words"], env=order["environment"], process_group=0)
        except OSError as exc:
            self._tell({"errno": exc.errno, "strerror": exc.strerror or str(exc)})
            return False
        for number in self._early:
            signal_group(self._command.pid, number)
        self._tell({"pid": self._command.pid})
        return True

    def _tell(self, news: dict[str, Any]) -> None:
        try:
            _write(self._news, news)
        except BrokenPipeError:
            pass  # tb run has been killed; the other pipe says so, too

    def _lasts_longer_than_tb_run(self) -> bool:
        """Wait until `tb run` is done, or until it is dead: then True."""
        while True:
            ready, _, _ = select.select((self._orders, self._wake), (), ())
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._reap()
            if self._orders in ready:
                return not os.read(self._orders, 4096)

    def _reap(self) -> None:
        """Collect what has ended: the command, whose exit code is told, and orphans of it."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self._command is not None and pid == self._command.pid:
                self._command.returncode = os.waitstatus_to_exitcode(status)
                self._tell({"code": self._command.returncode})

    def _clean_up(self, order: dict[str, Any]) -> None:
        if self._command is not None and self._command.returncode is None:
            signal_group(self._command.pid, signal.SIGKILL)
        if self._end_everything() and self._is_subreaper:
            _give_back(order)

    def _end_everything(self) -> bool:
        """End every process below this one; whether certainly none is left."""
        until = elapsed() + PATIENCE
        while elapsed() < until:
            if not end_descendants():
                return False
            self._reap()
            if childless():
                return True
        return False


def _give_back(order: dict[str, Any]) -> None:
    """Give back what the dead `tb run` held. Tried until its lease has run out anyway."""
    from ..board import open

    host, boot, pid, started = process = Identity(*order["process"])
    given = {name: order[name] for name in ("project", "resources", "epochs", "slots")}
    given |= {"host": host, "boot": boot, "pid": pid, "started": started}
    until = elapsed() + order["lease"]
    while elapsed() < until:
        if not is_dead(process):  # it is dying: its pipes are closed a moment before it is dead
            sleep(LOOK_AGAIN)
            continue
        try:
            with open(order["board"], agent=order["agent"], project=order["project"]) as board:
                board.call("holds.forfeit", given)
            return
        except Unavailable:
            sleep(AGAIN)
        except TiebreakError:
            return


def _write(fd: int, message: object) -> None:
    left = json.dumps(message).encode() + b"\n"
    while left:
        left = left[os.write(fd, left) :]


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process group, if it still exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass
