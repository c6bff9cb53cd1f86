"""What a database file tells of the board in it and of its place (see `board_files`)."""

from __future__ import annotations

import os

import apsw

from ..schema import CLOSED

TABLES = ("board", f"{CLOSED}board")
"""Where the token is; the second one in a board that was moved elsewhere (see `move`)."""
DEADLINE = 30.0
"""Seconds to wait for others who have the file locked."""
NEWEST = "SELECT coalesce(max(number), 0) FROM events"
"""The number of the last event."""


def in_file(path: str) -> tuple[dict[str, str], int | None] | None:
    """The facts and the last event in the file, without its log; None if it makes no sense without it."""
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
    """What a board tells of its place; nothing if it has no tables yet."""
    for table in TABLES:
        try:
            rows = connection.execute(f"SELECT name, value FROM {table} WHERE name LIKE 'place.%'")  # noqa: S608
            return {str(name): str(value) for name, value in rows}
        except apsw.SQLError:
            pass  # there is no such table
    return {}


def closed_facts(path: str) -> dict[str, str] | None:
    """What a board tells that was closed by a move, or has not arrived yet; None if it is not closed."""
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
    """Take out of a copy what it tells of its place: it has none before it is opened."""
    for table in TABLES:
        try:
            copy.execute(f"DELETE FROM {table} WHERE name LIKE 'place.%'")  # noqa: S608
        except apsw.SQLError:
            pass  # there is no such table


def newest_event(connection: apsw.Connection) -> int | None:
    """The number of the last event.

    None if that page is damaged, which is for `tb doctor` to tell, or if the board was moved elsewhere.
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
    """How many bytes a file has, 0 if it is missing."""
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
