"""Cron times: the instants of a cron expression in a time zone, in board time.

A library (cronsim) parses the expression and walks the calendar. Its results are checked: an instant counts only if it
is later than the one before. So no moment comes twice, whether the clock passes an hour twice (in autumn) or several
times fall into an hour that is missing (in spring).

Daylight saving follows Debian's cron. A fixed time that the clock skips runs right after the skip. A fixed time that
the clock passes twice runs the first time. An expression that runs every so many minutes or every hour follows real
time.

To follow real time means: a moment is an instant if the wall clock shows a matching time then. The library steps from
hour to hour instead, and goes wrong where the clock changes by half an hour. So between two changes of the clock the
library gets plain times without a zone, and at each change it starts again. Which moments are instants then depends
only on the zone, not on the moment at which the walk starts.
"""

from __future__ import annotations

from ..clock import SECOND
from ..errors import Invalid, Unavailable
from ..names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime, tzinfo
    from typing import Any

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
    """The library that parses expressions; raises `Unavailable` if it is not installed."""
    try:
        import cronsim
    except ImportError as exc:
        from ..installation import missing_extra

        raise missing_extra("schedules: cronsim is not installed here", "cron") from exc
    return cronsim


def installed() -> bool:
    """Whether this process can parse expressions."""
    try:
        return library() is not None
    except Unavailable:
        return False


def instants(expression: str, zone: str, after: int) -> Iterator[int]:
    """The instants of an expression after a moment, in order, each once; raises `Invalid` for a bad expression."""
    from datetime import UTC, datetime

    cronsim = library()
    where = _zone(zone)
    start = datetime.fromtimestamp(after // SECOND, UTC).astimezone(where)
    expression = NAMED.get(expression.strip().lower(), expression)
    try:
        walk = cronsim.CronSim(expression, start)
    except cronsim.CronSimError as exc:
        said = f"{exc}"
        raise Invalid(f"expression: {said[:1].lower()}{said[1:]} in {shown(expression)}", hint=_FIELDS) from None
    if where is UTC or walk.fixup_tz is not None:  # in these cases the library handles daylight saving itself
        return _increasing(walk, after)
    return _in_real_time(lambda shown: cronsim.CronSim(expression, shown), where, after // SECOND)


def _in_real_time(walk_from: Callable[[datetime], Iterator[datetime]], zone: tzinfo, after: int) -> Iterator[int]:
    """The moments at which the wall clock of a zone shows a matching time, in order."""
    from datetime import datetime, timedelta

    epoch = datetime(1970, 1, 1)  # without a zone, like what a wall clock shows
    changed = True
    while changed:
        offset, changed = _offset(zone, after + 1), False
        for wall in walk_from(epoch + timedelta(seconds=after + offset)):
            at = int((wall - epoch).total_seconds()) - offset
            change = _change(zone, after + 1, at)
            if change is not None:
                after, changed = change - 1, True
                break
            after = at
            yield at * SECOND


def _offset(zone: tzinfo, at: int) -> int:
    """By how many seconds the wall clock is ahead of UTC at a moment."""
    from datetime import UTC, datetime, timedelta

    return int((datetime.fromtimestamp(at, UTC).astimezone(zone).utcoffset() or timedelta()).total_seconds())


def _change(zone: tzinfo, begin: int, end: int) -> int | None:
    """The first moment after `begin`, up to `end`, at which the wall clock has been changed; None if there is none.

    The search goes from day to day: no zone changes its clock and changes it back within one day.
    """
    offset = _offset(zone, begin)
    while begin < end:
        later = min(begin + 86_400, end)
        if _offset(zone, later) != offset:
            while later - begin > 1:
                middle = (begin + later) // 2
                begin, later = (middle, later) if _offset(zone, middle) == offset else (begin, middle)
            return later
        begin = later
    return None


def _increasing(walk: Iterator[Any], after: int) -> Iterator[int]:
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
    """The last instant up to now, where `oldest` is an instant.

    The search goes backwards from now in growing steps: a year of missed seconds costs no more than a minute of them.
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


def in_words(expression: str) -> str:
    """An expression in English, as "At 09:00 on Monday through Friday"; "" if this process cannot parse it."""
    from datetime import UTC, datetime

    if not installed():
        return ""
    cronsim = library()
    try:
        parsed = cronsim.CronSim(NAMED.get(expression.strip().lower(), expression), datetime.now(UTC))
    except cronsim.CronSimError:
        return ""
    return str(parsed.explain())
