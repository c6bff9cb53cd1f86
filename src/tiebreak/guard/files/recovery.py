"""`tb recover`: brings back what a holder left in a file, when somebody else's command has destroyed it.

It destroys nothing itself: what is in the place of the file gets a safety copy first. A file that another agent holds
is left alone, except by the agent whose command changed it: that one may give back what was there.
"""

from __future__ import annotations

import os

from ...agent_names import same_family
from ...errors import Invalid, Lost, NotFound, Refused
from ...files import remove_file, replace_file
from ...model import holder_id
from ...repository import repository
from ...text import argument
from . import safety_copies
from .disk_state import ABSENT, CLOSED_ABOVE, FILE, LINK, look
from .left_contents import accept, may_give_back, watched_now
from .watched_files import watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...board import Board
    from .safety_copies import SafetyCopy
    from .watched_files import WatchedFile


class KeptFile:
    """A file of which there are safety copies: its copies, the newest first, and what is in its place now."""

    def __init__(self, root: str, path: str) -> None:
        self.root = root
        self.path = path
        self.name = os.path.relpath(path, root)
        self.copies = list(safety_copies.copies(path))
        self.now = look(root, self.name)
        self.fingerprint = self.now.fingerprint()
        self.last = self._last()
        """The copy of what its holder left last; without a holder, of what an agent left last."""

    def _last(self) -> SafetyCopy | None:
        record = _record(self.path)
        found = safety_copies.find(self.path, record.written) if record is not None else None
        return found or next((each for each in self.copies if each.agent), self.copies[0] if self.copies else None)

    def is_as(self, copy: SafetyCopy) -> bool:
        """Whether the file has the contents of a copy, and is executable if that was."""
        mode = self.now.mode()
        return self._has_contents(copy) and (mode is None or safety_copies.is_executable(mode) == copy.is_executable)

    def _has_contents(self, copy: SafetyCopy) -> bool:
        return self.now.kind in (FILE, LINK) and copy.fingerprint == self.fingerprint

    def state(self) -> str:
        """What happened to the file since its holder left it, in a few words."""
        if self.last is None or not self._has_contents(self.last):
            return self.now.words(self.root)
        if self.is_as(self.last):
            return "as it was left"
        return "lost its executable bit" if self.last.is_executable else "became executable"

    def chosen(self, wanted: int | str) -> SafetyCopy:
        """The wanted copy: a number from 1 for the newest, or the beginning of its fingerprint; 0 for what was left."""
        if self.last is None:
            raise NotFound(f"{self.path}: no copy of it is kept", hint="`tb recover /` lists all files that have one")
        every = f"`tb recover --list {argument(self.path)}`"
        if isinstance(wanted, str):
            return self._named(wanted, every)
        if wanted:
            if not 0 < wanted <= len(self.copies):
                raise Invalid(f"{self.name} has no copy {wanted}, only {len(self.copies)}", hint=f"{every} lists them")
            return self.copies[wanted - 1]
        if self.is_as(self.last):
            raise Refused(f"{self.name} is as it was left", hint=f"{every} shows earlier copies")
        return self.last

    def _named(self, wanted: str, every: str) -> SafetyCopy:
        """The copy whose fingerprint begins so: of several with the same contents, the newest that an agent left."""
        found = list(dict.fromkeys(e.fingerprint for e in self.copies if e.fingerprint.startswith(wanted)))
        if len(found) > 1:
            raise Invalid(f"{self.name} has {len(found)} copies that begin with {wanted}", hint=f"{every} lists them")
        copy = safety_copies.find(self.path, found[0]) if found else None
        if copy is None:
            raise NotFound(f"{self.name} has no copy that begins with {wanted}", hint=f"{every} lists those it has")
        return copy


def kept_file(path: str, folder: str) -> KeptFile:
    """The file at a path, by the name under which something is known of it.

    If the path leads through links, the fewest are followed: a link that is above the checkout has to be, while one
    that a command put in the place of a folder must not be.
    """
    full = os.path.normpath(os.path.join(folder, path))
    return _file_at(next((each for each in _names(full) if _record(each) or any(safety_copies.copies(each))), full))


def _file_at(path: str) -> KeptFile:
    """The file that has this very name: in the checkout of its record, else in the repository that is there now."""
    record = _record(path)
    if record is not None:
        return KeptFile(record.root, path)
    above = os.path.dirname(path)
    while not os.path.isdir(above) or os.path.islink(above):
        above = os.path.dirname(above)
    found = repository(above)
    return KeptFile(found.root if found is not None else os.path.realpath(above), path)


def _record(path: str) -> WatchedFile | None:
    """The record of the file that has this very name, whatever the folders above it have become."""
    found = watched(path)
    return found if found is not None and found.path == path else None


def _names(full: str) -> list[str]:
    """The names of a file, from the one that follows no link to the one that follows all links above it."""
    parts = full.split(os.sep)
    above = (os.path.realpath(os.sep.join(parts[:at]) or os.sep) for at in range(1, len(parts)))
    return list(dict.fromkeys(os.path.join(each, *parts[at:]) for at, each in enumerate(above, 1)))


def kept_files(folder: str) -> list[KeptFile]:
    """The files below a folder of which there are safety copies. The folder may be gone."""
    tops = {os.path.join(each, "") for each in (os.path.normpath(folder), os.path.realpath(folder))}
    paths = {copy.path for copy in safety_copies.every_file()}
    return [_file_at(path) for path in sorted(paths) if any(map(path.startswith, tops))]


