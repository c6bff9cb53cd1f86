"""Runs git, and checks that an agent commits and pushes only under grants that are its own.

A commit is refused if the agent's claim on its task has passed to somebody else; `commit_rules` says what else may not
be committed, and `commit_trailers` what a commit says about itself.
"""

from __future__ import annotations

import os

from ...agent_names import same_family
from ...errors import Fenced, Invalid, NotFound, Refused
from ...model import holder_id
from ...names import FINAL
from ..agent_state import AgentState
from ..hook_context import known_claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...board import Board
    from ...model import Task


def git(*words: str, root: str, environ: Mapping[str, str] | None = None, given: bytes | None = None) -> bytes:
    """The output of a git command; raises `Refused` with git's error."""
    import subprocess

    done = subprocess.run(
        ["git", "-C", root, *words],
        input=b"" if given is None else given,
        capture_output=True,
        env=None if environ is None else {**os.environ, **environ},
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        command = next((word for word in words if not word.startswith("-")), "")
        raise Refused(f"git {command}: {said}")
    return done.stdout


def paths_in(output: bytes) -> list[str]:
    """The paths in a NUL-separated listing."""
    return [os.fsdecode(path) for path in output.split(b"\0") if path]


# ── Grants ───────────────────────────────────────────────────────────────────────────────────────────


def check_grants(board: Board, environ: Mapping[str, str] = os.environ) -> None:
    """Raise `Fenced` if a grant that this agent works under has passed to somebody else."""
    task = named_task(board, environ)
    if task is not None:
        _check_named(board, task, environ.get("TIEBREAK_EPOCH", ""))
    for task_id, known in known_claims(AgentState(board.agent, environ)):
        check_known(board, task_id, known)


def named_task(board: Board, environ: Mapping[str, str]) -> Task | None:
    """The task that the environment names; None if there is none, or if it was pruned, so that it ended long ago."""
    ref = environ.get("TIEBREAK_TASK")
    try:
        return board.tasks.get(ref=ref) if ref else None
    except NotFound:
        if environ.get("TIEBREAK_EPOCH"):
            return None  # it was granted once
        raise


def _check_named(board: Board, task: Task, epoch: str) -> None:
    """The grant in the environment must be this agent's current one, or one that it has finished."""
    if epoch and not epoch.isdecimal():
        raise Invalid(f"TIEBREAK_EPOCH: expected a whole number, got {epoch[:40]!r}")
    live = task.state == "claimed" and (task.until or 0) > board.upkeep.now()
    current = not epoch or task.epoch == int(epoch)
    if not (current and same_family(holder_id(task) or "", board.agent) and (live or task.state in FINAL)):
        raise _stale(task, epoch or "?")


def check_known(board: Board, ref: str, epoch: int) -> None:
    """Raise `Fenced` if a task that this agent had under an epoch has passed to somebody else since."""
    try:
        task = board.tasks.get(ref=ref)
    except (NotFound, Invalid):
        return  # pruned, so it ended long ago, or on another board
    if task.epoch > epoch and not same_family(holder_id(task) or "", board.agent):
        raise _stale(task, str(epoch))


def _stale(task: Task, epoch: str) -> Fenced:
    now = f"{task.state}, epoch {task.epoch}" + (f", held by {task.holder}" if task.holder else "")
    return Fenced(
        f"#{task.number} {task.name}: your grant (epoch {epoch}) is not the current one any more ({now})",
        hint=f"stop working on it; `tb why '#{task.number}'` tells what happened",
        holder=task.holder,
        epoch=task.epoch,
    )


def is_agent(environ: Mapping[str, str]) -> bool:
    """Whether an agent commits: its name or session is in the environment, or an agent client started the shell."""
    from ...agent_names import in_client

    return any(environ.get(name) for name in ("TIEBREAK_AGENT", "TIEBREAK_SESSION")) or in_client(environ)
