"""A fresh arena for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .arena import Arena


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    """A home, a board and a tmux server that nobody else has."""
    made = Arena(tmp_path)
    yield made
    made.close()