def recover(board: Board, file: KeptFile, wanted: int | str) -> SafetyCopy:
    """Put a copy in the place of the file, chosen as by `KeptFile.chosen`; returns the copy."""
    copy = file.chosen(wanted)
    record = _checked(board, file, copy)
    contents = _contents(copy)
    _make_room(file)
    _write(file, contents, copy)
    if record is not None and same_family(record.holder, board.agent):
        accept(record)
    elif record is not None and copy.fingerprint in (record.fingerprint, record.written):
        accept(record, is_read=copy.fingerprint != record.written)
    return copy


def _checked(board: Board, file: KeptFile, copy: SafetyCopy) -> WatchedFile | None:
    """The record of the file, while it is held.

    Raises `Lost` if another agent holds it, and this one may not give it back.
    """
    record = None
    for project, resource in _held_as(board, file):
        holds = board.holds.list(project=project, matching=resource)
        records = [each for each in watched_now(holds) if each.path == file.path]
        for hold in holds:
            if same_family(holder_id(hold) or "", board.agent):
                continue
            if not any(may_give_back(each, board.agent, copy) for each in records):
                raise Lost(
                    f"{file.name} is held by {hold.holder}",
                    hint=f"{_elsewhere(file)}; ask with `tb send {hold.holder} …`",
                    holder=hold.holder,
                    until=hold.until,
                    epoch=hold.epoch,
                )
        record = next(iter(records), record)
    return record


def _held_as(board: Board, file: KeptFile) -> list[tuple[str, str]]:
    """The projects in which the file may be held, and its name there: those of its own repository, not of the caller's.

    Its record tells the project, too: the repository may be gone, or have been held under another name.
    """
    from ...checkouts import checkout_of
    from ...project_identity import identify
    from ..guarded_file import guarded_files

    record, found = _record(file.path), repository(file.root)
    if found is not None and found.root != file.root:
        found = None  # this one is above the folder of a repository that is gone
    known = [record.project if record is not None else "", os.environ.get("TIEBREAK_PROJECT", "")]
    known.append(identify(found).names if found is not None else "")
    projects = {each.partition(" ")[0]: each for each in known if each} or {"": board.project_names}
    if found is None and record is not None:
        return [(project, record.resource) for project in projects.values()]
    checkout = checkout_of(found)
    return [
        (project, each.resource)
        for project in projects.values()
        for each in guarded_files([file.name], file.root, project, checkout)
    ]


def _make_room(file: KeptFile) -> None:
    """Keep what is in the place of the file, if it can be replaced; raises `Refused` if not."""
    elsewhere = _elsewhere(file)
    if file.now.obstacle:
        words, first = _obstacle(file)
        raise Refused(f"{file.name} {words}", hint=f"{first} and try again; or {elsewhere}")
    if file.now.kind in (FILE, LINK) and safety_copies.keep(file.path, "") is None:
        raise Refused(f"{file.name}: no copy of what is there now could be kept", hint=elsewhere)
    try:
        os.makedirs(os.path.dirname(file.path), exist_ok=True)
    except OSError as exc:
        raise Refused(f"{file.name}: its folder cannot be made: {exc.strerror}", hint=elsewhere) from None


def _elsewhere(file: KeptFile) -> str:
    return f"`tb recover {argument(file.path)} --into PATH` writes the copy elsewhere"


def _obstacle(file: KeptFile) -> tuple[str, str]:
    """What keeps the file from being put back, and what to do about that."""
    now, path = file.now, argument(file.now.obstacle)
    move, open_up = f"move {path} elsewhere", f"`chmod u+rwX {path}`"
    if now.kind != FILE:
        return now.words(file.root), open_up if now.kind == CLOSED_ABOVE else move
    if now.is_large:
        return "is too large now for a copy of it to be kept", move
    return "cannot be read, so no copy of it can be kept", open_up


def write_into(path: str, copy: SafetyCopy) -> None:
    """Write a copy to a new file; raises `Refused` if there is something already."""
    contents = _contents(copy)
    try:
        _put(path, contents, copy, replace=False)
    except FileExistsError:
        raise Refused(f"{path} exists already", hint="name a new file") from None
    except OSError as exc:
        raise Refused(f"{path} could not be written: {exc.strerror}") from None


def _contents(copy: SafetyCopy) -> bytes:
    try:
        return copy.contents()
    except OSError as exc:
        raise Refused(f"the copy could not be read: {exc.strerror}") from None


def _write(file: KeptFile, contents: bytes, copy: SafetyCopy) -> None:
    if look(file.root, file.name).signature != file.now.signature:
        raise Refused(f"{file.name} changed just now", hint="look at it, and try again")
    try:
        _put(file.path, contents, copy, replace=file.now.kind != ABSENT, mode=file.now.mode())
    except FileExistsError:
        raise Refused(f"{file.name} changed just now", hint="look at it, and try again") from None
    except OSError as exc:
        raise Refused(f"{file.name} could not be written: {exc.strerror}", hint=_elsewhere(file)) from None


def _permissions(copy: SafetyCopy, there: int | None) -> int:
    """Those that the file had, without what the file that is there now denies to others than its owner."""
    if there is None:
        return copy.mode
    mode = there | 0o700
    return (mode | (mode & 0o444) >> 2) & copy.mode


def _put(path: str, contents: bytes, copy: SafetyCopy, *, replace: bool, mode: int | None = None) -> None:
    """Write a file beside the path and give it its name; without `replace`, only if nothing has it.

    `mode` are the permissions of the file that was there, if there was one.
    """
    partial = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.new"
    try:
        if copy.is_link:
            os.symlink(os.fsdecode(contents), partial)
        else:
            replace_file(partial, contents, mode=_permissions(copy, mode))
        if replace:
            os.replace(partial, path)
        else:
            os.link(partial, path, follow_symlinks=False)
    finally:
        remove_file(partial)
