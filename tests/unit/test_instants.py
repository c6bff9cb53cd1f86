"""Expressions: whatever somebody writes is read or refused, and what is read comes round in order, each moment once."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiebreak import Invalid
from tiebreak.clock import SECOND
from tiebreak.operations.instants import instants, newest
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


@pytest.mark.parametrize("zone", ["Europe", "Europe/Nowhere", "../UTC", "", "\0", "x" * 200, "ü"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid, match="zone"):
        instants("* * * * *", zone, START)
