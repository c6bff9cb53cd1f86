"""Instants: when a cron expression comes round, in a time zone, in board time.

The library reads the expression and walks the calendar; what it gives is only trusted to be near the truth. Here an
instant counts if it lies after the one before, so that the clock's two passes through an hour in autumn, and several
times that fall into the hour missing in spring, never make one moment come twice.

What daylight saving means, as in Debian's cron: a fixed time that the clock leaps over runs as soon as the leap is
done, one that it passes twice runs the first time; what runs every so many minutes or every hour follows real time.
"""

from __future__ import annotations

from ..clock import SECOND
from ..errors import Invalid, Unavailable
from ..names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from typing import Any

EXTRA = "pip install 'tiebreak[cron]'"
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = "minute hour day month weekday, e.g. '*/5 * * * *' or '0 9 * * MON-FRI'; or @hourly, @daily, @weekly …"


def library() -> Any:
    """The library that reads expressions; `Unavailable` where it is not installed."""
    try:
        import cronsim
    except ImportError as exc:
        raise Unavailable("schedules: cronsim is not installed here", hint=f"they are an extra: {EXTRA}") from exc
    return cronsim


def installed() -> bool:
    """Whether this process can read expressions at all."""
    try:
        return library() is not None
    except Unavailable:
        return False


def instants(expression: str, zone: str, after: int) -> Iterator[int]:
    """The instants of an expression after a moment, in order, each once; `Invalid` if it is none."""
    from datetime import UTC, datetime

    cronsim = library()
    start = datetime.fromtimestamp(after // SECOND, UTC).astimezone(_zone(zone))
    try:
        walk = cronsim.CronSim(NAMED.get(expression.strip().lower(), expression), start)
    except cronsim.CronSimError as exc:
        said = f"{exc}"
        raise Invalid(f"expression: {said[:1].lower()}{said[1:]} in {shown(expression)}", hint=_FIELDS) from None
    return _onward(walk, after)


def _onward(walk: Iterator[Any], after: int) -> Iterator[int]:
    for moment in walk:
        at = round(moment.timestamp()) * SECOND
        if at > after:
            after = at
            yield at


def _zone(name: str) -> tzinfo:
    from datetime import UTC

    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise Invalid(f"zone: {shown(name)} is not a time zone here", hint="e.g. Europe/Berlin or UTC") from None


def first(expression: str, zone: str, after: int) -> int:
    """The first instant after a moment; 0 if there will be none."""
    return next(instants(expression, zone, after), 0)


def newest(expression: str, zone: str, oldest: int, now: int) -> int:
    """The last instant until now, if `oldest` is one of them.

    Looked for backwards from now in growing steps: a year of missed seconds costs no more than a minute of them.
    """
    back = 60 * SECOND
    while now - back > oldest:
        found = first(expression, zone, now - back)
        if 0 < found <= now:
            oldest = found
            break
        back *= 2
    for instant in instants(expression, zone, oldest):
        if instant > now:
            break
        oldest = instant
    return oldest
