"""One board, one place: a file is used under one name, with the files beside it that belong to it.

SQLite finds the log (`-wal`) and its index (`-shm`) by the name of the file. Under a second name (a hard link, a mount
of the file alone) it would use a second log: two winners, and commits that nobody else ever sees. The same happens when
a log is deleted while somebody has it open. SQLite notices neither.

So a board has a token, and the mark in the gate beside it has the same one. The mark also tells which `-wal` and
`-shm` belong to the board (their inode numbers) and the number of the last event that was committed. A process compares
them when it opens the board. Afterwards it only looks whether the files are still those that it opened: three calls
of `stat` before a write is acknowledged, and before each read and write unless it has just looked. Nothing but SQLite
ever opens and closes the file itself, because that would drop the locks that this process has on it.

Without a checkpoint the file does not change. So the mark tells when it was changed by the last checkpoint, and the
last event that was in it then. If it was changed since, a process looks into the file, without its log: a file that has
fewer events, or another token, was overwritten (`cp old.db board.db`), and the log does not belong to it any more.

What is found when a board is opened:

- The mark fits: the usual case.
- The file is missing or empty, but its log or its mark is there: it was renamed alone or emptied. Refused.
- The log has commits, and the file is not the one that they belong to. Refused.
- Events are missing that the mark knows of. Refused.
- The board has no token: it is new, a backup, or was made by an older version. It gets one.
- The mark has another token or is missing, and the file is the one that got the token: this is a second name, or the
  file was renamed without the others. Refused, unless a copy got the inode number of the file before it: it has the
  path at which the token was given, no second name, no mark, and no log.
- The same, but it is another file: a copy. A copy is a new board and gets a token of its own.
- The token fits, but `-wal` or `-shm` is another one: SQLite removes them when another program closes the board as the
  last one. If nobody else has the board open and no event is missing, the mark is written anew. Else refused.
"""

from __future__ import annotations

import os
from time import sleep

import apsw

from ...errors import Unavailable
from ..side_files import check as check_owner
from .file_facts import facts_of, in_file, is_mounted, newest_event, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .write_gate import WriteGate

FACTS = ("place.token", "place.file", "place.path")
UNKNOWN = "0"
"""In the mark, instead of when the file was changed: a log is copied into it, or none ever was."""
LOOKS = 20
"""How often a file that others are changing is read before it counts as damaged."""
MOMENT = 1000
"""Milliseconds that others may take to close the board."""
DEADLINE = 5.0
REPAIR = "`tb doctor --repair`"


