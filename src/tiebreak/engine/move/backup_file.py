"""Reading a backup: the file is checked and copied, and only the copy is opened as a board and upgraded.

The file itself is never changed, and nothing is made beside it: it is opened as one that nobody changes.
"""

from __future__ import annotations

import os
from urllib.parse import quote

import apsw

from ...errors import Refused, Unavailable
from ..schema import CLOSED, refuse_newer
from ..sqlite.backup import PAGES_AT_ONCE
from ..sqlite.file_facts import forget_place, size_of
from ..sqlite.opening import allow_writing, recognise
from ..sqlite.sqlite_errors import unavailable
from .sqlite_endpoint import SqliteEndpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .copying import Progress


def open_backup(file: str, folder: str, progress: Progress | None) -> SqliteEndpoint:
    """Copy a backup to this folder, check it, upgrade it and open it; raises `Refused` if it cannot be restored."""
    if not os.path.lexists(file):
        raise Refused(f"restore: there is no file {file}")
    if not os.path.isfile(file):
        raise Refused(f"restore: {file} is not a file")
    if size_of(f"{file}-wal"):
        raise Refused(
            f"restore: {file} has a log beside it ({file}-wal), so it is a board that was or is in use",
            reason="restore-not-a-backup",
            file=file,
        )
    copy = os.path.join(folder, "backup.db")
    try:
        _copy(file, copy, progress)
        opened = SqliteEndpoint(copy)
        opened.begin()  # upgrades it
        opened.commit()
        return opened
    except apsw.CorruptError as exc:
        raise _damaged(file, str(exc)) from exc
    except apsw.NotADBError as exc:
        raise _not_a_backup(file) from exc
    except apsw.Error as exc:
        raise unavailable(exc, file) from exc
    except OSError as exc:
        raise Unavailable(f"restore {file}: {exc.strerror or exc}", reason="restore-failed") from exc


def _copy(file: str, copy: str, progress: Progress | None) -> None:
    path = os.path.abspath(file)
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    source = apsw.Connection(f"file:{quote(path)}?immutable=1", flags=flags)
    os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    target = apsw.Connection(copy)
    try:
        with target.backup("main", source, "main") as work:
            while not work.done:
                work.step(PAGES_AT_ONCE)
                if progress is not None:
                    progress(work.page_count - work.remaining, work.page_count)
        _check(target, file)
        target.execute("PRAGMA journal_mode = WAL")
        allow_writing(target)
        forget_place(target)
    finally:
        target.close()
        source.close()


def _check(copy: apsw.Connection, file: str) -> None:
    """Raise `Refused` if it is not a sound board."""
    try:
        version = recognise(copy, file)
    except Unavailable:
        raise _not_a_backup(file) from None
    if version == 0:
        raise _not_a_backup(file)
    refuse_newer(version, file)
    if copy.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (f"{CLOSED}board",)).fetchall():
        raise Refused(f"restore: {file} is a board that was moved away, not a backup")
    [(found,), *_] = copy.execute("PRAGMA integrity_check(1)").fetchall()
    if found != "ok":
        raise _damaged(file, str(found))


def _not_a_backup(file: str) -> Refused:
    return Refused(f"restore: {file} is not a backup: it is not a tiebreak board", hint="is the path right?")


def _damaged(file: str, found: str) -> Refused:
    return Refused(f"restore: {file} is damaged, and cannot be restored", hint="use another backup", sqlite=found)
