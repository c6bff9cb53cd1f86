"""The boards that a test has used: the checker reads the log of each of them when the test is over.

A folder of tests takes part by importing the two fixtures in its `conftest`. A file is still there at the end of its
test. A database is not, so whoever drops or empties one calls `keep` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tiebreak
from tiebreak import Event

from .checker import Broken, check, read

_kept: dict[str, list[Event]] | None = None
"""The logs to be judged at the end of this test; None where nobody judges them."""


def keep(address: str) -> None:
    """Read the log of a board that is about to go away; it is judged at the end of the test."""
    if _kept is not None:
        _kept[address] = _log(address)


def judge(address: str) -> None:
    """Read the log of a board and judge it now: for a board that several tests have shared."""
    _judge(address, _log(address))


def _log(address: str) -> list[Event]:
    with tiebreak.open(address, agent="judge~1", project="judge") as board:
        return read(board)


def _judge(address: str, events: list[Event]) -> None:
    try:
        check(events)
    except Broken as exc:
        raise Broken(f"the log of {address}: {exc}") from None


@pytest.fixture
def unchecked() -> None:
    """For tests that plant a bug or damage a board: its log is not judged."""


@pytest.fixture(autouse=True)
def logs_are_sound(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """After each test, judge the logs of all boards in its folder and of those that were kept."""
    global _kept
    if "unchecked" in request.fixturenames:
        yield
        return
    logs = _kept = {}
    yield
    _kept = None
    for address, events in logs.items():
        _judge(address, events)
    for file in sorted(tmp_path.rglob("*.db")):
        judge(str(file))
