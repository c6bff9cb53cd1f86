"""Finds the files that have taken another agent's uncommitted lines, by a rename or a copy.

An agent can move or copy a file that another agent holds and has edited, and commit it under the new name. So each file
that a command changed, and each file of a commit, is compared with what the other agents left in their held files. It
is a *stray* of such a file in one of three cases:

- it is the same file (the same inode), and has at least one line in common with what the holder left;
- it has the same contents;
- it has at least half of what the holder left, measured in bytes of lines, as in git's detection of renames.

In each case at least one of the lines that the two have in common must be the holder's and not committed: a copy of
what everybody can have from git is nobody's. While the held file is where it was, these lines must be more than a few
characters, and more still if only a part is the same: two agents can make the same small change (`LEAST`).
"""

from __future__ import annotations

import os

from ...fingerprints import hash_of
from . import known_strays, safety_copies
from .disk_state import look
from .left_contents import of_others
from .watched_files import is_allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .watched_files import WatchedFile

ENOUGH = 0.5
"""The share of what a holder left that makes another file a copy of it."""
LEAST = 24
"""Least bytes of uncommitted lines that make another file a copy, while the held file is where it was."""
LEAST_ALIKE, LINES_ALIKE = 120, 3
"""The same, and least lines, if the other file has further lines: two agents can make the same small change."""
MOST_LINES = 20
"""Most lines of a file that are looked for in all files of a commit."""
MOST_PATTERNS = 100
"""Most lines of all files that are."""
LARGEST = 1024 * 1024
"""Largest contents in bytes that are compared line by line."""
MOST_BYTES = 64 * LARGEST
"""Most bytes of files that are compared at once."""


class Candidate:
    """A file that may have another agent's lines: its name, its inode on disk, and its contents.

    `before` is the commit that the file is changed from.
    """

    __slots__ = ("before", "contents", "identity", "lines", "name", "root")

    def __init__(self, root: str, name: str, contents: bytes, before: str = "HEAD") -> None:
        self.root = root
        self.name = name
        self.contents = contents
        self.before = before
        self.lines = _lines(contents) if len(contents) <= LARGEST else frozenset()
        self.identity = _identity(self.path)

    @property
    def path(self) -> str:
        """The absolute path."""
        return os.path.join(self.root, self.name)


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def strays(candidates: Iterable[Candidate], held: list[WatchedFile], agent: str) -> list[tuple[Candidate, WatchedFile]]:
    """The candidates that have lines of a file that others hold than this agent, each with that file.

    Those that a person has allowed are left out.
    """
    theirs = of_others(held, agent)
    origins = [_Origin(each) for each in theirs if not known_strays.has_lines_of(each.path, agent)]
    origins = [origin for origin in origins if origin.lines]
    found = []
    for candidate in candidates if origins else ():
        near = [origin for origin in origins if _is_near(candidate, origin)]
        if near and not is_allowed(candidate.path, hash_of(candidate.contents)):
            found += [(candidate, origin) for origin in near]
    if not found:
        return []
    committed = _committed({place for candidate, origin in found for place in (_place(candidate), _place(origin.file))})
    shared = [(candidate, origin, _uncommitted(candidate, origin, committed)) for candidate, origin in found]
    shared = [each for each in shared if _are_many(each[2], *each[:2])]
    public = _committed_anywhere(shared)
    return [
        (candidate, origin.file) for candidate, origin, lines in shared if _are_many(lines - public, candidate, origin)
    ]


def _place(of: Candidate | WatchedFile) -> tuple[str, str, str]:
    """The top of the checkout, the commit and the name under which the committed contents of a file are found."""
    return of.root, of.before if isinstance(of, Candidate) else "HEAD", of.name


def _uncommitted(
    candidate: Candidate, origin: _Origin, committed: dict[tuple[str, str, str], bytes]
) -> frozenset[bytes]:
    """The lines of the holder's that the candidate has, and that are committed under neither name."""
    theirs = origin.lines - _lines(committed.get(_place(origin.file), b""))
    return (candidate.lines & theirs) - _lines(committed.get(_place(candidate), b""))


def _are_many(lines: frozenset[bytes], candidate: Candidate, origin: _Origin) -> bool:
    """Whether these lines make the candidate a stray of the held file."""
    if not origin.is_in_place():
        return bool(lines)
    is_same = candidate.lines == origin.lines or known_strays.is_known(candidate.path, origin.file)
    return sum(map(len, lines)) >= (LEAST if is_same else LEAST_ALIKE) and (is_same or len(lines) >= LINES_ALIKE)


