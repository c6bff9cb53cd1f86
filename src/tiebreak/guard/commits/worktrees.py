"""The other checkouts of a repository: its main working tree and its worktrees, read from git's files."""

from __future__ import annotations

import os

from ...repository import Repository, open_at_once

MOST = 32
"""Most worktrees that are listed: those whose HEAD moved last."""


def other_checkouts(found: Repository) -> list[Repository]:
    """The checkouts of this repository but this one, as far as they are on disk."""
    out = [_main(found.common)] if found.private != found.common else []
    folder = os.path.join(found.common, "worktrees")
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    privates = [os.path.join(folder, name) for name in names]
    if len(privates) > MOST:
        privates = sorted(privates, key=last_moved, reverse=True)[:MOST]
    out += [_worktree(found.common, private) for private in privates if private != found.private]
    return [each for each in out if each is not None]


def last_moved(private: str) -> int:
    """When HEAD of a checkout moved last, in nanoseconds, by the files in its git directory."""
    moved = 0
    for name in ("HEAD", "logs/HEAD"):
        try:
            moved = max(moved, os.stat(os.path.join(private, name)).st_mtime_ns)
        except OSError:
            pass  # without a reflog, or no checkout any more
    return moved


def _main(common: str) -> Repository | None:
    """The main working tree; None for a bare repository."""
    top, name = os.path.split(common)
    return Repository(top, common) if name == ".git" and os.path.exists(os.path.join(common, "index")) else None


def _worktree(common: str, private: str) -> Repository | None:
    """A worktree by its git directory; None if it is not on disk."""
    try:
        with open(
            os.path.join(private, "gitdir"), encoding="utf-8", errors="surrogateescape", opener=open_at_once
        ) as file:
            dot_git = os.path.join(private, file.read().rstrip("\n"))
    except OSError:
        return None
    return Repository(os.path.realpath(os.path.dirname(dot_git)), common, private) if os.path.exists(dot_git) else None
