"""The real `tb`, as somebody in a shell of their own runs it, and what it answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import tiebreak

TB = os.path.join(os.path.dirname(sys.executable), "tb")
PATIENCE = 60.0
"""How long a test waits for what must happen, on a machine that is busy with other things."""

Environment = dict[str, str | None]


class Answer(NamedTuple):
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON value."""
        return json.loads(self.out)


def measured() -> dict[str, str]:
    """What makes a command count for the coverage. For a short one this takes seven times as long as the command."""
    return {name: value for name, value in os.environ.items() if name.startswith("COV")}


def clean_environment(folder: Path) -> dict[str, str]:
    """An environment in which nothing of the caller's shows but where programs are."""
    return {
        "PATH": os.pathsep.join([os.path.dirname(TB), os.environ.get("PATH", os.defpath)]),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "TIEBREAK_BOARD": str(folder / "board.db"),
        "TIEBREAK_PROJECT": "demo",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
    }


def changed_command(folder: Path, *lines: str) -> str:
    """A `tb` that runs these lines of Python first, by which something of it is another than usual."""
    script = folder / "changed-tb"
    paths = [str(Path(tiebreak.__file__).parents[1]), str(Path(__file__).parents[2])]
    begin = [f"#!{sys.executable}", "import sys", f"sys.path[:0] = {paths!r}"]
    end = ["from tiebreak.program import main", "raise SystemExit(main())"]
    script.write_text("\n".join([*begin, *lines, *end]))
    script.chmod(0o700)
    return str(script)


class Tb:
    """`tb(…words…)` runs the command to its end; `start` leaves it running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "board.db"
        self.environment = clean_environment(folder)

    def __call__(
        self,
        *words: str | bytes,
        stdin: str | bytes = b"",
        cwd: Path | None = None,
        env: Environment | None = None,
    ) -> Answer:
        """Run one command."""
        done = subprocess.run(
            [TB, *words],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=cwd or self.folder,
            env=self.changed(env or {}),
            timeout=2 * PATIENCE,
            check=False,
        )
        return Answer(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr))

    def ok(self, *words: str | bytes, env: Environment | None = None, stdin: str = "") -> str:
        """Run a command that has to succeed; what it printed."""
        answer = self(*words, env=env, stdin=stdin)
        assert answer.code == 0, answer
        return answer.out

    def json(self, *words: str, env: Environment | None = None) -> Any:
        """Run a command that has to succeed; what it answered."""
        return json.loads(self.ok(*words, "--json", env=env))

    def sh(self, script: str, *, shell: str = "sh") -> Answer:
        """Run a script; its `tb` is the command under test."""
        done = subprocess.run(
            [shell, "-c", script],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=2 * PATIENCE,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def changed(self, changes: Environment) -> dict[str, str]:
        """The environment with changes; None takes a variable away."""
        merged: Environment = {**self.environment, **changes}
        return {name: value for name, value in merged.items() if value is not None}

    @contextmanager
    def start(
        self,
        *words: str,
        stdin: int | None = subprocess.PIPE,
        stdout: int | IO[Any] = subprocess.PIPE,
        stderr: int | IO[Any] = subprocess.PIPE,
        env: Environment | None = None,
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a command; it is ended with the block if it has not ended before."""
        running = subprocess.Popen(
            [TB, *words],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            bufsize=1,
            cwd=self.folder,
            env=self.changed(env or {}),
        )
        try:
            with running:
                try:
                    yield running
                finally:
                    if running.poll() is None:
                        running.kill()
        finally:
            assert running.returncode is not None


def ended(running: subprocess.Popen[str], patience: float = PATIENCE) -> Answer:
    """The end of a started command."""
    out, err = running.communicate(timeout=patience)
    return Answer(running.returncode, out or "", err or "")


def read_lines(running: subprocess.Popen[str]) -> list[str]:
    """The lines that a started command prints, as they come: the list grows in the background."""
    stream, lines = running.stdout, list[str]()
    assert stream is not None

    def read() -> None:
        try:
            lines.extend(stream)
        except ValueError:
            pass  # closed at the end of the block

    threading.Thread(target=read, daemon=True).start()
    return lines


def until(happened: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Look again and again until something has happened; the test fails if it never does."""
    end = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < end, f"still not so after {patience:g} s: {what}"
        time.sleep(0.01)


def until_asleep(running: subprocess.Popen[Any]) -> None:
    """Until a waiting command has set up its watch on the board."""
    if sys.platform != "linux":
        time.sleep(1.0)  # nothing shows from outside that it watches
        return

    def watches() -> bool:
        assert running.poll() is None, f"ended instead of waiting, with {running.returncode}"
        return any(link.endswith("inotify") for link in _open_files(running.pid))

    until(watches, "the command waits for the board")


def _open_files(pid: int) -> list[str]:
    found = []
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(os.path.join(folder, name)))
        except FileNotFoundError:
            pass
    return found


def until_catching(running: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Until a command has its own handler for a signal."""
    if sys.platform != "linux":
        time.sleep(1.0)
        return

    def catches() -> bool:
        status = Path(f"/proc/{running.pid}/status").read_text()
        mask = next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1]
        return bool(int(mask, 16) >> (number - 1) & 1)

    until(catches, f"{number.name} is caught")


def gone(pid: int) -> bool:
    """Whether a process has ended, perhaps without anybody having taken notice yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    if sys.platform != "linux":
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return True


def complaint(answer: Answer, code: int) -> str:
    """An error as it has to be: this code, one `tb:` line, at most one hint, nothing on standard output."""
    assert "Traceback" not in answer.err, answer.err
    lines = answer.err.splitlines()
    assert answer.code == code, answer
    assert lines, "nothing was said"
    assert lines[0].startswith("tb: "), answer.err
    assert len(lines) <= 2, answer.err
    assert all(line.startswith("    ") for line in lines[1:]), answer.err
    assert answer.out == ""
    return answer.err
