"""Refusals on their way into the log: kept in memory, at the end in a file beside the board.

A lost race changes nothing, so it must not cost a commit. The engine remembers refusals here, one entry
for each agent and subject with a count, and its next write appends them as events. A process that ends
first leaves them in the side file, where the next writer of any process picks them up. They are an audit
trail, not state: a crash at the wrong moment may lose or repeat a few.
"""

from __future__ import annotations

import fcntl
import os
from _thread import allocate_lock
from time import sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Key = tuple[str, str, str, str, str, str, int, str]

MOST = 10_000
"""How many different refusals are remembered at once; beyond that they are only counted as lost."""


class Refusals:
    """What was refused since the last write, counted per agent and subject."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._counts: dict[Key, list[int]] = {}
        self._carried: dict[Key, list[int]] = {}
        self._turn = allocate_lock()
        self._spilled = -1

    def add(self, event: str, at: int, facts: dict[str, Any], count: int = 1) -> None:
        """Remember one."""
        get = facts.get
        where = (get("project") or "", get("subject") or "", get("name") or "", get("kind") or "")
        key: Key = (event, *where, get("agent") or "", get("epoch") or 0, get("note") or "")
        with self._turn:
            _count(self._counts, key, count, at)

    def waiting(self, subject: str) -> list[tuple[Any, ...]]:
        """Those about a subject, here and in the side file, as rows of events without a number."""
        found = Refusals(self.path)
        for key, (count, at) in [*list(self._counts.items()), *_read(self.path)]:
            if key[2] == subject:
                _count(found._counts, key, count, at)
        return [row(key, count, at) for key, (count, at) in found._counts.items()]

    def collect(self) -> list[tuple[Any, ...]]:
        """All that is to be written now, the side file's too; call `written` or `kept` afterwards."""
        together: dict[Key, list[int]] = {}
        if self._spill_exists():
            self._spilled = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            if _locked(self._spilled):
                for key, (count, at) in _read(self.path):
                    _count(together, key, count, at)
            else:
                self._close(truncate=False)  # somebody is adding to it: next time
        with self._turn:
            self._carried, self._counts = self._counts, {}
        for key, (count, at) in self._carried.items():
            _count(together, key, count, at)
        return [row(key, count, at) for key, (count, at) in together.items()]

    def written(self) -> None:
        """They are committed: forget them, and whatever in the side file was no refusal."""
        self._carried = {}
        self._close(truncate=True)

    def kept(self) -> None:
        """The commit did not happen: keep them for the next one, and the side file's lines in the side file."""
        if self._carried:
            with self._turn:
                for key, (count, at) in self._carried.items():
                    _count(self._counts, key, count, at)
            self._carried = {}
        self._close(truncate=False)

    def spill(self) -> None:
        """Leave what is here in the side file."""
        if not self._counts:
            return
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for _ in range(20):
                if _locked(fd):
                    break
                sleep(0.01)
            lines = ("\t".join([str(count), str(at), *map(str, key)]) for key, (count, at) in self._counts.items())
            os.write(fd, ("\n".join(lines) + "\n").encode())
        finally:
            os.close(fd)
        self._counts.clear()

    def _spill_exists(self) -> bool:
        try:
            return os.stat(self.path).st_size > 0
        except OSError:
            return False

    def _close(self, *, truncate: bool) -> None:
        fd, self._spilled = self._spilled, -1
        if fd >= 0:
            try:
                if truncate:
                    os.ftruncate(fd, 0)
            finally:
                os.close(fd)  # and with it the lock: nobody waits for an audit trail


def _locked(fd: int) -> bool:
    """Lock the side file if it is free; nobody ever waits long for an audit trail."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _count(counts: dict[Key, list[int]], key: Key, count: int, at: int) -> None:
    known = counts.get(key)
    if known is not None:
        known[0] += count
        known[1] = max(known[1], at)
    elif len(counts) < MOST:
        counts[key] = [count, at]


def _read(path: str) -> list[tuple[Key, tuple[int, int]]]:
    """The lines of the side file; a line that is not whole is passed over."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            lines = file.read().split("\n")
    except OSError:
        return []
    found = []
    for line in lines:
        parts = line.split("\t")
        if len(parts) == 10 and all(parts[i].isdecimal() and len(parts[i]) <= 18 for i in (0, 1, 8)):
            key: Key = (*parts[2:8], int(parts[8]), parts[9])  # type: ignore[assignment]
            found.append((key, (int(parts[0]), int(parts[1]))))
    return found


def row(key: Key, count: int, at: int) -> tuple[Any, ...]:
    """A refusal in the shape of an event's row, its number still 0."""
    event, project, subject, name, kind, agent, epoch, note = key
    texts = [text or None for text in (subject, name, kind)]
    return (0, at, event, project, *texts, None, 1, agent or None, epoch, 0, note or None, count, None)
