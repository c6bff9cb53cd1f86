"""Opening a SQLite board: make the file, bring its schema up to date, start its clock.

Every change to the database is made while the gate is locked. So any number of processes may open a board that does
not exist yet at the same moment: the first one makes it, and the others find it made.
"""

from __future__ import annotations

import os
import sys

import apsw

from ... import clock
from ...errors import Unavailable
from .. import schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .write_gate import WriteGate

APPLICATION_ID = 0x74696562  # "tieb"
KEPT_WAL = 8 * 1024 * 1024
"""The size in bytes to which SQLite cuts the WAL after a reset: cheaper than to let it grow again from nothing."""


def create(path: str) -> None:
    """Make the file, readable by its owner alone, if it does not exist.

    An existing file is not opened: closing it would drop the locks of every other connection of this process to it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if os.path.isdir(path):
            raise Unavailable(f"board {path}: is a folder, not a file") from None


def connect(path: str, deadline: float) -> apsw.Connection:
    """A connection with durable commits that waits up to `deadline` seconds for locks and is allowed to write."""
    made = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX)
    made.set_busy_timeout(int(deadline * 1000))
    made.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    made.execute("PRAGMA synchronous = FULL")
    made.execute(f"PRAGMA journal_size_limit = {KEPT_WAL}")
    if sys.platform == "darwin":
        made.execute("PRAGMA fullfsync = ON")  # on macOS, fsync alone leaves data in the disk's cache
    allow_writing(made)
    return made


def wal_size(path: str) -> int:
    """The size of the WAL in bytes; 0 if there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def allow_writing(connection: apsw.Connection) -> None:
    """Register the function that the triggers of every table name: without it, SQLite refuses all writes."""
    _register(connection, schema.SQLITE_PASS)


def _register(connection: apsw.Connection, name: str) -> None:
    connection.create_scalar_function(name, _nothing, 0, flags=apsw.SQLITE_INNOCUOUS)


def _nothing(*_: Any) -> None:
    """Never called, because the triggers never fire: the function only has to exist."""


def prepare(connection: apsw.Connection, gate: WriteGate, path: str) -> None:
    """Make or upgrade the tables if necessary; raises `Unavailable` for a newer schema."""
    version = recognise(connection, path)
    if version < schema.VERSION:
        with gate:
            _migrate(connection, path)
        version = _version(connection, path)
    schema.refuse_newer(version, path)
    if str(connection.pragma("journal_mode")).lower() != "wal":  # a copy that another program made
        with gate:
            connection.execute("PRAGMA journal_mode = WAL")


def recognise(connection: apsw.Connection, path: str) -> int:
    """The version of the schema, 0 for an empty file; raises `Unavailable` if it is another program's database."""
    version = _version(connection, path)
    if version == 0 and connection.execute("SELECT 1 FROM sqlite_schema").fetchall():
        # Tables and version are one commit: if these are our tables, the version is there at the second look.
        version = _version(connection, path)
        if version == 0:
            raise _not_ours(path)
    return version


def _version(connection: apsw.Connection, path: str) -> int:
    version, application = _rows(
        connection, "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id"
    )[0]
    if application not in (0, APPLICATION_ID) or (version and not application):
        raise _not_ours(path)
    return int(version)


def _not_ours(path: str) -> Unavailable:
    return Unavailable(f"board {path}: a SQLite database, but not a tiebreak board", hint="is the path right?")


def _migrate(connection: apsw.Connection, path: str) -> None:
    """Make or upgrade the tables in one transaction; does nothing if another process has just done it."""
    if _version(connection, path) == 0:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        run_steps(connection, _version(connection, path))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def run_steps(connection: apsw.Connection, version: int) -> None:
    """Run the steps that a board of this version lacks, in the caller's transaction."""
    for number, step in enumerate(schema.steps("sqlite", version), version + 1):
        _register(connection, schema.sqlite_pass(number))
        connection.execute(step)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {max(version, schema.VERSION)}")


def _rows(connection: apsw.Connection, sql: str, *params: str) -> list[Any]:
    return connection.execute(sql, params).fetchall()


def board_clock(connection: apsw.Connection, gate: WriteGate) -> Callable[[], int]:
    """Board time: the boot-time clock plus an offset, which the first process since the last boot has stored."""
    if shift := clock.off_by():
        from ...text import span

        way = "ahead of" if shift > 0 else "behind"
        raise Unavailable(
            f"board: the clock of this process is {span(abs(shift))} {way} that of the machine, which counts leases",
            hint="run it without `faketime` and outside of a time namespace, or use the board through a daemon",
        )
    boot = _boot_id()
    offset = _stored_offset(connection, boot)
    if offset is None:
        with gate:
            offset = _store_offset(connection, boot)
    shift = offset
    return lambda: clock.since_boot() + shift


def _stored_offset(connection: apsw.Connection, boot: str) -> int | None:
    rows = _rows(
        connection,
        "SELECT value FROM board WHERE name = 'clock.offset' AND EXISTS "
        "(SELECT 1 FROM board WHERE name = 'clock.boot' AND value = ?)",
        boot,
    )
    return int(rows[0][0]) if rows else None


def _store_offset(connection: apsw.Connection, boot: str) -> int:
    known = _stored_offset(connection, boot)
    if known is not None:
        return known
    [(seen,)] = _rows(
        connection,
        # The newest event need not have the latest time, because a refusal is logged later than it happened. And a
        # heartbeat has no event.
        "SELECT max((SELECT coalesce(max(at), 0) FROM (SELECT at FROM events ORDER BY number DESC LIMIT 10000)), "
        "(SELECT coalesce(max(seen_at), 0) FROM agents))",
    )
    offset = clock.offset(seen)
    connection.execute(
        "INSERT INTO board (name, value) VALUES ('clock.boot', ?1), ('clock.offset', ?2) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (boot, str(offset)),
    )
    return offset


def _boot_id() -> str:
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, 64).decode().strip()
        finally:
            os.close(fd)
    except OSError:
        from ...process_identity import identity

        return identity().boot
