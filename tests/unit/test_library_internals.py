"""The parts of libraries that are used although they are not their public interface.

A new version may change them without notice. Each test names one such part and says what it is needed for, so a failure
here tells what to look at before a bound in `pyproject.toml` is raised.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import cronsim
import pytest

import tiebreak

SOURCES = os.path.dirname(os.path.dirname(tiebreak.__file__))

# ── cronsim ──────────────────────────────────────────────────────────────────────────────────────────────

BERLIN = ZoneInfo("Europe/Berlin")
FIXUP = "cronsim's `fixup_tz` is gone; operations/cron_times.py asks it who handles daylight saving"


@pytest.mark.parametrize(("expression", "fixed"), [("30 2 * * *", True), ("*/5 * * * *", False), ("0 * * * *", False)])
def test_cronsim_still_tells_fixed_times_from_intervals(expression: str, fixed: bool) -> None:
    walk = cronsim.CronSim(expression, datetime(2026, 3, 1, tzinfo=BERLIN))
    assert hasattr(walk, "fixup_tz"), FIXUP
    assert (walk.fixup_tz is not None) == fixed


# ── apsw ─────────────────────────────────────────────────────────────────────────────────────────────────

LOAD = "import sys; assert 'collections' not in sys.modules; from tiebreak.cli import _load_apsw; _load_apsw(); "


def run(code: str, *folders: Path) -> str:
    """Run code in a process that has imported nothing of the standard library's larger modules."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    path = os.pathsep.join([*map(str, folders), SOURCES, *packages])
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOAD + code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_apsw_still_needs_nothing_of_collections_but_its_abstract_classes() -> None:
    loaded = run("print(*({'apsw', 'collections'} & set(sys.modules)))")
    assert loaded == "apsw", "cli._load_apsw no longer saves the import of `collections`"


def test_a_version_of_apsw_that_needs_more_is_imported_as_usual(tmp_path: Path) -> None:
    (tmp_path / "apsw.py").write_text("from collections import OrderedDict\n")
    said = run("import apsw; print(apsw.OrderedDict.__module__, sys.modules['collections'].__name__)", tmp_path)
    assert said == "collections collections"
