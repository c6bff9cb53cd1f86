"""Refusals on their way into the log: kept in memory, at the end in a file beside the board.

A lost race changes nothing, so it must not cost a commit. The engine remembers refusals here, one entry
for each agent and subject with a count, and its next write appends them as events. A process that ends
first leaves them in the side file, where the next writer of any process picks them up. They are an audit
trail, not state: a crash at the wrong moment may lose or repeat a few.

No refusal may ever stop the write that carries it. What is refused can come from a text that was never stored, and the
side file from anybody, so every field is cut to what its column and the index over it take, and their number and
size are limited. If a database rejects them all the same, the write is done without them. What is lost in one of
these ways is counted in `dropped`.
"""

from __future__ import annotations

import fcntl
import os
from _thread import allocate_lock
from time import sleep

from ..errors import Unavailable
from ..limits import MAX_AGENT, MAX_LABEL, MAX_NOTE, MAX_RESOURCE
from ..names import cut
from .side_files import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Key = tuple[str, str, str, str, str, str, int, str]

MOST = 10_000
"""How many different refusals are remembered at once; those beyond are dropped, and counted as such."""
MOST_BYTES = 4 << 20
"""How many bytes of text they may have together."""
LARGEST_FILE = 4 * MOST_BYTES
"""How many bytes the side file may have: no process adds more, and what is beyond is not read."""
LARGEST_NUMBER = 2**53
FIELDS = (MAX_LABEL, MAX_LABEL, MAX_RESOURCE, MAX_RESOURCE, MAX_LABEL, MAX_AGENT, 0, MAX_NOTE)
"""The bytes of each field of a `Key` at most; 0 for a number."""
_NEVER = str.maketrans(dict.fromkeys("\0\t\n\r", " "))
"""NUL is no text for PostgreSQL; the others end a field or a line of the side file."""


class Counts:
    """Refusals and how often each happened, within the limits of this module."""

    def __init__(self) -> None:
        self.entries: dict[Key, list[int]] = {}
        self.lost = 0
        """How many refusals were not counted because there was no room."""
        self._bytes = 0

    def add(self, key: Key, count: int, at: int) -> None:
        """Count a refusal."""
        known = self.entries.get(key)
        if known is not None:
            known[0] = min(known[0] + count, LARGEST_NUMBER)
            known[1] = max(known[1], at)
            return
        size = sum(len(text.encode()) for text in key if isinstance(text, str))
        if len(self.entries) >= MOST or self._bytes + size > MOST_BYTES:
            self.lost += count
            return
        self._bytes += size
        self.entries[key] = [count, at]

    def merge(self, other: Counts) -> None:
        """Count all that another has counted or lost."""
        for key, (count, at) in other.entries.items():
            self.add(key, count, at)
        self.lost += other.lost

    def rows(self) -> list[tuple[Any, ...]]:
        """They all, in the shape of events."""
        return [row(key, count, at) for key, (count, at) in self.entries.items()]

    def total(self) -> int:
        """How many refusals these are, the lost ones among them."""
        return self.lost + sum(count for count, _ in self.entries.values())


