"""What is at the place of a held file: by its name alone, whatever happened to the file or to the folders above it.

The place is the top of a checkout and a path below it. No symbolic link is followed: where a folder of the path has
become a link, or the top of another repository, the held file is not there any more, even if a file can be reached by
the same path. Only the status of files is read, so nothing blocks and nothing costs more for a large file.
"""

from __future__ import annotations

import os
import stat

from ...fingerprints import LARGEST, digest

ABSENT, FILE, LINK, FOLDER, SPECIAL, LINK_ABOVE, REPOSITORY_ABOVE, CLOSED_ABOVE = (
    *("absent", "file", "link", "folder", "special", "link-above", "repository-above", "closed-above"),
)
REACHABLE = (FILE, LINK, REPOSITORY_ABOVE)
"""Where a path leads to what is held, if there is anything."""
_FORMATS = {stat.S_IFREG: FILE, stat.S_IFLNK: LINK, stat.S_IFDIR: FOLDER}


class DiskState:
    """What is at a place: its kind, and a signature that every write, replacement and removal of a file changes."""

    __slots__ = ("above", "changed_at", "device", "inode", "kind", "path", "signature", "size")

    def __init__(
        self, kind: str, path: str, found: os.stat_result | None = None, above: str = "", changed_at: int = 0
    ) -> None:
        self.kind = kind
        self.path = path
        self.above = above
        """The path of the link, the repository, the closed folder or the file that is above it."""
        self.device, self.inode, self.size = (found.st_dev, found.st_ino, found.st_size) if found else (0, 0, 0)
        self.changed_at = found.st_ctime_ns if found else changed_at
        """When the inode was last changed, in nanoseconds. If it is gone, something was last removed from the nearest
        folder then; 0 if there is none."""
        self.signature = kind
        if found and kind != FOLDER:  # which changes with all that happens in it
            self.signature += f" {found.st_mode:o} {self.inode} {self.size} {found.st_mtime_ns} {found.st_ctime_ns}"

    def fingerprint(self) -> str | None:
        """The fingerprint of what is there; None if it cannot be read."""
        if self.kind in (LINK_ABOVE, CLOSED_ABOVE):
            return f"kind-{self.kind}"
        return "absent" if self.kind == ABSENT else digest(self.path)

    def mode(self) -> int | None:
        """The permissions of a file; None if none is there."""
        return int(self.signature.split(" ")[1], 8) & 0o777 if self.kind == FILE else None

    @property
    def obstacle(self) -> str:
        """The path of what keeps a file from being put here without anything getting lost; "" if nothing does.

        That is what is above the place, and what no safety copy can be made of.
        """
        if self.kind == REPOSITORY_ABOVE:
            return os.path.join(self.above, ".git")
        if self.kind == FOLDER or (self.kind == FILE and (self.is_large or not os.access(self.path, os.R_OK))):
            return self.path
        return self.above

    @property
    def is_large(self) -> bool:
        """Whether it is too large for its contents to be read, or kept."""
        return self.size > LARGEST

    def became(self, kind: str, signature: str) -> bool:
        """Whether it is of a kind now, of which it was not when it had that signature."""
        return self.kind == kind and signature.partition(" ")[0] != kind

    def words(self, root: str) -> str:
        """What happened, as the end of a sentence that begins with the file's name."""
        above = os.path.relpath(self.above or self.path, root)
        if self.kind == ABSENT:
            return f"was removed, and its folder {above} replaced by a file" if self.above else "was removed"
        if self.kind == LINK:
            return f"was replaced by a symbolic link to {_target(self.path)}"
        if self.kind == FOLDER:
            return "was replaced by a folder"
        if self.kind == SPECIAL:
            return "was replaced by a pipe, socket or device"
        if self.kind == LINK_ABOVE:
            return f"is out of reach, because its folder {above} was replaced by a symbolic link"
        if self.kind == REPOSITORY_ABOVE:
            return f"is out of reach, because its folder {above} became another repository"
        if self.kind == CLOSED_ABOVE:
            return f"is out of reach, because its folder {above} was made inaccessible"
        return "changed"


def look(root: str, name: str) -> DiskState:
    """What is at a path relative to the top of a checkout."""
    at, inside, changed_at = root, "", 0
    parts = name.split("/")
    try:
        for depth, part in enumerate(parts):
            found = os.lstat(at)
            if not stat.S_ISDIR(found.st_mode):
                return DiskState(LINK_ABOVE if stat.S_ISLNK(found.st_mode) else ABSENT, at, found, above=at)
            changed_at = found.st_ctime_ns
            if depth and not inside and os.path.lexists(os.path.join(at, ".git")):
                inside = at
            at = os.path.join(at, part)
        found = os.lstat(at)
    except PermissionError:
        return DiskState(CLOSED_ABOVE, at, above=os.path.dirname(at), changed_at=changed_at)
    except OSError:
        return DiskState(REPOSITORY_ABOVE if inside else ABSENT, at, above=inside, changed_at=changed_at)
    if inside:
        return DiskState(REPOSITORY_ABOVE, at, found, above=inside)
    return DiskState(_FORMATS.get(stat.S_IFMT(found.st_mode), SPECIAL), at, found)


def is_executable(signature: str) -> bool:
    """Whether what had this signature was a file that its owner can execute."""
    parts = signature.split(" ")
    return parts[0] == FILE and len(parts) > 1 and bool(int(parts[1], 8) & 0o100)


def inode_in(signature: str) -> int:
    """The inode of what had this signature; 0 if nothing was there."""
    parts = signature.split(" ")
    return int(parts[2]) if len(parts) > 2 else 0


def changed_at_in(signature: str) -> int:
    """When the inode of what had this signature was last changed, in nanoseconds; 0 if nothing was there."""
    parts = signature.split(" ")
    return int(parts[5]) if len(parts) > 5 else 0


def changed_since(root: str, name: str, since: int) -> bool:
    """Whether a file was written, replaced or removed after that time, by the ctime of its inode.

    If it is gone, the nearest folder that is still there tells when something was removed.
    """
    path = os.path.join(root, name)
    while len(path) >= len(root):
        try:
            return os.lstat(path).st_ctime_ns > since
        except OSError:
            path = os.path.dirname(path)
    return True  # the whole checkout is gone


def _target(path: str) -> str:
    try:
        return os.readlink(path)[:200]
    except OSError:
        return "something else"
