"""The git guard: an agent can only commit and push under a grant that is its own.

A commit is refused if the agent's claim on its task has passed to somebody else; `commit_rules` says what else may not
be committed. The commit's trailers name the agent, the task and the epoch. Before a push the claim is checked again,
and so are the epochs in the trailers of the agent's commits that would be pushed.
"""

from __future__ import annotations

import os

from ...agent_names import same_family
from ...errors import Fenced, Invalid, NotFound, Refused, TiebreakError
from ...model import holder_id
from ...names import FINAL, short
from ..agent_state import AgentState
from ..hook_context import known_claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...board import Board
    from ...model import Task

AGENT, TASK, EPOCH = "Tiebreak-Agent", "Tiebreak-Task", "Tiebreak-Epoch"


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
    given, epoch = environ.get("TIEBREAK_TASK"), environ.get("TIEBREAK_EPOCH", "")
    if given:
        _check_named(board, given, epoch)
    for task_id, known in known_claims(AgentState(board.agent, environ)):
        _check_known(board, task_id, known)


def _check_named(board: Board, ref: str, epoch: str) -> None:
    """The grant in the environment must be this agent's current one, or one that it has finished."""
    if epoch and not epoch.isdecimal():
        raise Invalid(f"TIEBREAK_EPOCH: expected a whole number, got {epoch[:40]!r}")
    task = board.tasks.get(ref=ref)
    live = task.state == "claimed" and (task.until or 0) > board.upkeep.now()
    current = not epoch or task.epoch == int(epoch)
    if not (current and same_family(holder_id(task) or "", board.agent) and (live or task.state in FINAL)):
        raise _stale(task, epoch or "?")


def _check_known(board: Board, task_id: str, epoch: int) -> None:
    try:
        task = board.tasks.get(ref=task_id)
    except NotFound:
        return  # pruned, so it ended long ago
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


# ── The commit's trailers ────────────────────────────────────────────────────────────────────────────


def trailers(board: Board, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Trailers with agent, tasks and epochs; none for a person without a claim."""
    claims = [
        task
        for task in board.tasks.list(agent=board.agent, states=["claimed"])
        if holder_id(task) == board.agent and (task.until or 0) > board.upkeep.now()
    ]
    chosen = environ.get("TIEBREAK_TASK")
    if chosen:
        task = board.tasks.get(ref=chosen)
        claims = [each for each in claims if each.id == task.id] or [task]
    if not claims and not is_agent(environ):
        return []
    lines = [f"{AGENT}: {short(board.agent)}"]
    for task in sorted(claims, key=lambda each: each.number):
        lines += [f"{TASK}: {task.key or task.id}", f"{EPOCH}: {task.epoch}"]
    return lines


def is_agent(environ: Mapping[str, str]) -> bool:
    """Whether an agent commits: its name or session is in the environment, or an agent client started the shell."""
    from ...agent_names import in_client

    return any(environ.get(name) for name in ("TIEBREAK_AGENT", "TIEBREAK_SESSION")) or in_client(environ)


def add_trailers(board: Board, root: str, message: str) -> None:
    """Add the trailers, each once, to the commit message in the file `message`."""
    words = [word for line in trailers(board) for word in ("--trailer", line)]
    if words:
        _end_last_line(message)
        options = ["--in-place", "--if-exists", "addIfDifferent"]
        git("interpret-trailers", *options, *words, os.path.abspath(message), root=root)


def _end_last_line(path: str) -> None:
    """End the last line of a file: without that, git takes the trailers for a part of it (the subject of a merge)."""
    with open(path, "rb+") as file:
        content = file.read()
        if content and not content.endswith(b"\n"):
            file.write(b"\n")


# ── Before a push ────────────────────────────────────────────────────────────────────────────────────


def check_push(board: Board, root: str, lines: str) -> None:
    """Raise `Fenced` if this agent's grant, or that of one of its commits to be pushed, has passed to somebody else."""
    check_grants(board)
    for line in lines.splitlines():
        words = line.split()
        if len(words) == 4 and set(words[1]) != {"0"}:
            for ref, epoch in _own_grants(board, root, words[1], words[3]):
                _check_known_ref(board, ref, epoch)


def _own_grants(board: Board, root: str, local: str, remote: str) -> list[tuple[str, int]]:
    """The tasks and epochs in the trailers of this agent's commits that the remote does not have."""
    known = [] if set(remote) == {"0"} else [f"^{remote}"]
    parts = "%x1f".join(f"%(trailers:key={key},valueonly,separator=%x1e)" for key in (AGENT, TASK, EPOCH))
    words = ["log", f"--format={parts}", "--max-count=1000", local, *known, "--not", "--remotes"]
    try:
        output = git(*words, root=root)
    except Refused:  # the remote has commits that are not here
        output = git("log", f"--format={parts}", "--max-count=1000", local, "--not", "--remotes", root=root)
    found: list[tuple[str, int]] = []
    for line in output.decode("utf-8", "replace").splitlines():
        agent, tasks, epochs = (part.split("\x1e") for part in [*line.split("\x1f"), "", "", ""][:3])
        if agent == [short(board.agent)]:
            pairs = zip(tasks, epochs, strict=False)
            found += [(task.strip(), int(epoch)) for task, epoch in pairs if task.strip() and epoch.strip().isdecimal()]
    return list(dict.fromkeys(found))


def _check_known_ref(board: Board, ref: str, epoch: int) -> None:
    try:
        task = board.tasks.get(ref=ref)
    except TiebreakError:
        return  # pruned, or on another board
    if task.epoch > epoch and not same_family(holder_id(task) or "", board.agent):
        raise _stale(task, str(epoch))
