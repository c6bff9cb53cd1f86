"""Finds the files that have taken another agent's uncommitted lines, by a rename or a copy.

An agent can move or copy a file that another agent holds and has edited, and commit it under the new name. So each file
that a command changed, and each file of a commit, is compared with what the other agents left in their held files. It
is *near* such a file if it is the same file (the same inode), or has at least half of what the holder left, measured in
bytes of lines, as in git's detection of renames. At least one of the lines that the two have in common must be the
holder's and not committed: a copy of what everybody can have from git is nobody's.

Two agents often write the same lines: a licence, the settings of a package. So likeness alone proves nothing. A file
that is near a held file is a *stray* of it only if there is evidence of a move or a copy (`_taken`):

- it is the same file;
- the hook after a command found that it was a stray, and it still has lines that it was found with (`known_strays`);
- the held file does not have these lines any more, because it was removed, replaced or rewritten by somebody else;
- no tool for edits wrote these lines, nor were they there before the committer's command: so a command wrote them. Then
  the whole file must be the same, or have all that the holder left, or very much of it (`_is_strong`).

The last two need the holder to have been first. So two agents can never keep each other from committing, and who
writes the same lines with its own tool for edits takes nothing. Contents above `LARGEST` are compared as a whole: they
count as one line.
"""

from __future__ import annotations

import os

from ...agent_names import same_family
from ...fingerprints import hash_of, read_file
from ..agent_state import AgentState
from . import known_strays, read_set, safety_copies
from .disk_state import FILE, look
from .left_contents import of_others
from .running_commands import running
from .watched_files import is_allowed, watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .watched_files import WatchedFile

ENOUGH = 0.5
"""The share of what a holder left that makes another file a copy of it."""
LEAST = 32
"""Least bytes of uncommitted lines that make a file a copy, if it is the same as a held file that is in its place."""
LEAST_ADDED, LINES_ADDED = 120, 3
"""The same, and least lines, if the copy has further lines."""
LEAST_ALIKE, LINES_ALIKE = 2000, 20
"""The same if the copy does not have all that the holder left."""
MOST_LINES = 20
"""Most lines of a file that are looked for in all files of a commit."""
MOST_PATTERNS = 100
"""Most lines of all files that are."""
LARGEST = 1024 * 1024
"""Largest contents in bytes that are compared line by line; larger ones are compared as a whole."""
LARGEST_BLOB = 16 * LARGEST
"""Largest contents in bytes that are read from git, as in safety copies."""
MOST_BYTES = 64 * LARGEST
"""Most bytes of files that are compared at once."""


class Candidate:
    """A file that may have another agent's lines: its name, its inode on disk, and its contents.

    `before` is the commit that the file is changed from.
    """

    __slots__ = ("before", "changed_at", "contents", "identity", "lines", "name", "root", "shared")

    def __init__(self, root: str, name: str, contents: bytes, before: str = "HEAD") -> None:
        self.root = root
        self.name = name
        self.contents = contents
        self.before = before
        self.lines = _lines(contents)
        self.identity, self.changed_at = _status(self.path)
        self.shared: dict[str, frozenset[bytes]] = {}
        """The lines that were taken, by the path of each held file of which this is a stray."""

    @property
    def path(self) -> str:
        """The absolute path."""
        return os.path.join(self.root, self.name)


def _status(path: str) -> tuple[tuple[int, int], float]:
    """Device and inode of a file, and when its inode was changed last; never, if it is not there."""
    try:
        found = os.lstat(path)
    except OSError:
        return (0, 0), float("inf")
    return (found.st_dev, found.st_ino), found.st_ctime


def strays(candidates: Iterable[Candidate], held: list[WatchedFile], agent: str) -> list[tuple[Candidate, WatchedFile]]:
    """The candidates that have taken lines of a file that others hold than this agent, each with that file.

    `agent` is the committer, or the agent whose command ended; "" if nobody knows. The candidates that a person has
    allowed are left out.
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
    shared = [each for each in shared if each[2]]
    public = _committed_anywhere(shared)
    out = []
    for candidate, origin, lines in shared:
        taken = _taken(candidate, origin, lines - public, agent)
        if taken:
            candidate.shared[origin.file.path] = taken
            out.append((candidate, origin.file))
    return out


def _place(of: Candidate | WatchedFile) -> tuple[str, str, str]:
    """The top of the checkout, the commit and the name under which the committed contents of a file are found."""
    return of.root, of.before if isinstance(of, Candidate) else "HEAD", of.name


def _uncommitted(
    candidate: Candidate, origin: _Origin, committed: dict[tuple[str, str, str], bytes]
) -> frozenset[bytes]:
    """The lines of the holder's that the candidate has, and that are committed under neither name."""
    theirs = origin.lines - _lines(committed.get(_place(origin.file), b""))
    if theirs and _is_large_and_same(candidate, origin):
        theirs = candidate.lines
    return (candidate.lines & theirs) - _lines(committed.get(_place(candidate), b""))


