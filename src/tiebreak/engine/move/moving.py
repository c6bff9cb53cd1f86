"""Moving a board to another engine, and closing the one that was left.

A board is *closed* by renaming its tables (`tasks` becomes `closed_tasks`, and so on). Nothing is checked for that in
any transaction, and still no process that has the board open can miss it: SQLite compares the schema's version at the
start of each transaction, PostgreSQL has to lock a table before it reads it, and both then fail with "no such table",
which the engine turns into where the board went (see `closed`). A program that knows nothing of
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

from secrets import token_hex
from typing import NamedTuple

from ... import clock
from ...errors import Refused
from ..closed import closed
from ..schema import CLOSED
from .copying import RowCopy
from .endpoints import counts, explained, look, still_open
from .ends import endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .copying import Progress
    from .endpoints import Endpoint, Found

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


def move(source: str, target: str, progress: Progress | None = None, *, only_look: bool = False) -> Moved:
    """Move the board at one address to another; what others write meanwhile waits, and is told where to go."""
    old, new = endpoint(source), endpoint(target)
    try:
        if old.identity() == new.identity():
            raise Refused(f"migrate: {old} and {new} are the same board")
        found = look(old)
        if found.how == "nothing":
            raise Refused(f"migrate: there is no board at {old}")
        if found.how == "closed":
            return _finish(old, new, found)
        _refuse_occupied(old, new, found)
        if only_look:
            return Moved("would", str(old), str(new), counts(old), 0.0)
        return _move(old, new, progress)
    except Exception as exc:
        raise explained(exc, old, new) from exc
    finally:
        old.close()
        new.close()


def _move(old: Endpoint, new: Endpoint, progress: Progress | None) -> Moved:
    _name(old)
    new.begin()
    new.take_over()
    there = _refuse_occupied(old, new, look(old))
    new.make({name: value for name, value in there.facts.items() if name.startswith(("clock.", "place."))})
    copying = RowCopy(old, new, progress)
    copying.events_so_far()
    old.begin()
    old.keep_out()
    here = still_open(old)
    rows, shift = copying.everything_else()
    attempt = token_hex(16)
    _close(new, id=here.facts["id"], arriving=str(old), **{"arriving.by": attempt})
    new.commit()
    _close(old, moved=str(new), **{"moved.by": attempt})
    old.commit()
    _open(new, attempt, str(old))
    return Moved("moved", str(old), str(new), rows, shift / clock.SECOND)


def _finish(old: Endpoint, new: Endpoint, left: Found) -> Moved:
    """The board has left already: perhaps for there, and perhaps it only has to be opened."""
    there, attempt = look(new), left.facts.get("moved.by")
    if attempt is None or attempt not in (there.facts.get("arriving.by"), there.facts.get("origin.by")):
        raise closed(left.facts, str(old))
    if there.how == "closed" and "moved" in there.facts:
        raise closed(there.facts, str(new))
    if there.how == "closed":
        _open(new, attempt, str(old))
    return Moved("already" if there.how == "open" else "finished", str(old), str(new), counts(new), 0.0)


def _name(place: Endpoint) -> None:
    """Give the board a name that travels with it: by that, what an interrupted attempt has left is known again."""
    place.begin()
    still_open(place)
    place.rows("INSERT INTO board (name, value) VALUES ('id', ?) ON CONFLICT (name) DO NOTHING", token_hex(16))
    place.commit()


def _refuse_occupied(old: Endpoint, new: Endpoint, here: Found) -> Found:
    """Only nothing, an empty board, a leftover of this board, or the board that this one came from is replaced."""
    there = look(new)
    if there.how == "nothing":
        new.refuse_strangers()
    elif there.how == "open":
        full = ", ".join(f"{count} {table}" for table, count in counts(new).items() if count)
        if full:
            raise Refused(f"migrate: {new} is in use ({full})", hint=_MANNERS)
    elif "moved" in there.facts:
        if there.facts["moved.by"] != here.facts.get("origin.by"):
            raise Refused(f"migrate: {new} moved to {there.facts['moved']}, and is not where {old} came from")
    elif there.facts.get("id") != here.facts.get("id"):
        raise Refused(f"migrate: {new} has begun to receive another board, from {there.facts['arriving']}")
    return there


def _close(place: Endpoint, **facts: str) -> None:
    """Let nobody use it from the next commit on, and say why."""
    for fact in facts.items():
        place.rows("INSERT INTO board VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", *fact)
    place.rename("", CLOSED)


def _open(place: Endpoint, attempt: str, origin: str) -> None:
    """Let everybody in; nothing to do if somebody else did so meanwhile."""
    place.begin()
    place.take_over()
    there = look(place)
    if there.how == "closed" and there.facts.get("arriving.by") == attempt:
        place.rename(CLOSED, "")
        place.upgrade()
        place.rows("DELETE FROM board WHERE name LIKE 'arriving%' OR name LIKE 'moved%'")
        place.rows("INSERT INTO board VALUES ('origin', ?), ('origin.by', ?)", origin, attempt)
    place.commit()
