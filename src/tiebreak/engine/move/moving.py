"""Moving a board to another engine, and closing the one that was left.

A board is *closed* by renaming its tables (`tasks` becomes `closed_tasks`, and so on). Nothing is checked for that in
any transaction, and still no process that has the board open can miss it: SQLite compares the schema's version at the
start of each transaction, PostgreSQL has to lock a table before it reads it, and both then fail with "no such table",
which the engine turns into where the board went (`closed_file`, `closed_database`). A program that knows nothing of
this stumbles too, and can write nothing. The rows stay where they are, for a person who wants to look at them.

A move is three commits, in this order:

1. On the target: everything, copied in one transaction that ends with a closed board, marked as arriving.
2. On the source: it is closed, and says where to. This one decides.
3. On the target: it is opened.

Others go on writing while the history, most of a board, is copied. They are locked out, and wait, from then until 2.

Killed before 2, the old board is in use as if nothing had happened, and what lies on the target is replaced by the next
attempt. Killed after 2, nobody can use either until the same command is run again, which finds that only 3 is left.

Both engines count time by clocks of their own. All times are shifted by the difference as they are copied
(`_travelling`), so that leases keep what they have left and time does not run backwards. What was once answered, or
written in the text of an event, stays as it was said.
"""

from __future__ import annotations

import os
from secrets import token_hex
from typing import NamedTuple

import apsw

from ... import clock
from ...errors import Refused, TiebreakError, Unavailable
from ..schema import CLOSED, TABLES
from .endpoints import AGAIN, AT_ONCE, PostgresSide, SqliteSide, side, sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .endpoints import Row, Side

    Progress = Callable[[int, int], None]

JITTER = 100_000
"""By how many microseconds two readings of the clocks may differ although nobody has set one."""
_MANNERS = "a board is copied to a new file, or to one that it was moved away from"


class Moved(NamedTuple):
    """What became of a move."""

    outcome: str
    """`moved`; `finished` an earlier one; there `already`; or what `would` be moved."""
    source: str
    target: str
    rows: dict[str, int]
    shift: float
    """Seconds by which all times were shifted: how far the target's clock is ahead."""


class _Look(NamedTuple):
    """What is found at an address."""

    how: str
    """`nothing`, `open` or `closed`."""
    facts: dict[str, str]


def move(source: str, target: str, progress: Progress | None = None, *, only_look: bool = False) -> Moved:
    """Move the board at one address to another; what others write meanwhile waits, and is told where to go."""
    old, new = side(source), side(target)
    try:
        if old.identity() == new.identity():
            raise Refused(f"migrate: {old} and {new} are the same board")
        found = _look(old)
        if found.how == "nothing":
            raise Refused(f"migrate: there is no board at {old}")
        if found.how == "closed":
            return _finish(old, new, found)
        _refuse_occupied(old, new, found)
        if only_look:
            return Moved("would", str(old), str(new), _counts(old), 0.0)
        return _move(old, new, progress)
    except Exception as exc:
        raise _explained(exc, old, new) from exc
    finally:
        old.close()
        new.close()


def _move(old: Side, new: Side, progress: Progress | None) -> Moved:
    _name(old)
    new.begin()
    new.take_over()
    there = _refuse_occupied(old, new, _look(old))
    new.make({name: value for name, value in there.facts.items() if name.startswith(("clock.", "place."))})
    copying = _Copying(old, new, progress)
    copying.events_so_far()
    old.begin()
    old.keep_out()
    here = _still_open(old)
    rows, shift = copying.everything_else()
    attempt = token_hex(16)
    _close(new, id=here.facts["id"], arriving=str(old), **{"arriving.by": attempt})
    new.commit()
    _close(old, moved=str(new), **{"moved.by": attempt})
    old.commit()
    _open(new, attempt, str(old))
    return Moved("moved", str(old), str(new), rows, shift / clock.SECOND)


def _finish(old: Side, new: Side, left: _Look) -> Moved:
    """The board has left already: perhaps for there, and perhaps it only has to be opened."""
    there, attempt = _look(new), left.facts.get("moved.by")
    if attempt is None or attempt not in (there.facts.get("arriving.by"), there.facts.get("origin.by")):
        raise closed(left.facts, str(old))
    if there.how == "closed" and "moved" in there.facts:
        raise closed(there.facts, str(new))
    if there.how == "closed":
        _open(new, attempt, str(old))
    return Moved("already" if there.how == "open" else "finished", str(old), str(new), _counts(new), 0.0)


