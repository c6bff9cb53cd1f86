"""`tb commit PATH… -m …`: a commit of exactly these paths, whatever else is staged, changed or being committed.

The commit's tree is built in a temporary index: HEAD's tree, and these paths as they are on disk. Then the branch moves
from HEAD to the new commit by compare-and-swap (`git update-ref`), so a commit that somebody else made meanwhile is
neither lost nor undone. Finally the entries of these paths, and no others, are updated in the checkout's index, so that
git does not show them as changed.
"""

from __future__ import annotations

import os
import time

from ..errors import Invalid, Refused
from ..files import lock_file
from ..paths import confine
from .git import add_trailers, check_commit, git, paths_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..board import Board

TRIES = 20
PATIENCE = 30.0
"""Seconds to wait while another process commits or has the index locked."""


def commit(board: Board, root: str, folder: str, given: list[str], message: str) -> dict[str, object]:
    """Commit these paths; returns the commit, its subject and the changed paths."""
    if not message.strip():
        raise Invalid("commit: the message is empty", hint="-m 'what and why'")
    names = [_name(path, root, folder) for path in given]
    private = git("rev-parse", "--absolute-git-dir", root=root).decode("utf-8", "surrogateescape").rstrip("\n")
    lock = lock_file(os.path.join(private, "tiebreak-commit.lock"), PATIENCE)  # one commit at a time in one checkout
    if lock is None:
        raise Refused(f"somebody else has been committing here for {PATIENCE:g} s")
    try:
        _check_state(root, private, names)
        for _ in range(TRIES):
            made = _attempt(board, root, private, names, message)
            if made is not None:
                return made
    finally:
        os.close(lock)
    raise Refused("the branch kept moving while this was committed", hint="try again")


def _check_state(root: str, private: str, names: list[str]) -> None:
    """Raise `Refused` during a rebase, and for paths with unresolved conflicts, as git itself does."""
    if any(os.path.exists(os.path.join(private, state)) for state in ("rebase-merge", "rebase-apply")):
        raise Refused(
            "a rebase is in progress in this checkout: if it is aborted, a commit made now is lost",
            hint="wait until it is done, or finish it if it is yours",
        )
    unresolved = paths_in(
        git("--literal-pathspecs", "diff", "--name-only", "--diff-filter=U", "-z", "--", *names, root=root)
    )
    if unresolved:
        raise Refused(
            f"{', '.join(unresolved[:8])}: the conflicts of a merge are open there",
            hint="whoever merges resolves them, and finishes with `git commit`",
        )


def _name(path: str, root: str, folder: str) -> str:
    """A path relative to the top of the repository, as git writes it."""
    full = os.path.join(folder, path).rstrip("/")
    if os.path.basename(full) in (".", ".."):
        full = os.path.realpath(full)
    above = os.path.realpath(os.path.dirname(full) or "/")
    real = os.path.join(above, os.path.basename(full))
    if os.path.realpath(full) == os.path.realpath(root):
        raise Invalid("commit: name the paths, not the whole repository", hint="a folder below it is fine")
    if above != os.path.realpath(root):  # a symbolic link is not followed: git commits the link itself
        confine(above, root=root, base=root, literal=True)
    return os.path.relpath(real, os.path.realpath(root))


def _attempt(board: Board, root: str, private: str, names: list[str], message: str) -> dict[str, object] | None:
    """Try once; None when the branch moved meanwhile."""
    index = os.path.join(private, f"tiebreak-index-{os.getpid()}")
    text = os.path.join(private, f"tiebreak-message-{os.getpid()}")
    own = {"GIT_INDEX_FILE": index}
    try:
        parent = _head(root)
        git(*(["read-tree", parent] if parent else ["read-tree", "--empty"]), root=root, environ=own)
        git("--literal-pathspecs", "add", "--all", "--", *names, root=root, environ=own)
        changed = _changed(root, parent, own)
        if not changed:
            raise Refused("nothing to commit in these paths")
        check_commit(board, root, changed)
        with open(text, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(message.rstrip("\n") + "\n")
        git("hook", "run", "--ignore-missing", "pre-commit", root=root, environ={**own, "GIT_PREFIX": ""})
        # A hook may change the committed paths. Others that it stages (`git add -u`) may be somebody else's work.
        _set_entries(root, parent, [path for path in _changed(root, parent, own) if path not in changed], environ=own)
        add_trailers(board, root, text)
        git("hook", "run", "--ignore-missing", "commit-msg", "--", text, root=root, environ=own)
        changed = _changed(root, parent, own)
        made = _move_branch(root, parent, own, text)
        if made is None:
            return None
        _refresh(root, made, changed)
        subject = message.strip().split("\n", 1)[0]
        return {"commit": made, "parent": parent or None, "subject": subject, "paths": changed}
    finally:
        for leftover in (index, text, f"{index}.lock"):
            if os.path.exists(leftover):
                os.unlink(leftover)


def _head(root: str) -> str:
    """The current commit; "" before the first one."""
    try:
        return git("rev-parse", "--verify", "--quiet", "HEAD", root=root).decode().strip()
    except Refused:
        return ""


def _changed(root: str, parent: str, own: dict[str, str]) -> list[str]:
    against = [parent] if parent else []
    return paths_in(git("diff", "--cached", "--name-only", "--no-renames", "-z", *against, root=root, environ=own))


def _move_branch(root: str, parent: str, own: dict[str, str], text: str) -> str | None:
    tree = git("write-tree", root=root, environ=own).decode().strip()
    parents = ["-p", parent] if parent else []
    sign = ["-S"] if git("config", "--type=bool", "--default=false", "commit.gpgSign", root=root) == b"true\n" else []
    made = git("commit-tree", tree, *parents, *sign, "-F", text, root=root).decode().strip()
    try:
        git("update-ref", "-m", "commit: by tb commit", "HEAD", made, parent or "0" * len(made), root=root)
    except Refused:
        if _head(root) == parent:
            raise
        return None
    return made


def _refresh(root: str, made: str, changed: list[str]) -> None:
    """Update these paths, and no others, in the checkout's index."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            _set_entries(root, made, changed)
            return
        except Refused as exc:
            if "index.lock" not in exc.message or time.monotonic() > end:
                raise Refused(
                    f"committed as {made[:12]}, but the index could not be brought up to date: {exc.message}",
                    hint="`git add` of the same paths repairs the index; until then git shows old contents as staged",
                ) from None
            time.sleep(0.05)


def _set_entries(root: str, commit: str, paths: list[str], environ: dict[str, str] | None = None) -> None:
    """Set these entries of an index to their state in a commit; "" stands for an empty tree."""
    if not paths:
        return
    named = ["--", *paths] if len(paths) < 500 else []
    words = ["--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", commit, *named]
    entries = dict(_entries(git(*words, root=root))) if commit else {}
    lines = b""
    for path in paths:
        mode, name = entries.get(path, ("0", "0" * 40))
        lines += f"{mode} {name}\t".encode() + os.fsencode(path) + b"\0"
    git("update-index", "-z", "--index-info", root=root, environ=environ, given=lines)


def _entries(listing: bytes) -> Iterator[tuple[str, tuple[str, str]]]:
    for line in listing.split(b"\0"):
        facts, mark, path = line.partition(b"\t")
        if mark:
            mode, _, name = facts.decode().split(" ")
            yield os.fsdecode(path), (mode, name)
