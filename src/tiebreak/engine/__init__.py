"""Engines turn operations into transactions.

`protocol` says what an engine offers. `sqlite` and `postgres` are the two engines, each in a folder of its own, and
`move` takes a board from one to the other. `schema` has the tables of both. The rest is shared by the engines.
"""

from __future__ import annotations

from ..errors import Invalid
from .addresses import path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .protocol import Engine


def connect(address: str, *, clock: Callable[[], int] | None = None) -> Engine:
    """Open the board at an address: a path or `sqlite:///PATH`."""
    scheme, mark, _ = address.partition("://")
    if scheme in ("postgresql", "postgres") and mark:
        return _postgres(address, clock)
    if mark and scheme != "sqlite":
        raise Invalid(f"board: {scheme}:// is not a kind of board that this version knows")
    from .sqlite.engine import SqliteEngine

    return SqliteEngine(path_of(address), clock=clock)


def _postgres(address: str, clock: Callable[[], int] | None) -> Engine:
    try:
        from .postgres.engine import PostgresEngine
    except ImportError as exc:
        from ..errors import Unavailable

        hint = "PostgreSQL is an extra: pip install 'tiebreak[postgres]'"
        raise Unavailable(f"board: {exc.name} is not installed", hint=hint) from exc
    return PostgresEngine(address, clock=clock)
