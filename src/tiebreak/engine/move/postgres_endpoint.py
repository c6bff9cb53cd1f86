"""A PostgreSQL database as the source or the target of a move."""

from __future__ import annotations

from ..postgres.notifications import send
from ..postgres.opening import lock_tables, prepare, run_steps
from ..postgres.transaction_settings import DURABLE, SCOPE
from ..schema import CLOSED, POSTGRES_PASS, TABLES
from .endpoints import AT_ONCE, Endpoint, selected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .copying import Progress
    from .endpoints import Row


class PostgresEndpoint(Endpoint):
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

    def has_table(self, table: str) -> bool:
        """Whether there is such a table."""
        return self.rows("SELECT to_regclass(?)", table)[0][0] is not None

    def begin(self) -> None:
        """Upgrade the board, if there is one, and begin a write transaction that no time-out of the server ends."""
        if self._in_transaction():
            return
        if self.has_table("board"):
            prepare(self._connection, self._shown)
        self.rows(f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {POSTGRES_PASS}")
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
            self.rows(f"SET LOCAL {setting} = 0")
        # A commit has to be on the disk when it returns, because the next commit, on the other database, relies on it.
        self.rows(DURABLE.rstrip("; "))

    def snapshot(self) -> int:
        """Begin a snapshot. Which events are settled is asked before it, because the server cannot tell inside one."""
        settled = int(self.rows("SELECT events_settled()")[0][0])
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return settled

    def _in_transaction(self) -> bool:
        return bool(self._connection.info.transaction_status.name == "INTRANS")

    def lock_all_out(self) -> None:
        """Take the lock with which boards are made, and lock all tables; gives up after a few seconds."""
        self.rows("SET LOCAL lock_timeout = '5s'")
        self.rows(f"SELECT pg_advisory_xact_lock({SCOPE}, 0)")
        self.lock_out()

    def lock_out(self) -> None:
        """Lock all tables, against readers too.

        A table cannot be renamed while a transaction reads it, and a writer that waits for this lock may have read the
        table already.
        """
        if self.has_table("board"):
            lock_tables(self._connection, self._shown)

    def commit(self) -> None:
        """Commit, and wake those that wait for events."""
        super().commit()
        send(self._connection)

    def now(self) -> int:
        """The server's clock."""
        return int(self.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0])

    def make_empty(self, kept: dict[str, str]) -> None:
        """Replace the tables, inside the transaction: until it ends, others see what was there before."""
        self.rows(f"DROP TABLE IF EXISTS {', '.join(p + t for t in (*TABLES, 'board') for p in ('', CLOSED))}")
        self.rows(f"DROP FUNCTION IF EXISTS events_settled(), {CLOSED}events_settled(), events_next()")
        self.rows("DROP FUNCTION IF EXISTS refuse_older_tiebreak(), stir_group()")
        self.rows("DROP SEQUENCE IF EXISTS events_number")
        run_steps(self._connection, 0)

    def upgrade(self) -> None:
        """Run the missing steps; the version is a row of the table `board`."""
        run_steps(self._connection, int(self.rows("SELECT value FROM board WHERE name = 'version'")[0][0]))

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns, in order."""
        return [c.name for c in self._connection.execute(f"SELECT * FROM {table} LIMIT 0").description]  # noqa: S608

    def read(self, table: str, columns: list[str], where: str = "TRUE") -> Iterable[Row]:
        """Rows of a table, through a cursor on the server."""
        with self._connection.cursor(name="rows_to_copy") as cursor:
            cursor.itersize = AT_ONCE
            yield from cursor.execute(selected(table, columns, where))

    def insert(self, table: str, columns: list[str], rows: list[Row]) -> None:
        """Insert rows into a table, with COPY."""
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def last_event(self) -> int:
        """The last number of the sequence, even if its transaction was rolled back: it may be somebody's cursor."""
        return int(self.rows("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM events_number")[0][0])

    def continue_numbers(self, event: int) -> None:
        """Let each sequence continue after the highest number in use."""
        self.rows("SELECT setval('events_number', ?)", event)
        for table in ("tasks", "messages"):
            self.rows(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'number'), max(number)) FROM {table} "  # noqa: S608
                "HAVING max(number) IS NOT NULL"
            )

    def save_to(self, target: str, progress: Progress | None) -> None:
        """Copy the rows in this transaction: nobody else can read them. So it has to come before any change."""
        from .server_backup import save

        save(self, target, progress)

    def rename(self, before: str, after: str) -> None:
        """Rename the tables, and the one function that is called without any table."""
        super().rename(before, after)
        self.rows(f"ALTER FUNCTION {before}events_settled() RENAME TO {after}events_settled")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
