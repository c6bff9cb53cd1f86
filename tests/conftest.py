"""How the tests are shared out among processes."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = {"tests/postgres_only/test_plans.py"}
"""Files whose tests share what takes long to make: one process runs them all."""
FIRST = "tests/races/test_churn.py"
"""The longest tests start first, so that the others run beside them and not before them."""


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """Whoever is free gets the next test. (The groups of xdist 3.8 have no effect with pytest 9.)"""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file in TOGETHER else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing:
    """Asked once, by the process that shares out."""
    return Sharing(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: FIRST not in item.nodeid)
