"""Which files `tb commit` takes: those that `git commit -- PATH…` would take, and the new files below the paths.

- A file that git tracks, by the index or by HEAD, is committed as it is on disk, also if git ignores it.
- A new file is committed unless git ignores it. An ignored file can be added first, with `git add -f`.
- A file marked skip-worktree or assume-unchanged stays out. People mark their local settings so, and git itself marks
  what is outside of a sparse checkout.
- Another repository in a folder stays out, unless it is a submodule, of which the commit is recorded, as git does.

What stays out of a named folder is listed, and so is a named folder with nothing to commit. Anything else that stays
out although it was named itself is refused.
"""

from __future__ import annotations

import os
import stat

from ...errors import Refused
from .commit_files import empty_tree
from .git import git
from .index_entries import (
    ABSENT,
    ASSUME_UNCHANGED,
    GONE,
    REPOSITORY,
    SKIP_WORKTREE,
    IndexChange,
    changes_in,
    index_entries,
    listed,
    special,
)
from .named_paths import NESTED, NamedPaths, folders_above

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .commit_settings import CommitSettings
    from .index_entries import IndexEntry

BESIDE_MARKED = "in the place of marked files"
EMPTY = "nothing in it that git commits"
NOT_TAKEN, REMOVED = "git takes no such file", "it was removed meanwhile"
GITLINK = "160000"
"""The mode of a submodule."""
EXECUTABLE_OR_NOT = {"100644", "100755"}
SHOWN = 8


class Selection:
    """What goes into a commit, and what of the named folders does not."""

    __slots__ = ("entries", "gone", "ignores_stat", "left_out", "marked", "named", "new", "staged", "there")

    def __init__(
        self, named: NamedPaths, entries: dict[str, IndexEntry], marked: dict[str, str], staged: dict[str, IndexChange]
    ) -> None:
        self.named = named
        self.entries = entries
        """The files in the checkout's index, by their paths."""
        self.staged = staged
        """How the checkout's index differs from the commit to build on."""
        self.marked = marked
        self.ignores_stat = any(each.mark and path not in marked for path, each in special(entries).items())
        """Whether git marks each file as assume-unchanged by itself (`core.ignoreStat`), so that it means nothing."""
        self.there: list[str] = []
        self.new: list[str] = []
        """Those that git did not track."""
        self.gone: list[str] = []
        self.left_out: dict[str, str] = {}
        """Why each of these paths is not committed, although it has changed."""

    def take(self, changed: dict[str, str]) -> None:
        """Take these changed files that git tracks, unless they are marked; for each it says what is there now."""
        for path, now in changed.items():
            if path in self.marked:
                continue
            if now == REPOSITORY:
                self._leave_out_repository(path)
            else:
                (self.gone if now == GONE else self.there).append(path)
        _leave_out_beside(self)

    def take_new(self, others: list[str]) -> None:
        """Take these files that git does not track. A path that ends with a slash is another repository."""
        for path in others:
            if path.endswith("/"):
                self._leave_out_repository(path.rstrip("/"))
            else:
                self.there.append(path)
                self.new.append(path)

    def check_taken(self, changes: Collection[str]) -> None:
        """Leave out new files that git did not take, such as a link named `.gitmodules`; it fails without a word."""
        for path in self.new:
            if path not in changes and path not in self.staged:
                why = NOT_TAKEN if os.path.lexists(os.path.join(self.named.root, path)) else REMOVED
                if path in self.named.names:
                    raise Refused(f"{path} cannot be committed: {why}")
                self.left_out[path] = why

    def leftovers(self, committed: Collection[str]) -> dict[str, IndexChange]:
        """Staged changes that are not on disk, so that they are not committed: they leave the index, as in git."""
        out = {}
        for path, each in self.staged.items():
            if not (path in committed or path in self.marked or path in self.left_out or self._is_empty(path)):
                out[path] = IndexChange(each.mode, each.old_mode, each.object, each.old_object)
        return out

    def staged_mode(self, path: str, committed: IndexChange) -> str:
        """The mode of a committed file in the index, where the disk does not say it: what is staged stays staged."""
        known = self.entries.get(path)
        return known.mode if known and {known.mode, committed.mode} == EXECUTABLE_OR_NOT else committed.mode

    def _is_empty(self, path: str) -> bool:
        """Whether it is a submodule that is not checked out, of which nothing is on disk."""
        is_submodule = path in self.entries and self.entries[path].mode == GITLINK
        return is_submodule and not os.path.lexists(os.path.join(self.named.root, path, ".git"))

    def _leave_out_repository(self, path: str) -> None:
        if path in self.named.names:
            raise self.named.is_nested(path, path)
        self.left_out[path] = NESTED


