"""The paths that `tb commit` was given, and why it refuses some of them."""

from __future__ import annotations

import os

from ...errors import Refused
from ...repository import repository
from .commit_settings import CommitSettings
from .git import git
from .index_entries import SKIP_WORKTREE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NESTED = "another repository"


class NamedPaths:
    """The paths that were named, and the refusals of those that cannot be committed."""

    def __init__(self, root: str, names: list[str], folder: str, settings: CommitSettings) -> None:
        self.root = root
        self.settings = settings
        self.names = names
        self.folder = folder

    def check(self, marked: dict[str, str], listings: Iterable[Iterable[str]]) -> list[str]:
        """Raise `Refused` for a marked path, and one that none of the listings explains.

        Returns the folders in which there is nothing that git commits: they are left out.
        """
        for name in self.names:
            if name in marked:
                raise self._is_marked(name, marked[name])
        left = set(self.names)
        for path in (each for paths in listings for each in paths):
            if not left:
                break
            left.discard(path.rstrip("/"))
            left.difference_update(folders_above(path))
        unknown = [name for name in self.names if name in left]
        for name in unknown:
            self._check_unknown(name)
        return unknown

    def _is_marked(self, name: str, mark: str) -> Refused:
        there = os.path.lexists(os.path.join(self.root, name))
        if mark == SKIP_WORKTREE and not there and self.settings.is_true("core.sparsecheckout"):
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
        if self._is_ignored(name):
            raise Refused(
                f"git ignores {name}",
                hint=f"`git add -f {self._argument(name)}` makes git track it; then commit it again",
            )
        if not os.path.isdir(full) or os.path.islink(full):
            raise Refused(f"{name} is nothing that git commits", hint="git commits files, links and submodules")

    def _is_ignored(self, name: str) -> bool:
        """Whether git ignores the path itself. A folder of which it ignores all files is not ignored."""
        try:
            git("check-ignore", "--quiet", "--", f"./{name}", root=self.root)
        except Refused:
            return False
        return True

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


def folders_above(path: str) -> Iterator[str]:
    """The folders above a path."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
