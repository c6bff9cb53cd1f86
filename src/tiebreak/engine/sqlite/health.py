"""The health of a SQLite board: what `tb doctor` checks of its file and of the files beside it."""

from __future__ import annotations

import os
import shutil
from time import monotonic, sleep

import apsw

from ... import clock
from ...errors import Unavailable
from ...text import span
from .opening import wal_size
from .sqlite_errors import DAMAGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .write_gate import WriteGate

FIXED_IN = (3, 51, 3)
"""Before this version, several writers and checkpointers could corrupt a WAL."""
LARGE_WAL = 64 * 1024 * 1024
LITTLE_SPACE = 100 * 1024 * 1024
MOMENT = 0.2
"""Seconds that a probe takes at most, and that a stuck reader reads at least."""
READ_LOCKS = range(123, 128)
"""The bytes of the `-shm` that SQLite's readers lock."""


def probe(connection: apsw.Connection, path: str) -> None:
    """Check the pages of the file, as many as `MOMENT` allows; raises `Unavailable` if one is damaged."""
    end = monotonic() + MOMENT
    connection.set_progress_handler(lambda: monotonic() > end, 10_000)
    try:
        found = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
    except apsw.InterruptError:
        found = ["ok"]  # nothing was found in the time allowed
    finally:
        connection.close()
    if found != ["ok"]:
        message, reason = DAMAGED
        raise Unavailable(f"board {path}: {message}", reason=reason, sqlite=str(found[0]))


def diagnose(
    path: str, connect: Callable[[], apsw.Connection], gate: WriteGate, now: Callable[[], int]
) -> list[tuple[str, str, str]]:
    """All findings about the file, its disk and its clock: (level, what, details)."""
    connection = connect()
    try:
        return [
            _version(),
            _integrity(connection),
            _settings(connection),
            *_permissions(path),
            _wal(path),
            _space(path),
            _clock(now()),
            ("ok", "gate", _last_entry(gate.last_entry())),
        ]
    finally:
        connection.close()


def _last_entry(entry: str) -> str:
    return f"last passed by {entry.replace(' for ', ', ')} ago" if " for " in entry else "nobody has passed it yet"


def _version() -> tuple[str, str, str]:
    text = apsw.sqlite_lib_version()
    known = tuple(int(part) for part in text.split(".")[:3])
    if known < FIXED_IN:
        return (
            "bad",
            "sqlite",
            f"{text} can corrupt a board with several writers; install apsw 3.51.3 or newer",
        )
    return "ok", "sqlite", text


def _integrity(connection: apsw.Connection) -> tuple[str, str, str]:
    try:
        found = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
    except apsw.Error as exc:
        found = [str(exc)]
    if found == ["ok"]:
        return "ok", "integrity", "every page and index is sound"
    return "bad", "integrity", "; ".join(str(line) for line in found)


def _settings(connection: apsw.Connection) -> tuple[str, str, str]:
    mode = str(connection.pragma("journal_mode")).lower()
    level = connection.pragma("synchronous")
    durable = mode == "wal" and level == 2
    return (
        ("ok" if durable else "bad"),
        "durability",
        f"journal {mode}, synchronous {'FULL' if level == 2 else level}",
    )


def _permissions(path: str) -> list[tuple[str, str, str]]:
    if not os.access(path, os.W_OK):
        return [("bad", "permissions", f"{path} is read-only here")]
    out = []
    for name in _files(path):
        if os.path.exists(name) and os.stat(name).st_mode & 0o077:
            out.append(
                (
                    "warn",
                    "permissions",
                    f"{name} can be read by others (mode {os.stat(name).st_mode & 0o777:o})",
                )
            )
    return out or [("ok", "permissions", "only you can read the board")]


def _files(path: str) -> list[str]:
    """The database file and the files beside it."""
    return [path, *(path + suffix for suffix in ("-wal", "-shm", "-gate", "-refused", "-daemon"))]


def repair_permissions(path: str) -> None:
    """Make the board's files accessible to their owner alone; safe at any time."""
    for name in _files(path):
        if os.path.exists(name):
            os.chmod(name, 0o600)


def _wal(path: str) -> tuple[str, str, str]:
    size = wal_size(path)
    text = f"{size / 1024:.0f} KiB beside a database of {os.path.getsize(path) / 1024:.0f} KiB"
    if size <= LARGE_WAL:
        return "ok", "wal", text
    readers = stuck_readers(path, MOMENT)
    return "warn", "wal", f"{text}, not reset because of {', '.join(readers)}" if readers else text


def stuck_readers(path: str, moment: float) -> list[str]:
    """The processes that have been reading from the WAL for a moment: SQLite cannot reset the WAL until they stop.

    This works only on Linux, where the kernel lists all locks. To ask SQLite, this process would have to open and close
    the files, which would drop its own locks.
    """
    found = _reading(path)
    if found:
        sleep(moment)
        found &= _reading(path)
    return [f"pid {pid} ({_program(pid)})" for pid in sorted(found)]


def _reading(path: str) -> set[int]:
    try:
        index = os.stat(f"{path}-shm").st_ino
        with open("/proc/locks", encoding="ascii") as locks:
            rows = [line.split() for line in locks]
    except OSError:
        return set()
    # 1: POSIX ADVISORY READ 18360 fe:00:10011926 124 124
    on_this_file = [
        row for row in rows if len(row) >= 8 and row[1] == "POSIX" and row[5].rpartition(":")[2] == str(index)
    ]
    found = {int(row[4]) for row in on_this_file if int(row[6]) in READ_LOCKS}
    return found - {os.getpid(), 0, -1}


def _program(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as name:
            return name.read().strip()
    except OSError:
        return "unknown"


def _space(path: str) -> tuple[str, str, str]:
    free = shutil.disk_usage(os.path.dirname(path)).free
    return ("warn" if free < LITTLE_SPACE else "ok"), "disk", f"{free / 1024**2:.0f} MiB free"


def _clock(now: int) -> tuple[str, str, str]:
    skew = (now - clock.wall()) / clock.SECOND
    level = "warn" if abs(skew) > 60 else "ok"
    ahead = "ahead of" if skew > 0 else "behind"
    return level, "clock", f"board time is {span(abs(skew))} {ahead} the wall clock"
