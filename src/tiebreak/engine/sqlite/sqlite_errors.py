"""SQLite's errors as `Unavailable`, with a message and a hint that a person can act on."""

from __future__ import annotations

import apsw

from ...errors import Unavailable
from ...limits import READ_DEADLINE

ENVIRONMENT = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.NoMemError,
    apsw.ReadOnlyError,
)
"""Errors of the machine, not of a statement: nothing else in the same transaction can be trusted either."""
_REASONS: tuple[tuple[type[Exception], str, str], ...] = (
    (apsw.FullError, "the disk is full", "free some space; nothing was written"),
    (apsw.ReadOnlyError, "read-only", "check the permissions of the file and of its folder"),
    (apsw.CantOpenError, "cannot be opened", "check that the folder exists and can be written to"),
    (apsw.NotADBError, "not a tiebreak board (not a SQLite database)", "is the path right?"),
    (apsw.BusyError, "busy for too long", "another program holds a lock on the file"),
    (apsw.InterruptError, f"a read took longer than {READ_DEADLINE:g} s and was ended", "ask for less at a time"),
    (apsw.PermissionsError, "permission denied", "check the permissions of the file"),
)
DAMAGED = "the database is damaged", "board-damaged"
_CODED: tuple[tuple[type[Exception], str, str], ...] = (
    (apsw.CorruptError, *DAMAGED),
    (apsw.IOError, "the disk reports an error", "board-disk-error"),
)
"""The same, where each interface has its own next step (see `tiebreak.advice`)."""


def unavailable(exc: apsw.Error, path: str) -> Unavailable:
    """Turn an error of SQLite into one that a person can act on."""
    for kind, message, hint in _REASONS:
        if isinstance(exc, kind):
            return Unavailable(f"board {path}: {message}", hint=hint, sqlite=str(exc))
    for kind, message, reason in _CODED:
        if isinstance(exc, kind):
            return Unavailable(f"board {path}: {message}", reason=reason, sqlite=str(exc))
    if str(exc).endswith("please_upgrade_tiebreak"):  # from a trigger of a newer schema, see `schema`
        message = f"board {path}: was upgraded by a newer tiebreak while this process had it open"
        return Unavailable(message, hint="upgrade tiebreak on this machine", sqlite=str(exc))
    if str(exc).startswith("no such table"):
        from ..closed_board import closed
        from .file_facts import closed_facts

        facts = closed_facts(path)
        return Unavailable(f"board {path}: {exc}") if facts is None else closed(facts, path)
    return Unavailable(f"board {path}: {exc}")
