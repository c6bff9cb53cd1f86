"""Files that several processes share: made or replaced in one step, and locked with `flock`.

This works across processes without a daemon. A reader sees the old contents or the new ones, never a part. The kernel
releases a lock when the process that has it ends, however it ends.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PARTIAL = ".new"
"""How the name of a file ends that `replace_file` has not renamed yet."""
LOOK_AGAIN = 0.02
"""Seconds between two tries to lock a file."""


def replace_file(
    path: str, content: bytes, *, mode: int | None = 0o600, durable: bool = False, folder: int | None = None
) -> None:
    """Write a file beside `path` and rename it into place.

    `mode` are the new file's permissions; with None it gets those of the file that it replaces, or the usual ones.
    `durable` syncs the file and its folder, so that the new contents survive a power loss. With `folder`, the path is
    a name in that open folder, wherever it is; the caller syncs the folder.
    """
    partial = f"{path}.{os.getpid()}.{os.urandom(4).hex()}{PARTIAL}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(partial, flags, 0o666 if mode is None else mode, dir_fd=folder)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            if mode is not None:
                os.fchmod(fd, mode)  # the umask may have taken some away
            elif (old := _mode(path, folder)) is not None:
                os.fchmod(fd, old)
            if durable:
                file.flush()
                os.fsync(fd)
        os.replace(partial, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        remove_file(partial, folder)
        raise
    if durable and folder is None:
        sync(os.path.dirname(path))


def create_file(path: str, fill: Callable[[str], None], *, replace: bool = False) -> None:
    """Make a new file, for its owner alone: `fill` gets the path of an empty file beside it, and writes that one.

    The file gets its name when it is complete and on the disk. Without `replace`, raises `FileExistsError` instead of
    overwriting.
    """
    if not replace and os.path.lexists(path):
        raise FileExistsError(path)
    partial = f"{path}.partial-{os.getpid()}-{os.urandom(4).hex()}"
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        fill(partial)
        sync(partial)
        if replace:
            os.replace(partial, path)
        else:
            os.link(partial, path)  # unlike a rename, it never overwrites
        sync(os.path.dirname(path))
    finally:
        remove_file(partial)


def _mode(path: str, folder: int | None) -> int | None:
    try:
        return os.stat(path, dir_fd=folder).st_mode & 0o7777
    except FileNotFoundError:
        return None


def remove_file(path: str, folder: int | None = None) -> None:
    """Remove a file that may be gone already; with `folder`, one in that open folder."""
    try:
        os.unlink(path, dir_fd=folder)
    except FileNotFoundError:
        pass


def sync(path: str) -> None:
    """Wait until a file, or the names in a folder, are on the disk; an empty path is the current folder."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lock_file(path: str, wait: float = 0.0) -> int | None:
    """Lock a file, which is created if needed; None if another process has it for the next `wait` seconds.

    The lock lasts until the descriptor is closed here and in every child that inherited it. The file is never removed:
    a lock on an unlinked file keeps nobody out.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if try_lock(fd) or (wait > 0 and _locked_within(fd, wait)):
            return fd
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _locked_within(fd: int, wait: float) -> bool:
    from time import monotonic, sleep

    end = monotonic() + wait
    while monotonic() < end:
        sleep(LOOK_AGAIN)
        if try_lock(fd):
            return True
    return False


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file at once; False if another process has a lock that excludes this one."""
    import fcntl

    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
