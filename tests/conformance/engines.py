"""The engines that the conformance suite runs on: a new engine is one class here and nothing else.

The suite is the definition of an engine. It knows a board only through `Place`: somewhere to open boards as
this agent or that one, and a clock that a test can move.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import tiebreak
from tiebreak import Board
from tiebreak.clock import micros, wall


class Place(Protocol):
    """A fresh board of its own for one test."""

    def open(self, agent: str = "alice", project: str = "demo") -> Board:
        """The board, as seen by an agent; several may be open at once, as in several processes."""

    def advance(self, seconds: float) -> None:
        """Let board time pass."""

    def close(self) -> None:
        """Clean up."""


class SqlitePlace:
    """A SQLite file in a temporary folder, with a clock that only the test moves."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "board.db"
        self.now = wall()
        self._boards: list[Board] = []

    def open(self, agent: str = "alice", project: str = "demo") -> Board:
        session = agent if "~" in agent else f"{agent}~test"
        board = tiebreak.open(os.fspath(self.path), agent=session, project=project, clock=lambda: self.now)
        self._boards.append(board)
        return board

    def advance(self, seconds: float) -> None:
        self.now += micros(seconds)

    def close(self) -> None:
        for board in self._boards:
            board.close()


ENGINES = {"sqlite": SqlitePlace}
