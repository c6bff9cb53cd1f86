"""One daemon for each board: whoever has the lock on the file beside it.

A board on a server may have any number of daemons; there the lock is for a board and an address, in the user's own
folder.

The file is never removed: a lock on an unlinked file protects nobody. Its content tells who has the lock, for the
one who comes second and for `tb status`; whether anybody has it, only the lock itself tells.
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


class Lock:
    """The right to serve a board."""

    def __init__(self, board: str, address: str | None) -> None:
        self.path = place(board, address)
        try:
            self._fd = _opened(self.path, os.O_RDWR | os.O_CREAT, board)
        except OSError as exc:
            raise Unavailable(f"daemon lock {self.path}: {exc.strerror or exc}") from exc
        for left in range(10, -1, -1):
            if try_lock(self._fd):
                break
            who = served(board, address)
            if who or not left:
                os.close(self._fd)
                raise already_served(board, who or {})
            sleep(0.02)  # somebody only looks whether there is a daemon, or one is about to sign
        os.ftruncate(self._fd, 0)

    def sign(self, facts: Mapping[str, Any]) -> None:
        """Tell who has it."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json(dict(facts)).encode() + b"\n", 0)

    def release(self) -> None:
        """Give it back; the file stays."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)


def _opened(path: str, how: int, board: str) -> int:
    from ..engine.side_files import opened

    return opened(path, how, "" if "://" in board else board)


def already_served(board: str, who: Mapping[str, Any]) -> Refused:
    """What the second daemon says."""
    if not who:
        return Refused(f"board {board}: a daemon is already starting on it")
    return Refused(
        f"board {board}: already served by pid {who['pid']} at {' and '.join(who['addresses'])} since {who['since']}",
        hint="use that one, or end it with `tb serve --stop`",
        **dict(who),
    )


def place(board: str, address: str | None) -> str:
    """Where the lock of a board's daemon is."""
    if "://" not in board:
        return f"{board}-daemon"
    from ..names import checksum
    from ..user_folders import private_folder

    return os.path.join(private_folder(), f"{checksum(f'{board} {address}'.encode()):016x}-daemon")


def served(board: str, address: str | None = None) -> dict[str, Any] | None:
    """Who serves the board: its pid, addresses and since when; {} while it is starting; None when nobody does."""
    try:
        fd = _opened(place(board, address), os.O_RDONLY, board)
    except (OSError, Unavailable):
        return None
    try:
        if try_lock(fd, shared=True):
            return None
        found = read_json(os.pread(fd, 4096, 0).decode("utf-8", "replace"))
        return found if isinstance(found, dict) else {}
    except ValueError:
        return {}
    finally:
        os.close(fd)
