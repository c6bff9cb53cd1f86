"""Compatibility."""

from __future__ import annotations
