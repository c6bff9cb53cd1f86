"""Errors of a PostgreSQL server: which are temporary, what callers are told, and what `tb doctor` checks."""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

from ...errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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


def diagnose(connection: Any) -> list[tuple[str, str, str]]:
    """The findings of `tb doctor` about the server and the board's tables."""
    settings = dict(
        connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'fsync', 'synchronous_commit', "
            "'full_page_writes', 'autovacuum', 'max_connections')"
        ).fetchall()
    )
    durable = all(settings[name] != "off" for name in ("fsync", "synchronous_commit", "full_page_writes"))
    values = ", ".join(f"{name} {settings[name]}" for name in ("fsync", "synchronous_commit", "full_page_writes"))
    [standby] = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    [oldest] = connection.execute(
        "SELECT coalesce(max(extract(epoch FROM now() - xact_start)), 0)::float8 FROM pg_stat_activity "
        "WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()"
    ).fetchone()
    dead = connection.execute(
        "SELECT relname, n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relname IN ('tasks', 'holds', 'agents') "
        "AND n_dead_tup > 10000 AND n_dead_tup > n_live_tup"
    ).fetchall()
    return [
        ("ok", "postgresql", settings["server_version"]),
        ("bad" if standby else "ok", "role", "a standby, which takes no writes" if standby else "a primary"),
        ("ok" if durable else "bad", "durability", values),
        ("ok" if settings["autovacuum"] == "on" else "bad", "autovacuum", settings["autovacuum"]),
        ("warn" if oldest > 300 else "ok", "oldest transaction", f"{oldest:.0f} s; a long one stops vacuum"),
        *[("warn", "vacuum", f"{name} has {gone} dead rows beside {live}") for name, gone, live in dead],
    ]
