"""Our own terms: how every transaction on PostgreSQL begins.

Nothing that a promise needs is left to the defaults of a server, a database, a role or a pooler. The isolation level is
READ COMMITTED, for which the statements are written. A commit is on the disk when it is acknowledged. Time-outs are
ours. The board is looked for in the schema in which it was found when it was opened. All of it is said in the message
that begins the transaction, so that it costs no round trip and works behind a pooler, where sessions are shared. So is
the version of the schema, without which the board takes no write (see `schema`).

The scopes are taken in the same message, each by a statement of its own and all transactions in the same order, and the
clock is read after them: every look comes later, and sees what those who had the scope before have committed.
"""

from __future__ import annotations

from ...names import checksum
from ..schema import POSTGRES_PASS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...operations import Scope

SCOPE = 0x7469
"""The first half of every advisory lock that operations take."""
CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
IDLE_LIMIT = 5000
"""Milliseconds: a host that loses power inside a transaction says nothing, and what it has locked must be free soon."""
_WRITER = "pg_current_xact_id()::text, (SELECT last_value FROM events_number)"
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
            "search_path": f'"{quoted}", pg_temp',  # named last: else a stranger's temporary tables would come first
            "statement_timeout": int(deadline * 1000),
            "lock_timeout": 0,
            "idle_in_transaction_session_timeout": IDLE_LIMIT,
            # Every join here goes from a few rows to others by an index. Without statistics the planner would
            # rather read all edges again for each link of a long chain.
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            # Every look that has to be quick has an index. Whether something exists, the planner would rather find out
            # by reading the table until it meets it, and there are looks that usually meet nothing.
            "enable_seqscan": "off",
            "jit": "off",  # to compile a statement takes longer than to run it
        }
        if server_version >= 170000:
            settings["transaction_timeout"] = 0
        self._settings = "".join(f"SET LOCAL {name} = {value}; " for name, value in settings.items())

    def writing(self, connection: Any, scopes: Iterable[Scope]) -> tuple[Any, ...]:
        """Begin a transaction that writes, with its scopes; the server's time, its own number, the newest event's."""
        begun = connection.execute(
            f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {self._settings}{POSTGRES_PASS}; {DURABLE}"
            f"{locks(scopes)}"
            f"SELECT {CLOCK}, {_WRITER}"
        )
        return _row(begun, -1)

    def reading(self, connection: Any) -> int:
        """Begin a transaction that sees one moment; the server's time."""
        begun = connection.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {self._settings}SELECT {CLOCK}")
        return int(_row(begun, -1)[0])

    def asking(self, connection: Any, question: str) -> Any:
        """The answer to one question, asked in a transaction of its own that is over then."""
        asked = connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {self._settings}{question}; END")
        return _row(asked, -2)[0]


def _row(cursor: Any, result: int) -> tuple[Any, ...]:
    cursor.set_result(result)
    return tuple(cursor.fetchone())


def locks(scopes: Iterable[Scope]) -> str:
    """The statements that take these scopes, in the order in which all transactions take them."""
    modes: dict[int, bool] = {}
    for name, shared in scopes:
        key = checksum(name.encode()) & 0x7FFFFFFF
        modes[key] = modes.get(key, True) and shared
    return "".join(
        f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}({SCOPE}, {key}); "
        for key, shared in sorted(modes.items())
    )
