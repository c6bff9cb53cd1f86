"""Engines run operations as transactions on a database.

`protocol` declares what every engine can do. `sqlite` and `postgres` are the two engines. `move` moves a board from one
engine to the other. `schema` contains the tables of both. The other modules are shared by the engines.
"""

from __future__ import annotations

from ..errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .protocol import Engine


def connect(address: str, *, clock: Callable[[], int] | None = None) -> Engine:
    """Open the board at an address: a path, `sqlite:///PATH` or `postgresql://…`."""
    scheme, mark, _ = address.partition("://")
    if scheme in ("postgresql", "postgres") and mark:
        return _postgres(address, clock)
    if mark and scheme != "sqlite":
        raise Invalid(f"board: this version does not support {scheme}:// addresses")
    from .sqlite.engine import SqliteEngine

    if mark:
        from .addresses import path_of

        address = path_of(address)
    return SqliteEngine(address, clock=clock)


def _postgres(address: str, clock: Callable[[], int] | None) -> Engine:
    try:
        from .postgres.engine import PostgresEngine
    except ImportError as exc:
        from ..installation import missing_extra

        raise missing_extra(f"board: {exc.name} is not installed", "postgres") from exc
    return PostgresEngine(address, _copy_to_file, clock=clock)


def _copy_to_file(*given: Any) -> None:
    from .move.server_backup import to_file

    to_file(*given)
