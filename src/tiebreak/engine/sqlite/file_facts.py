"""Reading from a database what `board_files` has to know: the token and the place of the board, and its last event."""

from __future__ import annotations

import os

import apsw

from ...limits import DEADLINE
from ..schema import CLOSED

TABLES = ("board", f"{CLOSED}board")
"""The table that has the token; the second one in a board that was closed by a move (see `move`)."""
NEWEST = "SELECT coalesce(max(number), 0) FROM events"
"""The number of the last event."""


def read_without_wal(path: str) -> tuple[dict[str, str], int | None] | None:
    """The facts and the last event in the database file without its WAL; None if it makes no sense without the WAL."""
    from urllib.parse import quote

    from .opening import recognise

    raw = apsw.Connection(f"file:{quote(path)}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        recognise(raw, path)
        return facts_of(raw), newest_event(raw)
    except apsw.CorruptError:
        return None
    finally:
        raw.close()


def facts_of(connection: apsw.Connection) -> dict[str, str]:
    """The token, inode number and path that the board has stored (`place.…`); empty if it has no tables yet."""
    for table in TABLES:
        try:
            rows = connection.execute(f"SELECT name, value FROM {table} WHERE name LIKE 'place.%'")  # noqa: S608
            return {str(name): str(value) for name, value in rows}
        except apsw.SQLError:
            pass  # there is no such table
    return {}


def closed_facts(path: str) -> dict[str, str] | None:
    """The facts of a closed board: where it moved to, or from where it is being moved; None if it is not closed."""
    from .opening import connect

    try:
        connection = connect(path, DEADLINE)
    except apsw.Error:
        return None
    try:
        rows = connection.execute(f"SELECT name, value FROM {CLOSED}board")  # noqa: S608
        return {str(name): str(value) for name, value in rows}
    except apsw.Error:
        return None
    finally:
        connection.close()


def forget_place(copy: apsw.Connection) -> None:
    """Delete the token and the place from a copy, so that it gets its own when it is first opened."""
    for table in TABLES:
        try:
            copy.execute(f"DELETE FROM {table} WHERE name LIKE 'place.%'")  # noqa: S608
        except apsw.SQLError:
            pass  # there is no such table


def newest_event(connection: apsw.Connection) -> int | None:
    """The number of the last event.

    None if its page is damaged, which `tb doctor` reports, or if the board is closed by a move.
    """
    try:
        [(number,)] = connection.execute(NEWEST).fetchall()
        return int(str(number))
    except apsw.CorruptError:
        return None
    except apsw.SQLError:  # there is no such table
        moved = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (TABLES[1],)).fetchall()
        return None if moved else 0


def size_of(path: str) -> int:
    """The size of a file in bytes; 0 if it is missing."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def is_mounted(path: str) -> bool:
    """Whether the file itself is a mount point."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            points = [line.split(" ")[4] for line in mounts]
    except OSError:
        return False  # not Linux
    return path in [point.encode("latin-1", "backslashreplace").decode("unicode_escape") for point in points]
