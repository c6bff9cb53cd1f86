"""Opening a board whose files do not match its mark: new, copied, renamed, replaced or damaged (see `board_files`).

The mark and the token in the database are authoritative. Every change here is made while the gate is locked, and a mark
is replaced only if no other process has the board open. What is found, and what follows:

- The file is missing or empty, but its WAL or its mark is there: it was renamed alone, or emptied. Refused.
- The WAL has commits, and the file is not the one that they belong to. Refused.
- The mark has a higher event number than the board: events are missing. Refused.
- The board has no token: it is new, a backup, or was made by an older version. It gets one.
- The mark has another token or is missing, and the inode number of the file is the one that was stored with the token:
  this is a second name of the file, or it was renamed without the others. Refused, with one exception: a copy that
  happens to have the inode number of the file that was there before. Such a copy is at the path that was stored
  with the token, and has no second name, no mark and no WAL.
- The same, but the inode number is another one: this is a copy. A copy is a new board and gets a token of its own.
- The token fits, but `-wal` or `-shm` is another one: SQLite removes them when another program is the last one to close
  the board. If nobody else has the board open and no event is missing, the mark is replaced. Otherwise refused.
"""

from __future__ import annotations

import os
from time import sleep

import apsw

from ...errors import Unavailable
from .board_files import BETWEEN_LOOKS, LOOKS
from .file_facts import facts_of, is_mounted, newest_event, read_without_wal, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .board_files import BoardFiles, Connect
    from .write_gate import Mark

FACTS = ("place.token", "place.file", "place.path")
"""What the table `board` has: the token, and the inode number and the path of the file when it got the token."""
CLOSING_TIME = 1000
"""Milliseconds that other processes may take to close the board."""


def open_changed(files: BoardFiles, connect: Connect) -> apsw.Connection:
    """Connect to a board that does not match its mark, and mark it; raises `Unavailable` if it must not be used."""
    # Another program's database and a second name are refused before any file is created beside the database. A token
    # is only ever written after its mark. So if there is a token and no mark, this is not where the token was given.
    facts = facts_without_wal(files.path) or {}
    if "place.token" in facts and not files.gate.mark():
        _refuse_second_name(files, facts)
    with files.gate:
        return files.open_if_unchanged(connect) or _open_and_mark(files, connect)


def _open_and_mark(files: BoardFiles, connect: Connect) -> apsw.Connection:
    """While the gate is locked: find out what was changed, and refuse it or write a new mark."""
    mark, inodes = files.gate.mark(), files.side_inodes()
    facts = facts_without_wal(files.path) or _facts_with_wal(connect)
    token = facts.get("place.token")
    same_token = mark is not None and mark.token == token
    if token is not None and not same_token:
        _refuse_second_name(files, facts)
    refuse_foreign_wal(files, mark, token)
    if (mark or token is not None or 0 in inodes) and not is_alone(files.path):
        raise in_use(files, inodes)
    connection = connect()
    try:
        if mark:
            _refuse_loss(files, connection, mark.last_event)
        prepare_schema(files, connection)
        if mark and same_token and facts.get("place.file") == str(os.stat(files.path).st_ino):
            files.write_mark(connection, mark.token)
        else:
            give_token(files, connection)
        copy_wal(files, connection)
    except BaseException:
        connection.close()
        raise
    return connection


# ── Steps that a repair needs too ────────────────────────────────────────────────────────────────────────


def facts_without_wal(path: str) -> dict[str, str] | None:
    """The facts in the database file without its WAL, because under this name it may have the wrong WAL.

    None if the file makes no sense without its WAL: a process died while it copied the WAL into the file.
    """
    for _ in range(LOOKS):
        if found := read_without_wal(path):
            return found[0]
        sleep(BETWEEN_LOOKS)  # another process may be copying its WAL at this moment
    return None


def is_alone(path: str) -> bool:
    """Whether no other process has the file open, under any name: SQLite's locks are on the file, not on the name."""
    probe = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        probe.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        probe.set_busy_timeout(CLOSING_TIME)
        probe.execute("PRAGMA locking_mode = EXCLUSIVE")
        probe.execute("BEGIN IMMEDIATE")
        probe.execute("ROLLBACK")
    except apsw.BusyError:
        return False
    finally:
        probe.close()
    return True


def prepare_schema(files: BoardFiles, connection: apsw.Connection) -> None:
    """Make or upgrade the tables, while the gate is locked."""
    from contextlib import nullcontext

    from .opening import prepare

    prepare(connection, nullcontext(), files.path)  # type: ignore[arg-type]  # the gate is locked already