def _name(place: Side) -> None:
    """Give the board a name that travels with it: by that, what an interrupted attempt has left is known again."""
    place.begin()
    _still_open(place)
    place.rows("INSERT INTO board (name, value) VALUES ('id', ?) ON CONFLICT (name) DO NOTHING", token_hex(16))
    place.commit()


def _look(place: Side) -> _Look:
    for how, prefix in (("closed", CLOSED), ("open", "")):
        if place.has(f"{prefix}board"):
            return _Look(how, dict(place.rows(f"SELECT name, value FROM {prefix}board")))  # noqa: S608
    return _Look("nothing", {})


def _still_open(place: Side) -> _Look:
    """Inside a transaction: it may have been moved since the first look."""
    found = _look(place)
    if found.how == "closed":
        raise closed(found.facts, str(place))
    return found


def _refuse_occupied(old: Side, new: Side, here: _Look) -> _Look:
    """Only nothing, an empty board, a leftover of this board, or the board that this one came from is replaced."""
    there = _look(new)
    if there.how == "nothing":
        new.refuse_strangers()
    elif there.how == "open":
        full = ", ".join(f"{count} {table}" for table, count in _counts(new).items() if count)
        if full:
            raise Refused(f"migrate: {new} is in use ({full})", hint=_MANNERS)
    elif "moved" in there.facts:
        if there.facts["moved.by"] != here.facts.get("origin.by"):
            raise Refused(f"migrate: {new} moved to {there.facts['moved']}, and is not where {old} came from")
    elif there.facts.get("id") != here.facts.get("id"):
        raise Refused(f"migrate: {new} has begun to receive another board, from {there.facts['arriving']}")
    return there


def _counts(place: Side) -> dict[str, int]:
    """How many rows each table has; none if the board is of a version that did not have the table."""
    return {
        table: place.rows(f"SELECT count(*) FROM {table}")[0][0] if place.has(table) else 0  # noqa: S608
        for table in TABLES
    }


class _Copying:
    """The rows on their way, in the one transaction of the target."""

    def __init__(self, old: Side, new: Side, progress: Progress | None, shift: int | None = None) -> None:
        self._old, self._new = old, new
        self._progress = progress
        self._done, self._total = 0, sum(_counts(old).values())
        self._upto = 0
        """The last event that was copied while others were writing."""
        self._shift = self._difference() if shift is None else shift

    def _difference(self) -> int:
        before = self._old.now()
        return self._new.now() - before  # in this order, so that a lease is rather a moment too long than too short

    def events_so_far(self) -> None:
        """Most of a board is its history, which nobody changes: that part is copied before anybody has to wait."""
        self._upto = self._old.snapshot()
        self._copy("events", f"number <= {self._upto}")
        self._old.rows("ROLLBACK")

    def everything_else(self) -> tuple[dict[str, int], int]:
        """With the others locked out: how many rows there are, and by how much their times were shifted."""
        self._check_events()
        rows = self.all_tables()
        number = self._old.last_event() + 1
        self._new.rows(
            "INSERT INTO events (number, at, event, project, name, note) VALUES (?, ?, 'board.moved', '', ?, ?)",
            *(number, self._new.now(), str(self._new), f"from {self._old}"),
        )
        self._new.go_on_numbering(number)
        return rows, self._shift

    def _check_events(self) -> None:
        """Start anew if some were pruned meanwhile, or somebody set a clock."""
        shift = self._difference()
        known = f"SELECT count(*), min(number) FROM events WHERE number <= {self._upto}"  # noqa: S608
        if self._old.rows(known) != self._new.rows(known) or abs(shift - self._shift) > JITTER:
            self._new.rows("DELETE FROM events")
            self._upto, self._shift = 0, shift

    def all_tables(self) -> dict[str, int]:
        """All rows that have not been copied yet."""
        for table in TABLES:
            if table == "stirred":  # the tasks that were copied have left rows there, by a trigger
                self._new.rows("DELETE FROM stirred")
            self._copy(table, f"number > {self._upto}" if table == "events" else "TRUE")
        return _counts(self._old)

    def _copy(self, table: str, where: str) -> None:
        columns = self._new.columns(table)
        for some in _batches(self._old.all(table, columns, where)):
            self._new.fill(table, columns, _travelling(some, columns, self._shift))
            self._done += len(some)
            if self._progress is not None:
                self._progress(self._done, max(self._done, self._total))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    some = []
    for row in rows:
        some.append(row)
        if len(some) == AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _travelling(rows: list[Row], columns: list[str], shift: int) -> list[Row]:
    """Rows with their times by the target's clock; 0 means none by any clock."""
    times = {at for at, name in enumerate(columns) if name in ("at", "until") or name.endswith("_at")}
    return [tuple(v + shift if at in times and v else v for at, v in enumerate(row)) for row in rows]


