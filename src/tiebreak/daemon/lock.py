"""The lock that allows one daemon for each board: an `flock` on a file beside the board.

A board on a database server may have any number of daemons. There the lock is for one board and one address, and its
file is in the user's private folder.

The file is never removed, because a lock on an unlinked file excludes nobody. Its content names the daemon that holds
the lock, for `tb status` and for the message to a second daemon. Only the `flock` itself tells whether a daemon runs:
the content may be left over from a daemon that was killed.
"""

from __future__ import annotations

import os
from time import sleep
from typing import TYPE_CHECKING, Any

from ..errors import Refused, Unavailable
from ..files import try_lock
from ..text import json, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping


class DaemonLock:
    """The lock of a running daemon. Creating it takes the lock, or raises `Refused` and names the other daemon."""

    def __init__(self, board: str, address: str | None) -> None:
        self.path = place(board, address)
        try:
            self._fd = _opened(self.path, os.O_RDWR | os.O_CREAT, board)
        except OSError as exc:
            raise Unavailable(f"daemon lock {self.path}: {exc.strerror or exc}") from exc
        for more_tries in range(10, -1, -1):
            if try_lock(self._fd):
                break
            who = served(board, address)
            if who or not more_tries:
                os.close(self._fd)
                raise already_served(board, who or {})
            sleep(0.02)  # `served` holds it for a moment, or a starting daemon has not yet written its facts
        os.ftruncate(self._fd, 0)

    def sign(self, facts: Mapping[str, Any]) -> None:
        """Write the facts about this daemon into the file, in one piece: somebody may be reading it."""
        line = json(dict(facts)).encode() + b"\n"
        os.pwrite(self._fd, line, 0)
        os.ftruncate(self._fd, len(line))

    def release(self) -> None:
        """Release the lock. The file stays."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)


def _opened(path: str, how: int, board: str) -> int:
    from ..engine.side_files import opened

    return opened(path, how, "" if "://" in board else board)


def already_served(board: str, who: Mapping[str, Any]) -> Refused:
    """The error for a second daemon on the same board."""
    if not who:
        return Refused(f"board {board}: a daemon is already starting on it")
    return Refused(
        f"board {board}: already served by pid {who['pid']} at {' and '.join(who['addresses'])} since {who['since']}",
        reason="board-served",
        **dict(who),
    )


def place(board: str, address: str | None) -> str:
    """The path of the lock file."""
    if "://" not in board:
        return f"{board}-daemon"
    from ..names import checksum
    from ..user_folders import private_folder

    return os.path.join(private_folder(), f"{checksum(f'{board} {address}'.encode()):016x}-daemon")


def served(board: str, address: str | None = None) -> dict[str, Any] | None:
    """The daemon of a board: its pid, addresses and start time; {} while it is starting; None if there is none."""
    return facts_in(place(board, address), board)


def daemons(board: str) -> dict[str, dict[str, Any]]:
    """The daemons of this user on this machine that serve a board, by their lock files.

    A file has one at most, a board on a server any number. The address of a server may have another spelling than the
    one that a daemon was started with.
    """
    if "://" not in board:
        return {place(board, None): facts} if (facts := served(board)) else {}
    from ..engine.addresses import is_same_database
    from ..user_folders import private_folder

    folder, found = private_folder(), {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        facts = facts_in(path, board) if name.endswith("-daemon") else None
        if facts and is_same_database(str(facts.get("board")), board):
            found[path] = facts
    return found


def facts_in(path: str, board: str) -> dict[str, Any] | None:
    """What a lock file says about the daemon that has it locked; {} if nothing yet; None if nobody has it locked."""
    try:
        fd = _opened(path, os.O_RDONLY, board)
    except (OSError, Unavailable):
        return None
    try:
        if try_lock(fd, shared=True):
            return None
        found = read_json(os.pread(fd, 4096, 0).decode("utf-8", "replace").partition("\n")[0])
        return found if isinstance(found, dict) else {}
    except ValueError:
        return {}
    finally:
        os.close(fd)
