"""The files of a board: one database file, used under one name, with the `-wal` and `-shm` that belong to it.

SQLite finds the WAL (`-wal`) and its index (`-shm`) by the name of the database file. Under a second name (a hard link,
a mount of the file alone) it would use a second WAL: two winners, and commits that nobody else ever sees. The same
happens when a WAL is deleted while a process has it open. SQLite notices neither. This module and its two neighbours
do:

- `board_files` opens a board whose files are as they were, and checks them while the board is open.
- `board_files_opening` decides what to do if a file was replaced, renamed, copied or deleted.
- `board_files_repair` is `tb doctor --repair` for a board that cannot be opened.

**The token and the mark.** A board has a random token, and the mark in the gate beside it (see `write_gate`) has the
same one. The mark also has the inode numbers of the `-wal` and the `-shm` that belong to the board, and the number of
the last committed event. A process compares all of them when it opens the board. From then on it only checks whether
the files are still those that it opened. That takes three calls of `stat`: before a write is acknowledged, and before
each read and write unless the last check was only milliseconds ago. Only SQLite opens and closes the database file,
because closing it would drop the locks that this process has on it.

**An overwritten file.** Only a checkpoint changes the database file. So the mark also has the time of that change, and
the last event that was in the file then. If the file was changed since, a process looks into the file without its WAL.
A file that has fewer events, or another token, was overwritten (`cp old.db board.db`), and the WAL no longer belongs to
it.
"""

from __future__ import annotations

import os
from time import sleep

import apsw

from ...errors import Unavailable
from ..side_files import check as check_owner
from .file_facts import facts_of, newest_event, read_without_wal, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .write_gate import Mark, WriteGate

    Connect = Callable[[], apsw.Connection]

LOOKS = 20
"""How often a file that another process may be changing is read before the result counts."""
BETWEEN_LOOKS = 0.01
_UNKNOWN = 0
"""In a mark, instead of the time of the last change, while a checkpoint copies the WAL into the file."""


