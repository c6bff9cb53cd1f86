"""A working tree and a branch of one's own for a session, beside those of everybody else."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

from ..errors import Refused
from ..repository import repository
from . import state_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spawn import SessionRequest


def planned(request: SessionRequest, mark: str) -> SessionRequest:
    """The same, in a working tree that `make` will make."""
    if repository(request.cwd) is None:
        raise Refused(f"{request.cwd} is in no git repository, so there can be no worktree")
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in request.name)
    path = os.path.join(state_files.folder("worktrees"), f"{safe}-{mark}")
    return replace(request, source=request.cwd, cwd=path, worktree=path, branch=f"tb/{safe}-{mark}")


def make(request: SessionRequest) -> None:
    """Make it, from what is checked out where the session was asked for."""
    _git(request.source, "worktree", "add", "--quiet", "-b", str(request.branch), str(request.worktree))


def remove(path: str) -> None:
    """Remove a working tree that has nothing in it which is not committed; its branch stays."""
    if os.path.isdir(path):
        _git(path, "worktree", "remove", path)


def _git(cwd: str, *words: str) -> None:
    try:
        done = subprocess.run(
            ["git", "-C", cwd, *words], capture_output=True, text=True, errors="replace", timeout=600, check=False
        )
    except FileNotFoundError:
        raise Refused("git is not installed") from None
    if done.returncode:
        raise Refused(f"git {words[0]} {words[1]}: {done.stderr.strip() or done.returncode}")