# ── Evidence ─────────────────────────────────────────────────────────────────────────────────────────


def _taken(candidate: Candidate, origin: _Origin, lines: frozenset[bytes], agent: str) -> frozenset[bytes]:
    """Those of the shared lines of which there is evidence that they were moved or copied; none if it is no stray."""
    if not lines or _is_same_file(candidate, origin):
        return lines
    if known_strays.known_among(candidate.path, origin.file.holder, lines):
        return lines
    if not _was_later(candidate, origin, lines):
        return frozenset()
    if not origin.has_in_place(lines):
        return lines
    by_command = lines - _explained(candidate, agent)
    return by_command if _is_strong(candidate, origin, by_command) else frozenset()


def _is_strong(candidate: Candidate, origin: _Origin, lines: frozenset[bytes]) -> bool:
    """Whether so much is the same that a command has copied it, although the held file is in its place."""
    size = _size(lines)
    if candidate.lines == origin.lines:
        return size >= LEAST
    if candidate.lines >= origin.lines and size >= LEAST_ADDED and len(lines) >= LINES_ADDED:
        return True
    return size >= LEAST_ALIKE and len(lines) >= LINES_ALIKE


def _was_later(candidate: Candidate, origin: _Origin, lines: frozenset[bytes]) -> bool:
    """Whether the holder had left these lines in its file before they came into the candidate, as far as is known."""
    came = _first_copy(candidate.path, lines)
    left = _first_copy(origin.file.path, lines)
    return (candidate.changed_at if came is None else came) > (left or 0.0)


def _first_copy(path: str, lines: frozenset[bytes]) -> float | None:
    """When the oldest safety copy of a file was made that has these lines; None if there is none."""
    return min((copy.at for copy in safety_copies.copies(path) if lines <= _lines_of(copy)), default=None)


def _explained(candidate: Candidate, agent: str) -> frozenset[bytes]:
    """The lines that a command did not bring: tools for edits wrote them, or they were there before it began.

    An agent's hooks keep a copy of what they find in its files after each edit and each command.
    """
    record = watched(candidate.path)
    lines = frozenset[bytes]()
    for each in {agent, record.holder if record is not None else agent} - {""}:
        seen, contents = read_set.last_seen(AgentState(each), candidate.path)
        if seen == hash_of(candidate.contents):
            return candidate.lines
        lines |= _lines(contents or b"")
    began = min((each.since for each in running() if same_family(each.agent, agent)), default=None)
    for copy in safety_copies.copies(candidate.path):
        if began is None or copy.at < began / 1e9:
            lines |= _lines_of(copy)
    return lines


# ── Contents ─────────────────────────────────────────────────────────────────────────────────────────


def _committed_anywhere(shared: list[tuple[Candidate, _Origin, frozenset[bytes]]]) -> frozenset[bytes]:
    """Those of the shared lines that some file of the last commit has: everybody can have them from git.

    Of each file only the longest lines are looked for. If the commit has all of them, it has the others, too.
    """
    from ...errors import TiebreakError
    from ..commits.git import git

    asked: dict[tuple[str, str], set[bytes]] = {}
    found: frozenset[bytes] = frozenset()
    for candidate, _, lines in shared:
        if len(candidate.contents) > LARGEST:
            found |= candidate.lines if _is_committed_somewhere(candidate) else frozenset()
            continue
        asked.setdefault((candidate.root, candidate.before), set()).update(sorted(lines, key=len)[-MOST_LINES:])
    for (root, before), wanted in asked.items():
        words = ("grep", "-h", "-F", "-a", "--no-color", "-f", "-", before, "--", ":/")
        patterns = sorted(wanted, key=len)[-MOST_PATTERNS:]
        try:
            found |= _lines(git(*words, root=root, given=b"\n".join(patterns) + b"\n"))
        except TiebreakError:
            continue  # nothing has them
    return found.union(*(lines for _, _, lines in shared if found.issuperset(sorted(lines, key=len)[-MOST_LINES:])), ())


