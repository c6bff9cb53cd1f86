"""The message of a commit, and the hooks of the repository that `tb commit` runs, as `git commit -m` does.

`pre-commit`, `prepare-commit-msg` and `commit-msg` may refuse the commit, and may change its files or its message. What
`post-commit` answers is ignored.
"""

from __future__ import annotations

import os

from ...errors import Refused
from .commit_trailers import add_trailers
from .git import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...board import Board
    from ...repository import Repository

PREFIX = "tiebreak-message-"


class Hooks:
    """Runs the hooks of a repository, and collects what they print."""

    def __init__(self, board: Board, root: str, index: str) -> None:
        self.root = root
        self.printed = ""
        # Hooks of tiebreak run as the agent that commits, and no hook may wait for an editor.
        agent = {"TIEBREAK_AGENT": board.agent} if _acts_for_another(board) else {}
        self.environ = {**os.environ, **agent, "GIT_INDEX_FILE": index, "GIT_PREFIX": "", "GIT_EDITOR": ":"}

    def run(self, name: str, *words: str) -> None:
        """Run a hook if there is one; raises `Refused` if it refuses."""
        import subprocess

        done = subprocess.run(
            ["git", "-C", self.root, "hook", "run", "--ignore-missing", name, "--", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environ,
            check=False,
        )
        printed = done.stdout.decode("utf-8", "replace")
        self.printed += printed
        if done.returncode:
            last = (printed.strip() or f"exit code {done.returncode}").rpartition("\n")[2]
            raise Refused(f"the {name} hook refused this commit: {last}", output=self.printed)


def _acts_for_another(board: Board) -> bool:
    """Whether a process below this one would be another agent on the board."""
    from ...board import acting_agent

    return board.agent != acting_agent(None)


class MessageFile:
    """The file with the message. It is removed at the end of the `with` block."""

    def __init__(self, found: Repository) -> None:
        self.root = found.root
        self.path = os.path.join(found.private, f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}")

    def __enter__(self) -> MessageFile:
        return self

    def __exit__(self, *_: object) -> None:
        if os.path.exists(self.path):
            os.unlink(self.path)

    def write(self, board: Board, message: str, hooks: Hooks) -> str:
        """Write the message with its trailers, and let the hooks change it; its first line."""
        self._store(os.fsencode(message))
        add_trailers(board, self.root, self.path)
        hooks.run("prepare-commit-msg", self.path, "message")
        hooks.run("commit-msg", self.path)
        with open(self.path, "rb") as file:
            final = self._store(file.read())
        if not final.strip():
            raise Refused("after the hooks the message is empty")
        return final.strip().partition(b"\n")[0].decode("utf-8", "replace")

    def _store(self, message: bytes) -> bytes:
        """Store a message, cleaned as `commit.cleanup` demands for one that nobody has seen in an editor."""
        wanted = git("config", "--default=default", "commit.cleanup", root=self.root).decode().strip()
        if wanted != "verbatim":
            comments = ("--strip-comments",) if wanted == "strip" else ()
            message = git("stripspace", *comments, root=self.root, given=message)
        with open(self.path, "wb") as file:
            file.write(message)
        return message
