"""A board, real workers on it, and what is left of their processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import tiebreak
from tiebreak.engine.sqlite.write_gate import WriteGate
from tiebreak.model import Task

from ..cli.command import TB, clean_environment, gone, measured

PATIENCE = 90.0
"""Seconds within which what must happen has happened, on a machine that is busy with other things."""


def until(happened: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Look again and again until something has happened; the test fails if it never does."""
    end = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < end, f"still not so after {patience:g} s: {what}"
        time.sleep(0.01)


def _is_stopped(pid: int) -> bool:
    """Whether each thread of a process is stopped by a signal."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return all((thread / "stat").read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)


class RunningWorker:
    """A running `tb work`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: self.lines or self.process.poll() is not None, "the worker is ready")
        ready = self.lines[0] if self.lines else {}
        self.pid: int = ready.get("pid", 0)
        """The worker itself; `process` is its keeper."""
        self.agent: str = ready.get("agent", "")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it has said so far, of one sort."""
        return [line for line in list(self.lines) if line.get("event") == name]

    def stop(self) -> None:
        """Ask it to finish."""
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


class Shop:
    """One board in one folder, and workers that run as real commands."""

    def __init__(self, folder: Path, address: str | None = None) -> None:
        self.folder = folder
        self.address = address or str(folder / "board.db")
        self.environment = {**clean_environment(folder), **measured()}
        self.environment |= {"TIEBREAK_BOARD": self.address, "PYTHONPATH": str(folder)}
        self.board = tiebreak.open(self.address, agent="me~1", project="demo")
        self._open: list[subprocess.Popen[str]] = []

    @contextmanager
    def worker(self, *words: str, stderr: Any = None, command: str = TB, **environment: str) -> Iterator[RunningWorker]:
        """A worker that is killed with the block if it still runs."""
        process = subprocess.Popen(
            [command, "work", "--json", *words],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=self.folder,
            env={**self.environment, **environment},
        )
        self._open.append(process)
        try:
            yield RunningWorker(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE)

    def suspend(self, worker: RunningWorker) -> None:
        """Stop a worker, but not in the middle of a write: then nobody could write until it went on."""
        gate = WriteGate(f"{self.address}-gate", PATIENCE)
        with closing(gate), gate:
            os.kill(worker.pid, signal.SIGSTOP)
            until(lambda: _is_stopped(worker.pid), "all threads of the worker stand still")

    def burst(self, *words: str) -> RunningWorker:
        """A worker that has done all there was to do."""
        with self.worker("--burst", *words) as worker:
            assert worker.ended() == 0
            return worker

    def submit(self, command: Any, **options: Any) -> Task:
        """Put a job on the board."""
        made: Task = self.board.jobs.submit(command=command, **options)
        return made

    def task(self, ref: Task | str) -> Task:
        """A task as it is now."""
        found: Task = self.board.tasks.get(ref=ref if isinstance(ref, str) else ref.id)
        return found

    def until_state(self, task: Task, state: str) -> Task:
        """Until a job is in that state."""
        until(lambda: self.task(task).state == state, f"#{task.number} is {state}, not {self.task(task).state}")
        return self.task(task)

    def output(self, task: Task) -> str:
        """All that is kept of what a job wrote."""
        text, after = "", 0
        while True:
            found = self.board.jobs.output(ref=task.id, after=after)
            text += "".join(chunk["text"] for chunk in found["chunks"])
            if found["next"] == after or not found["more"]:
                return text
            after = found["next"]

    def lines(self, name: str) -> list[str]:
        """The lines of a file that jobs write."""
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def pids(self, name: str, count: int) -> list[int]:
        """The processes that wrote their numbers into a file, once all are there."""
        until(lambda: len(self.lines(name)) >= count, f"{count} lines in {name}: {self.lines(name)}")
        return [int(line) for line in self.lines(name)]

    def until_gone(self, pids: list[int], what: str) -> None:
        """Until none of these processes lives."""
        until(lambda: all(gone(pid) for pid in pids), what)

    def alive(self) -> list[int]:
        """The processes that were started for a job of this board and still live."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._ours(pid) and not gone(pid)]

    def _ours(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        mine = f"TIEBREAK_BOARD={self.address}".encode()
        return mine in words and any(word.startswith(b"TIEBREAK_JOB=") for word in words)

    def close(self) -> None:
        """Leave nothing behind, whatever the test found."""
        self.board.close()
        for pid in self.alive():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
