"""A board of version 1 on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .old import ENGINES, OldBoard


@pytest.fixture(params=ENGINES)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldBoard]:
    """A board of version 1 that a process of version 1 has open."""
    with ENGINES[request.param](tmp_path) as made:
        yield made