def _is_committed_somewhere(candidate: Candidate) -> bool:
    """Whether some file of the last commit has the same contents."""
    from ...errors import TiebreakError
    from ..commits.git import git

    try:
        name = git("hash-object", "-t", "blob", "--stdin", root=candidate.root, given=candidate.contents).strip()
        return b" blob " + name + b"\t" in git(
            "ls-tree", "-r", "-z", "--full-tree", candidate.before, root=candidate.root
        )
    except TiebreakError:
        return False


class _Origin:
    """What a holder left in a file."""

    def __init__(self, file: WatchedFile) -> None:
        self.file = file
        copy = safety_copies.find(file.path, file.fingerprint)
        contents = _contents_of(copy) if copy is not None else b""
        self.is_large = len(contents) > LARGEST
        self.lines = _lines(contents)
        self.size = _size(self.lines)

    def has_in_place(self, lines: frozenset[bytes]) -> bool:
        """Whether the held file still has these lines: by its contents, because editors replace files, too."""
        state = look(self.file.root, self.file.name)
        if state.signature == self.file.seen:
            return True
        try:
            return state.kind == FILE and lines <= _lines(read_file(self.file.path))
        except OSError:
            return False


def _is_near(candidate: Candidate, origin: _Origin) -> bool:
    if (candidate.root, candidate.name) == (origin.file.root, origin.file.name):
        return False
    if _is_large_and_same(candidate, origin):
        return True
    common = candidate.lines & origin.lines
    return bool(common) and (_is_same_file(candidate, origin) or _size(common) >= ENOUGH * origin.size)


def _is_same_file(candidate: Candidate, origin: _Origin) -> bool:
    return candidate.identity == (origin.file.device, origin.file.inode)


def _is_large_and_same(candidate: Candidate, origin: _Origin) -> bool:
    """Whether it is the same file, and one of the two contents has no lines to be compared."""
    return _is_same_file(candidate, origin) and (origin.is_large or len(candidate.contents) > LARGEST)


def _lines(contents: bytes) -> frozenset[bytes]:
    """The lines of a file. Large contents count as one, which is their hash."""
    if len(contents) > LARGEST:
        return frozenset({hash_of(contents).encode()})
    return frozenset(filter(None, map(bytes.strip, contents.split(b"\n"))))


def _size(lines: frozenset[bytes]) -> int:
    return sum(map(len, lines))


def _contents_of(copy: safety_copies.SafetyCopy) -> bytes:
    try:
        return b"" if copy.is_link else copy.contents()
    except OSError:
        return b""  # deleted just now


def _lines_of(copy: safety_copies.SafetyCopy) -> frozenset[bytes]:
    return _lines(_contents_of(copy))


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

    asked = {name: _one_line(root, revision, environ) for name, revision in wanted.items()}
    names = [name for name, revision in asked.items() if revision]
    given = b"".join(os.fsencode(asked[name]) + b"\n" for name in names)
    try:
        sizes = git("cat-file", "--batch-check=%(objecttype) %(objectsize)", root=root, given=given, environ=environ)
        fitting, room = [], MOST_BYTES
        for name, line in zip(names, sizes.split(b"\n"), strict=False):
            kind, _, size = line.partition(b" ")
            if kind == b"blob" and size.isdigit() and int(size) <= min(room, LARGEST_BLOB):
                room -= int(size)
                fitting.append(name)
        given = b"".join(os.fsencode(asked[name]) + b"\n" for name in fitting)
        output = git("cat-file", "--batch=%(objectsize)", root=root, given=given, environ=environ) if fitting else b""
    except (TiebreakError, OSError):
        return {}
    out, start = {}, 0
    for name in fitting:
        begin = output.index(b"\n", start) + 1
        end = begin + int(output[start:begin])
        out[name], start = output[begin:end], end + 1
    return out


def _one_line(root: str, revision: str, environ: Mapping[str, str] | None) -> str:
    """What `git cat-file --batch` reads as one line: the name of the object if the revision does not fit; "" if none.

    That command ends a line at a newline, and removes a carriage return before it.
    """
    from ...errors import TiebreakError
    from ..commits.git import git

    if not {"\n", "\r"} & set(revision):
        return revision
    try:
        return git("rev-parse", "--verify", "--quiet", revision, root=root, environ=environ).decode().strip()
    except TiebreakError:
        return ""
