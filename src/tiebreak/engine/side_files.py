"""The files beside a board: opened only if they are what they should be.

Whoever may write into the board's folder could have put a link there that leads to a file of the board's owner, or a
file of their own that they keep changing. So a link is not followed, and a file of somebody else is refused.
"""

from __future__ import annotations

import errno
import os
from stat import S_ISREG

from ..errors import Unavailable

OTHERS_WRITE = 0o022


def opened(path: str, how: int, board: str = "") -> int:
    """A descriptor of such a file; raises `Unavailable` if it is a link, no file, or in the hands of others."""
    try:
        fd = os.open(path, how | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.EMLINK):  # EMLINK: what FreeBSD says of a link
            raise _wrong(path, "a symbolic link") from None
        raise
    try:
        check(path, os.fstat(fd), board)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check(path: str, found: os.stat_result, board: str = "") -> None:
    """Raise `Unavailable` if this is a link, no file, or in the hands of others than may write to the board itself."""
    if not S_ISREG(found.st_mode):
        raise _wrong(path, "not a regular file")
    if found.st_nlink > 1:
        raise _wrong(path, "a file that has another name elsewhere")
    if found.st_uid == os.geteuid() and not found.st_mode & OTHERS_WRITE:
        return
    beside = os.stat(board) if board and os.path.exists(board) else None
    if found.st_uid not in (os.geteuid(), beside.st_uid if beside else -1):
        raise _wrong(path, f"owned by another user (uid {found.st_uid})")
    if found.st_mode & OTHERS_WRITE & ~(beside.st_mode if beside else 0):
        raise _wrong(path, "writable by others", f"`chmod go-w {path}`, if they have not changed it")


def _wrong(path: str, what: str, hint: str = "") -> Unavailable:
    return Unavailable(
        f"{path}: {what}, so it is not used",
        hint=hint or "remove it, and keep the board in a folder that only you can write to",
    )
