"""The one primitive: everything that can be won is won, kept and given back by the statements below.

    UPDATE … SET holder = me, epoch = epoch + 1, until = now + lease WHERE … AND (free OR expired)

One row: I won. No row: somebody else did, and I am told who. Tasks and holds are different tables with
the same four columns (`holder`, `epoch`, `until`, `displaced`), and every statement that writes them is put
together from the clauses below.

Why it is safe: the database serialises writers of one row, so of any number of callers exactly one finds
the row free; the epoch is raised by the same statement that decides, so it counts grants without a gap;
and every later write names holder *and* epoch *and* an unexpired lease in its WHERE clause, so a holder
whose grant has passed on changes nothing, however late its write arrives.
"""

from __future__ import annotations

from ..errors import Fenced, Lost
from ..names import short
from ..text import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import Transaction

FREE = "(holder IS NULL OR until <= {now})"
LIVE = "(holder IS NOT NULL AND until > {now})"
MINE = "(holder = :agent AND until > {now} AND (:epoch = 0 OR epoch = :epoch))"
"""The fence: this incarnation, this grant, not yet expired."""

MINE_EACH = "(holder = :agent AND until > {now} AND epoch = given.e)"
"""The same for several rows at once, each named with its epoch in `given` (see `rows`)."""

GRANT = "displaced = holder, holder = :agent, epoch = epoch + 1, until = {now} + :lease"
PASS_ON = "displaced = NULL, holder = :to, epoch = epoch + 1, until = {now} + :lease"
EXTEND = "until = {now} + :lease"
GIVE_BACK = "displaced = NULL, holder = NULL, until = 0"
CLOSE = "displaced = NULL, until = 0"
"""The grant ends with its task; the holder stays, to tell who ended it."""


def winning(table: str, also: str, where: str, returning: str) -> str:
    """The statement that wins one row: the row as it is now, or no row if it was not free."""
    return f"UPDATE {table} SET {GRANT}{also} WHERE {where} AND {FREE} RETURNING {returning}"


def writing(table: str, change: str, where: str, returning: str) -> str:
    """The statement that changes a row as its holder: the row as it is now, or no row if the fence stopped it."""
    return f"UPDATE {table} SET {change} WHERE {where} AND {MINE} RETURNING {returning}"


def by_name(column: str, param: str = "who") -> str:
    """A condition: the agent id in this column is the named agent, in any incarnation."""
    return f"({column} = :{param} OR substr({column}, 1, length(:{param}) + 1) = :{param} || '~')"


def granted_by(subject: str, epoch: str) -> str:
    """An expression: the number of the event by which the grant with this epoch was made."""
    return (
        f"(SELECT grants.number FROM events AS grants WHERE grants.subject = {subject} AND grants.epoch = {epoch} "
        "AND grants.event IN ('task.claimed', 'hold.taken', 'hold.transferred') ORDER BY grants.number DESC LIMIT 1)"
    )


def lost(
    tx: Transaction,
    what: str,
    subject: str,
    *,
    agent: str,
    holder: str,
    until: int,
    epoch: int,
    hint: str,
    since: int | None = None,
    **facts: Any,
) -> Lost:
    """The refusal for somebody who came second: who has it, until when, and since which event."""
    left = max(0, until - tx.now) / 1_000_000
    if since is None:
        row = tx.first(f"SELECT {granted_by(':subject', ':epoch')}", subject=subject, epoch=epoch)
        since = row[0] if row else None
    whose = "you" if holder == agent else short(holder)
    if whose == short(agent):
        whose = f"another {whose} (session {holder.partition('~')[2] or 'unnamed'})"
    return Lost(
        f"{what} is held by {whose} for another {span(left)} (epoch {epoch})",
        hint=hint,
        holder=short(holder),
        session=holder.partition("~")[2],
        until=until / 1_000_000,
        left=left,
        epoch=epoch,
        since=since,
        **facts,
    )


def fenced(what: str, *, agent: str, epoch: int, row: tuple[str | None, int, int], now: int, again: str) -> Fenced:
    """The refusal for a write that came too late; `row` is the grant as it is: holder, epoch, until."""
    holder, current, until = row
    facts = {
        "holder": short(holder) if holder else None,
        "epoch": current,
        "until": until / 1_000_000 or None,
    }
    if holder == agent and epoch in (0, current):
        late = span((now - until) / 1_000_000)
        return Fenced(f"{what}: your lease ran out {late} ago, nothing was written", hint=again, **facts)
    if holder is None:
        return Fenced(f"{what} is not held by you, nothing was written", hint=again, **facts)
    if holder == agent:
        reason = f"your epoch {epoch} is not the current one ({current})"
    elif short(holder) == short(agent):
        reason = f"it is held by another {short(holder)} (session {holder.partition('~')[2] or 'unnamed'})"
    else:
        reason = f"it is held by {short(holder)} (epoch {current})"
    return Fenced(f"{what}: {reason}, nothing was written", hint="stop working on it", **facts)
