"""Watched files: what the guard knows about each held file on this machine.

For each held file in a checkout there is one small record: who holds it, and what the holder left there. By it a change
is noticed, whatever was done to the file or to the folders above it. The record also carries the *quarantine*: during
whose command the file changed. A quarantined file cannot be committed until its holder has read or edited it, or has
its contents back, or a person has cleared it with `tb guard clear`. The quarantine also ends with the holder's grant.

Several hooks may read and change a record at once. So it is only stored if it is still as it was read: whoever comes
too late reads it again (`update`).

Exclusion does not depend on these records, only on the board. They belong to the user on one machine.
"""

from __future__ import annotations

import os

from ...files import lock_file
from ..agent_state import AgentState, common_facts, folder, key
from .disk_state import look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .disk_state import DiskState

DAYS = 7
"""Days after which a record that nobody has touched is deleted."""
PATIENCE = 2.0
"""Seconds to wait for a hook that stores a record. It takes less than a thousandth of one, unless it was stopped."""
LOCK = "watched.lock"


class WatchedFile:
    """A held file in a checkout."""

    __slots__ = (
        *("before_reading", "beside", "by", "device", "epoch", "fingerprint", "holder", "inode", "name", "own"),
        *("project", "resource", "root", "seen", "stored"),
    )
    root: str
    """The top of the checkout."""
    name: str
    """The path of the file relative to it."""
    project: str
    resource: str
    """What is held: the file, or a glob that matches it."""
    holder: str
    epoch: int
    fingerprint: str
    """Of what the holder left, or has read since."""
    before_reading: str
    """The fingerprint of what the holder itself left last, if it has only read the file since; otherwise ""."""
    device: int
    inode: int
    """Of the file that the holder left."""
    seen: str
    """The signature of what was there when the fingerprint was made."""
    by: str
    """The agent during whose command the file changed: it is in quarantine. "" if it is not."""
    beside: str
    """The agents, by id, beside whose commands it changed while a command of its holder ran, too. One of the two hooks
    that have to tell it has not come yet."""
    own: str
    """The fingerprint of what a command of the holder has made of the file in quarantine, "" if none has changed it."""
    stored: bytes | None
    """The stored record from which this one was read."""

    def __init__(self, root: str, name: str, *, project: str, resource: str, holder: str, epoch: int) -> None:
        self.root = root
        self.name = name
        self.project = project
        self.resource = resource
        self.holder = holder
        self.epoch = epoch
        self.fingerprint = self.before_reading = self.seen = self.by = self.beside = self.own = ""
        self.stored = None
        self.device = self.inode = 0

    @property
    def path(self) -> str:
        """The absolute path, with no link followed below the top of the checkout."""
        return os.path.join(self.root, self.name)

    @property
    def grant(self) -> tuple[str, int]:
        """Who holds it, by which epoch."""
        return self.holder, self.epoch

    @property
    def written(self) -> str:
        """The fingerprint of what the holder itself left last, whatever it has read since."""
        return self.before_reading or self.fingerprint

    @property
    def is_worked_on(self) -> bool:
        """Whether its holder has left anything in this checkout."""
        return bool(self.fingerprint or self.own)

    def left(self, state: DiskState, fingerprint: str | None, *, is_read: bool = False) -> None:
        """What is there now is what the holder left, or what it has only read; that ends a quarantine."""
        self.before_reading = self.written if is_read and fingerprint != self.written else ""
        self.fingerprint, self.seen, self.by, self.own = fingerprint or "", state.signature, "", ""
        self.device, self.inode = state.device, state.inode

    def save(self) -> bool:
        """Store the record, unless it was changed or deleted since it was read; False then."""
        records, name = _records(), key(self.path)
        with _Lock():
            if records.get(name) != self.stored:
                return False
            self._put(records, name)
        return True

    def replace(self) -> None:
        """Store the record in place of any other."""
        with _Lock():
            self._put(_records(), key(self.path))

    def _put(self, records: AgentState, name: str) -> None:
        values = [self.root, self.name, self.project, self.resource, self.holder, str(self.epoch)]
        values += [self.fingerprint, str(self.device), str(self.inode), self.seen, self.by, self.beside]
        values += [self.before_reading, self.own]
        self.stored = b"\0".join(each.encode("utf-8", "surrogateescape") for each in values)
        records.put(name, self.stored)

    def forget(self) -> None:
        """Delete the record."""
        _records().forget(key(self.path))


