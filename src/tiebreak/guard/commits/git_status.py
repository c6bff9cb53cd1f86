"""What git reports as changed in a checkout."""

from __future__ import annotations

import os

PATIENCE = 20.0
"""Seconds that `git status` may take."""


def status_of(root: str) -> list[str] | None:
    """The changed and untracked files that git reports, relative to the repository; None if git fails.

    Repositories inside, which git lists with a slash at the end, are not files.
    """
    output = _run(root, "--no-optional-locks", "status", "--porcelain=v1", "-z", "--no-renames", "-uall")
    if output is None:
        return None
    return [os.fsdecode(line[3:]) for line in output.split(b"\0") if len(line) > 3 and not line.endswith(b"/")]


def unreported_among(root: str, names: list[str]) -> list[str]:
    """Those of these files without reported changes of which git reports none.

    They are marked (skip-worktree and the like), or there and not tracked, so git ignores them.
    """
    output = _run(root, "--literal-pathspecs", "ls-files", "-v", "-z", "--", *names) if names else b""
    if output is None:
        return names
    marks = {os.fsdecode(line[2:]): line[:1] for line in output.split(b"\0") if line}
    return [each for each in names if marks.get(each, b"H") != b"H" or (each not in marks and _is_there(root, each))]


def _is_there(root: str, name: str) -> bool:
    return os.path.lexists(os.path.join(root, name))


def _run(root: str, *words: str) -> bytes | None:
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", root, *words], capture_output=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return None if done.returncode else done.stdout
