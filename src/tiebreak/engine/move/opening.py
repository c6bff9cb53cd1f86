"""Opening the source or the target of a move by its address."""

from __future__ import annotations

import os

import apsw

from ..addresses import path_of, without_password
from .sqlite_endpoint import SqliteEndpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .endpoints import Endpoint


def open_endpoint(address: str) -> Endpoint:
    """Open what is at an address; nothing is created there yet."""
    if address.startswith(("postgresql://", "postgres://")):
        return _open_server(address)
    path = os.path.realpath(path_of(address))
    try:
        return SqliteEndpoint(path)
    except apsw.Error as exc:
        from ..sqlite.sqlite_errors import unavailable

        raise unavailable(exc, path) from exc


def _open_server(address: str) -> Endpoint:
    try:
        import psycopg
    except ImportError as exc:
        from ...installation import missing_extra

        raise missing_extra(f"board: {exc.name} is not installed", "postgres") from exc
    from ..postgres.server_errors import unavailable
    from .postgres_endpoint import PostgresEndpoint

    shown = without_password(address)
    try:
        made = psycopg.connect(
            address,
            autocommit=True,
            connect_timeout=10,
            application_name="tiebreak migrate",
            client_encoding="UTF8",  # the default of the database or the role may be another one
            prepare_threshold=None,
        )
    except psycopg.Error as exc:
        raise unavailable(exc, shown) from exc
    return PostgresEndpoint(made, shown)
