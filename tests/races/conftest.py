"""A fresh board for each race, on every engine."""

from __future__ import annotations

import pytest

from .places import address, path

__all__ = ["address", "path"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test starts first, so that the others run beside it and not before it."""
    items.sort(key=lambda item: "test_churn.py" not in item.nodeid)
