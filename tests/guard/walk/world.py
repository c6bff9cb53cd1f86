"""Where a walk takes place: a repository with two linked worktrees, its agents, and what can be seen."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from tiebreak.guard.commits import git_hooks
from tiebreak.guard.files.safety_copies import copies
from tiebreak.held_files import path_of
from tiebreak.model import holder_id

from ..actors import Claude, Denied, git, repository
from .steps import BRANCHES, FILES, PLACES, WHO

if TYPE_CHECKING:
    from tiebreak import Board
    from tiebreak.engine.protocol import Engine

PATIENCE = 60.0
"""Seconds that a command of an agent may take."""
LONG_AGO = "2026-01-01T00:00:00Z"
"""When the commits were made that are there before anybody comes."""
SIGNS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "rebase-merge/git-rebase-todo", "rebase-apply/next")
Place = tuple[str, str]
"""A checkout, and the path of a file in it."""


class Found(NamedTuple):
    """What is at such a place."""

    kind: str
    contents: bytes
    stamp: tuple[int, ...] = ()
    """Changes with the mode, and whenever it is written or replaced, even by the same."""


class Walker(Claude):
    """An agent with a shell of its own."""

    def begin(self, command: str) -> Running:
        """The Bash tool starts a command: what comes before it. Raises `Denied`."""
        self.uses += 1
        call = {"tool_name": "Bash", "tool_input": {"command": command, "timeout": 120_000}}
        call["tool_use_id"] = f"toolu_{self.uses:06}"
        said = self.say("PreToolUse", **call).get("hookSpecificOutput", {})
        if said.get("permissionDecision") == "deny":
            raise Denied(said["permissionDecisionReason"])
        return Running(self, command, call)


class Running:
    """A command in an agent's shell, from the hook before it to the hook after it."""

    def __init__(self, agent: Walker, command: str, call: dict[str, Any]) -> None:
        self.agent = agent
        self.command = command
        self.call = call
        self.output = {"stdout": "", "stderr": ""}

    def work(self, environ: dict[str, str]) -> str:
        """Run it; what it printed."""
        done = subprocess.run(
            ["bash", "-c", self.command],
            cwd=self.agent.cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
        self.output = {"stdout": done.stdout, "stderr": done.stderr}
        return f"$ {self.command}\n{done.stdout}{done.stderr}(exit {done.returncode})"

    def end(self) -> str:
        """What the agent is told after it."""
        said = self.agent.say("PostToolUse", **self.call, tool_response=self.output)
        return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))


class Unguarded(Walker):
    """The same agent where nobody is asked."""

    def say(self, event: str, **more: object) -> dict[str, Any]:
        """Nobody listens."""
        return {}


