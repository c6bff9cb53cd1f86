"""`tb run --hold NAME -- CMD…`: runs a command only while a hold lasts.

The command gets a process group of its own, so that all its processes can be ended at once. `TIEBREAK_EPOCH` tells it
the epoch of the hold. When the hold is lost, every process that the command started gets SIGTERM and soon SIGKILL, even
one in another process session. A broken hold ends the command at the board's event (see `loss_watch`). When the hold
cannot be renewed, the command is ended before somebody else can get it. When `tb run` is killed, its guardian ends the
command and gives the hold back (see `command_guardian`).
"""

from __future__ import annotations

import os
import select
import signal
import sys

from ..errors import Fenced, Invalid, Refused
from ..limits import RUN_GRACE, RUN_LEASE
from ..names import seconds
from ..process_tree import become_subreaper, descendants, end, exit_code
from .command_guardian import FORWARDED, CommandGuardian, signal_group
from .parser import Option, command, duration, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..handles import Holding
    from ..process_identity import Identity
    from .context import Context
    from .parser import Args


@command(
    "run",
    "Run a command while holding something; the command is ended if the hold is lost.",
    Option("hold", "RESOURCE", "what to hold: a path, lock:NAME, pool:NAME … (repeatable)", many=True),
    Option("wait", "DURATION", "wait that long if somebody else holds it", default="0s"),
    duration("lease", "how long the hold lasts unless renewed; renewed every third of this", RUN_LEASE),
    Option("note", "TEXT", "what you are doing, shown to those who wait"),
    Option("slots", "N", "create the pool, or change its size", convert=whole),
    duration("grace", "time between SIGTERM and SIGKILL when the hold is lost", RUN_GRACE),
    rest="CMD…",
    example="tb run --hold lock:deploy --wait 60s -- make deploy",
)
def run(context: Context, args: Args) -> int:
    """Exits with the command's exit code (128 + N for a signal), or with 1 if the hold was not won or was lost."""
    if not args.rest:
        raise Invalid("run: CMD is missing", hint="usage: tb run --hold NAME -- CMD…")
    if not args.hold:
        raise Invalid("run: --hold is missing", hint="usage: tb run --hold NAME -- CMD…")
    grace = seconds(args.grace, "--grace")
    guardian = CommandGuardian()
    try:
        holding = context.board.hold(
            *args.hold,
            lease=args.lease,
            wait=args.wait,
            note=args.note or " ".join(args.rest)[:200],
            slots=args.slots,
        )
        running = _HeldCommand(context, guardian, holding, grace)
        with holding:
            code = running.start(args.rest)
            return running.watch() if code is None else code
    finally:
        guardian.dismiss()


