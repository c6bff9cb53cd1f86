"""What git reports as changed in a checkout."""

from __future__ import annotations

import os

PATIENCE = 20.0
"""Seconds that `git status` may take."""


def status_of(root: str) -> list[str] | None:
    """The changed and untracked files that git reports, relative to the repository; None if git fails."""
    output = _run(root, "--no-optional-locks", "status", "--porcelain=v1", "-z", "--no-renames", "-uall")
    return None if output is None else [os.fsdecode(line[3:]) for line in output.split(b"\0") if len(line) > 3]


def marked_among(root: str, names: list[str]) -> list[str]:
    """Those of these files whose changes git does not report, because they are marked (skip-worktree and the like)."""
    output = _run(root, "--literal-pathspecs", "ls-files", "-v", "-z", "--", *names) if names else b""
    if output is None:
        return names
    return [os.fsdecode(line[2:]) for line in output.split(b"\0") if line and line[:1] != b"H"]


def _run(root: str, *words: str) -> bytes | None:
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", root, *words], capture_output=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return None if done.returncode else done.stdout
