"""A long wait queue: its cost must not grow with the cube of its length, because a whole project waits meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

import tiebreak
from tiebreak.held_files import conflict
from tiebreak.operations import wait_queue

WAITERS = 30


def test_a_look_compares_each_pair_a_few_times_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tiebreak.open(str(tmp_path / "board.db"), agent="ann", project="demo") as ann:
        ann.take("lock:x")
        for number in range(WAITERS):
            ann.waits.enter(resources=["lock:x"], agent=f"agent-{number}~1")
        compared = 0

        def counted(a: str, b: str) -> bool:
            nonlocal compared
            compared += 1
            return conflict(a, b)

        monkeypatch.setattr(wait_queue, "conflict", counted)
        assert len(ann.waits.list()) == WAITERS
    assert compared < 3 * WAITERS * WAITERS
