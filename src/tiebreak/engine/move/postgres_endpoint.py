"""A board on a server, as a move sees it."""

from __future__ import annotations

from ..postgres.opening import lock_tables, prepare, run_steps
from ..postgres.transaction_settings import DURABLE, SCOPE
from ..schema import CLOSED, POSTGRES_PASS, TABLES
from .endpoints import AT_ONCE, Endpoint, selected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

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

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return self.rows("SELECT to_regclass(?)", table)[0][0] is not None

    def begin(self) -> None:
        """Bring the board up to date first, if there is one. No habit of the server may end the transaction early."""
        if self._in_transaction():
            return
        if self.has("board"):
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
            lock_tables(self._connection, self._shown)

    def now(self) -> int:
        """The server's clock."""
        return int(self.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0])

    def make(self, kept: dict[str, str]) -> None:
        """All in the one transaction: until its end, whoever has it open sees what was there before."""
        self.rows(f"DROP TABLE IF EXISTS {', '.join(p + t for t in (*TABLES, 'board') for p in ('', CLOSED))}")
        self.rows(f"DROP FUNCTION IF EXISTS events_settled(), {CLOSED}events_settled(), events_next()")
        self.rows("DROP FUNCTION IF EXISTS refuse_older_tiebreak(), stir_group()")
        self.rows("DROP SEQUENCE IF EXISTS events_number")
        run_steps(self._connection, 0)

    def upgrade(self) -> None:
        """The version is a row of the board."""
        run_steps(self._connection, int(self.rows("SELECT value FROM board WHERE name = 'version'")[0][0]))

    def columns(self, table: str) -> list[str]:
        """In their order."""
        return [c.name for c in self._connection.execute(f"SELECT * FROM {table} LIMIT 0").description]  # noqa: S608

    def all(self, table: str, columns: list[str], where: str = "TRUE") -> Iterable[Row]:
        """By a cursor on the server."""
        with self._connection.cursor(name="travelling") as cursor:
            cursor.itersize = AT_ONCE
            yield from cursor.execute(selected(table, columns, where))

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
