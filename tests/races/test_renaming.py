"""Renaming a project while many processes write to it: nobody wins twice, and no epoch is lost or given twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import tiebreak
from tiebreak import Lost

from .crew import race
from .places import PLACES
from .scenarios import Run

NAMES = ("shop", "store", "example.org/acme/shop")
TURNS = 25


def renamer(address: str, agent: str, turns: int) -> Run:
    """Rename the project again and again; 0 grants."""
    yield
    for name in itertools.islice(itertools.cycle((*NAMES[1:], NAMES[0])), turns):
        with tiebreak.open(address, agent=f"{agent}~1", project=NAMES[0]) as board:
            board.projects.rename(name=name)
    return []


def taker(address: str, agent: str, turns: int) -> Run:
    """Take and give back a lock, always by the same old name; the epochs that were won."""
    board = tiebreak.open(address, agent=f"{agent}~1", project=NAMES[0])
    won: list[int] = []
    yield
    for _ in range(turns):
        try:
            [hold] = board.holds.take(resources=["lock:deploy"])
        except Lost:
            continue
        won.append(hold.epoch)
        board.holds.release(resources=["lock:deploy"], epochs=[hold.epoch])
    return won


def either(address: str, agent: str, turns: int) -> Run:
    return renamer(address, agent, -turns) if turns < 0 else taker(address, agent, turns)


@pytest.mark.parametrize("place", sorted(PLACES))
def test_every_epoch_is_won_once_while_the_project_is_renamed(place: str, tmp_path: Path) -> None:
    opened: Callable[[Path], AbstractContextManager[str]] = PLACES[place]
    with opened(tmp_path) as address:
        with tiebreak.open(address, agent="first~1", project=NAMES[0]) as board:
            board.tasks.post(name="so that there is a project")
            for name in NAMES[1:]:
                board.projects.alias(name=name)
        answers = race(either, [*[(address, f"taker-{i}", TURNS) for i in range(4)], (address, "renamer", -TURNS)])
        epochs = sorted(itertools.chain.from_iterable(answers))
        assert epochs == list(range(1, len(epochs) + 1))
        with tiebreak.open(address, agent="last~1", project=NAMES[0]) as board:
            [hold] = board.holds.take(resources=["lock:deploy"])
            assert hold.epoch == len(epochs) + 1
            assert len([each for each in board.projects.list() if each.project in NAMES]) == 1
