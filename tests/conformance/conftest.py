"""Every case of the suite runs once on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tiebreak import Board

from .engines import ENGINES, MORE, Place

# Each half of the first one runs by itself with every `make test`; both together take their time, as do the others.
SOAK = {"postgres-daemon", *MORE}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every engine. Those of `make soak` are left out here: to collect and leave thousands of tests takes seconds."""
    if "place" in metafunc.fixturenames:
        quick = metafunc.config.option.markexpr == "not soak"
        names = [name for name in sorted({*ENGINES, *MORE}) if not quick or name not in SOAK]
        marked = [pytest.param(name, marks=pytest.mark.soak) if name in SOAK else name for name in names]
        metafunc.parametrize("place", marked, indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A fresh board on each engine."""
    made: Place = {**ENGINES, **MORE}[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def alice(place: Place) -> Board:
    """The board as alice sees it."""
    return place.open("alice")


@pytest.fixture
def bob(place: Place) -> Board:
    """The same board as bob sees it."""
    return place.open("bob")
