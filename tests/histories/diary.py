"""Diaries: the answers that each process got, and when. A line is one system call, so a kill leaves whole lines."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import NamedTuple

GRANTED = "granted"
KEPT = "kept"
"""A renewal that leaves no event."""
REFUSED = "refused"
UNKNOWN = "unknown"
"""The board could not be reached: it happened once or not at all."""


class Entry(NamedTuple):
    """One answer. The times are of the one clock that all processes of a machine share."""

    begin: float
    end: float
    agent: str
    what: str
    """The event that it must have left, or one of the words above."""
    subject: str = ""
    slot: int = 0
    epoch: int = 0

    @property
    def thing(self) -> tuple[str, int]:
        """What it speaks of."""
        return self.subject, self.slot


class Diary:
    """Where one process writes down its answers."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, begin: float, agent: str, what: str, subject: str = "", slot: int = 0, epoch: int = 0) -> None:
        """Write an answer down, just after it came."""
        entry = Entry(begin, time.monotonic(), agent, what, subject, slot, epoch)
        os.write(self._file, json.dumps(entry).encode() + b"\n")


def read(folder: Path) -> list[Entry]:
    """All that anybody was told, in the order in which the answers came."""
    lines = [line for path in folder.glob("diary-*") for line in path.read_text().splitlines()]
    return sorted((Entry(*json.loads(line)) for line in lines), key=lambda entry: entry.end)
