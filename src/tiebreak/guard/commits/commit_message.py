"""The message of a commit, and the hooks of the repository that `tb commit` runs, as `git commit -m` does.

`pre-commit`, `prepare-commit-msg` and `commit-msg` may refuse the commit, and may change its files or its message. What
`post-commit` answers is ignored. The guard's own scripts are left out, because `tb commit` does what they would do.
Only where hooks are settings (`hook.NAME.command`), `git hook run` runs the scripts, too, and they check once more.
"""

from __future__ import annotations

import errno
import os

from ...errors import Refused
from .commit_settings import CommitSettings
from .commit_trailers import add_trailers
from .git import git
from .git_hooks import KEPT, MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from ...board import Board
    from ...repository import Repository

PREFIX = "tiebreak-message-"
"""What the names of temporary files begin with."""


class Hooks:
    """Runs the hooks of a repository, and collects what they print."""

    def __init__(self, board: Board, found: Repository, index: str, settings: CommitSettings) -> None:
        self.found = found
        self.settings = settings
        self.printed = ""
        # Hooks of tiebreak run as the agent that commits, and no hook may wait for an editor.
        agent = {"TIEBREAK_AGENT": board.agent} if _acts_for_another(board) else {}
        # In a worktree git names the git directory, too.
        private = {"GIT_DIR": found.private} if found.private != found.common else {}
        given = {"GIT_INDEX_FILE": index, "GIT_PREFIX": "", "GIT_EDITOR": ":"}
        self.environ = {**os.environ, **agent, **private, **given}
        self.folder = os.path.join(found.common, "hooks")
        if "core.hookspath" in settings.values:
            chosen = git("config", "--type=path", "core.hooksPath", root=found.root)
            self.folder = os.path.join(found.root, os.fsdecode(chosen.rstrip(b"\n")))

    def run(self, name: str, *words: str) -> bool:
        """Run a hook; False if there is none. Raises `Refused` if it refuses."""
        command = self._command(name)
        if not command:
            return False
        code, output = self._result([*command, *words])
        printed = output.decode("utf-8", "replace")
        self.printed += printed
        if code:
            last = (printed.strip() or f"exit code {code}").rpartition("\n")[2]
            raise Refused(f"the {name} hook refused this commit: {last}", output=self.printed)
        return True

    def _command(self, name: str) -> list[str]:
        if self.settings.has_hooks:
            return ["git", "hook", "run", "--ignore-missing", name, "--"]
        path = os.path.join(self.folder, name)
        if _is_own(path):
            path += KEPT
        return [path] if os.access(path, os.X_OK) else []

    def _result(self, command: list[str]) -> tuple[int, bytes]:
        """Run it in the top of the checkout, as git does; its exit code and what it printed."""
        self._add_programs_of_git()
        path = _temporary(self.found)
        # A file: a program that the hook leaves behind would keep a pipe open.
        with open(path, "xb+") as output:
            os.unlink(path)
            try:
                code = self._exit_code(command, output)
            except OSError as exc:
                if exc.errno != errno.ENOEXEC:
                    raise Refused(f"{command[0]} cannot be run: {exc.strerror}") from exc
                code = self._exit_code(["/bin/sh", *command], output)  # a script that names no program
            output.seek(0)
            return code, output.read()

    def _exit_code(self, command: list[str], output: BinaryIO) -> int:
        from subprocess import DEVNULL, STDOUT, run

        given = self.environ
        done = run(command, cwd=self.found.root, env=given, stdin=DEVNULL, stdout=output, stderr=STDOUT, check=False)
        return done.returncode

    def _add_programs_of_git(self) -> None:
        if "GIT_EXEC_PATH" not in self.environ:
            programs = os.fsdecode(git("--exec-path", root=self.found.root).rstrip(b"\n"))
            path = self.environ.get("PATH", os.defpath)
            self.environ.update(GIT_EXEC_PATH=programs, PATH=f"{programs}{os.pathsep}{path}")


def _is_own(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return MARK.encode() in file.read(1 << 10)
    except OSError:
        return False


def _temporary(found: Repository) -> str:
    return os.path.join(found.private, f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}")


def _acts_for_another(board: Board) -> bool:
    """Whether a process below this one would be another agent on the board."""
    from ...board import acting_agent

    return board.agent != acting_agent(None)


class MessageFile:
    """The file with the message. It is removed at the end of the `with` block."""

    def __init__(self, found: Repository, settings: CommitSettings) -> None:
        self.root = found.root
        self.settings = settings
        self.path = _temporary(found)

    def __enter__(self) -> MessageFile:
        return self

    def __exit__(self, *_: object) -> None:
        if os.path.exists(self.path):
            os.unlink(self.path)

    def write(self, board: Board, message: str, hooks: Hooks) -> str:
        """Write the message with its trailers, and let the hooks change it; its first line."""
        self._store(os.fsencode(message))
        hooks.run("prepare-commit-msg", self.path, "message")
        add_trailers(board, self.root, self.path)
        hooks.run("commit-msg", self.path)
        with open(self.path, "rb") as file:
            final = self._store(file.read())
        if not final.strip():
            raise Refused("after the hooks the message is empty")
        return final.strip().partition(b"\n")[0].decode("utf-8", "replace")

    def _store(self, message: bytes) -> bytes:
        """Store a message, cleaned as `commit.cleanup` demands for one that nobody has seen in an editor."""
        wanted = self.settings.values.get("commit.cleanup", "")
        if wanted != "verbatim":
            comments = ("--strip-comments",) if wanted == "strip" else ()
            message = git("stripspace", *comments, root=self.root, given=message)
        with open(self.path, "wb") as file:
            file.write(message)
        return message
