"""Moving a board to another database, and closing the old one.

A board is *closed* by renaming its tables (`tasks` becomes `closed_tasks`, and so on). No transaction has to check for
that, and yet no process that has the board open can miss it. SQLite compares the version of the schema at the start of
each transaction, and PostgreSQL has to lock a table before it reads it. Both then fail with "no such table", and the
engine says where the board went (see `closed_board`). A program that does not know about moves fails in the same way
and can write nothing. The rows stay in the renamed tables, for a person who wants to look at them.

A move is three commits, in this order:

1. On the target: all rows are copied, in one transaction that ends with a closed board, marked as arriving.
2. On the source: the board is closed, and says where it went. This commit decides.
3. On the target: the board is opened.

Before these, the source gets an id if it has none. Others can write while the events, which are most of a board, are
copied. From then until commit 2 writers wait, and on PostgreSQL readers too.

If the move is killed before commit 2, the old board is in use as if nothing had happened, and the next attempt replaces
what is on the target. If it is killed after commit 2, nobody can use either board until the same command is run again,
which then makes commit 3.

Each database has a clock of its own. All times are shifted by the difference while they are copied (`copying`), so that
every lease keeps its remaining time, and board time does not run backwards. Times inside stored answers and inside
the texts of events are not changed.
"""

from __future__ import annotations

from secrets import token_hex
from typing import NamedTuple

from ... import clock
from ...errors import Refused
from ..closed_board import closed
from ..schema import CLOSED
from .copying import RowCopy
from .endpoints import counts, explained, look, still_open
from .opening import open_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .copying import Progress
    from .endpoints import Endpoint, Found

_TARGET_HINT = "a board is copied to a new file, or to one that it was moved away from"


class Moved(NamedTuple):
    """What became of a move."""

    outcome: str
    """`moved`; `finished` (an interrupted move); `already` (it was there); or `would` (nothing was done)."""
    source: str
    target: str
    rows: dict[str, int]
    shift: float
    """Seconds by which all times were shifted, that is, by which the target's clock is ahead."""


def move(source: str, target: str, progress: Progress | None = None, *, only_look: bool = False) -> Moved:
    """Move the board from one address to another. Writers wait meanwhile, and then learn where the board is."""
    old, new = open_endpoint(source), open_endpoint(target)
    try:
        if old.identity() == new.identity():
            raise Refused(f"migrate: {old} and {new} are the same board")
        found = look(old)
        if found.state == "nothing":
            raise Refused(f"migrate: there is no board at {old}")
        if found.state == "closed":
            return _finish(old, new, found)
        _refuse_occupied(old, new, found)
        if only_look:
            return Moved("would", str(old), str(new), counts(old), 0.0)
        return _move(old, new, progress)
    except Exception as exc:
        raise explained(exc, f"migrate {old} to {new}:", "move-failed") from exc
    finally:
        old.close()
        new.close()


def _move(old: Endpoint, new: Endpoint, progress: Progress | None) -> Moved:
    _give_id(old)
    new.begin()
    new.lock_all_out()
    there = _refuse_occupied(old, new, look(old))
    new.make_empty({name: value for name, value in there.facts.items() if name.startswith(("clock.", "place."))})
    copying = RowCopy(old, new, progress)
    copying.events_so_far()
    old.begin()
    old.lock_out()
    here = still_open(old)
    rows, shift = copying.everything_else()
    attempt = token_hex(16)
    _close(new, id=here.facts["id"], arriving=str(old), **{"arriving.by": attempt})
    new.commit()
    _close(old, moved=str(new), **{"moved.by": attempt})
    old.commit()
    _open(new, attempt, str(old))
    return Moved("moved", str(old), str(new), rows, shift / clock.SECOND)


def _finish(old: Endpoint, new: Endpoint, source: Found) -> Moved:
    """The source is closed: if it was moved to this target, open the target if necessary."""
    there, attempt = look(new), source.facts.get("moved.by")
    if attempt is None or attempt not in (there.facts.get("arriving.by"), there.facts.get("origin.by")):
        raise closed(source.facts, str(old))
    if there.state == "closed" and "moved" in there.facts:
        raise closed(there.facts, str(new))
    if there.state == "closed":
        _open(new, attempt, str(old))
    return Moved("already" if there.state == "open" else "finished", str(old), str(new), counts(new), 0.0)


def _give_id(place: Endpoint) -> None:
    """Give the board an id that is copied with it, so that the next attempt recognises an incomplete copy."""
    place.begin()
    still_open(place)
    place.rows("INSERT INTO board (name, value) VALUES ('id', ?) ON CONFLICT (name) DO NOTHING", token_hex(16))
    place.commit()


def _refuse_occupied(old: Endpoint, new: Endpoint, here: Found) -> Found:
    """Raise `Refused` unless the target may be replaced.

    It may be if there is nothing, an empty board, an incomplete copy of this board, or the closed board from which this
    one was moved.
    """
    there = look(new)
    if there.state == "nothing":
        new.refuse_other_data("migrate")
    elif there.state == "open":
        full = ", ".join(f"{count} {table}" for table, count in counts(new).items() if count)
        if full:
            raise Refused(f"migrate: {new} is in use ({full})", hint=_TARGET_HINT)
    elif "moved" in there.facts:
        if there.facts["moved.by"] != here.facts.get("origin.by"):
            raise Refused(f"migrate: {new} moved to {there.facts['moved']}, and is not where {old} came from")
    elif there.facts.get("id") != here.facts.get("id"):
        raise Refused(f"migrate: {new} has begun to receive another board, from {there.facts['arriving']}")
    return there


def _close(place: Endpoint, **facts: str) -> None:
    """Close the board with the next commit, with facts that say why."""
    for fact in facts.items():
        place.rows("INSERT INTO board VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", *fact)
    place.rename("", CLOSED)


def _open(place: Endpoint, attempt: str, origin: str) -> None:
    """Open the board on the target; does nothing if another process has done so."""
    place.begin()
    place.lock_all_out()
    there = look(place)
    if there.state == "closed" and there.facts.get("arriving.by") == attempt:
        place.rename(CLOSED, "")
        place.upgrade()
        place.rows("DELETE FROM board WHERE name LIKE 'arriving%' OR name LIKE 'moved%'")
        place.rows("INSERT INTO board VALUES ('origin', ?), ('origin.by', ?)", origin, attempt)
    place.commit()
