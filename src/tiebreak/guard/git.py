"""The git guard: an agent can only commit and push its own work.

A commit is refused if another agent holds one of its files, if a file is in quarantine, or if the agent's claim on its
task has passed to somebody else. The commit's trailers name the agent, the task and the epoch. Before a push the claim
is checked again, and so are the epochs in the trailers of the agent's commits that would be pushed.
"""

from __future__ import annotations

import os

from ..agent_names import same_family
from ..checkouts import checkout_of
from ..errors import Fenced, Invalid, Lost, NotFound, Refused, TiebreakError
from ..fingerprints import digest
from ..held_files import conflict, means_files_in, path_of
from ..model import holder_id
from ..names import FINAL, short
from ..repository import repository
from .agent_state import AgentState
from .guarded_file import guarded_files
from .hook_context import known_claims
from .quarantine import clear, quarantined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..board import Board
    from ..model import Hold, Task
    from .guarded_file import GuardedFile

SHOWN = 8
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
        raise Refused(f"git {words[0]}: {said}")
    return done.stdout


def paths_in(output: bytes) -> list[str]:
    """The paths in a NUL-separated listing."""
    return [os.fsdecode(path) for path in output.split(b"\0") if path]


# ── Before a commit ──────────────────────────────────────────────────────────────────────────────────


def check_commit(board: Board, root: str, paths: list[str]) -> None:
    """Raise `Lost`, `Refused` or `Fenced` if these paths, relative to the repository, may not be committed now."""
    check_grants(board)
    checkout = checkout_of(repository(root))
    files = guarded_files(paths, root, board.project_names, checkout)
    holds = [hold for hold in board.holds.list() if means_files_in(hold.resource, checkout)] if files else []
    theirs = [(file, hold) for file in files for hold in holds if _in_the_way(board, file, hold)]
    if theirs:
        raise _held(theirs)
    for file in files:
        _check_quarantine(file, holds)


def _in_the_way(board: Board, file: GuardedFile, hold: Hold) -> bool:
    return conflict(file.resource, hold.resource) and not same_family(holder_id(hold) or "", board.agent)


def _held(theirs: list[tuple[GuardedFile, Hold]]) -> Lost:
    named = ", ".join(f"{file.name} by {hold.holder}" for file, hold in theirs[:SHOWN])
    more = f" and {len(theirs) - SHOWN} more" if len(theirs) > SHOWN else ""
    first = theirs[0][1]
    return Lost(
        f"this commit has files that others hold: {named}{more}",
        hint=f"commit your own alone with `tb commit PATH… -m …`; ask with `tb send {first.holder} …`",
        holder=first.holder,
        until=first.until,
        epoch=first.epoch,
        paths=[file.name for file, _ in theirs],
    )


def _check_quarantine(file: GuardedFile, holds: list[Hold]) -> None:
    """Raise `Refused` for a file in quarantine, unless the holder's grant is over or the file is unchanged again."""
    mark = quarantined(file.path)
    if mark is None:
        return
    by, holder, epoch = mark
    held = [h for h in holds if path_of(h.resource) == file.name and h.epoch == epoch and holder_id(h) == holder]
    if held and held[0].hash != digest(file.path):
        raise Refused(
            f"{file.name} changed while a command of {short(by)} ran and {short(holder)} holds it",
            hint=f"{short(holder)} reads it again first (`tb renew {file.name}` says so); `tb guard clear {file.name}` "
            "when a person has looked at it",
        )
    clear(file.path)


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
    if not claims and not _is_agent(environ):
        return []
    lines = [f"{AGENT}: {short(board.agent)}"]
    for task in sorted(claims, key=lambda each: each.number):
        lines += [f"{TASK}: {task.key or task.id}", f"{EPOCH}: {task.epoch}"]
    return lines


def _is_agent(environ: Mapping[str, str]) -> bool:
    """Whether an agent commits: its name or session is in the environment, or an agent client started the shell."""
    from ..agent_names import in_client

    return any(environ.get(name) for name in ("TIEBREAK_AGENT", "TIEBREAK_SESSION")) or in_client(environ)


def add_trailers(board: Board, root: str, message: str) -> None:
    """Add the trailers, each once, to the commit message in the file `message`."""
    words = [word for line in trailers(board) for word in ("--trailer", line)]
    if words:
        options = ["--in-place", "--if-exists", "addIfDifferent"]
        git("interpret-trailers", *options, *words, os.path.abspath(message), root=root)


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
