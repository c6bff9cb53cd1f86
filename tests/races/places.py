"""Where the boards of these tests live: a new engine is one function here, and no test changes.

Workers get nothing but the address, as agents do, and open it themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest


@contextmanager
def sqlite(folder: Path) -> Iterator[str]:
    """A file that does not exist yet."""
    yield os.fspath(folder / "board.db")


PLACES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {"sqlite": sqlite}


@pytest.fixture(params=sorted(PLACES))
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh board on each engine."""
    with PLACES[request.param](tmp_path) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A fresh SQLite file, for hazards that only a file has."""
    return os.fspath(tmp_path / "board.db")
