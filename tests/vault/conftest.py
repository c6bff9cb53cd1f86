"""Every case with a `place` runs once on every engine, as the conformance suite does."""

from __future__ import annotations

from tests.conformance.conftest import place, pytest_generate_tests  # noqa: F401
