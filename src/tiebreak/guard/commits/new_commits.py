"""Commits that no check has passed: noticed after they were made, and told once to those whose files they have.

A commit that was checked before a branch moved to it is marked as checked. The others were made by a person with
`--no-verify`, by a command that went past the hooks, or before the hooks were installed. Those that HEAD of a checkout
has got since the last look are compared with what is held, however they came to it: another branch says nothing, for a
command can have made it, too. Only commits that were fetched are not new work, nor those that somebody has looked at.
"""

from __future__ import annotations

import os

from ...errors import TiebreakError
from ...model import holder_id
from ...names import short
from ...text import plain
from ..agent_state import AgentState, common_facts
from ..holder_messages import tell
from .checkout_branch import DETACHED, branch_of, during
from .commit_files import commits_in, files_of
from .commit_rules import CommitRules
from .commit_trailers import AGENT, COLON
from .git import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...board import Board
    from ...model import Hold
    from ...repository import Repository
    from .commit_files import CommitFiles

MOST = 200
"""Most new commits that are looked at."""
DAYS = 7
"""Days for which it is known which commits were checked or looked at."""
SHOWN = 8
_NOT_MADE = ("checkout:", "reset:", "clone:", "branch:")
_NOT_MADE_BY_REBASE = (" (start): ", " (finish): ", " (abort): ")
"""What entries of the reflog begin with, or have, that are about commits which existed before."""
HEX = frozenset("0123456789abcdef")
LEAST_NAME = 40
"""Digits of the shortest full name of an object."""


class UnseenCommit:
    """A commit that no check has passed, and what it has of files that somebody holds."""

    __slots__ = ("at", "files", "has", "maker", "name", "who")

    def __init__(self, files: CommitFiles, at: float, who: str, maker: str) -> None:
        self.name = files.revision.removesuffix(":")
        self.files = files
        self.at = at
        """When it was made, in Unix seconds."""
        self.who = who
        """The name of its committer."""
        self.maker = maker
        """The name of the agent in its trailers; "" if there is none."""
        self.has: dict[str, list[str]] = {}
        """For each holder, by id: what the commit has, as the object of a sentence."""

    def is_by(self, holder: str) -> bool:
        """Whether a holder, or an agent above or below it, made the commit, as its trailers say."""
        name = short(holder)
        return bool(self.maker) and (f"{name}.".startswith(f"{self.maker}.") or f"{self.maker}.".startswith(f"{name}."))


# ── What was checked ─────────────────────────────────────────────────────────────────────────────────


def mark_checked(name: str) -> None:
    """A commit has passed the check: nothing is to be told about it."""
    _facts().put(name, b"checked")


def is_checked(name: str) -> bool:
    """Whether a commit has passed the check."""
    return _facts().get(name) == b"checked"


def tidy() -> None:
    """Forget what was checked or looked at long ago."""
    _facts().forget_older(DAYS)


def _is_known(name: str) -> bool:
    """Whether a commit was checked, or its holders were told about it."""
    return _facts().get(name) is not None


def _note_look(name: str) -> None:
    """The holders were told about a commit, or need not be."""
    if not _is_known(name):
        _facts().put(name, b"")


def _facts() -> AgentState:
    return common_facts("commits")


# ── What was not ─────────────────────────────────────────────────────────────────────────────────────


def notice(board: Board, found: Repository, since: str, makers: list[str]) -> dict[str, list[str]]:
    """Tell the holders about new commits that have their files; returns what to tell the agents whose commands ran.

    `since` is the commit that the checkout was at when somebody last looked. `makers` are these agents, by their ids.
    """
    told = []
    commits = unseen_commits(board, found, since, makers)
    for commit in commits:
        for holder, parts in commit.has.items():
            _tell(board, found, commit, holder, parts, makers)
        if commit.has:
            named = "; ".join(f"{_listed(parts)} of {short(holder)}" for holder, parts in sorted(commit.has.items()))
            told.append(
                f"tiebreak: commit {commit.name[:10]} was made while that command ran, past the checks, and has "
                f"{named}. The holders were told; ask with `tb send {short(min(commit.has))} …`."
            )
    for commit in commits:
        _note_look(commit.name)
    return dict.fromkeys(makers, told)


def _tell(
    board: Board, found: Repository, commit: UnseenCommit, holder: str, parts: list[str], makers: list[str]
) -> None:
    branch = branch_of(found)
    where = f"on {branch}" if branch not in ("", DETACHED) else f"in {found.root}"
    whence = during(makers) if makers else f"by {plain(commit.who)}"
    tell(
        board,
        holder,
        f"Commit {commit.name[:10]} {where} has {_listed(parts)}, which you hold. It was made {whence}, and no "
        f"check has passed it. `git show {commit.name[:10]}` shows it.",
        once=commit.name,
    )


def _listed(parts: list[str]) -> str:
    return ", ".join(parts[:SHOWN]) + (f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else "")