class BoardFiles:
    """Where a board is: its file and what belongs to it, as this process has opened them."""

    def __init__(self, path: str, gate: WriteGate) -> None:
        self.path = path
        self._gate = gate
        self._sides = f"{path}-wal", f"{path}-shm"
        self._known: tuple[int, ...] = ()
        self._changed = 0
        """When the file was changed, the last time that it was seen to be sound."""
        self._token = ""

    # ── While it is open ─────────────────────────────────────────────────────────────────────────────

    def check(self, connection: apsw.Connection) -> None:
        """Raise `Unavailable` if any of the files is not the one that was opened.

        If only the log is another one, what was committed to the old log is put into the file first, by a connection
        that still has it open: nobody else has written since, for whoever looks is refused like this process.
        """
        try:
            here, changed = self._look()
            if here == self._known:
                if changed != self._changed:
                    self._check_file(changed)
                return
            how, names = "replaced", (self.path, self.path, *self._sides)
            name = next(n for n, now, then in zip(names, here, self._known, strict=True) if now != then)
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

    def _look(self) -> tuple[tuple[int, ...], int]:
        """Which files are here, and when the database file was changed."""
        file, wal, shm = os.stat(self.path), os.lstat(self._sides[0]), os.lstat(self._sides[1])
        return (file.st_dev, file.st_ino, wal.st_ino, shm.st_ino), file.st_ctime_ns

    def _check_file(self, changed: int) -> None:
        """The file was changed: by a checkpoint, or by a program that has overwritten it."""
        try:
            mark = self._gate.mark()
            fits = self._fits(mark, changed) if mark[:1] == [self._token] else None
        except (OSError, apsw.CantOpenError):
            return  # no descriptor is left, perhaps; the next look tells
        if fits is False:
            raise self._overwritten()
        if fits:
            self._changed = changed

    def checkpoint(self, connection: apsw.Connection, mode: int) -> None:
        """Copy the log into the file and remember what the file has now; raises `Unavailable` like `check`.

        While it is copied, and for ever if this process dies or the machine stops meanwhile, the file makes no sense
        without its log. So the mark says first, durably, that it is copied.
        """
        self.check(connection)
        newest, mark = newest_event(connection), self._gate.mark()
        known = bool(mark) and mark[5] != UNKNOWN
        events = int(mark[4]) if known else 0
        if known:
            self._gate.set_file(events, int(UNKNOWN), durably=True)
        busy = None
        try:
            log, copied = connection.wal_checkpoint(mode=mode)
            if log == copied >= 0 and newest is not None:
                known, events = True, newest
        except (apsw.BusyError, apsw.LockedError) as exc:
            busy = exc  # a part of it may have been copied, up to the end of a commit
        if known:
            self._changed = os.stat(self.path).st_ctime_ns
            self._remember_file(events, self._changed)
        if busy:
            raise busy

    def committed(self, event: int) -> None:
        """Remember the last event that was committed; only from inside the gate."""
        self._gate.count(event)

    # ── Opening it ───────────────────────────────────────────────────────────────────────────────────

    def open(self, connect: Callable[[], apsw.Connection]) -> apsw.Connection:
        """A connection to the board, if this is its place; raises `Unavailable`."""
        self.refuse_lost_file()
        connection = self._connect_if_known(connect)
        if connection is None:
            # What can be refused is refused before anything is put beside the file: another program's database, and
            # a second name. A token is only ever written after its mark, so a mark that is missing was never there.
            facts = self._facts_in_file() or {}
            if "place.token" in facts and not self._gate.mark():
                self._refuse_second_name(facts)
            with self._gate:
                connection = self._connect_if_known(connect) or self._settle(connect)
        return connection

    def _connect_if_known(self, connect: Callable[[], apsw.Connection]) -> apsw.Connection | None:
        mark = self._gate.mark()
        if not mark or mark[1:3] != self._inodes():
            return None
        changed = os.stat(self.path).st_ctime_ns
        if str(changed) != mark[5] and self._fits(mark, changed) is False:
            return None
        connection = connect()
        try:
            facts, newest, (known, _) = facts_of(connection), newest_event(connection), self._look()
        except BaseException:
            connection.close()
            raise
        token, file, *sides = (facts.get("place.token"), facts.get("place.file"), *map(str, known[2:]))
        if [token, *sides, file] == [*mark[:3], str(known[1])] and (newest is None or newest >= int(mark[3])):
            self._token, self._known, self._changed = mark[0], known, changed
            return connection
        connection.close()
        return None

    def _inodes(self) -> list[str]:
        """The numbers of `-wal` and `-shm`, 0 for one that is not there; raises `Unavailable` if they are not ours."""
        found = []
        for name in self._sides:
            try:
                each = os.lstat(name)
            except FileNotFoundError:
                found.append("0")
                continue
            check_owner(name, each, self.path)
            found.append(str(each.st_ino))
        return found

    def _settle(self, connect: Callable[[], apsw.Connection]) -> apsw.Connection:
        """In the gate: find out what was changed, and refuse it or write the mark anew."""
        mark, sides, facts = self._gate.mark(), self._inodes(), self._facts_in_file() or _facts_with_log(connect)
        token, file = facts.get("place.token"), str(os.stat(self.path).st_ino)
        same_mark = bool(mark) and mark[0] == token
        if token is not None and not same_mark:
            self._refuse_second_name(facts)
        self._refuse_foreign_log(mark, token)
        if (mark or token is not None or "0" in sides) and not self._alone():
            raise self._in_use(sides)
        connection = connect()
        try:
            if mark:
                self._refuse_loss(connection, int(mark[3]))
            self._prepare(connection)
            if same_mark and facts.get("place.file") == file:
                self._token = mark[0]
                self._write_mark(connection)
            else:
                self._give_token(connection, file)
            self._copy_log(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        from contextlib import nullcontext

        from .opening import prepare

        prepare(connection, nullcontext(), self.path)  # type: ignore[arg-type]  # the gate is already passed

    def _facts_in_file(self) -> dict[str, str] | None:
        """What the file itself tells, without its log: under this name it may have a wrong one.

        None if the file makes no sense without its log, because somebody died while copying it there.
        """
        for _ in range(LOOKS):
            if found := in_file(self.path):
                return found[0]
            sleep(0.01)  # somebody may be copying its log there just now
        return None

    def _fits(self, mark: list[str], changed: int) -> bool | None:
        """Whether the file, without its log, has all that was copied into it; None if that cannot be told.

        A log is emptied only after all of it was copied, and then the mark tells the last event in the file. So a file
        with fewer events, or without the token, is not the one that the log belongs to. While a log is copied, events
        may seem to be missing, but the page with the token stays where it is. Nothing is known of a file into which no
        log was ever copied: its token may still be in the log.
        """
        for _ in range(LOOKS):
            known = mark[5] != UNKNOWN
            if not known and mark[4] == "0":
                return None
            found = in_file(self.path)
            if found is None:
                return None
            facts, newest = found
            if facts.get("place.token") == mark[0]:
                if newest is None or newest >= int(mark[4]):
                    if known and self._gate.mark()[4:] == mark[4:]:  # else somebody has begun a checkpoint meanwhile
                        self._remember_file(int(mark[4]) if newest is None else newest, changed)
                    return True
                if not known:
                    return None
            sleep(0.01)  # another program may be copying its log there just now
            mark = self._gate.mark() or mark
        return False

    def _remember_file(self, events: int, changed: int) -> None:
        try:
            self._gate.set_file(events, changed)
        except OSError:
            pass  # the next one looks into the file again

    def _alone(self) -> bool:
        """Whether nobody else has the file open, under any name: SQLite's locks are on the file, not on the name."""
        probe = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            probe.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            probe.set_busy_timeout(MOMENT)
            probe.execute("PRAGMA locking_mode = EXCLUSIVE")
            probe.execute("BEGIN IMMEDIATE")
            probe.execute("ROLLBACK")
        except apsw.BusyError:
            return False
        finally:
            probe.close()
        return True

    def _write_mark(self, connection: apsw.Connection) -> None:
        newest = newest_event(connection) or 0  # the first read makes the files beside it
        self._known, self._changed = self._look()
        self._gate.set_mark(self._token, self._known[2], self._known[3])
        self.committed(newest)

    def _give_token(self, connection: apsw.Connection, file: str) -> None:
        """Make it a board with a place of its own."""
        self._token = os.urandom(16).hex()
        self._write_mark(connection)
        connection.execute("BEGIN IMMEDIATE")
        for fact in zip(FACTS, (self._token, file, self.path), strict=True):
            connection.execute(
                "INSERT INTO board VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", fact
            )
        connection.execute("COMMIT")

    def _copy_log(self, connection: apsw.Connection) -> None:
        """Get the token into the file: another name of it has another log.

        If somebody reads an older moment it gets there with a later checkpoint.
        """
        try:
            self.checkpoint(connection, apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            pass  # somebody else is at it

    def _refuse_loss(self, connection: apsw.Connection, last: int) -> None:
        found = newest_event(connection)
        missing = 0 if found is None else last - found
        if missing > 0:
            raise Unavailable(
                f"board {self.path}: the last {missing} events that were committed are missing: "
                "its -wal was deleted, or an older copy was put in its place",
                hint=f"put back what was there, or accept the loss with {REPAIR}",
                repair="place",
            )

    # ── Refusing it ──────────────────────────────────────────────────────────────────────────────────

    def refuse_lost_file(self) -> None:
        """Raise `Unavailable` if the file is missing or empty, and what was committed to it is still beside it.

        SQLite would delete the log of an empty file. A board that somebody makes just now has something in its file
        before there is anything beside it, so the file is looked at last.
        """
        if size_of(self.path):
            return
        self._inodes()
        mark, log = self._gate.mark(), size_of(self._sides[0])
        if (log or (mark and int(mark[3]))) and not size_of(self.path):
            how = "empty" if os.path.lexists(self.path) else "missing"
            left = self._sides[0] if log else self._gate.path
            raise Unavailable(
                f"board {self.path}: the file is {how}, but {left} of the board that was here is not",
                hint="put the file back; if it was renamed, run `tb --board NEW-NAME doctor --repair`; "
                f"{self._for_a_new_board()}",
            )

    def _for_a_new_board(self) -> str:
        return f"for a new board, first move {', '.join(self._sides)} and {self._gate.path} elsewhere"

    def _refuse_foreign_log(self, mark: list[str], token: str | None) -> None:
        """Raise `Unavailable` if the log has commits, and they belong to another file than the one that is here."""
        if not mark or not size_of(self._sides[0]):
            return
        other = token not in (None, mark[0]) and mark[1] == str(os.lstat(self._sides[0]).st_ino)
        if other or self._fits(mark, os.stat(self.path).st_ctime_ns) is False:
            raise self._overwritten()

    def _refuse_second_name(self, facts: dict[str, str]) -> None:
        """Raise `Unavailable` if this is the file that got the token: its mark is beside another name of it."""
        if facts.get("place.file") != str(os.stat(self.path).st_ino):
            return
        home = facts.get("place.path", "")
        if home == self.path:
            if self._gate.blank() and not size_of(self._sides[0]) and not self._has_second_name():
                return  # a copy that got the inode number of the file before it
            raise Unavailable(
                f"board {self.path}: {self.path}-gate does not belong to it, or is missing",
                hint=f"{REPAIR} writes it anew",
                repair="place",
            )
        raise Unavailable(
            f"board {self.path}: this file is the board {home} under a second name, and a board has only one",
            hint=f"use {home} (in a container: mount its folder, not the file); if you renamed it, run {REPAIR}",
            repair="place",
        )

    def _has_second_name(self) -> bool:
        return os.stat(self.path).st_nlink > 1 or is_mounted(self.path)

    def _overwritten(self) -> Unavailable:
        return Unavailable(
            f"board {self.path}: {self._sides[0]} belongs to another file, which was here before: "
            "it was overwritten or replaced, for example by an older copy",
            hint=f"end every process that uses this board and put back the file that was here; "
            f"{self._for_a_new_board()}",
        )

    def _in_use(self, sides: list[str]) -> Unavailable:
        missing = [name for name, inode in zip(self._sides, sides, strict=True) if inode == "0"]
        what = f"{missing[0]} is missing" if missing else f"{self._sides[0]} or {self._sides[1]} is another one"
        return Unavailable(
            f"board {self.path}: busy: others have the board open, but {what}",
            hint="end every process that uses this board, other programs too, then try again",
        )

    # ── Repairing it ─────────────────────────────────────────────────────────────────────────────────

    def repair(self, connect: Callable[[], apsw.Connection]) -> None:
        """Make this the place of the board, as it is; raises `Unavailable` if it has a second name or is in use."""
        if os.stat(self.path).st_nlink > 1:
            raise Unavailable(
                f"board {self.path}: the file has a second name (a hard link)",
                hint=f"find it with `find / -xdev -inum {os.stat(self.path).st_ino}`, and remove one of the two",
            )
        if is_mounted(self.path):
            raise Unavailable(
                f"board {self.path}: the file alone is mounted here, so that it has another name elsewhere",
                hint="mount its folder instead",
            )
        facts = self._facts_in_file() or {}
        home, token = facts.get("place.path", ""), facts.get("place.token")
        with self._gate:
            if not self._alone():
                raise self._in_use(self._inodes())
            self._refuse_foreign_log(self._gate.mark(), token)
            events = self._fetch_log(home, token) if token and home not in ("", self.path) else 0
            connection = connect()
            try:
                self._refuse_loss_by_renaming(connection, home, events)
                self._prepare(connection)
                self._give_token(connection, str(os.stat(self.path).st_ino))
                self._copy_log(connection)
            finally:
                connection.close()

    def _fetch_log(self, home: str, token: str) -> int:
        """If the file was renamed and its log left behind, bring it here; the last event that was committed there."""
        from .write_gate import WriteGate

        mark, log = WriteGate(f"{home}-gate", DEADLINE).mark(), f"{home}-wal"
        if mark[:1] != [token]:
            return 0  # another board's, or none
        if size_of(log) and mark[1] == str(os.lstat(log).st_ino):
            if size_of(home):
                raise Unavailable(
                    f"board {self.path}: {log} belongs to it, but another file is at {home} now",
                    hint=f"end every process that uses {home}, move that file elsewhere, and try again",
                )
            if size_of(self._sides[0]):
                raise self._overwritten()
            os.rename(log, self._sides[0])  # its index is made anew
        return int(mark[3])

    def _refuse_loss_by_renaming(self, connection: apsw.Connection, home: str, events: int) -> None:
        missing = events - (newest_event(connection) or 0)
        if missing > 0:
            raise Unavailable(
                f"board {self.path}: the last {missing} events that were committed when it was {home} are missing",
                hint=f"put {home}-wal back, from a backup perhaps, and try again; "
                f"to do without them, first move {home}-gate elsewhere",
            )


def repair(path: str) -> None:
    """Make this the one place of a board that cannot be opened; raises `Unavailable` if others could use it."""
    from .opening import connect
    from .write_gate import WriteGate

    path = os.path.realpath(path)
    gate = WriteGate(f"{path}-gate", DEADLINE)
    try:
        BoardFiles(path, gate).repair(lambda: connect(path, DEADLINE))
    except apsw.Error as exc:
        raise Unavailable(f"board {path}: {exc}") from exc
    except OSError as exc:
        raise Unavailable(f"board {path}: {exc.strerror or exc}") from exc
    finally:
        gate.close()


def _facts_with_log(connect: Callable[[], apsw.Connection]) -> dict[str, str]:
    connection = connect()
    try:
        return facts_of(connection)
    finally:
        connection.close()
