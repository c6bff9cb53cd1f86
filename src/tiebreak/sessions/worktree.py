"""A git worktree and a branch for a single session."""

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
    """The same request, in a worktree that `make` creates later."""
    if repository(request.cwd) is None:
        raise Refused(f"{request.cwd} is in no git repository, so there can be no worktree")
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in request.name)
    path = os.path.join(state_files.folder("worktrees"), f"{safe}-{mark}")
    return replace(request, source=request.cwd, cwd=path, worktree=path, branch=f"tb/{safe}-{mark}")


def make(request: SessionRequest) -> None:
    """Create the worktree, from the commit that is checked out in `request.source`."""
    _git(request.source, "worktree", "add", "--quiet", "-b", str(request.branch), str(request.worktree))


def remove(path: str) -> None:
    """Remove a worktree; git refuses if something in it is not committed. The branch stays."""
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