def _committed_anywhere(shared: list[tuple[Candidate, _Origin, frozenset[bytes]]]) -> frozenset[bytes]:
    """Those of the shared lines that some file of the last commit has: everybody can have them from git.

    Of each file only the longest lines are looked for. If the commit has all of them, it has the others, too.
    """
    from ...errors import TiebreakError
    from ..commits.git import git

    asked: dict[tuple[str, str], set[bytes]] = {}
    for candidate, _, lines in shared:
        asked.setdefault((candidate.root, candidate.before), set()).update(sorted(lines, key=len)[-MOST_LINES:])
    found: frozenset[bytes] = frozenset()
    for (root, before), wanted in asked.items():
        words = ("grep", "-h", "-F", "-a", "--no-color", "-f", "-", before, "--", ":/")
        patterns = sorted(wanted, key=len)[-MOST_PATTERNS:]
        try:
            found |= _lines(git(*words, root=root, given=b"\n".join(patterns) + b"\n"))
        except TiebreakError:
            continue  # nothing has them
    return found.union(*(lines for _, _, lines in shared if found.issuperset(sorted(lines, key=len)[-MOST_LINES:])), ())


class _Origin:
    """What a holder left in a file."""

    def __init__(self, file: WatchedFile) -> None:
        self.file = file
        copy = safety_copies.find(file.path, file.fingerprint)
        self.lines: frozenset[bytes] = frozenset()
        try:
            contents = copy.contents() if copy is not None and copy.kind != safety_copies.LINK else b""
        except OSError:
            contents = b""  # deleted just now
        if len(contents) <= LARGEST:
            self.lines = _lines(contents)
        self.size = sum(map(len, self.lines))

    def is_in_place(self) -> bool:
        """Whether the held file is still the one that its holder left."""
        state = look(self.file.root, self.file.name)
        return (state.device, state.inode) == (self.file.device, self.file.inode)


def _is_near(candidate: Candidate, origin: _Origin) -> bool:
    file = origin.file
    if (candidate.root, candidate.name) == (file.root, file.name):
        return False
    if len(candidate.contents) > LARGEST:
        return hash_of(candidate.contents) == file.fingerprint
    common = candidate.lines & origin.lines
    same = candidate.identity == (file.device, file.inode)
    return bool(common) and (same or sum(map(len, common)) >= ENOUGH * origin.size)


def _lines(contents: bytes) -> frozenset[bytes]:
    return frozenset(filter(None, map(bytes.strip, contents.split(b"\n"))))


def _committed(files: set[tuple[str, str, str]]) -> dict[tuple[str, str, str], bytes]:
    """The committed contents of files, by the top of their checkout, the commit and their name."""
    out: dict[tuple[str, str, str], bytes] = {}
    for root, revision in {(root, revision) for root, revision, _ in files}:
        names = [name for top, commit, name in files if (top, commit) == (root, revision)]
        for name, contents in blobs(root, {name: f"{revision}:{name}" for name in names}).items():
            out[root, revision, name] = contents
    return out


def blobs(root: str, wanted: Mapping[str, str], environ: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """The contents of git's objects, by name, from one process; those that git does not have are left out.

    `wanted` has a revision such as `HEAD:src/a.py` for each name. Large ones are left out, too.
    """
    from ...errors import TiebreakError
    from ..commits.git import git

    names = [name for name in wanted if "\n" not in wanted[name]]
    given = b"".join(os.fsencode(wanted[name]) + b"\n" for name in names)
    try:
        sizes = git("cat-file", "--batch-check=%(objecttype) %(objectsize)", root=root, given=given, environ=environ)
        fitting, room = [], MOST_BYTES
        for name, line in zip(names, sizes.split(b"\n"), strict=False):
            kind, _, size = line.partition(b" ")
            if kind == b"blob" and size.isdigit() and int(size) <= min(room, 16 * LARGEST):
                room -= int(size)
                fitting.append(name)
        given = b"".join(os.fsencode(wanted[name]) + b"\n" for name in fitting)
        output = git("cat-file", "--batch=%(objectsize)", root=root, given=given, environ=environ) if fitting else b""
    except (TiebreakError, OSError):
        return {}
    out = {}
    for name in fitting:
        size, _, output = output.partition(b"\n")
        out[name], output = output[: int(size)], output[int(size) + 1 :]
    return out
