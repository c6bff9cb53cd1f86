"""A board of every older version on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from .old import ENGINES, VERSIONS, OldBoard

BOARDS = [pytest.param(each, id=f"{each[0]}-{each[1]}") for each in product(ENGINES, VERSIONS)]


@pytest.fixture(params=BOARDS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldBoard]:
    """A board of an older version that a process of that version has open."""
    engine, made = request.param
    with ENGINES[engine](tmp_path, made) as opened:
        yield opened


@pytest.fixture(scope="module", params=BOARDS)
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldBoard]:
    """Such a board after an upgrade, to look at; `was` tells what was in it before."""
    engine, made = request.param
    with ENGINES[engine](tmp_path_factory.mktemp("upgraded"), made) as opened:
        opened.was = opened.rows()
        opened.open().close()
        yield opened
