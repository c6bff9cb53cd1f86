"""A backup of a SQLite board: one snapshot, copied to a new file while others use the board."""

from __future__ import annotations

import os
from time import monotonic

import apsw

from ...errors import Unavailable
from ...files import sync
from ...text import span
from .file_facts import forget_place
from .opening import allow_writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PAGES_AT_ONCE = 256
LONGEST_BACKUP = 1800.0
"""Seconds. During a backup SQLite cannot reset the WAL, which grows with every commit, so there has to be a limit."""
SLOW = "copy it to a faster disk"


def backup(source: apsw.Connection, target: str, progress: Callable[[int, int], None] | None) -> None:
    """Copy one snapshot to a new file, which gets its name when it is complete and on the disk; closes `source`."""
    if os.path.lexists(target):
        raise FileExistsError(target)
    end = monotonic() + LONGEST_BACKUP
    partial = f"{target}.partial-{os.getpid()}"
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        copy = apsw.Connection(partial)
        with source:  # one snapshot: otherwise a write by others would restart the copy
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
        sync(partial)
        os.link(partial, target)
        sync(os.path.dirname(target))
    finally:
        os.unlink(partial)
        source.close()