class Refusals:
    """What was refused since the last write, counted per agent and subject."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._dropped = 0
        self._counts, self._carried, self._aside = Counts(), Counts(), Counts()
        self._together = Counts()
        self._turn = allocate_lock()
        self._spilled = -1

    @property
    def dropped(self) -> int:
        """How many refusals will never be in the log."""
        with self._turn:
            return self._dropped + self._counts.lost + self._carried.lost + self._aside.lost

    def findings(self) -> list[tuple[str, str, str]]:
        """What an engine's `diagnose` tells about refusals."""
        lost = self.dropped
        return [("warn", "refusals", f"{lost} dropped: the log does not tell of them")] if lost else []

    def add(self, event: str, at: int, facts: dict[str, Any], count: int = 1) -> None:
        """Remember one."""
        get = facts.get
        where = (get("project") or "", get("subject") or "", get("name") or "", get("kind") or "")
        key: Key = (event, *where, get("agent") or "", get("epoch") or 0, get("note") or "")
        with self._turn:
            # One that is known fits; most are, and whoever loses all the time should lose quickly.
            self._counts.add(key if key in self._counts.entries else fitting(key), count, at)

    def waiting(self, subject: str) -> list[tuple[Any, ...]]:
        """Those about a subject, here and in the side file, as rows of events without a number."""
        found = Counts()
        for counts in (self._counts, self._read()):
            for key, (count, at) in list(counts.entries.items()):
                if key[2] == subject:
                    found.add(key, count, at)
        return found.rows()

    def collect(self) -> list[tuple[Any, ...]]:
        """All that is to be written now, the side file's too; `written`, `drop`, `kept` or `set_aside` comes next."""
        self._together = _parsed(self._spilled) if self._take_file() else Counts()
        with self._turn:
            self._carried, self._counts = self._counts, Counts()
        self._together.merge(self._carried)
        return self._together.rows()

    def written(self) -> None:
        """They are committed: forget them, and whatever in the side file was no refusal."""
        self._forget(self._together.lost)

    def drop(self) -> None:
        """The database rejected them: forget them, and count them."""
        self._forget(self._together.total())

    def _forget(self, lost: int) -> None:
        with self._turn:
            self._dropped += lost
            self._carried = self._together = Counts()
        self._close(truncate=True)

    def kept(self) -> None:
        """The commit did not happen: keep them for the next one, and the side file's lines in the side file."""
        with self._turn:
            self._counts.merge(self._carried)
            self._carried = self._together = Counts()
        self._close(truncate=False)

    def set_aside(self) -> None:
        """The write that carried them failed, perhaps because of them: it is done again, and nobody carries them.

        `settle_aside` tells how that ended. For an engine without a side file.
        """
        with self._turn:
            self._aside.merge(self._carried)
            self._carried = self._together = Counts()

    def settle_aside(self, *, drop: bool) -> None:
        """Drop them if the write passed without them; if it failed all the same, a later one carries them."""
        with self._turn:
            if drop:
                self._dropped += self._aside.total()
            else:
                self._counts.merge(self._aside)
            self._aside = Counts()

    # ── The side file ────────────────────────────────────────────────────────────────────────────────

    def spill(self) -> None:
        """Leave what is here in the side file, unless that is full."""
        if not self._counts.entries:
            return
        fd = _opened(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        if fd < 0:
            return
        lines = ("\t".join([str(count), str(at), *map(str, key)]) for key, (count, at) in self._counts.entries.items())
        data = ("\n".join(lines) + "\n").encode()
        try:
            for _ in range(20):
                if _locked(fd):
                    break
                sleep(0.01)
            if os.fstat(fd).st_size + len(data) <= LARGEST_FILE:
                os.write(fd, data)
        finally:
            os.close(fd)
        self._counts = Counts()  # the process ends: what did not fit is lost, and nobody is left to be told

    def _take_file(self) -> bool:
        """Open and lock the side file, if there is anything in it and nobody is adding to it."""
        try:
            if not os.stat(self.path).st_size:
                return False
        except OSError:
            return False
        self._spilled = _opened(self.path, os.O_RDWR)
        if self._spilled >= 0 and not _locked(self._spilled):
            self._close(truncate=False)  # next time
        return self._spilled >= 0

    def _read(self) -> Counts:
        fd = _opened(self.path, os.O_RDONLY)
        if fd < 0:
            return Counts()
        try:
            return _parsed(fd)
        finally:
            os.close(fd)

    def _close(self, *, truncate: bool) -> None:
        fd, self._spilled = self._spilled, -1
        if fd >= 0:
            try:
                if truncate:
                    os.ftruncate(fd, 0)
            finally:
                os.close(fd)  # and with it the lock: nobody waits for an audit trail


def fitting(key: Key) -> Key:
    """A refusal with every field cut to what is remembered of it."""
    pairs = zip(key, FIELDS, strict=True)
    return tuple(_clean(each, most) if isinstance(each, str) else each for each, most in pairs)  # type: ignore[return-value]


def _clean(text: str, most: int) -> str:
    if len(text) * 4 <= most and text.isprintable():
        return text
    return cut(text.translate(_NEVER).encode("utf-8", "replace").decode(), most)


def _opened(path: str, how: int) -> int:
    """The side file; -1 if it cannot be opened or is not ours: that must not stop anybody."""
    try:
        return opened(path, how, path.removesuffix("-refused"))
    except (OSError, Unavailable):
        return -1


def _locked(fd: int) -> bool:
    """Lock the side file if it is free; nobody ever waits long for an audit trail."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parsed(fd: int) -> Counts:
    """The lines of the side file, as far as it is read; a line that is not whole is passed over."""
    found = Counts()
    try:
        text = os.pread(fd, LARGEST_FILE, 0).decode("utf-8", "replace")
    except OSError:
        return found
    for line in text.split("\n"):
        parts = line.split("\t", 10)
        if len(parts) == 10 and all(parts[i].isdecimal() and len(parts[i]) <= 18 for i in (0, 1, 8)):
            count, at, epoch = (min(int(parts[i]), LARGEST_NUMBER) for i in (0, 1, 8))
            found.add(fitting((*parts[2:8], epoch, parts[9])), count, at)  # type: ignore[arg-type]
    if os.fstat(fd).st_size > LARGEST_FILE:
        found.lost += 1  # at least
    return found


def row(key: Key, count: int, at: int) -> tuple[Any, ...]:
    """A refusal in the shape of an event's row, its number still 0."""
    event, project, subject, name, kind, agent, epoch, note = key
    texts = [text or None for text in (subject, name, kind)]
    return (0, at, event, project, *texts, None, 1, agent or None, epoch, 0, note or None, count, None)
