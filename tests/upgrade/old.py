"""Boards of every older version, as the code of that version made them, and what its processes send.

`sqlite-1.db.gz` and `postgres-1.sql` hold the same board: tasks in every state, holds that are live, lapsed and free
(among them a pool, a glob and a seat), and something in every other table. Its clock stood at `NOW`. The code of
version 2 has upgraded that board and added limited jobs to it: claimed, ready with and without room in their group,
blocked, delayed and completed. That is `sqlite-2.db.gz` and `postgres-2.sql`. The code of version 3 has upgraded that
one and added deferred work and two projects as that version named them after paths: `shop-1a2b3c` holds a lock,
`shop-4d5e6f` has given one back. That is `sqlite-3.db.gz` and `postgres-3.sql`. The code of version 4 has upgraded that
one; a clone has taken `shop-1a2b3c` over, posted a task there and sent messages. That is `sqlite-4.db.gz` and
`postgres-4.sql`.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import psycopg

import tiebreak
from tests.postgres import server
from tests.races.places import database
from tiebreak import Board
from tiebreak.engine.schema import TABLES, VERSION
from tiebreak.engine.sqlite.write_gate import WriteGate

HERE = Path(__file__).parent
NOW = 1_767_225_603_100_000
"""A moment at which the fixture's leases of an hour are live, and those of a second have lapsed."""

