"""The temporary index in which `tb commit` builds a tree, and the update of the checkout's index afterwards.

The temporary index begins as a copy of the checkout's, in which every file is then set back to HEAD. So what others
have staged is not in it. The marks of files are, and what git knows of unchanged files, which are not read again.
It is written whole, also where the checkout's index is split or watched by a file system monitor.
"""

from __future__ import annotations

import os
import time

from ...errors import Refused
from .git import git
from .index_entries import FILE, GONE, REPOSITORY, changes_in, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ...repository import Repository
    from .commit_paths import Selection
    from .index_entries import IndexChange

PREFIX = "tiebreak-index-"
PATIENCE = 30.0
"""Seconds to wait while another process has the index or the branch locked."""
GITLINK, NO_MODE = b"160000", b"000000"
_PLAIN = ("-c", "core.splitIndex=false", "-c", "core.fsmonitor=false")


class PrivateIndex:
    """A temporary index. It is removed at the end of the `with` block."""

    def __init__(self, found: Repository) -> None:
        self.root = found.root
        self.real = os.path.join(found.private, "index")
        self.path = os.path.join(found.private, f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
        self.environ = {"GIT_INDEX_FILE": self.path}

    def __enter__(self) -> PrivateIndex:
        return self

    def __exit__(self, *_: object) -> None:
        for leftover in (self.path, f"{self.path}.lock"):
            if os.path.exists(leftover):
                os.unlink(leftover)

    def _git(self, *words: str, given: bytes | None = None) -> bytes:
        try:
            return git(*_PLAIN, *words, root=self.root, environ=self.environ, given=given)
        except Refused as exc:
            raise Refused(exc.message.replace("git -c:", f"git {words[0]}:", 1)) from None

    def start(self, parent: str, *, ignores_stat: bool) -> None:
        """Begin with what is in a commit, "" for none. With `ignores_stat`, every file is read again."""
        if not parent:
            self._git("read-tree", "--empty")
        elif not ignores_stat and self._copy():
            self._git("read-tree", "-i", "--reset", parent)
        else:
            self._git("read-tree", parent)

    def _copy(self) -> bool:
        """Copy the checkout's index; False if there is none."""
        try:
            with open(self.real, "rb") as source, open(self.path, "xb") as target:
                while piece := source.read(1 << 20):
                    target.write(piece)
                # By this time git knows which files may have changed after the index was written.
                written = os.fstat(source.fileno()).st_mtime_ns
        except FileNotFoundError:
            return False
        os.utime(self.path, ns=(written, written))
        return True

    def changed_on_disk(self, names: list[str]) -> dict[str, str]:
        """What is in place of the files at and below these names that may have changed on disk."""
        words = (*_PLAIN, "diff-files", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=dirty")
        fields = list(listed(self.root, words, names, self.environ))
        out = {}
        for facts, path in zip(fields[::2], fields[1::2], strict=True):
            old_mode, mode = facts.removeprefix(b":").split(b" ")[:2]
            replaced = mode == GITLINK != old_mode
            out[os.fsdecode(path)] = GONE if mode == NO_MODE else REPOSITORY if replaced else FILE
        return out

    def stage(self, chosen: Selection) -> None:
        """Set the chosen files to what is on disk."""
        for options, paths in ((("--force-remove",), chosen.gone), (("--add", "--remove", "--replace"), chosen.there)):
            if paths:
                given = b"".join(os.fsencode(path) + b"\0" for path in paths)
                self._git("update-index", *options, "-z", "--stdin", given=given)

    def changes(self, parent: str) -> dict[str, IndexChange]:
        """How this index differs from a commit, "" for an empty one."""
        options = ("--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
        return changes_in(filter(None, self._git("diff", *options, *([parent] if parent else [])).split(b"\0")))

    def keep_only(self, paths: Collection[str], parent: str) -> dict[str, IndexChange]:
        """Set all other files back to the commit `parent`; what is changed then."""
        changes = self.changes(parent)
        others = [
            index_line(path, each.old_mode, each.old_object) for path, each in changes.items() if path not in paths
        ]
        if not others:
            return changes
        self._git("update-index", "-z", "--index-info", given=b"".join(sorted(others)))
        return self.changes(parent)

    def write_tree(self) -> str:
        """Store the index as a tree; its name."""
        return self._git("write-tree").decode().strip()


def index_line(path: str, mode: str, name: str) -> bytes:
    """A line for `git update-index --index-info`. Removals have the mode 000000, so sorted lines begin with them."""
    return f"{mode} {name}\t".encode() + os.fsencode(path) + b"\0"


def set_entries(root: str, lines: Iterable[bytes]) -> None:
    """Set these entries of the checkout's index, and no others; raises `Refused` if it stays locked."""
    given = b"".join(sorted(lines))
    if given:
        with_patience(lambda: git("update-index", "-z", "--index-info", root=root, given=given), "the index")


def with_patience(step: Callable[[], object], what: str) -> None:
    """Run a step of git again while another process has the lock; raises `Refused` if it stays locked."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            step()
            return
        except Refused as exc:
            if ".lock'" not in exc.message:
                raise
            if time.monotonic() > end:
                raise Refused(f"{what} has been locked by another command of git for {PATIENCE:g} s") from None
        # Not all at the same time again.
        time.sleep(0.01 + 0.04 * os.urandom(1)[0] / 256)
