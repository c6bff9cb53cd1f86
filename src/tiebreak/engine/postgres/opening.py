"""Opening a board on PostgreSQL: make its tables, or bring them up to date.

A process that does either holds an advisory lock until its commit. So any number of processes may open a board at the
same moment: the first one makes or upgrades it, and the others wait and find it done.

An upgrade also locks all tables, because processes of an older version use them without that advisory lock. Readers are
locked out too. Otherwise a step that changes a table would wait for its reader while it holds locks that the reader may
need next.
"""

from __future__ import annotations

from random import random
from time import monotonic, sleep

import psycopg
from psycopg import errors as pg

from ...errors import Unavailable
from ...limits import DEADLINE
from .. import schema
from ..closed_board import closed
from .transaction_settings import DURABLE, SCOPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIRST_WAIT, LONGEST_WAIT = 300, 2400
"""Milliseconds to wait for the locks on all tables before releasing those already taken: at first, and at most.

Short at first, so that no other transaction fails in a deadlock. Later longer than the server's `deadlock_timeout`,
because only then does PostgreSQL cancel an autovacuum that holds a conflicting lock.
"""
_BEGIN = "; ".join(
    [
        # Not the server's default: at a higher isolation level, a read after the lock would not see what others
        # committed while this transaction waited for the lock.
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        schema.POSTGRES_PASS,
        "SET LOCAL statement_timeout = 0",
        f"SET LOCAL lock_timeout = {int(DEADLINE * 1000)}",
        "SET LOCAL idle_in_transaction_session_timeout = 5000",
        DURABLE.rstrip("; "),
    ]
)


def prepare(connection: Any, address: str) -> None:
    """Make or upgrade the tables if necessary; raises `Unavailable` for a newer schema. Not inside a transaction."""
    refuse_encoding(connection, address)
    version = _version(connection, address)
    if version < schema.VERSION:
        version = _upgrade(connection, address)
    schema.refuse_newer(version, address)


def refuse_encoding(connection: Any, address: str) -> None:
    """Raise `Unavailable` if the database has another encoding than UTF-8, before anything is written.

    Names and messages may contain any character. A database in another encoding rejects some of them, or returns bytes
    that are not text.
    """
    encoding = connection.info.parameter_status("server_encoding")  # the server sends it to every new connection
    if encoding is None:
        [encoding] = connection.execute("SHOW server_encoding").fetchone()
    if encoding != "UTF8":
        name = connection.info.dbname
        raise Unavailable(
            f"board {address}: the database {name} has the encoding {encoding}, and a board needs UTF8",
            hint="make another one: CREATE DATABASE tiebreak ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0",
        )


def _version(connection: Any, address: str) -> int:
    """The version of the board; 0 if there is no board."""
    # Not to_regclass: its answer would be cached while this transaction waits for the lock.
    there = "SELECT 1 FROM pg_class WHERE relname = 'board' AND relkind = 'r' AND pg_table_is_visible(oid)"
    if connection.execute(there).fetchone() is None:
        if (refusal := refusal_if_closed(connection, address)) is not None:
            raise refusal
        return 0
    row = connection.execute("SELECT value FROM board WHERE name = 'version'").fetchone()
    return int(row[0]) if row else 0


def refusal_if_closed(connection: Any, address: str) -> Unavailable | None:
    """The error for a board that was closed by a move; None if it was not. Not inside a failed transaction."""
    if connection.execute("SELECT to_regclass(%s)", (f"{schema.CLOSED}board",)).fetchone()[0] is None:
        return None
    return closed(dict(connection.execute(f"SELECT name, value FROM {schema.CLOSED}board").fetchall()), address)  # noqa: S608


def _upgrade(connection: Any, address: str) -> int:
    """Run the missing steps in one transaction; returns the version after that."""
    version = 0
    try:
        connection.execute(_BEGIN)
        connection.execute("SELECT pg_advisory_xact_lock(%s::int, 0)", (SCOPE,))
        version = _version(connection, address)
        if 0 < version < schema.VERSION:
            _use_schema_of_board(connection)
            lock_tables(connection, address)
        run_steps(connection, version)
        connection.execute("COMMIT")
    except BaseException as exc:
        _roll_back(connection)
        if version and isinstance(exc, pg.InsufficientPrivilege):
            raise Unavailable(
                f"board {address}: has schema {version}, and this user may not upgrade it to {schema.VERSION}",
                reason="board-needs-owner",
            ) from exc
        if isinstance(exc, pg.LockNotAvailable):
            raise _in_use(address) from exc
        raise
    return max(version, schema.VERSION)


def _in_use(address: str) -> Unavailable:
    return Unavailable(f"board {address}: in use for too long", reason="board-in-use")


def _roll_back(connection: Any) -> None:
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _use_schema_of_board(connection: Any) -> None:
    """Let steps create everything in the board's schema, even if another one comes first in the search path."""
    connection.execute(
        "SELECT set_config('search_path', quote_ident(%s) || ', pg_temp', true)", (schema_of(connection),)
    )


def schema_of(connection: Any) -> str:
    """The name of the PostgreSQL schema that contains the board."""
    [found] = connection.execute(
        "SELECT nspname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE relname = 'board' AND relkind = 'r' AND pg_table_is_visible(pg_class.oid)"
    ).fetchone()
    return str(found)


def run_steps(connection: Any, version: int) -> None:
    """Run the steps that a board of this version lacks, in the caller's transaction."""
    if version >= schema.VERSION:
        return
    refuse_encoding(connection, connection.info.dbname)
    for number, step in enumerate(schema.steps("postgres", version), version + 1):
        connection.execute(schema.postgres_pass(number))
        connection.execute(step)
    connection.execute(
        "INSERT INTO board (name, value) VALUES ('version', %s) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (str(schema.VERSION),),
    )


def lock_tables(connection: Any, address: str) -> None:
    """Lock all tables of the board against writers and readers, until the transaction ends.

    This could deadlock with a transaction that has locked one table and needs another, and that transaction must not
    fail. So after a short wait all locks are released, and requested again.
    """
    there = "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid)"
    found = {name for (name,) in connection.execute(there).fetchall()}
    names = ", ".join(name for name in (*schema.TABLES, "board") if name in found)
    end, wait = monotonic() + DEADLINE, FIRST_WAIT
    connection.execute("SAVEPOINT unlocked")
    while True:
        try:
            connection.execute(f"SET LOCAL lock_timeout = {wait}")
            connection.execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
            connection.execute("SET LOCAL lock_timeout = 0; RELEASE unlocked")
            return
        except (pg.LockNotAvailable, pg.DeadlockDetected) as exc:
            connection.execute("ROLLBACK TO unlocked")
            if monotonic() > end:
                raise _in_use(address) from exc
        sleep(random() * 0.1)  # noqa: S311  (so that two that met do not meet again)
        wait = min(wait * 2, LONGEST_WAIT)
