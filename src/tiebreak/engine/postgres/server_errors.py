"""Errors of a PostgreSQL server: which are temporary, and what callers are told."""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

from ...errors import Unavailable

CONFLICTS = (pg.DeadlockDetected, pg.SerializationFailure, pg.UniqueViolation)
"""Two transactions were in conflict. The one that failed is run again."""
MISSING = (pg.UndefinedTable, pg.UndefinedFunction)
"""A table or function of the board is missing, probably because the board was moved."""
_PERMANENT = ("authentication failed", "no password", "does not exist", "could not translate", "invalid ")
# SQLSTATEs: connection, shutdown, too many connections, read-only (a standby), idle for too long.
_TEMPORARY = ("08", "57P", "53300", "25006", "25P03")


def is_temporary(problem: psycopg.Error) -> bool:
    """Whether the error may be temporary: a server that restarts, fails over, or has no free connection."""
    state = problem.sqlstate
    if state is None:  # the connection itself: refused, reset, timed out; but not a wrong password or name
        text = str(problem)
        return not any(words in text for words in _PERMANENT)
    return state.startswith(_TEMPORARY)


def unavailable(problem: Exception, address: str) -> Unavailable:
    """Turn an error of the server into one that a person can act on."""
    text = str(problem).strip().split("\n", 1)[0] or type(problem).__name__
    if isinstance(problem, pg.QueryCanceled):
        text = "busy: other transactions held the locks for too long"
    hints = {"28": "check the user and the password", "3D": "create the database first", "53": "free some resources"}
    state = getattr(problem, "sqlstate", None) or ""
    return Unavailable(f"board {address}: {text}", hint=hints.get(state[:2], ""), sqlstate=state)
