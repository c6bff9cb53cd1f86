"""The beginning of every transaction on PostgreSQL: its settings, its scopes and its time.

No guarantee depends on the defaults of a server, database, role or pooler. Every transaction that writes sets these:

- the isolation level READ COMMITTED, for which the statements are written;
- `synchronous_commit`, so that an acknowledged commit is on the disk;
- our own time-outs;
- the search path, so that the board is the one that was found at opening;
- the version of the schema, without which the triggers of the tables reject every write (see `schema`).

All of it is in the message that begins the transaction. So it costs no round trip, and it works behind a pooler, where
clients share sessions.

The same message takes the scopes (advisory locks), each in a statement of its own and in the same order in every
transaction, and reads the clock after them. So everything that the transaction reads is later, and includes what the
previous holders of the scopes have committed. Last, it reads what the names of the calls' projects mean.
"""

from __future__ import annotations

from psycopg import ClientCursor

from ...names import checksum
from ..schema import POSTGRES_PASS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...operations import Scope

SCOPE = 0x7469
"""The first of the two keys of every advisory lock that tiebreak takes."""
_XID_AND_LAST_NUMBER = "pg_current_xact_id()::text, (SELECT last_value FROM events_number)"
CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
IDLE_LIMIT = 5000
"""Milliseconds until the server ends an idle transaction: a host that lost power must not keep its locks for long."""
# Only `remote_apply` promises more than `on`.
DURABLE = (
    "SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') = 'remote_apply' "
    "THEN 'remote_apply' ELSE 'on' END, true); "
)


class TransactionSettings:
    """How the transactions of an engine begin."""

    def __init__(self, schema: str, deadline: float, server_version: int) -> None:
        quoted = schema.replace('"', '""')
        settings: dict[str, object] = {
            "search_path": f'"{quoted}", pg_temp',  # pg_temp last: otherwise temporary tables would come first
            "statement_timeout": int(deadline * 1000),
            "lock_timeout": 0,
            "idle_in_transaction_session_timeout": IDLE_LIMIT,
            # Every join starts from a few rows and finds the others by an index. Without statistics, the planner would
            # read the whole table `edges` again for each link of a long chain.
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            # Every query that has to be quick has an index. For EXISTS the planner prefers to read the table until it
            # finds a row, which is slow for queries that usually find none.
            "enable_seqscan": "off",
            "jit": "off",  # compiling a statement takes longer than running it
        }
        if server_version >= 170000:
            settings["transaction_timeout"] = 0
        self._settings = "".join(f"SET LOCAL {name} = {value}; " for name, value in settings.items())

    def writing(self, connection: Any, scopes: Iterable[Scope], projects: tuple[str, ...] = ()) -> tuple[Any, ...]:
        """Begin a write transaction and take its scopes.

        Returns the server's time, what the board says about the names of these projects, the number of the transaction,
        and the last number of the sequence of events.
        """
        begun = connection.execute(
            f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {self._settings}{POSTGRES_PASS}; {DURABLE}"
            f"{locks(scopes)}"
            f"SELECT {CLOCK}, {_project_rows(connection, projects)}, {_XID_AND_LAST_NUMBER}"
        )
        return _row(begun, -1)

    def reading(self, connection: Any, projects: tuple[str, ...] = ()) -> tuple[Any, ...]:
        """Begin a transaction that reads one snapshot; returns the server's time, and what is known of the projects."""
        begun = connection.execute(
            f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {self._settings}"
            f"SELECT {CLOCK}, {_project_rows(connection, projects)}"
        )
        return _row(begun, -1)

    def asking(self, connection: Any, question: str) -> Any:
        """Run one query in a transaction of its own; returns the first column of its first row."""
        asked = connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {self._settings}{question}; END")
        return _row(asked, -2)[0]


def _project_rows(connection: Any, names: tuple[str, ...]) -> str:
    """An expression: what table `projects` says about these names, as a JSON list of rows; NULL if there is none."""
    if not names:
        return "NULL"
    listed = ", ".join(["%s"] * len(names))
    found = f"SELECT json_agg(json_build_array(name, project, rule)) FROM projects WHERE name IN ({listed})"  # noqa: S608
    return f"({ClientCursor(connection).mogrify(found, names)})"


def _row(cursor: Any, result: int) -> tuple[Any, ...]:
    cursor.set_result(result)
    return tuple(cursor.fetchone())


def locks(scopes: Iterable[Scope]) -> str:
    """The statements that take these scopes, in the same order in every transaction."""
    modes: dict[int, bool] = {}
    for name, shared in scopes:
        key = checksum(name.encode()) & 0x7FFFFFFF
        modes[key] = modes.get(key, True) and shared
    return "".join(
        f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}({SCOPE}, {key}); "
        for key, shared in sorted(modes.items())
    )
