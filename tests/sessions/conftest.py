"""A fresh arena for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.boards import logs_are_sound, unchecked

from ..cli.command import measured
from .arena import Arena

__all__ = ["logs_are_sound", "unchecked"]


@pytest.fixture
def arena(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Arena]:
    """A home, a board and a tmux server that nobody else has."""
    made = Arena(tmp_path)
    if request.path.name != "test_races.py":  # a race is run for its counts
        made.tb.environment.update(measured())
    yield made
    made.close()
