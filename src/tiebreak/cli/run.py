"""`tb run --hold NAME -- CMD…`: a command that runs only while something is held.

The command gets a process group of its own, so that all of it can be ended at once. It learns its fence as
`TIEBREAK_EPOCH`. When the hold is lost, or can no longer be renewed in time, the whole group gets SIGTERM and
soon SIGKILL, before anybody else could hold it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from ..errors import Fenced, Invalid
from .spec import Option, command, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Any

    from ..handles import Holding
    from .context import Context
    from .spec import Args

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@command(
    "run",
    "Run a command while holding something; it is ended when the hold is lost.",
    Option("hold", "RESOURCE", "what to hold: a path, lock:NAME, pool:NAME … (repeatable)", many=True),
    Option("wait", "DURATION", "wait that long for it", default="0s"),
    Option("lease", "DURATION", "renewed every third of this (default 30s)", default="30s"),
    Option("note", "TEXT", "what you are doing, for those who have to wait"),
    Option("slots", "N", "make the pool, or change its size", convert=whole),
    Option("grace", "DURATION", "between SIGTERM and SIGKILL when the hold is lost (default 2s)", default="2s"),
    rest="CMD…",
    example="tb run --hold lock:deploy --wait 60s -- make deploy",
)
def run(context: Context, args: Args) -> int:
    """Passes the command's exit code on (128 + N for a signal); 1 when the hold was not won or was lost."""
    if not args.rest:
        raise Invalid("tb run: CMD is missing", hint="usage: tb run --hold NAME -- CMD…")
    if not args.hold:
        raise Invalid("tb run: --hold is missing", hint="usage: tb run --hold NAME -- CMD…")
    holding = context.board.hold(
        *args.hold,
        lease=args.lease,
        wait=args.wait,
        note=args.note or " ".join(args.rest)[:200],
        slots=args.slots,
    )
    from ..names import seconds

    running = _Run(context, holding, seconds(args.grace, "grace"))
    # Started before the hold begins to renew itself: a fork is only safe while there is one thread.
    code = running.start(args.rest)
    with holding:
        return running.watch() if code is None else code


class _Run:
    """One command under one hold."""

    def __init__(self, context: Context, holding: Holding, grace: float) -> None:
        from queue import SimpleQueue

        self._context = context
        self._holding = holding
        # The command must be gone by the time that the lease ends: leave room for the grace period.
        self._grace = min(grace, holding.lease / 4)
        self._news: SimpleQueue[Any] = SimpleQueue()
        self._child: subprocess.Popen[bytes]
        holding.on_loss = lambda: self._news.put("lost")

    def start(self, words: list[str]) -> int | None:
        """Start the command; the exit code if that is not possible."""
        try:
            self._child = subprocess.Popen(
                words,
                env={**os.environ, **self._environment()},
                process_group=0,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509
            )
        except OSError as exc:
            self._context.complain(Invalid(f"cannot run {words[0]!r}: {exc.strerror or exc}"))
            return 127 if isinstance(exc, FileNotFoundError) else 126
        return None

    def watch(self) -> int:
        """Wait for the command, or for the loss of the hold."""
        restore = self._lend_terminal(self._child.pid)
        for number in FORWARDED:
            signal.signal(number, lambda n, _: _signal(self._child.pid, n))
        try:
            code = self._outcome(self._child)
        finally:
            restore()
        return code if code >= 0 else 128 - code

    def _environment(self) -> dict[str, str]:
        first = self._holding.holds[0]
        return {
            "TIEBREAK_AGENT": self._context.board.agent,
            "TIEBREAK_PROJECT": first.project,
            "TIEBREAK_BOARD": self._context.board.engine.address,
            "TIEBREAK_EPOCH": str(first.epoch),
            "TIEBREAK_HOLD": first.resource,
            "TIEBREAK_SLOT": str(first.slot),
        }

    def _outcome(self, child: subprocess.Popen[bytes]) -> int:
        import threading
        from queue import Empty

        threading.Thread(target=lambda: self._news.put(child.wait()), daemon=True).start()
        while True:
            try:
                news = self._news.get(timeout=max(0.0, self._holding.left() - self._grace))
            except Empty:
                if self._holding.left() > self._grace:
                    continue  # renewed meanwhile
                news = "lost"
            if news == "lost":
                self._end(child)
                raise self._holding.loss or Fenced(
                    f"{self._holding}: could not be renewed in time; the command was ended"
                )
            return int(news)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """End the whole group, gently first."""
        from queue import Empty

        _signal(child.pid, signal.SIGTERM)
        try:
            while not isinstance(self._news.get(timeout=self._grace), int):
                pass
        except Empty:
            pass
        _signal(child.pid, signal.SIGKILL)  # what is left of the group, also when its first process is gone
        child.wait()

    def _lend_terminal(self, group: int) -> Any:
        """Let the command read from the terminal, and take the terminal back afterwards."""
        try:
            if not sys.stdin.isatty() or os.tcgetpgrp(0) != os.getpgrp():
                return lambda: None
        except OSError:
            return lambda: None
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        own = os.getpgrp()
        os.tcsetpgrp(0, group)
        return lambda: os.tcsetpgrp(0, own)


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def _die_with_parent() -> Any:
    """On Linux, the command does not outlive a `tb run` that was killed: nobody would renew its hold."""
    if sys.platform != "linux":
        return None
    import ctypes

    libc, parent = ctypes.CDLL(None), os.getpid()

    def arrange() -> None:
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return arrange