STATEMENTS = {
    "claim": (
        "UPDATE tasks SET displaced = holder, holder = :agent, epoch = epoch + 1, until = :now + :lease, "
        "state = 'claimed', attempts = attempts + 1, ready_at = 0, claimed_at = :now, updated_at = :now, "
        "progress = NULL WHERE project = :project AND key = :value AND state IN ('pending', 'claimed') "
        "AND ready_at <= :now AND attempts < max_attempts AND limit_group IS NULL "
        "AND (holder IS NULL OR until <= :now) RETURNING number, id, epoch"
    ),
    "release": (
        "UPDATE tasks SET state = 'pending', holder = NULL, until = 0, displaced = NULL, attempts = attempts - 1, "
        "updated_at = :now WHERE project = :project AND key = :value AND state = 'claimed' AND holder = :agent "
        "RETURNING number, epoch"
    ),
    "heartbeat": (
        "UPDATE agents SET seen_at = :now, left_at = 0, doing = coalesce(:doing, doing) WHERE project = :project "
        "AND id = :agent RETURNING id, project"
    ),
    "renew": (
        "UPDATE tasks SET until = :now + :lease WHERE project = :project AND state = 'claimed' AND holder = :agent "
        "AND until > :now AND until < :now + :lease"
    ),
    "new hold": (
        "INSERT INTO holds (project, resource, slot, glob) VALUES (:project, :value, 0, 0) ON CONFLICT DO NOTHING"
    ),
    "hold": (
        "UPDATE holds SET displaced = holder, holder = :agent, epoch = epoch + 1, until = :now + :lease, "
        "taken_at = :now WHERE project = :project AND resource = :resource AND slot = 0 "
        "AND (holder IS NULL OR until <= :now) RETURNING project, resource, epoch"
    ),
    "event": (
        "INSERT INTO events (at, event, project, subject, name, kind, state, priority, agent, epoch, until, note, "
        "times, data) VALUES (:now, 'task.claimed', :project, NULL, :value, 'task', 'claimed', 1, :agent, 1, 0, NULL, "
        "1, NULL)"
    ),
    "message": (
        "INSERT INTO messages (project, sender, recipient, channel, thread, importance, ack_requested, body, sent_at) "
        "VALUES (:project, :agent, NULL, 'general', 0, 1, 0, :value, :now) RETURNING number"
    ),
    "prune": "DELETE FROM events WHERE number IN (SELECT number FROM events WHERE at <= :now ORDER BY number LIMIT 1)",
    "move": (
        "INSERT INTO board (name, value) VALUES ('moved', :value) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    ),
}
"""What processes of older versions write with: the texts of version 1, with shorter lists of columns to return.

`release`, `prune` and `move` stand for longer statements of the same kind.
"""
VALUES = {
    "agent": "alice~1",
    "project": "demo",
    "value": "often",
    "now": NOW,
    "lease": 300_000_000,
    "doing": "x",
    "resource": "lock:deploy",
}


class OldBoard:
    """A board of an older version somewhere, and a connection as one of its processes has it."""

    engine: str
    refusal: str
    """What a process of an older version shows once the board was upgraded."""

    def __init__(self, address: str, made: int) -> None:
        self.address = address
        self.made = made
        """The version that the board and the process have at first."""
        self.was: dict[str, list[Any]] = {}
        self._connect()
        self._columns = {table: self.columns(table) for table in TABLES if self.columns(table)}

    def _connect(self) -> None:
        raise NotImplementedError

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns; none if there is no such table."""
        raise NotImplementedError

    def run(self, sql: str) -> list[Any]:
        """A statement of that version, over the connection that was opened before anything else happened."""
        raise NotImplementedError

    def transaction(self) -> AbstractContextManager[None]:
        """A transaction as processes of that version begin it."""
        raise NotImplementedError

    def version(self) -> int:
        """What the board itself says."""
        raise NotImplementedError

    def close(self) -> None:
        """End that process."""
        raise NotImplementedError

    def rows(self) -> dict[str, list[Any]]:
        """Everything in every table and column of that version, except for the version itself."""
        return {
            table: sorted(self.run(f"SELECT {', '.join(columns)} FROM {table}"), key=repr)
            for table, columns in self._columns.items()
        }

    def last(self, table: str) -> int:
        """The last number that was given in a table."""
        return int(self.run(f"SELECT max(number) FROM {table}")[0][0])

    def refused(self, sql: str) -> str:
        """The text with which a statement of that version is refused; "" if it went through."""
        raise NotImplementedError

    def open(self, agent: str = "alice") -> Board:
        """The board as today's code opens it, at the moment when the fixture was made."""
        return tiebreak.open(self.address, agent=f"{agent}~1", project="demo", clock=lambda: NOW)


class OldFile(OldBoard):
    engine = "sqlite"
    refusal = f"no such function: this_board_has_schema_{VERSION}_please_upgrade_tiebreak"

    def _connect(self) -> None:
        self._connection = apsw.Connection(self.address)
        self._connection.set_busy_timeout(30_000)
        self._gate = WriteGate(f"{self.address}-gate", 30.0)
        if self.made > 1:
            self._connection.create_scalar_function(
                f"this_board_has_schema_{self.made}_please_upgrade_tiebreak", lambda *_: None
            )

    def columns(self, table: str) -> list[str]:
        return [name for (name,) in self.run(f"SELECT name FROM pragma_table_info('{table}')")]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._gate:
            self.run("BEGIN IMMEDIATE")
            yield
            self.run("COMMIT")

    def run(self, sql: str) -> list[Any]:
        return self._connection.execute(sql, {name: VALUES[name] for name in _named(sql)}).fetchall()

    def refused(self, sql: str) -> str:
        try:
            self.run(sql)
        except (apsw.SQLError, apsw.BusyError) as exc:
            return str(exc)
        return ""

    def version(self) -> int:
        return int(self._connection.pragma("user_version"))

    def close(self) -> None:
        self._connection.close()
        self._gate.close()


class OldDatabase(OldBoard):
    engine = "postgres"
    refusal = f"this board was upgraded to schema {VERSION}; upgrade tiebreak on this machine"

    def _connect(self) -> None:
        # Processes of version 2 say so in each transaction; for the trigger it is the same.
        options = f"-ctiebreak.schema={self.made}" if self.made > 1 else ""
        self._connection = psycopg.connect(self.address, autocommit=True, prepare_threshold=1, options=options)

    def columns(self, table: str) -> list[str]:
        known = f"SELECT CAST(attname AS text) FROM pg_attribute WHERE attrelid = to_regclass('{table}') AND attnum > 0"
        return [name for (name,) in self.run(f"{known} ORDER BY attnum")]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.run("BEGIN")
        yield
        self.run("COMMIT")

    def run(self, sql: str) -> list[Any]:
        done = self._connection.execute(re.sub(r":(\w+)", r"%(\1)s", sql).encode(), VALUES)
        return done.fetchall() if done.description else []

    def refused(self, sql: str) -> str:
        try:
            self.run(sql)
        except (psycopg.errors.RaiseException, psycopg.errors.UndefinedTable) as exc:
            return str(exc).split("\n", 1)[0]
        return ""

    def version(self) -> int:
        return int(self.run("SELECT value FROM board WHERE name = 'version'")[0][0])

    def close(self) -> None:
        self._connection.close()


def _named(sql: str) -> list[str]:
    return re.findall(r":(\w+)", sql)


@contextmanager
def old_file(folder: Path, made: int) -> Iterator[OldBoard]:
    path = folder / "old.db"
    path.write_bytes(gzip.decompress((HERE / f"sqlite-{made}.db.gz").read_bytes()))
    opened = OldFile(str(path), made)
    yield opened
    opened.close()


@cache
def _template(made: int) -> str:
    """A database with the board of that version, to be copied: its many statements take longer than a copy."""
    name = f"version_{made}"
    with psycopg.connect(server().address(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    with psycopg.connect(server().address(name)) as connection:
        connection.execute((HERE / f"postgres-{made}.sql").read_bytes())
    return name


@contextmanager
def old_database(folder: Path, made: int) -> Iterator[OldBoard]:
    with database(server(), _template(made)) as address:
        opened = OldDatabase(address, made)
        yield opened
        opened.close()


def process(address: str, made: int) -> OldBoard:
    """Another process of that version on a board that exists."""
    return (OldDatabase if address.startswith("postgresql:") else OldFile)(address, made)


ENGINES: dict[str, Callable[[Path, int], AbstractContextManager[OldBoard]]] = {
    "sqlite": old_file,
    "postgres": old_database,
}
VERSIONS = tuple(range(1, VERSION))
"""Every version that there has been."""
