"""Opening a board on PostgreSQL: making its tables, or bringing them up to date.

Whoever does either holds one advisory lock until its commit, so any number of processes may open a board at the same
moment: the first one makes or upgrades it, the others wait and find it done. An upgrade also locks all tables, because
processes of an older version use them without asking for that advisory lock. Readers are locked out, too: steps change
tables that somebody may be reading, and would wait for that reader while holding locks that the reader may need next.
"""

from __future__ import annotations

from random import random
from time import monotonic, sleep

import psycopg
from psycopg import errors as pg

from ...errors import Unavailable
from .. import schema
from ..closed import closed
from .transaction_settings import DURABLE, SCOPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEADLINE = 30.0
"""Seconds to wait for others to let go of the board."""
FIRST_WAIT, LONGEST_WAIT = 300, 2400
"""Milliseconds to wait for the locks on all tables before giving way, the first time and later.

Short at first, so that nobody else fails in a deadlock; later longer than the server's `deadlock_timeout`, because only
after that does PostgreSQL stop an autovacuum that is in the way.
"""
_BEGIN = "; ".join(
    [
        # Not the server's defaults: at a higher isolation level, the look after the lock would see what was before it.
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        schema.POSTGRES_PASS,
        "SET LOCAL statement_timeout = 0",
        f"SET LOCAL lock_timeout = {int(DEADLINE * 1000)}",
        "SET LOCAL idle_in_transaction_session_timeout = 5000",
        DURABLE.rstrip("; "),
    ]
)


def prepare(connection: Any, address: str) -> None:
    """Make sure that the schema is the one that this code knows; the connection is in no transaction."""
    refuse_encoding(connection, address)
    version = _version(connection, address)
    if version < schema.VERSION:
        version = _upgrade(connection, address)
    schema.refuse_newer(version, address)


def refuse_encoding(connection: Any, address: str) -> None:
    """Raise `Unavailable` if the database stores texts in another encoding than UTF-8, before anything is written.

    Names and messages may contain any character. A database in another encoding refuses some of them midway, or gives
    bytes back that are no text.
    """
    encoding = connection.info.parameter_status("server_encoding")  # the server tells it to every new connection
    if encoding is None:
        [encoding] = connection.execute("SHOW server_encoding").fetchone()
    if encoding != "UTF8":
        name = connection.info.dbname
        raise Unavailable(
            f"board {address}: the database {name} has the encoding {encoding}, and a board needs UTF8",
            hint="make another one: CREATE DATABASE tiebreak ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0",
        )


def _version(connection: Any, address: str) -> int:
    """The version of the board; 0 when there is none."""
    # Not to_regclass: it would remember, while waiting for the lock, that there was no such table.
    there = "SELECT 1 FROM pg_class WHERE relname = 'board' AND relkind = 'r' AND pg_table_is_visible(oid)"
    if connection.execute(there).fetchone() is None:
        if (refusal := refusal_if_closed(connection, address)) is not None:
            raise refusal
        return 0
    row = connection.execute("SELECT value FROM board WHERE name = 'version'").fetchone()
    return int(row[0]) if row else 0


def refusal_if_closed(connection: Any, address: str) -> Unavailable | None:
    """Why nobody can use a board that was closed by a move; None if it was not. In no transaction or a sound one."""
    if connection.execute("SELECT to_regclass(%s)", (f"{schema.CLOSED}board",)).fetchone()[0] is None:
        return None
    return closed(dict(connection.execute(f"SELECT name, value FROM {schema.CLOSED}board").fetchall()), address)  # noqa: S608


def _upgrade(connection: Any, address: str) -> int:
    """Run the missing steps in one transaction; the version that the board has then."""
    version = 0
    try:
        connection.execute(_BEGIN)
        connection.execute("SELECT pg_advisory_xact_lock(%s::int, 0)", (SCOPE,))
        version = _version(connection, address)
        if 0 < version < schema.VERSION:
            _work_where_the_board_is(connection)
            lock_tables(connection, address)
        run_steps(connection, version)
        connection.execute("COMMIT")
    except BaseException as exc:
        _roll_back(connection)
        if version and isinstance(exc, pg.InsufficientPrivilege):
            raise Unavailable(
                f"board {address}: has schema {version}, and this user may not upgrade it to {schema.VERSION}",
                hint="run `tb status` once as the owner of its tables",
            ) from exc
        if isinstance(exc, pg.LockNotAvailable):
            raise _in_use(address) from exc
        raise
    return max(version, schema.VERSION)


def _in_use(address: str) -> Unavailable:
    return Unavailable(f"board {address}: in use for too long", hint="nothing is lost; run the same command again")


def _roll_back(connection: Any) -> None:
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _work_where_the_board_is(connection: Any) -> None:
    """What a step creates belongs beside the tables, also when another schema comes first in the search path."""
    connection.execute(
        "SELECT set_config('search_path', quote_ident(%s) || ', pg_temp', true)", (schema_of(connection),)
    )


def schema_of(connection: Any) -> str:
    """The schema in which the board was found, for all transactions to come."""
    [found] = connection.execute(
        "SELECT nspname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE relname = 'board' AND relkind = 'r' AND pg_table_is_visible(pg_class.oid)"
    ).fetchone()
    return str(found)


def run_steps(connection: Any, version: int) -> None:
    """Run the steps that a board of this version lacks, in the transaction of the caller."""
    if version >= schema.VERSION:
        return
    refuse_encoding(connection, connection.info.dbname)
    for step in schema.steps("postgres", version):
        connection.execute(step)
    connection.execute(
        "INSERT INTO board (name, value) VALUES ('version', %s) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (str(schema.VERSION),),
    )


def lock_tables(connection: Any, address: str) -> None:
    """Lock all tables of the board, also for readers, until the transaction ends.

    A transaction that has locked one table and needs another would be in a deadlock with this, and must not fail for
    it. So all locks are given back after a short wait, and asked for again.
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
        sleep(random() * 0.1)  # noqa: S311  (to part those who met)
        wait = min(wait * 2, LONGEST_WAIT)
