"""A daemon under a mixed load stays as it is, and the benchmark that says so would notice if it did not."""

from __future__ import annotations

import sys

import pytest
from benchmarks import endurance
from benchmarks.__main__ import main
from benchmarks.endurance import Endured, Look, drawing, endure
from benchmarks.load_mix import COUNTED

SECONDS = 40.0


def looks(count: int, *, memory: float = 0.0, descriptors: float = 0.0, wal: float = 0.0) -> Endured:
    """A run in which these grow by so much from one look to the next."""
    rates = dict.fromkeys(COUNTED, 100.0)
    return Endured(
        [
            Look(i / 12, 100 + memory * i, int(60 + descriptors * i), 12, 8 + wal * i, rates, 1.0, 5.0)
            for i in range(count)
        ]
    )


def test_what_does_not_grow_is_flat() -> None:
    assert looks(120).grown() == []


@pytest.mark.parametrize(
    ("growing", "said"),
    [
        ({"memory": 0.15}, "memory grew from 108.9 to 114.9 MiB"),
        ({"descriptors": 0.25}, "descriptors grew from 74.5 to 84.5"),
        ({"wal": 0.3}, "WAL grew from 25.9 to 37.9 MiB"),
    ],
    ids=lambda given: "".join(given) if isinstance(given, dict) else "",
)
def test_what_grows_slowly_is_named(growing: dict[str, float], said: str) -> None:
    assert looks(120, **growing).grown() == [said]


def test_requests_that_become_fewer_are_named() -> None:
    slower = looks(120)
    for i in range(80, 120):
        slower.looks[i] = slower.looks[i]._replace(rates=dict.fromkeys(COUNTED, 50.0))
    assert slower.grown() == ["requests fell from 500 to 250 per second"]


def test_a_single_peak_is_not_growth() -> None:
    steady = looks(120)
    steady.looks[110] = steady.looks[110]._replace(memory=400.0, wal=300.0)
    assert steady.grown() == []


def test_the_figure_has_four_panels_and_every_moment() -> None:
    from xml.etree import ElementTree

    drawn = ElementTree.fromstring(drawing(looks(120), 10))
    lines = [each for each in drawn.iter() if each.tag.endswith("polyline")]
    assert [len(str(each.get("points")).split()) for each in lines] == [120] * 6
    names = [each.text for each in drawn.iter() if each.get("class") == "name"]
    assert len(names) == 4
    assert [each.text for each in drawn.iter() if each.get("class") == "unit"] == ["minutes"] * 4


@pytest.mark.parametrize("growth", [0.0, 1.0], ids=["flat", "growing"])
def test_the_command_fails_if_something_grows(
    growth: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(endurance, "endure", lambda seconds: looks(120, memory=growth))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "endurance", "--quick"])
    if growth:
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
    else:
        main()
    assert ("FAILED: memory grew" in capsys.readouterr().out) == bool(growth)


@pytest.mark.soak
def test_a_daemon_under_load_stays_flat() -> None:
    assert endure(SECONDS).grown() == []


@pytest.mark.soak
def test_a_daemon_that_keeps_every_refusal_is_caught() -> None:
    [grown] = endure(SECONDS, "leaking").grown()
    assert grown.startswith("memory grew from")
