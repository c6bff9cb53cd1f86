"""A folder that its user cannot leave: files are reached by name from the open folder, and no link is followed.

Somebody else may own, share or sync the folder of a vault. A symbolic link in it, or one that replaces a folder while
the writer runs, must not lead a write anywhere else.
"""

from __future__ import annotations

import os
import re
from stat import S_ISREG

from ..errors import Refused
from ..files import PARTIAL, remove_file, replace_file
from ..text import plain

_UNFINISHED = re.compile(rf".*\.\d+\.[0-9a-f]{{8}}{re.escape(PARTIAL)}")


class OpenFolder:
    """An open folder, and the files in it."""

    def __init__(self, path: str, parent: OpenFolder | None = None) -> None:
        """Open a folder, or make it; with a parent, `path` is a name in it."""
        self.path: str = path if parent is None else os.path.join(parent.path, path)
        try:
            self._fd: int = _opened(path) if parent is None else _opened_in(parent._fd, path)
        except OSError as exc:
            real = "" if parent is None else " (it has to be a folder, not a link to one)"
            raise Refused(f"vault {plain(self.path)}: {exc.strerror or exc}{real}") from None

    def names(self) -> list[str]:
        """The names in this folder."""
        return os.listdir(self._fd)

    def read(self, name: str) -> bytes | None:
        """The contents of a file; None if there is no regular file of this name."""
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._fd)
        except OSError:
            return None
        with open(fd, "rb") as file:
            return file.read() if S_ISREG(os.fstat(fd).st_mode) else None

    def version(self, name: str) -> tuple[int, ...] | None:
        """What changes when somebody writes the file."""
        try:
            found = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return None
        return (found.st_ino, found.st_size, found.st_mtime_ns)

    def write(self, name: str, content: bytes) -> None:
        """Replace a file in one step. Its contents are on the disk then; call `sync` for its name."""
        try:
            replace_file(name, content, durable=True, folder=self._fd)
        except OSError as exc:
            raise self._failed(name, exc) from None

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        try:
            os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except OSError as exc:
            raise self._failed(new, exc) from None

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            remove_file(name, self._fd)
        except OSError as exc:
            raise self._failed(name, exc) from None

    def remove_unfinished(self) -> None:
        """Remove what a killed writer left beside the files that it was writing."""
        for name in self.names():
            if _UNFINISHED.fullmatch(name):
                self.remove(name)

    def open_file(self, name: str) -> int:
        """Open a file for reading and writing, or make it."""
        try:
            return os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        except OSError as exc:
            raise self._failed(name, exc) from None

    def sync(self) -> None:
        """Wait until the names in this folder are on the disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)

    def _failed(self, name: str, exc: OSError) -> Refused:
        return Refused(f"vault: {plain(os.path.join(self.path, name))}: {exc.strerror or exc}")


def _opened(path: str) -> int:
    os.makedirs(path, 0o700, exist_ok=True)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _opened_in(parent: int, name: str) -> int:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        pass
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
