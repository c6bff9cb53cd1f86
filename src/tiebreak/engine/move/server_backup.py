"""A backup of a board on PostgreSQL: one snapshot, as a SQLite board in a new file."""

from __future__ import annotations

from ...errors import Refused, Unavailable
from ...files import create_file, remove_file
from .copying import RowCopy
from .endpoints import explained, still_open
from .postgres_endpoint import PostgresEndpoint
from .sqlite_endpoint import SqliteEndpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .copying import Progress
    from .endpoints import Endpoint


def to_file(connection: Any, address: str, target: str, progress: Progress | None = None) -> None:
    """Copy one snapshot of a board on a server to a SQLite board in a new file.

    The file gets its name when it is complete and on the disk. Times are not changed: the first process that opens the
    file chooses a clock offset with which board time continues after the latest of them.
    """
    old = PostgresEndpoint(connection, address)
    try:
        _save(target, lambda new: _snapshot(old, new, progress))
    finally:
        old.close()


def save(old: Endpoint, target: str, progress: Progress | None) -> None:
    """Copy what a transaction sees to a SQLite board in a new file."""
    _save(target, lambda new: _copy_rows(old, new, progress))


def _save(target: str, fill: Callable[[Endpoint], None]) -> None:
    try:
        create_file(target, lambda partial: _fill(partial, target, fill))
    except FileExistsError:
        raise Refused(f"backup {target}: exists already, and a backup never overwrites") from None
    except OSError as exc:
        raise Unavailable(f"backup {target}: {exc.strerror or exc}", reason="backup-failed") from exc


def _fill(partial: str, target: str, fill: Callable[[Endpoint], None]) -> None:
    try:
        new = SqliteEndpoint(partial)
        try:
            fill(new)
        finally:
            new.close()
    except Exception as exc:
        raise explained(exc, f"backup {target}:", "backup-failed") from exc
    finally:
        for suffix in ("-wal", "-shm", "-gate"):
            remove_file(partial + suffix)


def _snapshot(old: Endpoint, new: Endpoint, progress: Progress | None) -> None:
    old.snapshot()
    _copy_rows(old, new, progress)


def _copy_rows(old: Endpoint, new: Endpoint, progress: Progress | None) -> None:
    still_open(old)
    new.begin()
    new.make_empty({})
    RowCopy(old, new, progress, shift=0).all_tables()
    new.commit()
    new.rows("PRAGMA wal_checkpoint(TRUNCATE)")  # so that everything is in the one file