class _Lock:
    """Keeps other hooks from storing records meanwhile, but not for ever: this one may be stopped while it does so."""

    patience = PATIENCE

    def __enter__(self) -> None:
        try:
            self._fd = lock_file(os.path.join(folder(), LOCK), _Lock.patience)
            if self._fd is None:
                _Lock.patience = 0.0  # whoever has it was stopped: do not wait for it again with each file
        except OSError:
            self._fd = None  # then nothing can be stored, either

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)


def watched(path: str) -> WatchedFile | None:
    """The record of the file at a path, given as its user writes it; None if it is not watched."""
    records, (above, last) = _records(), os.path.split(os.path.abspath(path))
    for each in dict.fromkeys((os.path.join(above, last), os.path.join(os.path.realpath(above), last))):
        found = _parsed(records.get(key(each)))
        if found is not None:
            return found
    return None


def all_watched() -> list[WatchedFile]:
    """All records of this user on this machine."""
    records = _records()
    found = [_parsed(records.get(name)) for name in records.names("")]
    return sorted((each for each in found if each is not None), key=lambda each: each.path)


def quarantined(path: str) -> WatchedFile | None:
    """The record of a file in quarantine; None if it is not."""
    found = watched(path)
    return found if found is not None and found.by else None


def update(record: WatchedFile, change: Callable[[WatchedFile], bool]) -> WatchedFile | None:
    """Change a record and store it. If another hook has stored it meanwhile, what that one stored is changed.

    `change` may be called several times; it returns whether there is anything to store. The answer is the stored
    record; None if there was nothing to store, or the holder's grant has ended.
    """
    found: WatchedFile | None = record
    while found is not None and found.grant == record.grant and change(found):
        if found.save():
            return found
        found = watched(record.path)
    return None


def clear(path: str) -> None:
    """End the quarantine of a file."""

    def end(record: WatchedFile) -> bool:
        is_quarantined = bool(record.by)
        record.by = record.own = ""
        return is_quarantined

    found = watched(path)
    if found is not None:
        update(found, end)


def allow(path: str) -> None:
    """Let a file be committed with the contents that it has now, after a person has looked at it."""
    clear(path)
    above, last = os.path.split(os.path.abspath(path))
    place = os.path.join(os.path.realpath(above), last)
    contents = look(*os.path.split(place)).fingerprint()
    if contents:
        _allowed().put(key(place), contents.encode())


def is_allowed(path: str, fingerprint: str) -> bool:
    """Whether a person has looked at a file with these contents, and allowed to commit it."""
    return _allowed().get(key(path)) == fingerprint.encode()


def forget_released(project: str, holder: str, resources: set[str]) -> None:
    """Delete the records of files that their holder has released."""
    for each in all_watched():
        if (each.project, each.holder) == (project, holder) and each.resource in resources:
            each.forget()


def tidy() -> None:
    """Delete what nobody has touched for a long time."""
    for facts in (_records(), _allowed()):
        facts.forget_older(DAYS)


def _parsed(record: bytes | None) -> WatchedFile | None:
    values = [] if record is None else record.decode("utf-8", "surrogateescape").split("\0")
    if len(values) != 14 or not all(values[at].isdecimal() for at in (5, 7, 8)):
        return None
    root, name, project, resource, holder, epoch, fingerprint, device, inode, seen, by, beside, *more = values
    made = WatchedFile(root, name, project=project, resource=resource, holder=holder, epoch=int(epoch))
    made.fingerprint, made.seen, made.by, made.beside = fingerprint, seen, by, beside
    made.before_reading, made.own = more
    made.device, made.inode, made.stored = int(device), int(inode), record
    return made


def _records() -> AgentState:
    return common_facts("watched")


def _allowed() -> AgentState:
    return common_facts("allowed")
