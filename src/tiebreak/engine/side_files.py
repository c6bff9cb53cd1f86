"""Opening the files beside a board safely.

Another user who can write to the board's folder could put a link there that leads to a file of the board's owner, or a
file that they own and keep changing. So symbolic and hard links are refused. So is a file that another user owns or can
write to, unless that user owns or can write to the board itself.
"""

from __future__ import annotations

import errno
import os
from stat import S_ISREG

from ..errors import Unavailable

OTHERS_WRITE = 0o022


def opened(path: str, flags: int, board: str = "") -> int:
    """Open a file and return its descriptor; raises `Unavailable` like `check`, and for a symbolic link."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.EMLINK):  # EMLINK: what FreeBSD reports for a link
            raise _not_used(path, "a symbolic link") from None
        raise
    try:
        check(path, os.fstat(fd), board)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check(path: str, found: os.stat_result, board: str = "") -> None:
    """Raise `Unavailable` unless this is a regular file with one name that only the board's users can write to."""
    if not S_ISREG(found.st_mode):
        raise _not_used(path, "not a regular file")
    if found.st_nlink > 1:
        raise _not_used(path, "a file that has another name elsewhere")
    if found.st_uid == os.geteuid() and not found.st_mode & OTHERS_WRITE:
        return
    board_file = os.stat(board) if board and os.path.exists(board) else None
    if found.st_uid not in (os.geteuid(), board_file.st_uid if board_file else -1):
        raise _not_used(path, f"owned by another user (uid {found.st_uid})")
    if found.st_mode & OTHERS_WRITE & ~(board_file.st_mode if board_file else 0):
        raise _not_used(path, "writable by others", f"`chmod go-w {path}`, if they have not changed it")


def _not_used(path: str, what: str, hint: str = "") -> Unavailable:
    return Unavailable(
        f"{path}: {what}, so it is not used",
        hint=hint or "remove it, and keep the board in a folder that only you can write to",
    )
