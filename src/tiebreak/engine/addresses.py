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
