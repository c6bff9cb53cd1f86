"""Cron expressions: any text is accepted or refused, and an accepted one gives its instants in order, each once."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import cronsim
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiebreak import Invalid
from tiebreak.clock import SECOND
from tiebreak.operations.cron_times import in_words, instants, newest
from tiebreak.text import parse_rfc3339

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo", "Australia/Lord_Howe", "Pacific/Apia"]
START = int(parse_rfc3339("2031-03-29T00:00:00Z")) * SECOND
FIELD = st.text("0123456789*/,-LW#?MONJAN", min_size=1, max_size=8)
MINUTES = st.sampled_from(["*", "0", "30", "*/20", "0,30", "15-45/15", "59"])
HOURS = st.sampled_from(["*", "0", "1", "2", "3", "*/2", "0-4", "1,2"])
DAYS = st.sampled_from(["*", "1", "L", "29-31"])


@settings(deadline=None)
@given(st.lists(FIELD, min_size=1, max_size=7), st.sampled_from(ZONES))
def test_whatever_is_written_is_read_or_refused(fields: list[str], zone: str) -> None:
    try:
        found = list(islice(instants(" ".join(fields), zone, START), 3))
    except Invalid:
        return
    assert found == sorted(set(found))


@settings(deadline=None)
@given(MINUTES, HOURS, DAYS, st.sampled_from(ZONES), st.integers(0, 400 * 86_400))
def test_instants_go_forward_from_any_moment_in_any_zone(m: str, h: str, d: str, zone: str, later: int) -> None:
    after = START + later * SECOND
    found = list(islice(instants(f"{m} {h} {d} * *", zone, after), 60))
    assert all(a < b for a, b in pairwise([after, *found]))


@settings(deadline=None)
@given(MINUTES, HOURS, st.sampled_from(ZONES), st.integers(0, 400 * 86_400), st.integers(1, 40))
def test_the_newest_is_the_last_one_until_now(m: str, h: str, zone: str, later: int, count: int) -> None:
    found = list(islice(instants(f"{m} {h} * * *", zone, START + later * SECOND), count + 1))
    for now in (found[-2], found[-1] - 1):
        assert newest(f"{m} {h} * * *", zone, found[0], now) == (found[-2] if now >= found[0] else found[0])


# Around changes of the clock: by half an hour (Lord Howe), an hour, two (Troll), and a whole day (Apia).
CHANGES = [
    ("Australia/Lord_Howe", "2026-04-03T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-02T00:00:00Z"),
    ("Europe/Berlin", "2026-03-28T00:00:00Z"),
    ("Europe/Berlin", "2026-10-24T00:00:00Z"),
    ("Antarctica/Troll", "2026-10-24T00:00:00Z"),
    ("Pacific/Apia", "2011-12-29T00:00:00Z"),
]
REAL_TIME = ["* * * * *", "* 2 * * *", "*/10 2 * * *", "*/7 1-2 * * *", "30 * * * *", "0 */2 * * *", "*/15 0,2 * * *"]
WINDOW = 3 * 86_400


def shown_on_the_wall(expression: str, zone: str, begin: int) -> list[int]:
    """The moments of a window at which the clock on the wall shows a matching time, found minute by minute."""
    parts = cronsim.CronSim(expression, datetime(2026, 1, 1))
    found = []
    for at in range(begin + 60, begin + WINDOW, 60):
        wall = datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(zone))
        if wall.minute in parts.minutes and wall.hour in parts.hours:
            found.append(at * SECOND)
    return found


@pytest.mark.parametrize("expression", REAL_TIME)
@pytest.mark.parametrize(("zone", "begin"), CHANGES)
def test_the_next_instant_does_not_depend_on_where_the_search_begins(zone: str, begin: str, expression: str) -> None:
    first = int(parse_rfc3339(begin))
    expected = shown_on_the_wall(expression, zone, first)
    assert list(islice(instants(expression, zone, first * SECOND), len(expected))) == expected
    some = random.Random(expression)
    starts = [(first + some.randrange(WINDOW - 86_400)) * SECOND for _ in range(60)]
    starts += [at + d * SECOND for at in some.sample(expected, min(len(expected), 20)) for d in (-1, 0, 1)]
    for start in starts:
        after = [at for at in expected if at > start]
        if after:
            assert next(instants(expression, zone, start)) == after[0], start
        until_now = [at for at in expected if at <= start]
        if until_now:
            assert newest(expression, zone, until_now[0], start) == until_now[-1], start


@pytest.mark.parametrize("zone", ["Europe", "Europe/Nowhere", "../UTC", "", "\0", "x" * 200, "ü"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid, match="zone"):
        instants("* * * * *", zone, START)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 9 * * MON-FRI", "At 09:00 on Monday through Friday"),
        ("*/5 * * * *", "Every fifth minute of every hour"),
        ("@daily", "At 00:00 every day"),
        ("not cron", ""),
    ],
)
def test_an_expression_is_told_in_words(expression: str, words: str) -> None:
    assert in_words(expression) == words