class BoardFiles:
    """The files of one board, as this process has opened them."""

    def __init__(self, path: str, gate: WriteGate) -> None:
        self.path = path
        self.wal, self.shm = f"{path}-wal", f"{path}-shm"
        self.gate = gate
        self._token = ""
        self._opened: tuple[int, ...] = ()
        """The device and the inode numbers of the files that were opened."""
        self._changed = 0
        """The time of the last change of the database file that is known to be sound."""

    # ── While the board is open ──────────────────────────────────────────────────────────────────────

    def check(self, connection: apsw.Connection) -> None:
        """Raise `Unavailable` if any of the files is not the one that was opened.

        If only the WAL was replaced, the commits in the old WAL are copied into the database file first, through a
        connection that still has that WAL open. That is safe: no other process has acknowledged a write since,
        because each one makes this check first, and is refused too.
        """
        try:
            here, changed = self._stat_files()
            if here == self._opened:
                if changed != self._changed:
                    self._check_changed_file(changed)
                return
            how, names = "replaced", (self.path, self.path, self.wal, self.shm)
            name = next(n for n, now, then in zip(names, here, self._opened, strict=True) if now != then)
        except FileNotFoundError as exc:
            how, name = "deleted", exc.filename
        if name == self.path:
            raise Unavailable(
                f"board {self.path}: the file was {how} while this process had it open", hint="start again"
            )
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        except apsw.Error:
            pass
        raise Unavailable(
            f"board {self.path}: {name} was {how} while this process had it open",
            hint="end every process that uses this board, then start again",
        )

    def _stat_files(self) -> tuple[tuple[int, ...], int]:
        """The device and the inode numbers of the files, and the time of the last change of the database file."""
        file, wal, shm = os.stat(self.path), os.lstat(self.wal), os.lstat(self.shm)
        return (file.st_dev, file.st_ino, wal.st_ino, shm.st_ino), file.st_ctime_ns

    def _check_changed_file(self, changed: int) -> None:
        """Find out whether a checkpoint has changed the database file, or a program that has overwritten it."""
        try:
            mark = self.gate.mark()
            fits = self.fits(mark, changed) if mark and mark.token == self._token else None
        except (OSError, apsw.CantOpenError):
            return  # perhaps this process has no descriptor left; the next check looks again
        if fits is False:
            from .board_files_opening import overwritten

            raise overwritten(self)
        if fits:
            self._changed = changed

    def fits(self, mark: Mark, changed: int) -> bool | None:
        """Whether the database file, without its WAL, has everything that was copied into it; None if unknown.

        A WAL is emptied only after all of it was copied, and then the mark has the last event in the file. So a file
        with fewer events, or without the token, is not the one that the WAL belongs to. While a WAL is being copied,
        events may seem to be missing, but the page with the token does not change. Nothing is known about a file into
        which no WAL was ever copied: its token may still be in the WAL.
        """
        for _ in range(LOOKS):
            known = mark.file_changed != _UNKNOWN
            if not known and not mark.file_event:
                return None
            found = read_without_wal(self.path)
            if found is None:
                return None
            facts, newest = found
            if facts.get("place.token") == mark.token:
                if newest is None or newest >= mark.file_event:
                    now = self.gate.mark()
                    if known and now and now.same_file_state(mark):  # otherwise a checkpoint has begun meanwhile
                        self._remember_file_state(mark.file_event if newest is None else newest, changed)
                    return True
                if not known:
                    return None
            sleep(BETWEEN_LOOKS)  # another program may be copying its WAL at this moment
            mark = self.gate.mark() or mark
        return False

    def checkpoint(self, connection: apsw.Connection, mode: int) -> None:
        """Copy the WAL into the file and remember the file's new state; raises `Unavailable` like `check`.

        While the WAL is copied, the file makes no sense without it. If this process or the machine dies meanwhile, it
        stays so. So the mark says first, durably, that the state of the file is unknown.
        """
        self.check(connection)
        newest, mark = newest_event(connection), self.gate.mark()
        known = mark is not None and mark.file_changed != _UNKNOWN
        event = mark.file_event if known and mark else 0
        if known:
            self.gate.set_file_state(event, _UNKNOWN, durably=True)
        busy = None
        try:
            pages, copied = connection.wal_checkpoint(mode=mode)
            if pages == copied >= 0 and newest is not None:
                known, event = True, newest
        except (apsw.BusyError, apsw.LockedError) as exc:
            busy = exc  # a part of the WAL may have been copied, up to the end of a commit
        if known:
            self._changed = os.stat(self.path).st_ctime_ns
            self._remember_file_state(event, self._changed)
        if busy:
            raise busy

    def _remember_file_state(self, event: int, changed: int) -> None:
        try:
            self.gate.set_file_state(event, changed)
        except OSError:
            pass  # the next process looks into the file again

    def committed(self, event: int) -> None:
        """Remember the last event that was committed; only while the gate is locked."""
        self.gate.set_last_event(event)

    # ── Opening ──────────────────────────────────────────────────────────────────────────────────────

    def refuse_lost_file(self) -> None:
        """Raise `Unavailable` if the database file is missing or empty, but its WAL or its mark is there."""
        if not size_of(self.path):
            from .board_files_opening import refuse_lost_file

            refuse_lost_file(self)

    def open(self, connect: Connect) -> apsw.Connection:
        """Connect to the board; raises `Unavailable` if its files do not belong together."""
        self.refuse_lost_file()
        connection = self.open_if_unchanged(connect)
        if connection is None:
            from .board_files_opening import open_changed

            connection = open_changed(self, connect)
        return connection

    def open_if_unchanged(self, connect: Connect) -> apsw.Connection | None:
        """Connect to the board if its files are those in its mark; None if they are not, or if there is no mark."""
        mark = self.gate.mark()
        if not mark or [mark.wal, mark.shm] != self.side_inodes():
            return None
        changed = os.stat(self.path).st_ctime_ns
        if changed != mark.file_changed and self.fits(mark, changed) is False:
            return None
        connection = connect()
        try:
            facts, newest, (opened, _) = facts_of(connection), newest_event(connection), self._stat_files()
        except BaseException:
            connection.close()
            raise
        same_files = facts.get("place.file") == str(opened[1]) and opened[2:] == (mark.wal, mark.shm)
        nothing_lost = newest is None or newest >= mark.last_event
        if facts.get("place.token") == mark.token and same_files and nothing_lost:
            self._token, self._opened, self._changed = mark.token, opened, changed
            return connection
        connection.close()
        return None

    def side_inodes(self) -> list[int]:
        """The inode numbers of `-wal` and `-shm`, 0 for a missing one; raises `Unavailable` if one is not ours."""
        found = []
        for name in (self.wal, self.shm):
            try:
                each = os.lstat(name)
            except FileNotFoundError:
                found.append(0)
                continue
            check_owner(name, each, self.path)
            found.append(each.st_ino)
        return found

    def write_mark(self, connection: apsw.Connection, token: str) -> None:
        """Write a new mark for the files as they are now; only while the gate is locked."""
        newest = newest_event(connection) or 0  # the first read makes the -wal and the -shm
        self._token = token
        self._opened, self._changed = self._stat_files()
        self.gate.set_mark(token, self._opened[2], self._opened[3])
        self.committed(newest)
