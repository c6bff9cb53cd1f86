"""Which user of this machine is at the other end of a loopback connection, as the kernel tells.

The one-time code of a link is an argument of the browser's command, which every user of the machine can see. And a
browser sends its cookie to every port of the machine, where a server of another user may listen. So both are bound to
the user who asked for the link. Linux tells the user of a socket in `/proc/net/tcp`; elsewhere nothing is known.
"""

from __future__ import annotations

import os
import socket
from sys import byteorder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_TABLES = {socket.AF_INET: "/proc/net/tcp", socket.AF_INET6: "/proc/net/tcp6"}


class PeerUser:
    """The user at the other end of a connection. It is looked up once, when it is first asked for."""

    def __init__(self, connected: socket.socket) -> None:
        self._connected: socket.socket | None = connected
        self._user: int | None = None

    def __call__(self) -> int | None:
        """The user's number; None if it is not known."""
        if self._connected is not None:
            connected, self._connected = self._connected, None
            self._user = _user_of(connected)
        return self._user


def _user_of(connected: socket.socket) -> int | None:
    if connected.family == socket.AF_UNIX:
        return os.geteuid()  # or root, who may do the same
    try:
        ours, theirs = connected.getsockname(), connected.getpeername()
        for family, table in _TABLES.items():
            with open(table, encoding="ascii") as lines:
                found = find_user(lines, _written(theirs, family), _written(ours, family))
            if found is not None:
                return found
    except (OSError, ValueError, IndexError):
        pass  # no such table, or the connection is closed
    return None


def find_user(lines: Iterable[str], local: str, remote: str) -> int | None:
    """The user of the socket with these two addresses, in the lines of such a table."""
    for line in lines:
        if local in line:
            words = line.split()
            if words[1:3] == [local, remote]:
                return int(words[7])
    return None


def _written(address: tuple[str, int], family: int) -> str:
    """An address as the table has it: words of four bytes in the machine's order, and the port."""
    host = address[0].partition("%")[0].removeprefix("::ffff:")
    if family == socket.AF_INET6 and ":" not in host:
        host = f"::ffff:{host}"
    elif family == socket.AF_INET and ":" in host:
        return "none"
    packed = socket.inet_pton(family, host)
    words = (int.from_bytes(packed[at : at + 4], byteorder) for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"
