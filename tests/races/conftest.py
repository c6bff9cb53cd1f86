"""A fresh board for each race, on every engine."""

from __future__ import annotations

from tests.log.boards import logs_are_sound, unchecked

from .places import address, path

__all__ = ["address", "logs_are_sound", "path", "unchecked"]
