"""The addresses of boards: an address without its password, and the path in an address."""

from __future__ import annotations


def without_password(address: str) -> str:
    """An address that is safe to show and to log."""
    head, mark, rest = address.partition("://")
    if "password=" in rest:
        import re

        rest = re.sub(r"(?<=[?&])(?:ssl)?password=[^&]*&?", "", rest).rstrip("?&")
    user, at, where = rest.rpartition("@")
    return f"{head}{mark}{user.partition(':')[0]}{at}{where}" if mark else address


def path_of(address: str) -> str:
    """The path in the address of a board that is a file; empty for any other."""
    scheme, mark, rest = address.partition("://")
    if mark:
        return "/" + rest.lstrip("/") if scheme == "sqlite" else ""
    return "" if address.startswith("unix:") else address


def is_same_database(one: str, other: str) -> bool:
    """Whether two addresses of PostgreSQL name the same database, however each of them is spelled."""
    return _database(one) == _database(other)


def _database(address: str) -> tuple[tuple[str, ...], str, str]:
    """The servers, the database and the session's options in an address, with the defaults that libpq would use."""
    import os
    from urllib.parse import parse_qs, unquote, urlsplit

    parts = urlsplit(address)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    login, _, where = parts.netloc.rpartition("@")
    user = given.get("user") or unquote(login.partition(":")[0]) or os.environ.get("PGUSER", "")
    name = given.get("dbname") or unquote(parts.path.lstrip("/")) or os.environ.get("PGDATABASE") or user
    hosts = (given.get("host") or unquote(where) or os.environ.get("PGHOST", "")).split(",")
    ports = (given.get("port") or os.environ.get("PGPORT") or "5432").split(",")
    servers = []
    for index, text in enumerate(hosts):
        host, mark, port = text.rpartition(":")
        if not mark or not port.isdecimal():
            host, port = text, ports[min(index, len(ports) - 1)]
        local = host.lower() in ("localhost", "127.0.0.1", "[::1]", "::1")
        known = host if host.startswith("/") else host.lower()  # the folder of a socket
        servers.append(f"{'localhost' if local else known} {port}")
    return tuple(servers), name, given.get("options", "")
