"""Waiting until a file, or the names in a folder, are on the disk."""

from __future__ import annotations

import os


def fsync_path(path: str) -> None:
    """Call `fsync` on a file or folder; an empty path is the current folder."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