def give_token(files: BoardFiles, connection: apsw.Connection) -> None:
    """Write a new mark, then the new token into the board: now they belong together."""
    token, inode = os.urandom(16).hex(), str(os.stat(files.path).st_ino)
    files.write_mark(connection, token)
    connection.execute("BEGIN IMMEDIATE")
    for fact in zip(FACTS, (token, inode, files.path), strict=True):
        connection.execute(
            "INSERT INTO board VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", fact
        )
    connection.execute("COMMIT")


def copy_wal(files: BoardFiles, connection: apsw.Connection) -> None:
    """Copy the token into the database file, because under another name the file has another WAL.

    If a reader prevents that, a later checkpoint does it.
    """
    try:
        files.checkpoint(connection, apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.BusyError:
        pass  # another process runs a checkpoint


def _facts_with_wal(connect: Connect) -> dict[str, str]:
    connection = connect()
    try:
        return facts_of(connection)
    finally:
        connection.close()


# ── What is refused ──────────────────────────────────────────────────────────────────────────────────────


def refuse_lost_file(files: BoardFiles) -> None:
    """Raise `Unavailable` if the file is missing or empty, and its WAL or its mark has what was committed to it.

    SQLite would delete the WAL of an empty file. The file is looked at last: a process that makes a new board writes to
    the database file before it creates any other.
    """
    files.side_inodes()
    mark, wal = files.gate.mark(), size_of(files.wal)
    if (wal or (mark and mark.last_event)) and not size_of(files.path):
        how = "empty" if os.path.lexists(files.path) else "missing"
        remains = files.wal if wal else files.gate.path
        raise Unavailable(
            f"board {files.path}: the file is {how}, but {remains} of the board that was here is not",
            reason="board-file-lost",
            **_side_files(files),
        )


def _refuse_second_name(files: BoardFiles, facts: dict[str, str]) -> None:
    """Raise `Unavailable` if this is the very file that got the token: then its mark is beside another name of it."""
    if facts.get("place.file") != str(os.stat(files.path).st_ino):
        return
    home = facts.get("place.path", "")
    if home == files.path:
        if files.gate.never_marked() and not size_of(files.wal) and not _has_second_name(files.path):
            return  # a copy that happens to have the inode number of the file that was there before
        raise Unavailable(
            f"board {files.path}: {files.path}-gate does not belong to it, or is missing",
            reason="board-gate-wrong",
            repair="place",
        )
    raise Unavailable(
        f"board {files.path}: this file is the board {home} under a second name, and a board has only one",
        reason="board-second-name",
        home=home,
        repair="place",
    )


def _has_second_name(path: str) -> bool:
    return os.stat(path).st_nlink > 1 or is_mounted(path)


def refuse_foreign_wal(files: BoardFiles, mark: Mark | None, token: str | None) -> None:
    """Raise `Unavailable` if the WAL has commits, and they belong to another file than the one that is here."""
    if not mark or not size_of(files.wal):
        return
    other_board = token not in (None, mark.token) and mark.wal == os.lstat(files.wal).st_ino
    if other_board or files.fits(mark, os.stat(files.path).st_ctime_ns) is False:
        raise overwritten(files)


def _refuse_loss(files: BoardFiles, connection: apsw.Connection, last: int) -> None:
    """Raise `Unavailable` if the board lacks events up to this number."""
    found = newest_event(connection)
    missing = 0 if found is None else last - found
    if missing > 0:
        raise Unavailable(
            f"board {files.path}: the last {missing} events that were committed are missing: "
            "its -wal was deleted, or an older copy was put in its place",
            reason="board-events-lost",
            repair="place",
        )


def overwritten(files: BoardFiles) -> Unavailable:
    """The error for a WAL that belongs to another file than the one that is here now."""
    return Unavailable(
        f"board {files.path}: {files.wal} belongs to another file, which was here before: "
        "it was overwritten or replaced, for example by an older copy",
        reason="board-overwritten",
        **_side_files(files),
    )


def _side_files(files: BoardFiles) -> dict[str, str]:
    """What must be moved elsewhere before a new board can be made here."""
    return {"wal": files.wal, "shm": files.shm, "gate": files.gate.path}


def in_use(files: BoardFiles, inodes: list[int]) -> Unavailable:
    """The error for a board that others have open, with other files beside it than those that are here."""
    missing = [name for name, inode in zip((files.wal, files.shm), inodes, strict=True) if not inode]
    what = f"{missing[0]} is missing" if missing else f"{files.wal} or {files.shm} is another one"
    return Unavailable(
        f"board {files.path}: busy: others have the board open, but {what}",
        hint="end every process that uses this board, other programs too, then try again",
    )
