"""Fingerprints of held files: short hashes of their contents, by which a change is noticed."""

from __future__ import annotations

import os
import stat

from .globs import is_glob, unescape
from .held_files import is_file, parts, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST = 16 * 1024 * 1024
"""Most bytes of a file that are read for its fingerprint."""


def fingerprint(resource: str, root: str) -> str | None:
    """The fingerprint of a held file; None for a glob, and for a resource that is not a file."""
    path = file_of(resource, root)
    return digest(path) if path else None


def file_of(resource: str, root: str) -> str:
    """The path of a held file below `root`; "" for a glob, a file of another checkout, and what is not a file."""
    if not is_in(resource, root) or is_glob(path_of(resource)):
        return ""
    return os.path.join(root, *(unescape(part) for part in path_of(resource).split("/")))


def is_in(resource: str, root: str) -> bool:
    """Whether a resource means files in the checkout at `root`."""
    checkout = parts(resource)[0] if is_file(resource) else ""
    if not checkout:
        return is_file(resource)
    from .checkouts import known_identity
    from .repository import repository

    found = repository(root)
    return found is not None and known_identity(found) == checkout


def digest(path: str) -> str | None:
    """The fingerprint of what is at a path: `absent` if there is nothing, None if it cannot be read.

    A symbolic link counts as itself: it is not followed. Of a file above `LARGEST` bytes only the size, the time of the
    last write and the inode count, and pipes and devices are not opened, so that nothing takes long or blocks.
    """
    try:
        return fingerprint_of(os.lstat(path), lambda: read_file(path), lambda: os.readlink(path))
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    except OSError:
        return None


def fingerprint_of(found: os.stat_result, contents: Callable[[], bytes], target: Callable[[], str]) -> str:
    """The fingerprint of a file by its status; `contents` and `target` read it if they are needed."""
    if stat.S_ISREG(found.st_mode):
        if found.st_size > LARGEST:
            return f"size-{found.st_size}-{found.st_mtime_ns}-{found.st_ino}"
        return hash_of(contents())
    if stat.S_ISLNK(found.st_mode):
        return "link-" + hash_of(os.fsencode(target()))
    return f"kind-{stat.S_IFMT(found.st_mode):o}"


def hash_of(content: bytes) -> str:
    """The hash of a file's contents."""
    from _blake2 import blake2b  # as in hashlib, whose import takes 3 ms

    return str(blake2b(content, digest_size=16).hexdigest())


def read_file(path: str, most: int = LARGEST) -> bytes:
    """The contents of a regular file, at most `most` bytes and one; raises `OSError` for everything else.

    It never blocks and never follows a link, even if somebody replaces the file in between.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path}: not a regular file")
        return file.read(most + 1)
