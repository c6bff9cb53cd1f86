"""Refusals that are not in the log yet.

A lost race changes nothing, so it must not cost a commit. The engine counts equal refusals here (same agent, subject,
epoch and so on), and its next write adds each to the log as one event. A process that ends before that leaves them in a
side file (see `refusals_file`), and the next writer of any process adds those too. Refusals are an audit trail, not
state: a crash at the wrong moment may lose or repeat a few.

A refusal never makes a write fail. The size of each field, the number of refusals and their total size are limited (see
`refusal_counts`). If the database rejects the refusals all the same, the engine repeats the write without them.
`dropped` counts what was lost in these ways.

A write takes the refusals with `collect`. Its outcome decides what becomes of them: `committed` forgets them, `drop`
gives them up, `put_back` keeps them for the next write, and `hold_back` keeps them until a repeated write shows whether
they were the reason for the failure.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from .refusal_counts import RefusalCounts, cut_to_fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .refusal_counts import RefusalKey


class Refusals:
    """The refusals of one engine since its last write."""

    def __init__(self, path: str) -> None:
        self.path = path
        """The side file; empty for an engine without one."""
        self._dropped = 0
        self._pending = RefusalCounts()
        """Refusals that no write has taken yet."""
        self._in_write = RefusalCounts()
        """Refusals of this process that the current write has taken."""
        self._collected = RefusalCounts()
        """The same, together with those of the side file."""
        self._held_back = RefusalCounts()
        self._lock = allocate_lock()
        self._file = -1
        """The locked side file while a write has its refusals."""

    @property
    def dropped(self) -> int:
        """How many refusals will never be in the log."""
        with self._lock:
            return self._dropped + self._pending.lost + self._in_write.lost + self._held_back.lost

    def findings(self) -> list[tuple[str, str, str]]:
        """The lines about refusals for an engine's `diagnose`."""
        lost = self.dropped
        return [("warn", "refusals", f"{lost} dropped: the log does not tell of them")] if lost else []

    def add(self, event: str, at: int, facts: dict[str, Any], count: int = 1) -> None:
        """Remember a refusal."""
        get = facts.get
        where = (get("project") or "", get("subject") or "", get("name") or "", get("kind") or "")
        key: RefusalKey = (event, *where, get("agent") or "", get("epoch") or 0, get("note") or "")
        with self._lock:
            # A known key already fits. Most are known, and an agent that loses often should lose quickly.
            self._pending.add(key if key in self._pending.entries else cut_to_fit(key), count, at)

    def pending(self, subject: str) -> list[tuple[Any, ...]]:
        """The refusals about a subject, from memory and from the side file, as rows of events without a number."""
        found = RefusalCounts()
        for counts in (self._pending, self._in_file()):
            for key, (count, at) in list(counts.entries.items()):
                if key[2] == subject:
                    found.add(key, count, at)
        return found.rows()

    # ── In a write ───────────────────────────────────────────────────────────────────────────────────

    def collect(self) -> list[tuple[Any, ...]]:
        """Take all refusals, the side file's too, for the current write.

        The caller then calls `committed`, `drop`, `put_back` or `hold_back`.
        """
        self._collected = self._take_file()
        with self._lock:
            self._in_write, self._pending = self._pending, RefusalCounts()
        self._collected.merge(self._in_write)
        return self._collected.rows()

    def committed(self) -> None:
        """Forget them: they are in the log. Also removes malformed lines from the side file."""
        self._forget(self._collected.lost)

    def drop(self) -> None:
        """Forget them and count them as dropped: the database rejected them."""
        self._forget(self._collected.total())

    def _forget(self, lost: int) -> None:
        with self._lock:
            self._dropped += lost
            self._in_write = self._collected = RefusalCounts()
        self._close_file(empty=True)

    def put_back(self) -> None:
        """Keep them for the next write, because this one did not commit; those of the side file stay there."""
        with self._lock:
            self._pending.merge(self._in_write)
            self._in_write = self._collected = RefusalCounts()
        self._close_file(empty=False)

    def hold_back(self) -> None:
        """Keep them out of all writes until `resolve_held_back`: the write failed, perhaps because of them.

        For an engine without a side file.
        """
        with self._lock:
            self._held_back.merge(self._in_write)
            self._in_write = self._collected = RefusalCounts()

    def resolve_held_back(self, *, drop: bool) -> None:
        """Drop them if the write succeeded without them; otherwise a later write takes them again."""
        with self._lock:
            if drop:
                self._dropped += self._held_back.total()
            else:
                self._pending.merge(self._held_back)
            self._held_back = RefusalCounts()

    # ── The side file ────────────────────────────────────────────────────────────────────────────────

    def save_to_file(self) -> None:
        """Leave the refusals of this process in the side file, because the process ends."""
        if self._pending.entries:
            from .refusals_file import append

            if append(self.path, self._pending):
                self._pending = RefusalCounts()  # what did not fit is lost; the process ends, so nobody asks how many

    def _take_file(self) -> RefusalCounts:
        """Lock the side file and read it; nothing if it is empty or another process has locked it."""
        try:
            if not os.stat(self.path).st_size:
                return RefusalCounts()
        except OSError:
            return RefusalCounts()
        from .refusals_file import open_locked, parse

        self._file = open_locked(self.path)
        return parse(self._file) if self._file >= 0 else RefusalCounts()

    def _in_file(self) -> RefusalCounts:
        from .refusals_file import read

        return read(self.path)

    def _close_file(self, *, empty: bool) -> None:
        fd, self._file = self._file, -1
        if fd >= 0:
            from .refusals_file import close

            close(fd, empty=empty)
