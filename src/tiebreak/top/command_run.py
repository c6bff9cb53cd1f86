"""A `tb` command that was chosen in the palette: runs beside the screen, and its output is shown as it comes."""

from __future__ import annotations

import os
import subprocess
import threading
from collections import deque
from typing import TYPE_CHECKING

from ..text import block

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..board import Board

KEPT = 400
"""Lines of output that are kept."""


class CommandRun:
    """One run. `changed` is called from its thread whenever there is more to show."""

    def __init__(self, program: list[str], typed: str, words: list[str], board: Board) -> None:
        self.typed = typed
        self.code: int | None = None
        self._lines: deque[str] = deque(maxlen=KEPT)
        # The address may have a password, and the words of a command are no secret on a machine: so in variables.
        environment = {
            **os.environ,
            "TIEBREAK_BOARD": str(board.engine.full_address),
            "TIEBREAK_PROJECT": board.project,
            "TIEBREAK_AGENT": board.agent,
            "NO_COLOR": "1",
        }
        self._process = subprocess.Popen(
            [*program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C on this terminal is not for it
        )

    def follow(self, changed: Callable[[], object]) -> None:
        """Read its output in a thread of its own, to its end."""
        threading.Thread(target=self._read, args=(changed,), name="tb-top-command", daemon=True).start()

    def _read(self, changed: Callable[[], object]) -> None:
        stream = self._process.stdout
        assert stream is not None  # noqa: S101
        for line in stream:
            self._lines.append(block(line.decode("utf-8", "replace").rstrip("\r\n")).expandtabs(4))
            changed()
        self.code = self._process.wait()
        changed()

    @property
    def lines(self) -> list[str]:
        """What it has printed, the newest lines of it."""
        return list(self._lines)

    @property
    def state(self) -> str:
        """How it stands."""
        return "runs … (Esc ends it)" if self.code is None else "done" if self.code == 0 else f"exit {self.code}"

    def end(self) -> None:
        """End it, if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
