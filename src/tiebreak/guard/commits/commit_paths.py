"""Which files `tb commit` takes: those that `git commit -- PATH…` would take, and the new files below the paths.

- A file that git tracks, by the index or by HEAD, is committed as it is on disk, also if git ignores it.
- A new file is committed unless git ignores it. An ignored file can be added first, with `git add -f`.
- A file marked skip-worktree or assume-unchanged stays out. People mark their local settings so, and git itself marks
  what is outside of a sparse checkout.
- Another repository in a folder stays out, unless it is a submodule, of which the commit is recorded, as git does.

What stays out of a named folder is listed. What stays out although it was named itself is refused.
"""

from __future__ import annotations

import os
import stat

from ...errors import Refused
from ...repository import repository
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from .index_entries import IndexEntry

NESTED = "another repository"
BESIDE_MARKED = "in the place of marked files"
EMPTY = "nothing in it that git commits"
NOT_TAKEN = "git takes no such file"
GITLINK = "160000"
"""The mode of a submodule."""
SHOWN = 8


class Selection:
    """What goes into a commit, and what of the named folders does not."""

    __slots__ = ("entries", "gone", "ignores_stat", "left_out", "marked", "named", "new", "staged", "there")

    def __init__(
        self, named: _Named, entries: dict[str, IndexEntry], marked: dict[str, str], staged: dict[str, IndexChange]
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
                if path in self.named.names:
                    raise Refused(f"{path} cannot be committed: {NOT_TAKEN}")
                self.left_out[path] = NOT_TAKEN

    def leftovers(self, committed: Collection[str]) -> dict[str, IndexChange]:
        """Staged changes that are not on disk, so that they are not committed: they leave the index, as in git."""
        out = {}
        for path, each in self.staged.items():
            if not (path in committed or path in self.marked or path in self.left_out or self._is_empty(path)):
                out[path] = IndexChange(each.mode, each.old_mode, each.object, each.old_object)
        return out

    def _is_empty(self, path: str) -> bool:
        """Whether it is a submodule that is not checked out, of which nothing is on disk."""
        is_submodule = path in self.entries and self.entries[path].mode == GITLINK
        return is_submodule and not os.path.lexists(os.path.join(self.named.root, path, ".git"))

    def _leave_out_repository(self, path: str) -> None:
        if path in self.named.names:
            raise self.named.is_nested(path, path)
        self.left_out[path] = NESTED


def select(root: str, names: list[str], parent: str, folder: str) -> Selection:
    """What a commit of these paths takes besides changed tracked files; `Selection.take` adds those.

    Raises `Refused` for a path that cannot be committed. `parent` is the commit to build on, "" for none. Hints name
    the paths as seen from `folder`.
    """
    named = _Named(root, names, folder)
    entries = index_entries(root, names)
    _check_conflicts(entries)
    staged = _staged(root, parent or empty_tree(root), names)
    added = [path for path, each in staged.items() if each.old_mode == ABSENT]
    removed = [path for path, each in staged.items() if each.mode == ABSENT]
    others = _new(root, names)
    marked = _marked(root, entries)
    empty = named.check(marked, (entries, removed, others))
    made = Selection(named, entries, marked, staged)
    made.left_out = _changed(root, marked, entries)
    made.left_out |= {path: mark for path, mark in marked.items() if path in staged} | dict.fromkeys(empty, EMPTY)
    disk = _Disk(root)
    made.there = [path for path in added if path not in marked and disk.has(path, folder=entries[path].mode == GITLINK)]
    made.take_new(others)
    return made


def _staged(root: str, commit: str, names: list[str]) -> dict[str, IndexChange]:
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


def _marked(root: str, entries: dict[str, IndexEntry]) -> dict[str, str]:
    """The marks of files. Where git marks every file as assume-unchanged by itself, that one says nothing."""
    marked = {path: each.mark for path, each in special(entries).items() if each.mark}
    if ASSUME_UNCHANGED in marked.values() and _is_set(root, "core.ignoreStat"):
        return {path: mark for path, mark in marked.items() if mark == SKIP_WORKTREE}
    return marked


def _is_set(root: str, key: str) -> bool:
    return git("config", "--type=bool", "--default=false", key, root=root) == b"true\n"


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
    above = {folder for path in made.marked for folder in _folders(path)}
    for path in list(made.there) if made.marked else ():
        if path in above or any(folder in made.marked for folder in _folders(path)):
            if path in made.named.names:
                raise Refused(f"{path} stands {BESIDE_MARKED}: committing it would remove them")
            made.there.remove(path)
            made.left_out[path] = BESIDE_MARKED


def _folders(path: str) -> Iterator[str]:
    """The folders above a path."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


# ── Paths that were named ────────────────────────────────────────────────────────────────────────────


class _Named:
    """The paths that were named, and the refusals of those that cannot be committed."""

    def __init__(self, root: str, names: list[str], folder: str) -> None:
        self.root = root
        self.names = names
        self.folder = folder

    def check(self, marked: dict[str, str], listings: Iterable[Iterable[str]]) -> list[str]:
        """Raise `Refused` for a marked path, and one that none of the listings explains; the folders without files."""
        for name in self.names:
            if name in marked:
                raise self._is_marked(name, marked[name])
        left = set(self.names)
        for path in (each for paths in listings for each in paths):
            if not left:
                break
            left.discard(path.rstrip("/"))
            left.difference_update(_folders(path))
        unknown = [name for name in self.names if name in left]
        for name in unknown:
            self._check_unknown(name)
        return unknown

    def _is_marked(self, name: str, mark: str) -> Refused:
        there = os.path.lexists(os.path.join(self.root, name))
        if mark == SKIP_WORKTREE and not there and _is_set(self.root, "core.sparseCheckout"):
            return Refused(
                f"{name} is outside of this sparse checkout", hint="`git sparse-checkout list` shows what is inside"
            )
        return Refused(
            f"{name} is marked {mark}: git takes it for unchanged, and commits leave it out",
            hint=f"`git update-index --no-{mark} {self._argument(name)}` takes the mark away",
        )

    def _check_unknown(self, name: str) -> None:
        """Raise `Refused` for a path under which git has nothing to commit, unless it is a folder."""
        full, root = os.path.join(self.root, name), os.path.realpath(self.root)
        owner = repository(full if os.path.isdir(full) and not os.path.islink(full) else os.path.dirname(full))
        if owner is not None and owner.root != root:
            raise self.is_nested(name, os.path.relpath(owner.root, root))
        if not os.path.lexists(full):
            raise Refused(f"{name} is neither on disk nor in the last commit")
        words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        if any(listed(self.root, words, [name])):
            raise Refused(
                f"git ignores {name}",
                hint=f"`git add -f {self._argument(name)}` makes git track it; then commit it again",
            )
        if not os.path.isdir(full) or os.path.islink(full):
            raise Refused(f"{name} is nothing that git commits", hint="git commits files, links and submodules")

    def is_nested(self, name: str, top: str) -> Refused:
        """The refusal of a path in the repository at `top`, or of that itself."""
        here = f"is {NESTED}, and not a submodule" if name == top else f"is in {NESTED}, {top}"
        return Refused(
            f"{name} {here}", hint=f"commit in it: `cd {self._argument(top)}`, and `tb commit PATH… -m …` there"
        )

    def _argument(self, name: str) -> str:
        """A path of the repository as a shell takes it in the caller's folder."""
        from shlex import quote

        seen = os.path.relpath(os.path.join(self.root, name), os.path.realpath(self.folder))
        return quote(f"./{seen}" if seen.startswith("-") else seen)


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
