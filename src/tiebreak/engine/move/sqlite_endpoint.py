"""A SQLite file as the source or the target of a move."""

from __future__ import annotations

import os
from contextlib import nullcontext

from ...errors import Refused
from ...files import sync
from ...limits import DEADLINE
from ..schema import CLOSED, TABLES
from ..sqlite.backup import backup
from ..sqlite.board_files import BoardFiles
from ..sqlite.file_facts import newest_event
from ..sqlite.opening import board_clock, connect, create, prepare, recognise, run_steps
from ..sqlite.write_gate import WriteGate
from .endpoints import Endpoint, selected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    import apsw

    from .copying import Progress
    from .endpoints import Row


class SqliteEndpoint(Endpoint):
    """A file, which is created only when something is written to it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._gate = WriteGate(path + "-gate", DEADLINE)
        files = BoardFiles(path, self._gate)
        files.refuse_lost_file()
        self._connection = connect(path, DEADLINE) if os.path.exists(path) else None
        if self._connection is not None and self.has_table("board"):
            self._connection.close()
            self._connection = files.open(lambda: connect(path, DEADLINE))

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

    def has_table(self, table: str) -> bool:
        """Whether there is such a table."""
        known = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return self._connection is not None and bool(self.rows(known, table))

    def refuse_other_data(self, command: str) -> None:
        """Raise `Refused` if it is another program's database."""
        if self._connection is not None and self.rows("SELECT 1 FROM sqlite_schema LIMIT 1"):
            raise Refused(
                f"{command}: {self} is a SQLite database, but not a tiebreak board", hint="is the path right?"
            )

    def begin(self) -> None:
        """Begin a write transaction, after waiting at the gate like every writer."""
        if self._db.in_transaction:
            return
        self._gate.enter()
        if self.has_table("board"):
            self._gate.leave()
            prepare(self._db, self._gate, self._path)
            self._gate.enter()
        else:
            self.rows("PRAGMA journal_mode = WAL")
        self.rows("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit, remember the last event in the mark like every writer, and unlock the gate."""
        self.rows("COMMIT")
        if (newest := newest_event(self._db)) and self._gate.mark():
            self._gate.set_last_event(newest)
        self._gate.leave()

    def now(self) -> int:
        """Board time, without entering the gate: in a transaction it is locked already."""
        return board_clock(self._db, nullcontext())()  # type: ignore[arg-type]

    def make_empty(self, kept: dict[str, str]) -> None:
        """Replace the tables; the file stays, and keeps the clock offset that processes with the file open use."""
        if self._gate.mark():
            self._gate.set_file_state(0, 0, durably=True)  # the token moves to another page
        for table in ("messages_words", *TABLES, "board"):
            self.rows(f"DROP TABLE IF EXISTS {table}")
            self.rows(f"DROP TABLE IF EXISTS {CLOSED}{table}")
        run_steps(self._db, 0)
        for fact in kept.items():
            self.rows("INSERT INTO board VALUES (?, ?)", *fact)

    def upgrade(self) -> None:
        """Run the missing steps; the version is the `user_version` of the file."""
        run_steps(self._db, recognise(self._db, self._path))

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns, in order."""
        return [name for (name,) in self.rows("SELECT name FROM pragma_table_info(?)", table)]

    def read(self, table: str, columns: list[str], where: str = "TRUE") -> Iterable[Row]:
        """Rows of a table, one at a time."""
        return self._db.execute(selected(table, columns, where))

    def insert(self, table: str, columns: list[str], rows: list[Row]) -> None:
        """Insert rows into a table."""
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        self._db.executemany(sql, rows)

    def save_to(self, target: str, progress: Progress | None) -> None:
        """Copy the pages through a second connection, which does not see what this transaction has written."""
        try:
            backup(connect(self._path, DEADLINE), target, progress)
        except FileExistsError:
            raise Refused(f"backup {target}: exists already, and a backup never overwrites") from None

    def close(self) -> None:
        """Close the connection, and unlock the gate."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.close()
        self._gate.leave()
        self._gate.close()
