"""A fresh board for each crash, on every engine."""

from __future__ import annotations

from tests.races.places import address, path

__all__ = ["address", "path"]
