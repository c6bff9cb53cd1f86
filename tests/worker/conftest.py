"""A fresh board for each test, and nothing left running after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.boards import logs_are_sound, unchecked

from .shop import Shop

__all__ = ["logs_are_sound", "unchecked"]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A board of its own."""
    made = Shop(tmp_path)
    yield made
    made.close()
