"""How the tests are shared out among processes, and what holds for all that is made up at random."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = (
    "tests/compat/",
    "tests/daemon/",
    "tests/postgres_only/test_plans.py",
    "tests/races/test_remote_retries.py",
    "tests/security/",
)
"""Where the tests of a file share what takes long to make: one process runs them all."""
FIRST = "tests/races/test_churn.py::test_epochs_have_no_gap_after_a_minute_of_churn[sqlite]"
"""The longest test starts first, so that the others run beside it and not before it."""

# A busy machine is no reason to fail, nor is luck: the same examples each time, however long they take.
settings.register_profile("busy", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """Whoever is free gets the next test, or file of tests. (The groups of xdist 3.8 have no effect with pytest 9.)"""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0] if nodeid.startswith(TOGETHER) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing:
    """Asked once, by the process that shares out."""
    config.option.loadscopereorder = False
    return Sharing(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole files come early, so that none of them is left for one process at the end."""
    items.sort(key=lambda item: (item.nodeid != FIRST, not item.nodeid.startswith(TOGETHER)))
