"""The two ends of a move: a file and a server, and the few things that a move asks of each."""

from __future__ import annotations

import os
from contextlib import nullcontext

import apsw

from ...errors import Refused, Unavailable
from .. import path_of, without_password
from ..postgres.transaction_settings import DURABLE, SCOPE
from ..schema import CLOSED, POSTGRES_PASS, TABLES
from ..sqlite.board_files import Place
from ..sqlite.opening import board_clock, connect, create, prepare, recognise, run_steps
from ..sqlite.write_gate import Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Row = tuple[Any, ...]

DEADLINE = 30.0
"""Seconds to wait for others to let go of the board."""
AT_ONCE = 1000
AGAIN = "nothing is lost; run the same command again"


def side(address: str) -> Side:
    """The end that an address names; nothing is made there yet."""
    if address.startswith(("postgresql://", "postgres://")):
        return _server(address)
    path = os.path.realpath(path_of(address))
    try:
        return SqliteSide(path)
    except apsw.Error as exc:
        from ..sqlite.engine import unavailable

        raise unavailable(exc, path) from exc


class Side:
    """One end of a move: the few things that both databases can do, each in its way."""

    def identity(self) -> Row:
        """The same for the same board, however it is addressed."""
        raise NotImplementedError

    def rows(self, sql: str, *params: Any) -> list[Row]:
        """Run a statement, with `?` for parameters."""
        raise NotImplementedError

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        raise NotImplementedError

    def refuse_strangers(self) -> None:
        """Raise `Refused` if what is there is not a board but something else."""

    def begin(self) -> None:
        """Start a transaction that will write."""
        raise NotImplementedError

    def snapshot(self) -> int:
        """Start a transaction that only reads, and sees one moment; the event before which none can appear any more."""
        newest = self.last_event()
        self.rows("BEGIN")
        return newest

    def keep_out(self) -> None:
        """Wait until nobody writes, and let nobody begin until the transaction has ended."""

    def take_over(self) -> None:
        """Let nobody else make, fill or use a board here until the transaction has ended."""

    def commit(self) -> None:
        """End the transaction, durably."""
        self.rows("COMMIT")

    def now(self) -> int:
        """Board time."""
        raise NotImplementedError

    def make(self, kept: dict[str, str]) -> None:
        """Replace whatever is there by an empty board, with these facts."""
        raise NotImplementedError

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns."""
        raise NotImplementedError

    def all(self, table: str, columns: list[str], where: str = "TRUE") -> Iterable[Row]:
        """Its rows, not all of them in memory at once."""
        raise NotImplementedError

    def fill(self, table: str, columns: list[str], rows: list[Row]) -> None:
        """Put rows into a table."""
        raise NotImplementedError

    def last_event(self) -> int:
        """The last number that was given to an event, also if nobody ever saw it."""
        return int(self.rows("SELECT coalesce(max(number), 0) FROM events")[0][0])

    def go_on_numbering(self, event: int) -> None:
        """Give no number twice."""

    def rename(self, before: str, after: str) -> None:
        """Change how all names begin; a board of an older version has fewer tables."""
        for table in (*TABLES, "board"):
            if self.has(before + table):
                self.rows(f"ALTER TABLE {before}{table} RENAME TO {after}{table}")

    def upgrade(self) -> None:
        """Run the steps that a board lacks that was closed by an older version, in the transaction of the caller."""
        raise NotImplementedError

    def close(self) -> None:
        """Give everything back; a transaction that is not committed did not happen."""


def _selected(table: str, columns: list[str], where: str) -> str:
    order = " ORDER BY number" if "number" in columns else ""
    return f"SELECT {', '.join(columns)} FROM {table} WHERE {where}{order}"  # noqa: S608


class SqliteSide(Side):
    """A file. It is not made before it has to be."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._gate = Gate(path + "-gate", DEADLINE)
        place = Place(path, self._gate)
        place.refuse_lost_file()
        self._connection = connect(path, DEADLINE) if os.path.exists(path) else None
        if self._connection is not None and self.has("board"):
            self._connection.close()
            self._connection = place.open(lambda: connect(path, DEADLINE))

    def __str__(self) -> str:
        return self._path

    def identity(self) -> Row:
        """The file itself."""
        if self._connection is None:
            return ("sqlite", self._path)
        found = os.stat(self._path)
        return ("sqlite", found.st_dev, found.st_ino)

    @property
    def _db(self) -> apsw.Connection:
        if self._connection is None:
            create(self._path)
            sync(os.path.dirname(self._path))
            self._connection = connect(self._path, DEADLINE)
        return self._connection

    def rows(self, sql: str, *params: Any) -> list[Row]:
        """Run a statement."""
        return self._db.execute(sql, params).fetchall()

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        known = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return self._connection is not None and bool(self.rows(known, table))

    def refuse_strangers(self) -> None:
        """Raise `Refused` if it is another program's database."""
        if self._connection is not None and self.rows("SELECT 1 FROM sqlite_schema LIMIT 1"):
            raise Refused(f"migrate: {self} is a SQLite database, but not a tiebreak board", hint="is the path right?")

    def begin(self) -> None:
        """Queue at the gate like everybody who writes."""
        if self._db.in_transaction:
            return
        self._gate.enter()
        if self.has("board"):
            self._gate.leave()
            prepare(self._db, self._gate, self._path)
            self._gate.enter()
        else:
            self.rows("PRAGMA journal_mode = WAL")
        self.rows("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """End the transaction and let the next one in."""
        self.rows("COMMIT")
        self._gate.leave()

    def now(self) -> int:
        """Board time; the gate is already passed."""
        return board_clock(self._db, nullcontext())()  # type: ignore[arg-type]

    def make(self, kept: dict[str, str]) -> None:
        """Who has the file open goes on counting by the offset that it has read; the file stays in its place."""
        if self._gate.mark():
            self._gate.set_file(0, 0, durably=True)  # the token gets into another page
        for table in ("messages_words", *TABLES, "board"):
            self.rows(f"DROP TABLE IF EXISTS {table}")
            self.rows(f"DROP TABLE IF EXISTS {CLOSED}{table}")
        run_steps(self._db, 0)
        for fact in kept.items():
            self.rows("INSERT INTO board VALUES (?, ?)", *fact)

    def upgrade(self) -> None:
        """The version is a number in the file itself."""
        run_steps(self._db, recognise(self._db, self._path))

    def columns(self, table: str) -> list[str]:
        """In their order."""
        return [name for (name,) in self.rows("SELECT name FROM pragma_table_info(?)", table)]

    def all(self, table: str, columns: list[str], where: str = "TRUE") -> Iterable[Row]:
        """As SQLite steps through them."""
        return self._db.execute(_selected(table, columns, where))

    def fill(self, table: str, columns: list[str], rows: list[Row]) -> None:
        """Insert them."""
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        self._db.executemany(sql, rows)

    def close(self) -> None:
        """Close the connection, and let others in."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.close()
        self._gate.leave()
        self._gate.close()


def sync(folder: str) -> None:
    """Have a file, or the names in a folder, on the disk."""
    fd = os.open(folder or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _server(address: str) -> PostgresSide:
    try:
        import psycopg
    except ImportError as exc:
        hint = "PostgreSQL is an extra: pip install 'tiebreak[postgres]'"
        raise Unavailable(f"board: {exc.name} is not installed", hint=hint) from exc
    from ..postgres.server_errors import unavailable

    shown = without_password(address)
    try:
        made = psycopg.connect(
            address, autocommit=True, connect_timeout=10, application_name="tiebreak migrate", prepare_threshold=None
        )
    except psycopg.Error as exc:
        raise unavailable(exc, shown) from exc
    return PostgresSide(made, shown)


class PostgresSide(Side):
    """A database on a server."""

    def __init__(self, connection: Any, shown: str) -> None:
        self._connection = connection
        self._shown = shown

    def __str__(self) -> str:
        return self._shown

    def identity(self) -> Row:
        """One schema of one database of one running server."""
        where = "SELECT pg_postmaster_start_time()::text, oid::text, current_schema() FROM pg_database"
        [row] = self.rows(f"{where} WHERE datname = current_database()")
        return row

    def rows(self, sql: str, *params: Any) -> list[Row]:
        """Run a statement; without parameters, several."""
        done = self._connection.execute(sql.replace("?", "%s") if params else sql, params or None)
        return done.fetchall() if done.description is not None else []

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return self.rows("SELECT to_regclass(?)", table)[0][0] is not None

    def begin(self) -> None:
        """Bring the board up to date first, if there is one. No habit of the server may end the transaction early."""
        if self._in_transaction():
            return
        if self.has("board"):
            from ..postgres.opening import prepare

            prepare(self._connection, self._shown)
        self.rows(f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {POSTGRES_PASS}")
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
            self.rows(f"SET LOCAL {setting} = 0")
        # What is told to be done is on the disk: the other side's next commit relies on it.
        self.rows(DURABLE.rstrip("; "))

    def snapshot(self) -> int:
        """Which events are settled is asked before it begins: a snapshot cannot tell."""
        settled = int(self.rows("SELECT events_settled()")[0][0])
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return settled

    def _in_transaction(self) -> bool:
        return bool(self._connection.info.transaction_status.name == "INTRANS")

    def take_over(self) -> None:
        """By the lock that whoever makes a board takes, too. Who is before us may take long: then do not wait."""
        self.rows("SET LOCAL lock_timeout = '5s'")
        self.rows(f"SELECT pg_advisory_xact_lock({SCOPE}, 0)")
        self.keep_out()

    def keep_out(self) -> None:
        """Lock all tables.

        Readers wait, too: a table cannot be renamed while somebody reads it, and a writer that waits here may have
        read it already.
        """
        if self.has("board"):
            from ..postgres.opening import lock_tables

            lock_tables(self._connection, self._shown)

    def now(self) -> int:
        """The server's clock."""
        return int(self.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0])

    def make(self, kept: dict[str, str]) -> None:
        """All in the one transaction: until its end, whoever has it open sees what was there before."""
        from ..postgres.opening import run_steps

        self.rows(f"DROP TABLE IF EXISTS {', '.join(p + t for t in (*TABLES, 'board') for p in ('', CLOSED))}")
        self.rows(f"DROP FUNCTION IF EXISTS events_settled(), {CLOSED}events_settled(), events_next()")
        self.rows("DROP FUNCTION IF EXISTS refuse_older_tiebreak(), stir_group()")
        self.rows("DROP SEQUENCE IF EXISTS events_number")
        run_steps(self._connection, 0)

    def upgrade(self) -> None:
        """The version is a row of the board."""
        from ..postgres.opening import run_steps

        run_steps(self._connection, int(self.rows("SELECT value FROM board WHERE name = 'version'")[0][0]))

    def columns(self, table: str) -> list[str]:
        """In their order."""
        return [c.name for c in self._connection.execute(f"SELECT * FROM {table} LIMIT 0").description]  # noqa: S608

    def all(self, table: str, columns: list[str], where: str = "TRUE") -> Iterable[Row]:
        """By a cursor on the server."""
        with self._connection.cursor(name="travelling") as cursor:
            cursor.itersize = AT_ONCE
            yield from cursor.execute(_selected(table, columns, where))

    def fill(self, table: str, columns: list[str], rows: list[Row]) -> None:
        """Copy them in."""
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def last_event(self) -> int:
        """A number that was taken and given up again counts: somebody may wait for what comes after it."""
        return int(self.rows("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM events_number")[0][0])

    def go_on_numbering(self, event: int) -> None:
        """Put each sequence behind what has been given."""
        self.rows("SELECT setval('events_number', ?)", event)
        for table in ("tasks", "messages"):
            self.rows(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'number'), max(number)) FROM {table} "  # noqa: S608
                "HAVING max(number) IS NOT NULL"
            )

    def rename(self, before: str, after: str) -> None:
        """The tables, and the one function that is called without any."""
        super().rename(before, after)
        self.rows(f"ALTER FUNCTION {before}events_settled() RENAME TO {after}events_settled")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
