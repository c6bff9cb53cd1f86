"""A fresh board for each race, on every engine."""

from __future__ import annotations

from .places import address, path

__all__ = ["address", "path"]
