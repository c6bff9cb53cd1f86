"""The trailers of a commit: which agent made it, and under which grants. They are checked before a push.

`Tiebreak-Agent: ann` names the agent. `Tiebreak-Grant: login epoch 2 of ann` is one of its grants, and names the agent
again: a commit that several agents amend has the grants of all of them, and git may leave out a line that is there, or
put it elsewhere. A commit that git makes anew (a rebase, a cherry-pick) keeps the trailers of its author.

A message that is not written yet gets no trailers, because git would commit them alone: `prepare-commit-msg` leaves a
note for `commit-msg`, which adds the trailers to what the editor has left.
"""

from __future__ import annotations

import os

from ...errors import Refused
from ...files import remove_file, replace_file
from ...model import holder_id
from ...names import short
from .git import check_grants, check_known, git, is_agent, named_task
from .git_operation import is_replay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...board import Board
    from ...repository import Repository

AGENT, GRANT = "Tiebreak-Agent", "Tiebreak-Grant"
EPOCH, OF = " epoch ", " of "
"""What stands between the task, the epoch and the agent of a grant."""
_TASKS, _EPOCHS = "Tiebreak-Task", "Tiebreak-Epoch"
"""The trailers of older versions. They have one epoch for all tasks whose epochs are the same."""
COLON = ("-c", "trailer.separators=:")
PLACE = ("--where", "end", "--if-exists", "addIfDifferent", "--if-missing", "add")
"""Where git adds trailers, and which, whatever the user's settings say."""
WAITING = ".tiebreak"
"""What is added to the name of a message that is still to be written, for a note with the template that it is from."""
_CUT = b"------------------------ >8 ------------------------"
"""git ignores the rest of a message after this line."""


# ── Writing ──────────────────────────────────────────────────────────────────────────────────────────


def trailers(board: Board, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Trailers with the agent and its grants; none for a person without a claim."""
    claims = [
        task
        for task in board.tasks.list(agent=board.agent, states=["claimed"])
        if holder_id(task) == board.agent and (task.until or 0) > board.upkeep.now()
    ]
    task = named_task(board, environ)
    if task is not None:
        claims = [each for each in claims if each.id == task.id] or [task]
    if not claims and not is_agent(environ):
        return []
    grants = sorted(claims, key=lambda each: each.number)
    agent = short(board.agent)
    return [
        f"{AGENT}: {agent}",
        *(f"{GRANT}: {each.key or each.id}{EPOCH}{each.epoch}{OF}{agent}" for each in grants),
    ]


def add_trailers(board: Board, root: str, message: str) -> None:
    """Add the trailers, each once, to the commit message in the file `message`."""
    _add(root, message, trailers(board))


def _add(root: str, message: str, lines: list[str]) -> None:
    words = [word for line in lines for word in ("--trailer", line)]
    if words:
        _end_last_line(message)
        # In a message, a line of dashes is no divider: git looks for trailers at its very end.
        options = ["--in-place", "--no-divider", *PLACE]
        git(*COLON, "interpret-trailers", *options, *words, os.path.abspath(message), root=root)


def _end_last_line(path: str) -> None:
    """End the last line of a file: without that, git takes the trailers for a part of it (the subject of a merge)."""
    with open(path, "rb+") as file:
        content = file.read()
        if content and not content.endswith(b"\n"):
            file.write(b"\n")


def prepare_message(board: Board, found: Repository, message: str, source: str) -> None:
    """Add the trailers to a message that git has prepared; leave a note if somebody is still to write it."""
    remove_file(message + WAITING)
    if is_replay(found, source):
        return
    lines = trailers(board)
    if source in ("", "template"):
        if lines:
            replace_file(message + WAITING, _written(found.root, message) if source else b"")
    elif _read(message).strip():
        _add(found.root, message, lines)


def finish_message(board: Board, found: Repository, message: str) -> None:
    """Add the trailers to a message that somebody has written, if there was a note that it was not written yet."""
    try:
        before = _read(message + WAITING)
    except FileNotFoundError:
        return
    remove_file(message + WAITING)
    if _written(found.root, message) not in (b"", before):
        add_trailers(board, found.root, message)


def _written(root: str, message: str) -> bytes:
    """What git takes for written by somebody: no sign-offs, nor comments if it strips them. Without it, it stops."""
    lines = _read(message).splitlines(keepends=True)
    end = next((at for at, line in enumerate(lines) if line.rstrip().endswith(_CUT)), len(lines))
    kept = (line for line in lines[:end] if not line.startswith(b"Signed-off-by: "))
    cleanup = git("config", "--default=default", "commit.cleanup", root=root).strip()
    comments = ("--strip-comments",) if cleanup in (b"default", b"strip") else ()
    return git("stripspace", *comments, root=root, given=b"".join(kept))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


# ── Before a push ────────────────────────────────────────────────────────────────────────────────────


def check_push(board: Board, root: str, lines: str) -> None:
    """Raise `Fenced` if this agent's grant, or that of one of its commits to be pushed, has passed to somebody else."""
    check_grants(board)
    for line in lines.splitlines():
        words = line.split()
        if len(words) == 4 and set(words[1]) != {"0"}:
            for task, epoch in _pushed_grants(board, root, words[1], words[3]):
                check_known(board, task, epoch)


def _pushed_grants(board: Board, root: str, local: str, remote: str) -> list[tuple[str, int]]:
    """The grants in the trailers of this agent's commits that the remote does not have."""
    known = [] if set(remote) == {"0"} else [f"^{remote}"]
    words = [*COLON, "log", "--no-show-signature", "--format=%(trailers:only,unfold)%x1e", "--max-count=1000", local]
    try:
        output = git(*words, *known, "--not", "--remotes", root=root)
    except Refused:  # the remote has commits that are not here
        output = git(*words, "--not", "--remotes", root=root)
    messages = output.decode("utf-8", "replace").split("\x1e")
    return list(dict.fromkeys(grant for each in messages for grant in grants_of(short(board.agent), each)))


def grants_of(agent: str, lines: str) -> list[tuple[str, int]]:
    """The grants of an agent, by its name, in the trailers of one commit. One that cannot be read has the epoch 0."""
    grants, old_tasks, old_epochs, all_epochs, named = [], [], [], [], ""
    for line in lines.splitlines():
        key, _, value = line.partition(": ")
        is_own = named == agent
        if key == AGENT:
            named = value.strip()
        elif key == GRANT:
            task, epoch, of = _grant(value)
            grants += [(task, epoch)] if of in ("", agent) else []
        elif key == _TASKS and is_own:
            old_tasks.append(value.strip())
        elif key == _EPOCHS:
            all_epochs.append(_number(value))
            old_epochs += [_number(value)] if is_own else []
    if len(old_tasks) != len(old_epochs):
        # Which epoch is whose cannot be told, so each task is checked against the oldest.
        old_epochs = [min(all_epochs, default=0)] * len(old_tasks)
    return grants + list(zip(old_tasks, old_epochs, strict=True))


def _grant(text: str) -> tuple[str, int, str]:
    """Task, epoch and agent of a grant. If the agent is missing, it may be anybody's."""
    task, found, rest = text.rpartition(EPOCH)
    epoch, _, agent = rest.partition(OF)
    return (task.strip(), _number(epoch), agent.strip()) if found else (text.strip(), 0, "")


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0
