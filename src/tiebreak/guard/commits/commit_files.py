"""The files that commits change, read from git's objects: nothing here looks at the disk."""

from __future__ import annotations

import os

from ...errors import Refused
from ..files.moved_contents import blobs
from .git import git, paths_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_NAMED = 500
"""Most names that are given to git as arguments. If there are more, git compares everything."""
_DIFF = ("-r", "-z", "--name-only", "--no-renames")


class CommitFiles:
    """The changed files of a commit, made already or about to be made."""

    __slots__ = ("before", "earlier", "environ", "is_replay", "names", "others", "revision", "root")

    def __init__(
        self,
        root: str,
        names: Iterable[str],
        *,
        revision: str = ":",
        others: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.names = list(names)
        """The paths relative to the repository, as git spells them."""
        self.revision = revision
        """What comes before a name in git's name for the contents: `:` for the index, or `COMMIT:`."""
        self.before = "HEAD" if revision == ":" else revision.replace(":", "^")
        """The commit that the files are changed from."""
        self.others = list(others)
        """The parents after the first one."""
        self.earlier: list[str] = []
        """Where HEAD was before a reset or a rebase."""
        self.environ = environ
        self.is_replay = False
        """Whether a rebase makes an earlier commit anew, with the same changes."""

    def not_edited(self, names: list[str]) -> set[str]:
        """Those of these files that nobody has edited for this commit.

        These are all files of a replay, those that a merge brings from a further parent, and those that are as in
        earlier commits which are squashed into this one.
        """
        if self.is_replay:
            return set(names)
        out: set[str] = set()
        for other in [*self.others, *filter(self._is_before, self.earlier)] if names else ():
            out |= set(names) - self._unlike(other, names)
        return out

    def _is_before(self, later: str) -> bool:
        """Whether a commit was made on top of the one that the files are changed from."""
        try:
            git("merge-base", "--is-ancestor", self.before, later, root=self.root)
        except Refused:
            return False  # or git does not have it any more
        return True

    def _unlike(self, other: str, names: list[str]) -> set[str]:
        """The files that are not as in another commit."""
        named = ["--", *names] if len(names) <= MOST_NAMED else []
        if self.revision == ":":
            words = ["diff-index", "--cached", *_DIFF[1:], other, *named]
        else:
            words = ["diff-tree", *_DIFF, other, self.revision.removesuffix(":"), *named]
        return set(paths_in(git("--literal-pathspecs", *words, root=self.root, environ=self.environ)))

    def contents(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of files by name. Deleted and very large files are left out."""
        return blobs(self.root, {name: self.revision + name for name in names}, self.environ)


def staged(root: str, *, others: Iterable[str] = (), earlier: Iterable[str] = ()) -> CommitFiles:
    """The files of a commit that git is about to make from its index."""
    options = ("--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=none")
    output = git("diff", "--cached", *options, "-z", root=root)
    files = CommitFiles(root, paths_in(output), others=others)
    files.earlier += earlier
    return files


def changed_between(root: str, one: str, other: str) -> list[str]:
    """The files in which two commits or trees differ."""
    return paths_in(git("diff-tree", *_DIFF, one, other, root=root))


def empty_tree(root: str) -> str:
    """The name of the tree without files, from which everything differs."""
    return git("hash-object", "-t", "tree", "--stdin", root=root).decode().strip()


def files_of(root: str, commits: Iterable[tuple[str, list[str]]]) -> list[tuple[str, CommitFiles]]:
    """For each commit, given with its parents: its name, and its files that differ from the first parent."""
    known = dict(commits)
    given = "".join(f"{' '.join([name, *parents[:1]])}\n" for name, parents in known.items())
    words = ["diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--root", "--no-abbrev"]
    names = _names_by_commit(git(*words, root=root, given=given.encode()) if given else b"")
    return [
        (name, CommitFiles(root, names.get(name, ()), revision=f"{name}:", others=parents[1:]))
        for name, parents in known.items()
    ]


def _names_by_commit(output: bytes) -> dict[str, list[str]]:
    """The names in a raw listing: the name of a commit, then for each file what changed and the file's name."""
    out: dict[str, list[str]] = {}
    commit, pieces = "", iter(output.split(b"\0"))
    for piece in pieces:
        if piece.startswith(b":"):
            out.setdefault(commit, []).append(os.fsdecode(next(pieces)))
        elif piece:
            commit = piece.decode("ascii", "replace").strip()
    return out


def commits_in(root: str, *words: str, given: str = "") -> list[tuple[str, list[str]]]:
    """The commits that `git rev-list` finds, the oldest first, each with its parents."""
    more = ["--stdin"] if given else []
    listing = ["rev-list", "--parents", "--topo-order", "--reverse", "--ignore-missing", *more, *words]
    output = git(*listing, root=root, given=given.encode())
    return [(name, parents) for name, *parents in map(str.split, output.decode("ascii").splitlines())]