def unseen_commits(board: Board, found: Repository, since: str, makers: list[str]) -> list[UnseenCommit]:
    """The new commits at HEAD that no check has passed, with what each has of files that others hold.

    `makers` are the agents that may have made them; if there is one, its own files do not count. Commits at which
    somebody has looked are left out.
    """
    try:
        names = [name for name in _new(found, since) if not _is_known(name)] if since.strip("0") else []
        commits = _read(found.root, names) if names else []
    except TiebreakError:
        return []  # git does not have the commits any more
    if commits:
        rules = CommitRules(board, found.root, committer=makers[0] if len(makers) == 1 else "")
        for commit in commits:
            _compare(commit, rules)
    return commits


def _compare(commit: UnseenCommit, rules: CommitRules) -> None:
    """Find what a commit has of files that somebody held when it was made."""
    for file, hold in rules.held(commit.files):
        holder = holder_id(hold) or ""
        if (hold.taken_at or 0) <= commit.at + 1 and not commit.is_by(holder):
            commit.has.setdefault(holder, []).append(plain(file.name))
    for candidate, record in rules.with_lines_of_others(commit.files):
        if not commit.is_by(record.holder):
            parts = commit.has.setdefault(record.holder, [])
            parts.append(f"lines from {plain(record.name)} in {plain(candidate.name)}")


def _new(found: Repository, since: str) -> list[str]:
    """The names of the commits that HEAD has got since then, the oldest first, but for those that were fetched.

    HEAD may have been at `since` several times, so everything counts that was made after the first time.
    """
    entries = _reflog(found)
    visits = [at for at, (_, new, _) in enumerate(entries, 1) if new == since]
    visits += [at for at, (old, _, _) in enumerate(entries) if old == since]
    made = [new for _, new, why in entries[min(visits, default=len(entries)) :] if _is_made(why)]
    git("cat-file", "-e", f"{since}^{{commit}}", root=found.root)
    words = (f"--max-count={MOST}", "HEAD", f"^{since}", "--not", "--remotes")
    arrived = [name for name, _ in commits_in(found.root, *words)]
    if arrived and (elsewhere := fetched(found)):
        given = "".join(f"^{name}\n" for name in elsewhere)
        here = {name for name, _ in commits_in(found.root, *words, given=given)}
        for name in arrived:
            if name not in here:
                _note_look(name)  # the next fetch forgets it
        arrived = [name for name in arrived if name in here]
    return list(dict.fromkeys(made + arrived))[-MOST:]


def fetched(found: Repository) -> list[str]:
    """The commits that were fetched last from another repository, also those that no ref has."""
    lines = (line.partition("\t") for line in lines_of(os.path.join(found.private, "FETCH_HEAD")))
    return object_names(name for name, _, whence in lines if not whence.endswith(" of ."))


def object_names(words: Iterable[str]) -> list[str]:
    """The names of objects among these words, each once."""
    return [word for word in dict.fromkeys(words) if len(word) >= LEAST_NAME and HEX.issuperset(word)]


def lines_of(path: str) -> list[str]:
    """The lines of one of git's files; none if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().split("\n")
    except OSError:
        return []


def _is_made(why: str) -> bool:
    """Whether HEAD was moved to a commit that was made just then, by the reason in the reflog."""
    if why.startswith(("rebase", "pull")) and any(step in why for step in _NOT_MADE_BY_REBASE):
        return False
    return not why.startswith(_NOT_MADE) and "fast-forward" not in why.lower()


def before_holds(found: Repository, holds: Iterable[Hold]) -> str:
    """The commit that a checkout was at when the oldest of these holds was taken; "" if HEAD has not moved since."""
    since = min((hold.taken_at for hold in holds if hold.taken_at), default=float("inf"))
    for line in _reflog_lines(found):
        before, _, why = line.partition("\t")
        old, new, *_ = [*before.split(" ", 2), ""]
        at = before.split(" ")[-2:-1]
        if at and at[0].isdecimal() and int(at[0]) + 1 >= since:
            # A new worktree begins at a commit that was made before.
            return old if old.strip("0") else new if not why else ""
    return ""


def _reflog(found: Repository) -> list[tuple[str, str, str]]:
    """The last entries of HEAD's reflog, the oldest first: from, to, why."""
    lines = _reflog_lines(found)
    return [(line.split(" ", 1)[0], line.split(" ", 2)[1], line.partition("\t")[2]) for line in lines if " " in line]


def _reflog_lines(found: Repository) -> list[str]:
    return lines_of(os.path.join(found.private, "logs", "HEAD"))[-MOST:]


def _read(root: str, names: list[str]) -> list[UnseenCommit]:
    """The commits of these names, with their files."""
    parts = f"%H%x1f%P%x1f%ct%x1f%cn%x1f%(trailers:key={AGENT},valueonly,separator=%x1e)"
    words = [
        *COLON,
        "log",
        "-z",
        "--no-walk=unsorted",
        "--no-show-signature",
        "--ignore-missing",
        f"--format={parts}",
        "--stdin",
    ]
    output = git(*words, root=root, given="".join(f"{name}\n" for name in names).encode())
    facts = [(*line.split("\x1f"), "", "")[:5] for line in output.decode("utf-8", "replace").split("\0") if line]
    files = dict(files_of(root, [(name, parents.split()) for name, parents, *_ in facts]))
    return [
        UnseenCommit(files[name], float(at or 0), who, makers.split("\x1e")[-1].strip())
        for name, _, at, who, makers in facts
    ]
