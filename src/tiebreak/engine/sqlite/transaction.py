"""A transaction on SQLite, as operations see it.

Operations write their SQL once, with named fragments (`{now}`, `{skip_locked}` …) where the databases differ. This
module replaces each fragment by SQLite's SQL. Most are empty: the write lock lets only one transaction write at a time,
so no row is ever locked by another one.
"""

from __future__ import annotations

from _operator import itemgetter

from ...operations.events import INSERT
from ..transaction import LocalTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    import apsw

    from ..refusals import Refusals


class _Fts5Search:
    """`{search:TABLE.COLUMN :PARAMETER}`. The words of a table are indexed in the FTS5 table `TABLE_words`."""

    def __format__(self, given: str) -> str:
        column, parameter = given.split(" ")
        table = column.partition(".")[0]
        found = f"SELECT rowid FROM {table}_words WHERE {table}_words MATCH {parameter}"  # noqa: S608
        return f"{table}.number IN ({found})"


_FRAGMENTS: dict[str, str | _Fts5Search] = {
    "now": ":now",
    "fresh": ":now",
    "skip_locked": "",
    "skip_locked_tasks": "",
    "always_skip_locked": "",
    "always_skip_locked_tasks": "",
    "share": "",
    "lock": "",
    "position": "instr",
    "lower": "unicode_lower",
    "settled": "9223372036854775807",
    "log": "events",
    "newest": "(SELECT max(number) FROM events)",
    "search": _Fts5Search(),
}
_translated: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {}
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz_")


def _translate(sql: str) -> tuple[str, Callable[[dict[str, Any]], Any]]:
    """The operation's SQL for SQLite, and a function that returns its parameters in the order of their positions.

    Binding parameters by position is several times faster than by name.
    """
    first, *parts = sql.format_map(_FRAGMENTS).split(":")
    names: list[str] = []
    for i, part in enumerate(parts):
        end = next((at for at, c in enumerate(part) if c not in _LETTERS), len(part))
        if end == 0:  # a colon inside a string
            parts[i] = ":" + part
            continue
        if part[:end] not in names:
            names.append(part[:end])
        parts[i] = f"?{names.index(part[:end]) + 1}{part[end:]}"
    order: Callable[[dict[str, Any]], Any] = _no_parameters
    if names:
        order = itemgetter(*names) if len(names) > 1 else lambda params: (params[names[0]],)
    done = _translated[sql] = ("".join([first, *parts]), order)
    return done


def _no_parameters(_: dict[str, Any]) -> tuple[()]:
    return ()


class SqliteTransaction(LocalTransaction):
    """A transaction as operations see it."""

    __slots__ = ("_cursor", "_refusals", "deferred_work", "now", "shared", "undone")

    def __init__(self, connection: apsw.Connection, refusals: Refusals, *, shared: bool = False) -> None:
        self._cursor = connection.cursor()
        self._refusals = refusals
        self.shared = shared
        """Whether other machines use the board: only where a daemon serves them."""
        self.now = 0
        self.deferred_work: set[str] = set()
        """The projects in which this transaction has deferred work."""
        self.undone = 0
        """How many changes of this transaction were rolled back to a savepoint."""

    def all(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        params["now"] = self.now
        text, order = _translated.get(sql) or _translate(sql)
        return self._cursor.execute(text, order(params)).fetchall()

    def first(self, sql: str, **params: Any) -> tuple[Any, ...] | None:
        """Run a statement and return its first row."""
        params["now"] = self.now
        text, order = _translated.get(sql) or _translate(sql)
        rows = self._cursor.execute(text, order(params)).fetchall()
        return rows[0] if rows else None

    def write_event(self, **event: Any) -> None:
        """Append an event to the log."""
        text, order = _translated.get(INSERT) or _translate(INSERT)
        self._cursor.execute(text, order(event))

    @staticmethod
    def search_words(words: Iterable[str]) -> str:
        """A search for rows with all these words, as an FTS5 expression."""
        return " ".join(f'"{word.rstrip("*")}"' + ("*" if word.endswith("*") else "") for word in words)

    skips_locked_rows = False
    """No row is ever locked by another transaction, so no row is ever skipped."""

    def serialize(self, *names: str, shared: bool = False) -> None:
        """Nothing to do: the write lock lets only one transaction write at a time."""

    def wait_for_locked(self) -> None:
        """Nothing to do: no row is ever locked by another transaction."""

    def report_deferred_work(self, project: str) -> None:
        """Remember that this transaction has deferred work in a project."""
        self.deferred_work.add(project)

    def refuse(self, event: str, **facts: Any) -> None:
        """Remember a refusal for a later write."""
        self._refusals.add(event, self.now, facts)

    def refusals(self, subject: str) -> list[tuple[Any, ...]]:
        """The refusals about a subject that are not in the log yet."""
        return self._refusals.pending(subject)


def lower(*args: Any) -> Any:
    """A text in lower case: SQLite's own function changes only ASCII letters."""
    return None if args[0] is None else args[0].lower()
