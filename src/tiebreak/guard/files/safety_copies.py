"""Safety copies: the contents that holders left in their files, kept where no command in a repository destroys them.

A copy is made whenever the guard learns what a holder has left: when the hold is taken, after each edit and each
command of the holder, and before a command of anybody else if the file has changed since. The copies are files that
only the user can read, in the user's state folder, and not objects of git, which `git gc --prune=now` or the removal
of a clone would take away. The newest ones of each file are kept, for some days. Large files are not copied.
"""

from __future__ import annotations

import os
import stat
import time

from ...files import remove_file, replace_file
from ...fingerprints import LARGEST, hash_of, read_file
from ...limits import DAY
from ..agent_state import folder, key
from .watched_files import all_watched, watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .watched_files import WatchedFile

KEPT = 10
"""Most copies of one file."""
DAYS = 7
"""Days for which copies are kept."""
MOST_BYTES = 1 << 30
"""Most bytes of all copies; beyond it, the oldest are deleted."""
DIGITS = 8
"""How many hex digits of a fingerprint are shown, as the name of a copy."""
_MARK, _NOBODY, _LINKED, _END = "tiebreak copy 2", "-", "link-", b"\0\0"


class SafetyCopy:
    """One copy of the contents of a file: whose they are, when it was made, and where it is kept."""

    __slots__ = ("agent", "fingerprint", "made", "mode", "path", "place")

    def __init__(self, place: str, path: str, agent: str, mode: int, fingerprint: str) -> None:
        self.place = place
        self.path = path
        self.agent = agent
        self.mode = mode
        """The permissions of the file; 0 of a symbolic link."""
        self.fingerprint = fingerprint
        self.made = int(os.path.basename(place).partition("-")[0])
        """When it was made, in nanoseconds, but later than the one before it even if the clock was set back."""

    @property
    def at(self) -> float:
        """When it was made."""
        return self.made / 1e9

    @property
    def is_link(self) -> bool:
        """Whether it is of a symbolic link."""
        return self.fingerprint.startswith(_LINKED)

    @property
    def is_executable(self) -> bool:
        """Whether its owner could execute the file."""
        return is_executable(self.mode)

    @property
    def short(self) -> str:
        """The name of the copy among those of its file: the beginning of its fingerprint."""
        return self.fingerprint[: DIGITS + (len(_LINKED) if self.is_link else 0)]

    def contents(self) -> bytes:
        """The kept contents; of a symbolic link, its target."""
        with open(self.place, "rb") as file:
            return file.read(LARGEST + 8192).partition(_END)[2]


def keep(path: str, agent: str) -> str | None:
    """Keep a copy of what is at a path, as what an agent left there, "" for nobody; returns its fingerprint.

    Nothing is kept, and None is returned, if it is neither a file nor a link, too large, or cannot be read or stored.
    """
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            mode, content = 0, os.fsencode(os.readlink(path))
        else:
            content = read_file(path) if found.st_size <= LARGEST else b""
            mode = found.st_mode & 0o777
        if max(found.st_size, len(content)) > LARGEST:
            return None
        fingerprint = (_LINKED if stat.S_ISLNK(found.st_mode) else "") + hash_of(content)
        return _store(path, agent, mode, fingerprint, content)
    except OSError:
        return None


def is_executable(mode: int) -> bool:
    """Whether the owner of a file with these permissions can execute it."""
    return bool(mode & 0o100)


def _store(path: str, agent: str, mode: int, fingerprint: str, content: bytes) -> str:
    newest = next(copies(path), None)
    is_kept = newest is not None and (newest.fingerprint, newest.mode) == (fingerprint, mode)
    if newest is not None and is_kept and (newest.agent or not agent):
        return fingerprint
    below = os.path.join(_home(), key(path))
    os.makedirs(below, mode=0o700, exist_ok=True)
    head = b"\0".join(map(os.fsencode, (_MARK, path, agent or _NOBODY, f"{mode:o}", fingerprint)))
    made = max(time.time_ns(), newest.made + 1 if newest is not None else 0)
    replace_file(os.path.join(below, f"{made:020}-{fingerprint}"), head + _END + content)
    if newest is not None and is_kept:
        remove_file(newest.place)  # the same contents, when nobody was known to have left them
    record = watched(path)
    needed = _needed(record) if record is not None else set()
    for old in list(copies(path))[KEPT:]:
        if old.place not in needed:
            remove_file(old.place)
    return fingerprint


def _needed(record: WatchedFile) -> set[str]:
    """Where the copies are that stay as long as the file is held: of what its holder left, read or made of it."""
    found = (find(record.path, each) for each in {record.fingerprint, record.written, record.own} - {""})
    return {copy.place for copy in found if copy is not None}


def copies(path: str) -> Iterator[SafetyCopy]:
    """The copies of what was at a path, the newest first."""
    yield from _in(os.path.join(_home(), key(path)))


def every_file() -> Iterator[SafetyCopy]:
    """The newest copy of each file of which there is one."""
    for name in os.listdir(_home()):
        newest = next(_in(os.path.join(_home(), name)), None)
        if newest is not None:
            yield newest


def find(path: str, fingerprint: str) -> SafetyCopy | None:
    """The newest copy with this fingerprint, if possible one that an agent left; None if there is none any more."""
    found = [each for each in _in(os.path.join(_home(), key(path)), fingerprint) if each.fingerprint == fingerprint]
    return next((each for each in found if each.agent), found[0] if found else None)


def tidy() -> None:
    """Delete copies that are too old, and the oldest if all of them take too much room."""
    found = []
    needed = {place for each in all_watched() for place in _needed(each)}
    for below, _, names in os.walk(_home()):
        for name in names:
            if os.path.join(below, name) in needed:
                continue  # what its holder left stays
            try:
                found.append((os.stat(os.path.join(below, name)), os.path.join(below, name)))
            except OSError:
                continue  # deleted just now by somebody else
    old, size = time.time() - DAYS * DAY, 0
    for status, place in sorted(found, key=lambda each: -each[0].st_mtime):
        size += status.st_size
        if status.st_mtime < old or size > MOST_BYTES:
            remove_file(place)
            try:
                os.rmdir(os.path.dirname(place))
            except OSError:
                pass  # there are others


def _in(below: str, fingerprint: str = "") -> Iterator[SafetyCopy]:
    try:
        names = sorted(os.listdir(below), reverse=True)
    except OSError:
        return
    for name in names:
        if fingerprint and name.partition("-")[2] != fingerprint:
            continue
        found = _read(os.path.join(below, name)) if name.partition("-")[0].isdecimal() else None
        if found is not None:
            yield found


def _read(place: str) -> SafetyCopy | None:
    try:
        with open(place, "rb") as file:
            values = [os.fsdecode(each) for each in file.read(8192).partition(_END)[0].split(b"\0")]
    except OSError:
        return None
    if len(values) != 5 or values[0] != _MARK:
        return None
    _, path, agent, mode, fingerprint = values
    return SafetyCopy(place, path, "" if agent == _NOBODY else agent, int(mode, 8), fingerprint)


def _home() -> str:
    home = os.path.join(folder(), "copies")
    os.makedirs(home, mode=0o700, exist_ok=True)
    return home
