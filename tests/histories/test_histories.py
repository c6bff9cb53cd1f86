"""Eight processes through kills, stops, restarts and slow lines: nothing is doubled, stale, lost or slept through.

make soak ARGS='tests/histories'                      # three minutes on each stage
TIEBREAK_HISTORY_SECONDS=600 make soak ARGS='tests/histories -k postgres'
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres import Server

from .history import lived, summary
from .judge import judge
from .stages import STAGES

SHORT = 2.5
SECONDS = float(os.environ.get("TIEBREAK_HISTORY_SECONDS", "180"))


def run(
    name: str, folder: Path, server: Callable[[], Server], seconds: float, seed: int, tell: pytest.CaptureFixture[str]
) -> None:
    """One history on one stage, and what becomes of it."""
    with STAGES[name](folder, server) as stage, lived(stage, folder, seconds, seed) as history:
        with tell.disabled():
            print(f"\n{name}, {seconds:g} s: {summary(history)}")
        judge(history)


@pytest.mark.parametrize("stage", ["file", "postgres"])
def test_a_short_history(
    stage: str, tmp_path: Path, mortal: Callable[[], Server], capsys: pytest.CaptureFixture[str]
) -> None:
    run(stage, tmp_path, mortal, SHORT, 1, capsys)


@pytest.mark.soak
@pytest.mark.timeout(2 * SECONDS + 600)
@pytest.mark.parametrize("stage", STAGES)
def test_a_long_history(
    stage: str, tmp_path: Path, mortal: Callable[[], Server], capsys: pytest.CaptureFixture[str]
) -> None:
    run(stage, tmp_path, mortal, SECONDS, 2, capsys)
