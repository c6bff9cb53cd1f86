"""A fresh board for each crash: a file, with or without a daemon, or a database on a server that may crash, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.boards import logs_are_sound, unchecked
from tests.postgres import Server, server
from tests.races import places
from tests.races.places import PLACES, path

__all__ = ["address", "logs_are_sound", "path", "unchecked"]


@pytest.fixture(params=sorted(PLACES.keys() - {"postgres"}))
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh board in a file, whose events have no gap whatever is killed."""
    with PLACES[request.param](tmp_path) as made:
        yield made


@pytest.fixture
def database() -> Iterator[str]:
    """The address of a fresh board on PostgreSQL."""
    with places.database(server()) as made:
        yield made


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    """A server that a test may kill."""
    made = Server()
    yield made
    made.close()
