"""How the tests are shared out among processes, and what holds for all that is made up at random."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

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
LONG = (
    "tests/crash/",
    "tests/faults/",
    "tests/guard/walk/",
    "tests/histories/",
    "tests/installed/",
    "tests/interleavings/",
    "tests/races/",
    "tests/sessions/",
    "tests/worker/",
)
"""Where many a test takes seconds."""

# A busy machine is no reason to fail, nor is luck: the same examples each time, however long they take.
settings.register_profile("busy", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


# A shell ignores SIGINT in what it starts in the background, and every process of a test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """Whoever is free gets the next test, or file of tests. (The groups of xdist 3.8 have no effect with pytest 9.)

    What has been run is forgotten at once. Xdist keeps it: with a unit for each of many thousand tests, looking through
    all of them after each test takes longer than many tests do, and when a process dies its finished units are handed
    out again, to a process that then waits for ever for something to run.
    """

    _numbers: dict[str, int] | None = None

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0] if nodeid.startswith(TOGETHER) else nodeid

    def _assign_work_unit(self, node: Any) -> None:
        scope, unit = self.workqueue.popitem(last=False)
        self.assigned_work[node][scope] = unit
        if self._numbers is None:
            self._numbers = {nodeid: number for number, nodeid in enumerate(self.collection)}
        node.send_runtest_some([self._numbers[nodeid] for nodeid in unit])

    def _reschedule(self, node: Any) -> None:
        """A process runs a test when it knows the one after it, or that there is none: let it have two, or an end."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        nodeid = self.collection[item_index]
        scope = self._split_scope(nodeid)
        unit = self.assigned_work[node][scope]
        del unit[nodeid]
        if not unit:
            del self.assigned_work[node][scope]
        self._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        """A process has ended. The test in which it died, if it did, has failed; others do the rest of its work."""
        left = self.assigned_work.pop(node)
        if not left:
            return None
        first = next(iter(left.values()))
        died_in: str = next(iter(first))
        del first[died_in]
        self.workqueue.update({scope: unit for scope, unit in left.items() if unit})
        for other in self.assigned_work:
            self._reschedule(other)
        return died_in


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile the tests once if they are new here: else every process does so, all at the same moment.

    Pytest rewrites their assertions, which takes longer than all the rest of collecting them.
    """
    if sys.dont_write_bytecode or sys.pycache_prefix or config.args_source != config.ArgsSource.TESTPATHS:
        return
    folder = Path(__file__).parent
    compiled = f"__pycache__/{{}}.{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    new = [file for file in folder.glob("*/test_*.py") if not (file.parent / compiled.format(file.stem)).exists()]
    if len(new) > 20:
        words = [sys.executable, "-m", "pytest", "-qq", "--collect-only", "-p", "no:cacheprovider"]
        shares = [[os.fspath(file) for file in new[first::2]] for first in range(2)]
        collecting = [subprocess.Popen([*words, *share], stdout=subprocess.DEVNULL) for share in shares]
        for each in collecting:
            each.wait()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing:
    """Asked once, by the process that shares out."""
    config.option.loadscopereorder = False
    return Sharing(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes early, so that no process has to be waited for at the end: files, then tests of seconds."""
    items.sort(key=lambda item: (not item.nodeid.startswith(TOGETHER), not item.nodeid.startswith(LONG)))
