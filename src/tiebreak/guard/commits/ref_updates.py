"""Checks the commits that a branch or HEAD is about to be moved to, by whatever command of git.

git calls the hook `reference-transaction` before it changes refs. The commits are there by then, but no branch has
them. An agent's commits that are not on any branch yet are checked as before a commit (`commit_rules`). Commits that
were fetched, checked before, or at which HEAD was once, are not new work.

A person may go past the checks with `--no-verify`, here too. The holders are told afterwards (`new_commits`).
"""

from __future__ import annotations

import os
from functools import partial

from ...errors import Refused
from . import new_commits
from .commit_files import CommitFiles, changed_between, commits_in, empty_tree, files_of
from .commit_rules import CommitRules
from .git import check_grants, git
from .git_operation import earlier_heads, rebased, way_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...board import Board
    from ...repository import Repository

MOST = 200
"""Most new commits that are checked one by one. More are checked as if they were one commit."""
MOST_LOOKS = 1000
"""Entries of HEAD's reflog that are read."""
KNOWN = ("--not", "--exclude=refs/stash", "--all")
"""What has the commits that are not new. A stash may have files of anybody, so its commits count as new."""


def check_updates(board: Board, found: Repository, lines: str) -> None:
    """Raise `Lost`, `Refused` or `Fenced` if a branch may not be moved to these commits. `lines` is what git says."""
    updates = moved(lines)
    commits = _new(found, updates) if updates else []
    if not commits:
        return
    check_grants(board)
    head = next((name for name, refs in updates.items() if "HEAD" in refs), "")
    rules = CommitRules(board, found.root, way_out=partial(way_out, found, new=head))
    before = {
        name: [each for each in (_now(found.root, ref) for ref in refs) if each] for name, refs in updates.items()
    }
    if len(commits) > MOST:
        changed = [_as_one(found.root, name, known) for name, known in before.items()]
    else:
        known = list(dict.fromkeys(each for names in before.values() for each in names))
        changed = [(name, _unlike(found.root, files, known)) for name, files in files_of(found.root, commits)]
    original, earlier = rebased(found), earlier_heads(found)
    for name, files in changed:
        files.earlier += earlier
        files.is_replay = bool(original and rules.held(files)) and _repeats(found.root, name, original)
        rules.check(files, "this commit" if name in updates else f"commit {name[:10]}")
    for name, _ in commits:
        new_commits.mark_checked(name)


def moved(lines: str) -> dict[str, list[str]]:
    """The commits that HEAD or branches are moved to, each with these refs."""
    out: dict[str, list[str]] = {}
    for line in lines.split("\n"):
        old, new, ref = [*line.split(" ", 2), "", ""][:3]
        is_branch = ref == "HEAD" or ref.startswith("refs/heads/")
        if is_branch and new != old and set(new) != {"0"} and not new.startswith("ref:"):
            out.setdefault(new, []).append(ref)
    return out


def _new(found: Repository, updates: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    """The unchecked commits that no branch has, the oldest first, each with its parents; at most one above `MOST`."""
    names = [*(f"^{name}" for name in (*_visited(found), *new_commits.fetched(found))), *updates]
    commits = commits_in(found.root, f"--max-count={MOST + 1}", *KNOWN, given="".join(f"{name}\n" for name in names))
    return commits if len(commits) > MOST else [each for each in commits if not new_commits.is_checked(each[0])]


def _visited(found: Repository) -> list[str]:
    """The commits at which HEAD was, from its reflog: so a commit can be gone back to."""
    lines = new_commits.lines_of(os.path.join(found.private, "logs", "HEAD"))[-MOST_LOOKS:]
    return new_commits.object_names(line.partition(" ")[2].partition(" ")[0] for line in lines)


def _repeats(root: str, name: str, original: str) -> bool:
    """Whether a commit makes the same changes as one that the rebased branch had before: git compares patches."""
    words = ("rev-list", "--no-merges", "--left-only", "--cherry-pick", "--max-count=1")
    return not git(*words, f"{name}...{original}", "--not", f"{name}^@", root=root)


def _unlike(root: str, files: CommitFiles, before: list[str]) -> CommitFiles:
    """The files that are not on the moved branches already: an amended commit has some from the one before."""
    for name in before:
        changed = set(changed_between(root, name, files.revision.removesuffix(":")))
        files.names = [each for each in files.names if each in changed]
    return files


def _as_one(root: str, name: str, before: list[str]) -> tuple[str, CommitFiles]:
    """All new commits of a branch as one: the files in which it differs from where it was, or else from HEAD."""
    since = before[0] if before else _now(root, "HEAD") or empty_tree(root)
    files = CommitFiles(root, changed_between(root, since, name), revision=f"{name}:")
    files.before = since
    return name, files


def _now(root: str, ref: str) -> str:
    """The commit of a ref before the update; "" if there is none."""
    try:
        return git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", root=root).decode().strip()
    except Refused:
        return ""