class World:
    """The repository, its agents, and all that an account has to see."""

    def __init__(self, folder: Path, engine: Engine, *, guarded: bool, bug: str = "") -> None:
        """`bug` are statements that `tb` in the agents' shells runs before anything else."""
        self.engine = engine
        self.guarded = guarded
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        if bug:
            (self.programs / "tb").write_text(
                f"#!{sys.executable}\n{bug}\nfrom tiebreak.program import launch\nlaunch()\n"
            )
            (self.programs / "tb").chmod(0o755)
        self.outside = folder / "outside"
        self.outside.mkdir(parents=True)
        (self.outside / "file.txt").write_text("somewhere else\n")
        self.roots = {place: folder / place for place in PLACES}
        with patch.dict(os.environ, {"GIT_COMMITTER_DATE": LONG_AGO, "GIT_AUTHOR_DATE": LONG_AGO}):
            self._build()
        self.session = dict.fromkeys(WHO, 0)
        self.agents: dict[str, Walker] = {}
        self.boards: dict[str, Board] = {}
        self.ids: dict[str, str] = {}
        for who, place in zip(WHO, ("main", "main", "tree1"), strict=True):
            self.arrive(who, place)

    def _build(self) -> None:
        own = {"README": f"{self.outside}\n"}  # another first commit than in other worlds, so another project
        main = repository(self.roots["main"], own | {name: f"first line of {name}\n" * 2 for name in FILES})
        (main / ".gitignore").write_text("build/\n")
        git("add", ".gitignore", cwd=main)
        git("commit", "--quiet", "-m", "ignore", cwd=main)
        for key, value in (("core.untrackedCache", "false"), ("gc.auto", "0"), ("core.fsync", "none")):
            git("config", key, value, cwd=main)
        for branch in BRANCHES[1:]:
            git("switch", "--quiet", "-c", branch, "main", cwd=main)
            for number in range(2):
                name = FILES[(BRANCHES.index(branch) + number) % len(FILES)]
                (main / name).write_text(f"{branch} {number}\n" + (main / name).read_text())
                git("commit", "--quiet", "-a", "-m", f"{branch} {number}", cwd=main)
        git("switch", "--quiet", "main", cwd=main)
        for place in PLACES[1:]:
            git("worktree", "add", "--quiet", str(self.roots[place]), place, cwd=main)
        if self.guarded:
            git_hooks.install(git_hooks.hooks(str(main)))

    # ── Agents ───────────────────────────────────────────────────────────────────────────────────────

    def arrive(self, who: str, place: str) -> None:
        """A new session of an agent begins."""
        self.session[who] += 1
        kind = Walker if self.guarded else Unguarded
        agent = kind(f"{who}-{self.session[who]}", self.roots[place], lambda: self.engine)
        agent.say("SessionStart", source="startup")
        self.agents[who] = agent
        self.boards[who] = agent.board
        self.ids[agent.agent] = who

    def place_of(self, who: str) -> str:
        """The checkout in which an agent works."""
        return self.agents[who].cwd.name

    def environ(self, who: str) -> dict[str, str]:
        """The environment of an agent's shell."""
        own = {"CLAUDE_SESSION_ID": self.agents[who].session} if self.guarded else {}
        folders = (str(self.programs), os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))
        return {
            **os.environ,
            **own,
            "PATH": os.pathsep.join(folders),
            "GIT_EDITOR": "true",
            "GIT_MERGE_AUTOEDIT": "no",
            "LC_ALL": "C.UTF-8",
        }

    # ── What can be seen ─────────────────────────────────────────────────────────────────────────────

    def files(self) -> dict[Place, Found]:
        """What is at each place of each checkout. No link is followed."""
        out: dict[Place, Found] = {}
        for place, root in self.roots.items():
            for above, folders, names in os.walk(root):
                folders[:] = [each for each in folders if each != ".git"]
                for name in (*names, *folders):
                    path = os.path.join(above, name)
                    if name != ".git":
                        out[place, os.path.relpath(path, root)] = _seen(path)
        return out

    def heads(self) -> dict[str, tuple[str, str]]:
        """The branch that is checked out in each checkout, "" for none, and the commit."""
        return {place: _head(self.private(place), self.private("main")) for place in PLACES}

    def commits(self) -> set[str]:
        """All commits but those of the stash."""
        listed = git("rev-list", "--exclude=refs/stash", "--all", cwd=self.roots["main"])
        return set(listed.split())

    def marks(self, place: str) -> set[str]:
        """The files of a checkout that are marked skip-worktree or assume-unchanged."""
        listed = git("ls-files", "-v", cwd=self.roots[place]).splitlines()
        return {line[2:] for line in listed if line[0] == "S" or line[0].islower()}

    def is_in_operation(self, place: str) -> bool:
        """Whether a merge, rebase or the like is in progress in a checkout."""
        private = self.private(place)
        return any((private / sign).exists() for sign in SIGNS)

    def private(self, place: str) -> Path:
        """The folder with the HEAD and the index of a checkout."""
        common = self.roots["main"] / ".git"
        return common if place == "main" else common / "worktrees" / place

    def holds(self) -> dict[str, str]:
        """Who holds which file."""
        return {
            path_of(hold.resource): self.ids.get(holder_id(hold) or "", "somebody else")
            for hold in self.boards[WHO[0]].holds.list()
        }

    def held_by(self, who: str) -> list[str]:
        """The files that an agent holds and that differ from the last commit where it works."""
        changed = git("status", "--porcelain", "-uall", "-z", "--no-renames", cwd=self.roots[self.place_of(who)])
        names = {each[3:] for each in changed.split("\0")}
        return sorted(name for name, holder in self.holds().items() if holder == who and name in names)

    def messages(self, who: str, after: int) -> list[tuple[int, str]]:
        """What an agent was told by messages since then."""
        return [(each.number, each.body) for each in self.boards[who].messages.inbox(after=after, every=True)]

    def kept(self, place: str, name: str) -> bytes:
        """All that can be brought back of a file."""
        return b"\n".join(each.contents() for each in copies(str(self.roots[place] / name)))


def _head(private: Path, common: Path) -> tuple[str, str]:
    head = (private / "HEAD").read_text().strip()
    if not head.startswith("ref: "):
        return "", head
    return head[5:], (common / head[5:]).read_text().strip()


def _seen(path: str) -> Found:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return Found("link", os.fsencode(os.readlink(path)), (found.st_ino,))
    if stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:
            return Found("file", file.read(), (found.st_mode, found.st_ino, found.st_mtime_ns))
    return Found("folder" if stat.S_ISDIR(found.st_mode) else "special", b"")
