"""A board on each engine, into which backups are restored; its log is judged when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import tb
from tests.log.boards import logs_are_sound, unchecked
from tests.races.places import PLACES

__all__ = ["logs_are_sound", "tb", "unchecked"]


@pytest.fixture(params=["postgres", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh board."""
    with PLACES[request.param](tmp_path) as made:
        yield made
