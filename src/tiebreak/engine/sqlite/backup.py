"""Copying a SQLite board while others use it."""

from __future__ import annotations

import os
from time import monotonic

import apsw

from ...errors import Unavailable
from ...text import span
from .file_facts import forget_place
from .opening import allow_writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PAGES_AT_ONCE = 256
LONGEST_BACKUP = 1800.0
"""Seconds. While a board is copied its log cannot start anew, so it may not take for ever."""
SLOW = "copy it to a faster disk"


def backup(source: apsw.Connection, target: str, progress: Callable[[int, int], None] | None) -> None:
    """Copy one snapshot to a new file; the file gets its name when it is complete and on the disk."""
    if os.path.lexists(target):
        raise FileExistsError(target)
    end = monotonic() + LONGEST_BACKUP
    partial = f"{target}.partial-{os.getpid()}"
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        copy = apsw.Connection(partial)
        with source:  # one snapshot: a write by others must not start the copy anew
            source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            with copy.backup("main", source, "main") as work:
                while not work.done:
                    if monotonic() > end:
                        raise Unavailable(f"backup {target}: takes longer than {span(LONGEST_BACKUP)}", hint=SLOW)
                    work.step(PAGES_AT_ONCE)
                    if progress is not None:
                        progress(work.page_count - work.remaining, work.page_count)
        copy.execute("PRAGMA journal_mode = WAL")  # as durable as the original
        allow_writing(copy)
        forget_place(copy)
        copy.close()
        _sync(partial)
        os.link(partial, target)
        _sync(os.path.dirname(target) or ".")
    finally:
        os.unlink(partial)
        source.close()


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
