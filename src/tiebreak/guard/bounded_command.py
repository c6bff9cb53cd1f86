"""Runs a command with a time limit, and waits for that command alone.

What a shell's start-up files leave running (an agent for keys, say) inherits its output. A pipe would end only with it,
so the output goes to files. At the time limit the whole process group is ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CommandOutcome(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def run_bounded(
    words: Sequence[str], environ: Mapping[str, str], cwd: str | None, given: bytes, patience: float
) -> CommandOutcome:
    """Run a command to its end; a code of -1 if it cannot be started or takes longer than `patience` seconds."""
    with TemporaryFile() as source, TemporaryFile() as out, TemporaryFile() as err:
        source.write(given)
        source.seek(0)
        try:
            running = subprocess.Popen(
                words,
                stdin=source,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env=dict(environ),
                start_new_session=True,  # so that it never touches our terminal, and can be ended as a whole
            )
        except OSError as exc:
            return CommandOutcome(-1, "", exc.strerror or str(exc))
        try:
            code = running.wait(patience)
        except subprocess.TimeoutExpired:
            end_group(running)
            return CommandOutcome(-1, "", f"gave no answer in {patience:g} s")
        except BaseException:
            end_group(running)
            raise
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(os.fsdecode(file.read(1 << 20)))
        return CommandOutcome(code, *texts)


def end_group(running: subprocess.Popen[bytes]) -> None:
    """End a command that has a session of its own, with all that it started there."""
    if running.poll() is None:
        try:
            os.killpg(running.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            running.kill()
    running.wait()