class _HeldCommand:
    """One command that runs under a hold."""

    def __init__(self, context: Context, guardian: CommandGuardian, holding: Holding, grace: float) -> None:
        self._context = context
        self._guardian = guardian
        self._holding = holding
        # The command must be gone when the lease ends. This leaves room for the grace period, and for a busy machine on
        # which the last signal comes late.
        self._grace = min(grace, holding.lease / 4)
        self._room = self._grace + holding.lease / 8
        self._news = _News()
        self._group = 0
        self._early: list[int] = []
        holding.on_loss = lambda: self._news.put("lost")

    def start(self, words: list[str]) -> int | None:
        """Start the command; returns an exit code if that fails, else None."""
        self._finds_orphans = become_subreaper()  # also if the guardian is killed
        for forwarded in FORWARDED:
            signal.signal(forwarded, self._forward)
        try:
            self._group = self._guardian.start(words, {**os.environ, **self._environment()}, self._holding)
        except OSError as exc:
            self._context.complain(Invalid(f"cannot run {words[0]!r}: {exc.strerror or exc}"))
            return 127 if isinstance(exc, FileNotFoundError) else 126
        for number in self._early:
            signal_group(self._group, number)
        return None

    def _forward(self, number: int, _: Any) -> None:
        """Pass a signal on to the command, or keep it until the command has started."""
        if self._group:
            signal_group(self._group, number)
        else:
            self._early.append(number)

    def watch(self) -> int:
        """Wait until the command ends or the hold is lost; returns the exit code."""
        restore = self._lend_terminal(self._group)
        try:
            code = self._outcome()
        finally:
            restore()
        return exit_code(code)

    def _environment(self) -> dict[str, str]:
        first = self._holding.holds[0]
        return {
            "TIEBREAK_AGENT": self._context.board.agent,
            "TIEBREAK_PROJECT": first.project,
            "TIEBREAK_BOARD": self._context.board.engine.full_address,
            "TIEBREAK_EPOCH": str(first.epoch),
            "TIEBREAK_HOLD": first.resource,
            "TIEBREAK_SLOT": str(first.slot),
        }

    def _outcome(self) -> int:
        import threading

        waiting = threading.Thread(target=lambda: self._news.put(self._guardian.wait()), daemon=True)
        waiting.start()
        while True:
            came, news = self._news.get(max(0.0, self._holding.left() - self._room))
            if not came:
                if self._holding.left() > self._room:
                    continue  # a signal came, or the hold was renewed meanwhile
                news = "lost"
            if isinstance(news, int):
                return news
            self._end()
            if news is None:
                raise Refused("the process that guards the command was killed; the command was ended")
            waiting.join()
            raise self._loss()

    def _loss(self) -> Fenced:
        """Why the command was ended: who broke the hold and for which reason, or who has it now."""
        loss = self._holding.loss
        if loss is None:
            return Fenced(f"{self._holding}: could not be renewed in time; the command was ended")
        return Fenced(f"{loss.message}; the command was ended", hint=loss.own_hint, reason=loss.reason, **loss.data)

    def _end(self) -> None:
        """End all processes of the command: SIGTERM, then SIGKILL."""
        end(self._started, self._grace)
        if not self._finds_orphans:
            signal_group(self._group, signal.SIGKILL)  # what is left of the group

    def _started(self) -> list[Identity]:
        return [who for who in descendants(os.getpid()) if who.pid != self._guardian.pid]

    def _lend_terminal(self, group: int) -> Any:
        """Make the command's group the foreground group of the terminal; returns a function that takes it back."""
        try:
            if not sys.stdin.isatty() or os.tcgetpgrp(0) != os.getpgrp():
                return lambda: None
        except OSError:
            return lambda: None
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        own = os.getpgrp()
        _hand_terminal_to(group)
        signal_group(group, signal.SIGCONT)  # it may have been stopped because it read before this
        return lambda: _hand_terminal_to(own)


class _News:
    """What other threads tell the main thread, which a signal wakes as well.

    After a process was stopped, the kernel may hand a signal to a thread that is not the main one. Then Python's
    handler, which runs in the main thread alone, waits until that thread is awake. So it waits at the pipe into which
    Python writes for each signal, whichever thread got it.
    """

    def __init__(self) -> None:
        self._told: list[Any] = []
        self._ready, self._bell = os.pipe()
        for fd in (self._ready, self._bell):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)

    def put(self, news: Any) -> None:
        """Tell something."""
        self._told.append(news)
        try:
            os.write(self._bell, b"!")
        except BlockingIOError:
            pass  # it is full, so it rings anyway

    def get(self, timeout: float) -> tuple[bool, Any]:
        """The next news, after waiting for it at most this long; (False, None) if there is none or a signal came."""
        if not self._told and select.select((self._ready,), (), (), timeout)[0]:
            os.read(self._ready, 4096)
        return (True, self._told.pop(0)) if self._told else (False, None)


def _hand_terminal_to(group: int) -> None:
    try:
        os.tcsetpgrp(0, group)
    except OSError:
        pass  # the window was closed, or the group is gone
