"""What git reports as changed in a checkout."""

from __future__ import annotations

import os

PATIENCE = 20.0
"""Seconds that `git status` may take."""


def status_of(root: str) -> list[str] | None:
    """The changed and untracked files that git reports, relative to the repository; None if git fails."""
    import subprocess

    words = ["git", "-C", root, "--no-optional-locks", "status", "--porcelain=v1", "-z", "--no-renames", "-uall"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode:
        return None
    return [os.fsdecode(line[3:]) for line in done.stdout.split(b"\0") if len(line) > 3]
