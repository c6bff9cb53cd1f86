"""A disk that remembers what it was told to write and what it was told to make safe.

`record` puts itself below SQLite as its file system and writes down every write, truncation and sync, and
every answer that the board gave in between. `after_power_loss` makes of that record the files that a machine
could find after losing power at some moment: everything that was synced, and of the rest nothing, or any
part. The shared-memory file is gone in any case.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import apsw


class Did(NamedTuple):
    """One thing that happened: `write`, `truncate`, `sync` or `answer`."""

    what: str
    file: str = ""
    offset: int = 0
    data: bytes = b""
    since: int = 0
    """Of a sync: how long the record was when it began. What was written later may not be covered."""
    answer: Any = None


RECORD: list[Did] = []


class RecordingFile(apsw.VFSFile):
    """A file whose changes are written down once they are done."""

    def __init__(self, name: Any, flags: list[int]) -> None:
        self._name = os.path.basename(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        RECORD.append(Did("write", self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        RECORD.append(Did("truncate", self._name, size))

    def xSync(self, flags: int) -> None:  # noqa: N802
        since = len(RECORD)
        super().xSync(flags)
        RECORD.append(Did("sync", self._name, since=since))


class RecordingDisk(apsw.VFS):
    """SQLite's own file system, with recording files."""

    def __init__(self) -> None:
        super().__init__("recording", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> RecordingFile:  # noqa: N802
        return RecordingFile(name, flags)


def after_power_loss(
    record: list[Did], moment: int, files: Iterable[str], luck: random.Random | None = None
) -> dict[str, bytearray]:
    """The contents of files if the power went away just then; with luck, some unsynced writes made it."""
    safe: dict[str, int] = defaultdict(int)
    for did in record[:moment]:
        if did.what == "sync":
            safe[did.file] = max(safe[did.file], did.since)
    out = {file: bytearray() for file in files}
    for i, did in enumerate(record[:moment]):
        kept = i < safe[did.file] or (luck is not None and luck.random() < 0.5)
        if did.file in out and kept:
            _apply(out[did.file], did)
    return out


def _apply(content: bytearray, did: Did) -> None:
    if did.what == "write":
        end = did.offset + len(did.data)
        content.extend(bytes(max(0, end - len(content))))
        content[did.offset : end] = did.data
    elif did.what == "truncate":
        del content[did.offset :]
        content.extend(bytes(did.offset - len(content)))
