"""The files in the index of a checkout and in commits, at and below some paths, as git lists them."""

from __future__ import annotations

import os

from .git import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ASSUME_UNCHANGED, SKIP_WORKTREE = "assume-unchanged", "skip-worktree"
FILE, GONE, REPOSITORY = "file", "gone", "repository"
"""What can be in place of a file that git tracks: a file or submodule, nothing, another repository."""
ABSENT = "000000"
"""The mode of no file."""
AT_ONCE = 500
"""Most paths that are given to git as arguments."""


class IndexEntry:
    """A file in the index, as `git ls-files -s -v` shows it: tag, mode, object and stage."""

    __slots__ = ("facts",)

    def __init__(self, facts: bytes) -> None:
        self.facts = facts

    @property
    def mark(self) -> str:
        """The mark that keeps the file out of commits; "" if there is none."""
        tag = self.facts[:1]
        return SKIP_WORKTREE if tag in b"Ss" else ASSUME_UNCHANGED if tag.islower() else ""

    @property
    def unmerged(self) -> bool:
        """Whether it is one side of a conflict."""
        return not self.facts.endswith(b" 0")

    @property
    def mode(self) -> str:
        """The mode, as git writes it."""
        return self.facts.split(b" ")[1].decode()

    @property
    def object(self) -> str:
        """The name of the contents."""
        return self.facts.split(b" ")[2].decode()


class IndexChange:
    """A changed file: its mode and object in the commit before, and in this one. The mode 000000 stands for no file."""

    __slots__ = ("mode", "object", "old_mode", "old_object")

    def __init__(self, old_mode: str, mode: str, old: str, new: str) -> None:
        self.old_mode = old_mode
        self.mode = mode
        self.old_object = old
        self.object = new


def changes_in(fields: Iterable[bytes]) -> dict[str, IndexChange]:
    """What git says is changed, as `--raw -z` lists it."""
    out, each = {}, iter(fields)
    for facts in each:
        old_mode, mode, old, new, _ = facts.decode().removeprefix(":").split(" ")
        out[os.fsdecode(next(each))] = IndexChange(old_mode, mode, old, new)
    return out


def index_entries(root: str, paths: list[str]) -> dict[str, IndexEntry]:
    """The files at and below these paths in the checkout's index."""
    out = {}
    for line in listed(root, ("ls-files", "-z", "-s", "-v"), paths):
        facts, found, path = line.partition(b"\t")
        if found:
            out[os.fsdecode(path)] = IndexEntry(facts)
    return out


def tree_entries(root: str, commit: str, paths: list[str]) -> dict[str, tuple[str, str]]:
    """The mode and object of the files at and below these paths in a commit."""
    out = {}
    for line in listed(root, ("ls-tree", "-r", "-z", "--full-tree", commit), paths):
        facts, found, path = line.partition(b"\t")
        if found:
            mode, _, name = facts.decode().split(" ")
            out[os.fsdecode(path)] = (mode, name)
    return out


def listed(
    root: str, words: tuple[str, ...], paths: list[str], environ: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """What a command of git lists at and below these paths, which may be more than a command line can take."""
    for at in range(0, len(paths), AT_ONCE):
        output = git("--literal-pathspecs", *words, "--", *paths[at : at + AT_ONCE], root=root, environ=environ)
        yield from filter(None, output.split(b"\0"))


def special(entries: dict[str, IndexEntry]) -> dict[str, IndexEntry]:
    """The entries with a mark or a conflict."""
    return {path: each for path, each in entries.items() if not each.facts.startswith(b"H")}
