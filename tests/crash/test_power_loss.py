"""A power loss: anything that was not synced may be gone, and still nothing acknowledged is lost."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.races import checkers, plants
from tests.races.checkers import Broken
from tests.races.crew import Plant, race
from tests.races.scenarios import Run, open_board

from . import disk
from .disk import Did, after_power_loss
from .writers import Acknowledged, hold, nothing_lost, still_completed, tussle, work

TURNS = 120
IMAGES = 150


class Answers(Acknowledged):
    """A diary that is part of the disk's record."""

    def __init__(self) -> None:
        pass

    def note(self, what: str, subject: str, epoch: int = 0, agent: str = "-") -> None:
        disk.RECORD.append(Did("answer", answer=(what, checkers.Grant(subject, 0, epoch, agent))))


def recorded(path: str) -> Run:
    """Work on a disk that keeps a record, with checkpoints far more often than usual."""
    from tiebreak.engine.sqlite import wal_checkpoint

    wal_checkpoint.CHECKPOINT_PAGES = 25
    keep = disk.RecordingDisk()
    yield
    board, answers, chance = open_board(path, "writer"), Answers(), random.Random(3)
    for _ in range(TURNS):
        chance.choice([work, tussle, hold])(board, "writer", answers, chance)
    board.close()
    keep.unregister()
    return disk.RECORD


def lose_power_often(path: str, folder: Path, plant: Plant | None = None) -> None:
    """Look at the board as it is after a power loss at many moments, each with and without luck."""
    record: list[Did] = race(recorded, [(path,)], plant=plant)[0]
    first = next(i for i, did in enumerate(record) if did.what == "answer")
    names = {"board.db", "board.db-wal"}
    chance = random.Random(1)
    for turn in range(IMAGES):
        moment = chance.randrange(first, len(record)) + 1
        luck = random.Random(turn) if turn % 2 else None
        image = folder / f"image-{turn}"
        image.mkdir()
        for name, content in after_power_loss(record, moment, names, luck).items():
            (image / name).write_bytes(content)
        told = [did.answer for did in record[:moment] if did.what == "answer"]
        with open_board(os.fspath(image / "board.db")) as board:
            events = checkers.read_log(board)
            checkers.numbered_without_gap(events)
            nothing_lost(events, told)
            still_completed(board, told)
            checkers.sound(board)


def test_nothing_acknowledged_is_lost_with_the_power(path: str, tmp_path: Path) -> None:
    lose_power_often(path, tmp_path)


def test_a_commit_that_is_not_synced_is_found(path: str, tmp_path: Path) -> None:
    with pytest.raises(Broken, match="acknowledged and lost"):
        lose_power_often(path, tmp_path, plant=plants.commits_are_not_synced)


def test_the_record_has_checkpoints_in_it(path: str) -> None:
    record: list[Did] = race(recorded, [(path,)])[0]
    assert sum(did.what == "sync" and did.file == "board.db" for did in record) > 5
    assert sum(did.what == "answer" for did in record) > TURNS
