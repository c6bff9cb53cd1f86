"""The schema of a board: a series of steps, with the same numbers for every engine.

`sqlite-1.sql` and `postgres-1.sql` make a board of version 1, `sqlite-2.sql` and `postgres-2.sql` turn that into one of
version 2, and so on. The same rules hold for all engines and for every function that makes or opens a board:

- A new board is made by running every step. An older board is brought up to date by running the steps that it lacks.
- The missing steps and the new version number are one transaction. A process that dies half-way leaves the old version.
- A process that runs steps first locks out all others: on SQLite with the gate and the write lock, on PostgreSQL with
  an advisory lock and locks on all tables. Then it reads the version again, because another process may have been
  faster.
- A board of a newer version is refused.

A published step is never changed, because boards exist that were made by it. Every step also locks out processes of the
version before it that still have the board open; `sqlite-2.sql` explains how. A step that changes rows after that needs
the pass of its own version, which is not the newest one while later steps are still to come.
"""

from __future__ import annotations

import os

from ...errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 5
"""The version that this code works with."""
TABLES = (
    *("projects", "tasks", "edges", "stirred", "chores", "marks", "queues", "outputs", "holds", "pools"),
    *("messages", "acks", "cursors", "agents", "sessions", "events", "answers", "schedules", "waits"),
)
"""Every table except `board`, roughly in the order in which operations use them. All tables are locked in this order.

The rows of `board` describe where the board is, not what is on it. They are not copied when a board is moved.
"""
CLOSED = "closed_"
"""The prefix of the table names of a closed board (see `move`)."""


def sqlite_pass(version: int) -> str:
    """The SQL function without which SQLite refuses every write to a board of this version.

    A process of an older version shows "no such function: " and this name to its user, hence the name.
    """
    return f"this_board_has_schema_{version}_please_upgrade_tiebreak"


def postgres_pass(version: int) -> str:
    """The statement without which PostgreSQL refuses every write in a transaction to a board of this version."""
    return f"SET LOCAL tiebreak.schema = '{version}'"


SQLITE_PASS = sqlite_pass(VERSION)
"""Connections of this version register this function."""
POSTGRES_PASS = postgres_pass(VERSION)
"""Transactions of this version begin with this statement."""


def steps(engine: str, version: int) -> Iterator[str]:
    """The SQL of each step that a board of this version lacks, in order; version 0 means that there is no board."""
    for step in range(version + 1, VERSION + 1):
        with open(os.path.join(os.path.dirname(__file__), f"{engine}-{step}.sql"), encoding="utf-8") as file:
            yield file.read()


def refuse_newer(version: int, board: str) -> None:
    """Raise `Unavailable` if the board has a version that this code does not know."""
    if version > VERSION:
        raise Unavailable(
            f"board {board}: written by a newer tiebreak (schema {version}, this one knows {VERSION})",
            hint="upgrade tiebreak on this machine",
        )
