"""Every case of the suite runs once on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tiebreak import Board

from .engines import ENGINES, MORE, Place

# Each half of the last one runs by itself with every `make test`; both together take their time.
WHOLE = [pytest.param(name, marks=pytest.mark.soak) if name == "postgres-daemon" else name for name in sorted(ENGINES)]
WHOLE += [pytest.param(name, marks=pytest.mark.soak) for name in sorted(MORE)]


@pytest.fixture(params=WHOLE)
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