def select(root: str, names: list[str], parent: str, folder: str, settings: CommitSettings) -> Selection:
    """What a commit of these paths takes besides changed tracked files; `Selection.take` adds those.

    Raises `Refused` for a path that cannot be committed. `parent` is the commit to build on, "" for none. Hints name
    the paths as seen from `folder`.
    """
    named = NamedPaths(root, names, folder, settings)
    entries = index_entries(root, names)
    _check_conflicts(entries)
    staged = _index_changes(root, parent or empty_tree(root), names)
    added = [path for path, each in staged.items() if each.old_mode == ABSENT]
    removed = [path for path, each in staged.items() if each.mode == ABSENT]
    others = _new(root, names)
    marked = _marked(entries, settings)
    empty = named.check(marked, (entries, removed, others))
    made = Selection(named, entries, marked, staged)
    made.left_out = _changed(root, marked, entries)
    made.left_out |= {path: mark for path, mark in marked.items() if path in staged} | dict.fromkeys(empty, EMPTY)
    disk = _Disk(root)
    made.there = [path for path in added if path not in marked and disk.has(path, folder=entries[path].mode == GITLINK)]
    made.take_new(others)
    return made


def _index_changes(root: str, commit: str, names: list[str]) -> dict[str, IndexChange]:
    """How the checkout's index differs from a commit."""
    words = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
    return changes_in(listed(root, (*words, commit), names))


def _new(root: str, names: list[str]) -> list[str]:
    """The files that git neither tracks nor ignores, and other repositories, whose paths end with a slash."""
    found = listed(root, ("ls-files", "-z", "--others", "--exclude-standard"), names)
    return list(dict.fromkeys(os.fsdecode(path) for path in found))


def _check_conflicts(entries: dict[str, IndexEntry]) -> None:
    unresolved = [path for path, each in special(entries).items() if each.unmerged]
    if unresolved:
        raise Refused(
            f"{', '.join(unresolved[:SHOWN])}: the conflicts of a merge are open there",
            hint="whoever merged resolves them, and says so with `git add`",
        )


# ── Marked files ─────────────────────────────────────────────────────────────────────────────────────


def _marked(entries: dict[str, IndexEntry], settings: CommitSettings) -> dict[str, str]:
    """The marks of files. Where git marks every file as assume-unchanged by itself, that one says nothing."""
    marked = {path: each.mark for path, each in special(entries).items() if each.mark}
    if ASSUME_UNCHANGED in marked.values() and settings.is_true("core.ignorestat"):
        return {path: mark for path, mark in marked.items() if mark == SKIP_WORKTREE}
    return marked


def _changed(root: str, marked: dict[str, str], entries: dict[str, IndexEntry]) -> dict[str, str]:
    """The marked files that differ from the index. Nobody needs to hear of one that is outside of a sparse checkout."""
    changed, files = {}, []
    for path, mark in marked.items():
        full = os.path.join(root, path)
        if os.path.isfile(full) and not os.path.islink(full) and not any(char in path for char in '"\n'):
            files.append(path)
        elif mark == ASSUME_UNCHANGED or os.path.lexists(full):
            changed[path] = mark
    for path, name in zip(files, _objects(root, files), strict=True):
        if name != entries[path].object:
            changed[path] = marked[path]
    return changed


def _objects(root: str, files: list[str]) -> list[str]:
    """The names that git would give to the contents of these files; "" if one of them cannot be read."""
    if not files:
        return []
    try:
        given = b"".join(os.fsencode(path) + b"\n" for path in files)
        return git("hash-object", "--stdin-paths", root=root, given=given).decode().split()
    except Refused:
        return [""] * len(files)


def _leave_out_beside(made: Selection) -> None:
    """Leave out what stands in the place of marked files: committing it would remove them."""
    above = {folder for path in made.marked for folder in folders_above(path)}
    for path in list(made.there) if made.marked else ():
        if path in above or any(folder in made.marked for folder in folders_above(path)):
            if path in made.named.names:
                raise Refused(f"{path} stands {BESIDE_MARKED}: committing it would remove them")
            made.there.remove(path)
            made.left_out[path] = BESIDE_MARKED


# ── What is on disk ──────────────────────────────────────────────────────────────────────────────────


class _Disk:
    """Looks at files by their names. A folder that is a symbolic link has no files, as in git."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.folders: dict[str, bool] = {"": True}

    def has(self, path: str, *, folder: bool) -> bool:
        """Whether there is a file; with `folder`, a folder will do."""
        mode = self._mode(path) if self._is_folder(path.rpartition("/")[0]) else 0
        return mode != 0 and (folder or not stat.S_ISDIR(mode))

    def _is_folder(self, path: str) -> bool:
        if path not in self.folders:
            self.folders[path] = self._is_folder(path.rpartition("/")[0]) and stat.S_ISDIR(self._mode(path))
        return self.folders[path]

    def _mode(self, path: str) -> int:
        try:
            return os.lstat(os.path.join(self.root, path)).st_mode
        except OSError:
            return 0
