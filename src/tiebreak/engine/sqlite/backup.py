"""A backup of a SQLite board: one snapshot, copied to a new file while others use the board."""

from __future__ import annotations

from time import monotonic

import apsw

from ...errors import Unavailable
from ...files import create_file
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
    try:
        create_file(target, lambda partial: _copy(source, partial, target, progress))
    finally:
        source.close()


def _copy(source: apsw.Connection, partial: str, target: str, progress: Callable[[int, int], None] | None) -> None:
    end = monotonic() + LONGEST_BACKUP
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