def _close(place: Side, **facts: str) -> None:
    """Let nobody use it from the next commit on, and say why."""
    for fact in facts.items():
        place.rows("INSERT INTO board VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", *fact)
    place.rename("", CLOSED)


def _open(place: Side, attempt: str, origin: str) -> None:
    """Let everybody in; nothing to do if somebody else did so meanwhile."""
    place.begin()
    place.take_over()
    there = _look(place)
    if there.how == "closed" and there.facts.get("arriving.by") == attempt:
        place.rename(CLOSED, "")
        place.upgrade()
        place.rows("DELETE FROM board WHERE name LIKE 'arriving%' OR name LIKE 'moved%'")
        place.rows("INSERT INTO board VALUES ('origin', ?), ('origin.by', ?)", origin, attempt)
    place.commit()


# ── What is said of a closed board ───────────────────────────────────────────────────────────────────


def closed(facts: dict[str, str], board: str) -> Unavailable:
    """Why nobody can use a board any more, or not yet."""
    if "moved" in facts:
        where = facts["moved"]
        hint = f"export TIEBREAK_BOARD='{where}'" + (" (and its password, if it has one)" if "://" in where else "")
        return Unavailable(f"board {board}: moved to {where}", hint=hint, moved=where)
    return Unavailable(
        f"board {board}: is still arriving from {facts.get('arriving', 'elsewhere')}",
        hint="if nobody runs that `tb migrate` any more, run it again: it goes on where it was",
    )


def closed_file(path: str) -> Unavailable | None:
    """Why a SQLite board has no tables; None if it was not closed."""
    place = SqliteSide(path)
    try:
        found = _look(place)
        return closed(found.facts, path) if found.how == "closed" else None
    except apsw.Error:
        return None
    finally:
        place.close()


def closed_database(connection: Any, address: str) -> Unavailable | None:
    """The same for a board on a server, by a connection in no transaction or a sound one."""
    found = _look(PostgresSide(connection, address))
    return closed(found.facts, address) if found.how == "closed" else None


def _explained(problem: Exception, old: Side, new: Side) -> Exception:
    if isinstance(problem, TiebreakError):
        return problem
    text = str(problem).strip().split("\n", 1)[0] or type(problem).__name__
    if isinstance(problem, (apsw.Error, OSError)) or type(problem).__module__.startswith("psycopg"):
        return Unavailable(f"migrate {old} to {new}: {text}", hint=AGAIN)
    return problem


# ── A copy in a file ─────────────────────────────────────────────────────────────────────────────────


def to_file(engine: Any, target: str, progress: Progress | None = None) -> None:
    """Copy one snapshot of a board on a server to a SQLite board in a new file.

    The file gets its name when it is complete and on the disk. Times stay as they are: whoever opens it first chooses
    a clock that goes on after the last of them.
    """
    if os.path.lexists(target):
        raise Refused(f"backup {target}: exists already, and a backup never overwrites")
    partial = f"{target}.partial-{os.getpid()}"
    old, new = PostgresSide(engine._connect(), engine.address), SqliteSide(partial)
    try:
        _snapshot(old, new, progress)
        new.close()
        sync(partial)
        os.link(partial, target)
        sync(os.path.dirname(os.path.abspath(target)))
    except FileExistsError:
        raise Refused(f"backup {target}: exists already, and a backup never overwrites") from None
    except Exception as exc:
        raise _explained(exc, old, new) from exc
    finally:
        old.close()
        new.close()
        _forget(partial)


def _snapshot(old: Side, new: Side, progress: Progress | None) -> None:
    old.snapshot()
    _still_open(old)
    new.begin()
    new.make({})
    _Copying(old, new, progress, shift=0).all_tables()
    new.commit()
    new.rows("PRAGMA wal_checkpoint(TRUNCATE)")  # all of it is in the one file now


def _forget(path: str) -> None:
    for suffix in ("", "-wal", "-shm", "-gate"):
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            pass
