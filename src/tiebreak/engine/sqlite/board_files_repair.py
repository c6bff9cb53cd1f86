"""`tb doctor --repair` for a SQLite board that cannot be opened: accept its files as they are (see `board_files`).

The board gets a new token and a new mark, so that it can be used again at this path. That is refused if the file has a
second name, if another process has it open, or if its WAL belongs to another file, because then two boards could come
out of one. If the file was renamed without its WAL, the WAL is moved here first.
"""

from __future__ import annotations

import os

import apsw

from ...errors import Unavailable
from .board_files import BoardFiles
from .board_files_opening import (
    copy_wal,
    facts_without_wal,
    give_token,
    in_use,
    is_alone,
    overwritten,
    prepare_schema,
    refuse_foreign_wal,
)
from .file_facts import is_mounted, newest_event, size_of
from .opening import connect
from .write_gate import WriteGate

DEADLINE = 5.0


def repair(path: str) -> None:
    """Make this path the one place of a board; raises `Unavailable` if that would not be safe."""
    path = os.path.realpath(path)
    gate = WriteGate(f"{path}-gate", DEADLINE)
    try:
        _repair(BoardFiles(path, gate))
    except apsw.Error as exc:
        raise Unavailable(f"board {path}: {exc}") from exc
    except OSError as exc:
        raise Unavailable(f"board {path}: {exc.strerror or exc}") from exc
    finally:
        gate.close()


def _repair(files: BoardFiles) -> None:
    _refuse_second_name(files.path)
    facts = facts_without_wal(files.path) or {}
    home, token = facts.get("place.path", ""), facts.get("place.token")
    with files.gate:
        if not is_alone(files.path):
            raise in_use(files, files.side_inodes())
        refuse_foreign_wal(files, files.gate.mark(), token)
        last_event = _fetch_wal(files, home, token) if token and home not in ("", files.path) else 0
        connection = connect(files.path, DEADLINE)
        try:
            _refuse_loss(files, connection, home, last_event)
            prepare_schema(files, connection)
            give_token(files, connection)
            copy_wal(files, connection)
        finally:
            connection.close()


def _refuse_second_name(path: str) -> None:
    found = os.stat(path)
    if found.st_nlink > 1:
        raise Unavailable(
            f"board {path}: the file has a second name (a hard link)",
            hint=f"find it with `find / -xdev -inum {found.st_ino}`, and remove one of the two",
        )
    if is_mounted(path):
        raise Unavailable(
            f"board {path}: the file alone is mounted here, so that it has another name elsewhere",
            hint="mount its folder instead",
        )


def _fetch_wal(files: BoardFiles, home: str, token: str) -> int:
    """Move the WAL here if the file was renamed without it. Returns the last event committed at the old path."""
    mark, wal = WriteGate(f"{home}-gate", DEADLINE).mark(), f"{home}-wal"
    if not mark or mark.token != token:
        return 0  # there is no board, or another one
    if size_of(wal) and mark.wal == os.lstat(wal).st_ino:
        if size_of(home):
            raise Unavailable(
                f"board {files.path}: {wal} belongs to it, but another file is at {home} now",
                hint=f"end every process that uses {home}, move that file elsewhere, and try again",
            )
        if size_of(files.wal):
            raise overwritten(files)
        os.rename(wal, files.wal)  # SQLite makes a new -shm
    return mark.last_event


def _refuse_loss(files: BoardFiles, connection: apsw.Connection, home: str, last_event: int) -> None:
    missing = last_event - (newest_event(connection) or 0)
    if missing > 0:
        raise Unavailable(
            f"board {files.path}: the last {missing} events that were committed when it was {home} are missing",
            hint=f"put {home}-wal back, from a backup perhaps, and try again; "
            f"to do without them, first move {home}-gate elsewhere",
        )
