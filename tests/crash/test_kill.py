"""SIGKILL at any moment: acknowledged writes are there, others complete or absent, and the next process continues."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tests.races import checkers, plants
from tests.races.checkers import Broken
from tests.races.crew import Crew, Plant, Worker, processes
from tests.races.scenarios import open_board, post

from .writers import (
    KEYS,
    backs_up_in_place,
    backuper,
    granted,
    maker,
    nothing_lost,
    pruner,
    read_diary,
    still_completed,
    writer,
)

ROUNDS = 75
SOAK_ROUNDS = 20_000


def kill_in_a_while(
    worker: Worker[Any],
    args: tuple[Any, ...],
    longest: float,
    chance: random.Random,
    *,
    word: bool,
    plant: Plant | None,
) -> None:
    """Kill a worker at a moment that nobody knows; with `word`, after it has sent word of its first deed."""
    mine, theirs = processes.Pipe(duplex=False)
    with Crew(worker, [(*args, theirs)], plant=plant) as crew:
        crew.go()
        assert not word or mine.poll(120.0)
        time.sleep(chance.uniform(0.001, longest))
        crew.kill()


def kill_rounds(address: str, folder: Path, rounds: int, plant: Plant | None = None) -> None:
    """Kill a writer after 1 to 30 ms, look at what it left, and do it again on the same board."""
    with open_board(address) as board:
        for key in KEYS:
            board.tasks.post(name=key, key=key, max_attempts=1000)
        seen = board.events.last()
    chance, grants, answers = random.Random(rounds), [], 0
    for turn in range(rounds):
        agent, diary = f"writer-{turn}", str(folder / f"diary-{turn}")
        # Every third may die before its first answer, while it opens the board.
        kill_in_a_while(writer, (address, agent, diary, turn), 0.030, chance, word=turn % 3 > 0, plant=plant)
        with open_board(address) as board:
            answered = read_diary(diary)
            events = checkers.read_log(board, seen)
            numbers = [event.number for event in events]
            if numbers != list(range(seen + 1, seen + 1 + len(numbers))):
                raise Broken(f"events are not numbered without a gap after {seen}")
            nothing_lost(events, answered)
            still_completed(board, answered)
            checkers.sound(board)
            grants += granted(answered)
            answers += len(answered)
            seen += len(events)
    with open_board(address) as board:
        events = checkers.read_log(board)
        checkers.numbered_without_gap(events)
        checkers.one_holder_at_a_time(events)
        checkers.nothing_issued_twice(grants)
        checkers.log_has(events, grants)
        assert answers >= rounds // 2


def test_nothing_acknowledged_is_lost_and_no_epoch_is_issued_twice(address: str, tmp_path: Path) -> None:
    kill_rounds(address, tmp_path, ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_nothing_acknowledged_is_lost_in_very_many_crashes(address: str, tmp_path: Path) -> None:
    kill_rounds(address, tmp_path, SOAK_ROUNDS)


def test_an_answer_given_before_its_commit_is_found(path: str, tmp_path: Path) -> None:
    with pytest.raises(Broken, match="acknowledged and lost"):
        kill_rounds(path, tmp_path, 20, plant=plants.answers_before_commit)


def test_a_board_is_usable_whenever_its_maker_died(tmp_path: Path) -> None:
    chance = random.Random(20)
    for turn in range(20):
        path = str(tmp_path / f"board-{turn}.db")
        with Crew(maker, [(path,)]) as crew:
            crew.go()
            time.sleep(chance.uniform(0.0, 0.012))
            crew.kill()
        with open_board(path) as board:
            number = board.tasks.post(name="second").number
            assert number in (1, 2)
            assert board.upkeep.status().pending == number
            checkers.sound(board)


# ── Backup ───────────────────────────────────────────────────────────────────────────────────────────


def fill(path: str) -> None:
    """A board of a few megabytes."""
    with open_board(path) as board:
        for _ in range(12):
            post(board, 100, payload="x" * 2000)


def is_whole(target: str) -> bool:
    """Whether a file is a board with all that was on it."""
    copy = sqlite3.connect(f"file:{target}?mode=ro", uri=True)
    try:
        found = copy.execute("SELECT count(*) FROM tasks").fetchone()
        return bool(found == (1200,) and copy.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    except sqlite3.Error:
        return False
    finally:
        copy.close()


def backup_killed_at(path: str, target: str, step: int, plant: Plant | None = None) -> bool:
    """Kill a backup at that step; False when it was done before that."""
    mine, theirs = processes.Pipe(duplex=False)
    with Crew(backuper, [(path, target, step, theirs)], plant=plant) as crew:
        crew.go()
        assert mine.poll(120.0)
        under_way = mine.recv() != "done"
        crew.kill()
    if under_way and os.path.exists(target):
        raise Broken(f"a backup killed at step {step} left a file under the name of a finished one")
    return under_way


def test_a_killed_backup_leaves_no_half_file_under_its_name(path: str) -> None:
    fill(path)
    target = path + ".copy"
    step = 0
    while backup_killed_at(path, target, step):
        step += 1
    assert step > 1
    assert is_whole(target)


def test_a_backup_killed_anywhere_is_whole_or_absent(path: str, tmp_path: Path) -> None:
    fill(path)
    chance = random.Random(15)
    for turn in range(15):
        target = str(tmp_path / f"copy-{turn}.db")
        with Crew(backuper, [(path, target, -1)]) as crew:
            crew.go()
            time.sleep(chance.uniform(0.0, 0.060))
            crew.kill()
        assert not os.path.exists(target) or is_whole(target)


def test_a_backup_made_in_place_is_found(path: str) -> None:
    fill(path)
    with pytest.raises(Broken, match="left a file under the name"):
        backup_killed_at(path, path + ".copy", 1, plant=backs_up_in_place)


# ── Pruning ──────────────────────────────────────────────────────────────────────────────────────────


def prune_rounds(address: str, rounds: int, plant: Plant | None = None) -> None:
    """Kill a pruner again and again; every key goes on counting where it was."""
    epochs: dict[str, int] = {}
    chance = random.Random(rounds)
    keys = [f"job/{i}" for i in range(60)]
    for _ in range(rounds):
        with open_board(address) as board:
            for key in keys:
                task = board.tasks.claim(ref=key)
                if task.epoch != epochs.get(key, 0) + 1:
                    raise Broken(f"{key}: epoch {task.epoch} follows {epochs.get(key, 0)}")
                epochs[key] = task.epoch
                board.tasks.complete(ref=key, epoch=task.epoch)
            post(board, 1)  # the newest number stays anyway; let it not be one of the keys
        kill_in_a_while(pruner, (address,), 0.020, chance, word=True, plant=plant)
        with open_board(address) as board:
            checkers.sound(board)
            while board.upkeep.prune(older_than=0.0, limit=1000).more:
                pass


def test_a_killed_pruner_forgets_no_epoch(address: str) -> None:
    prune_rounds(address, 5)


def test_an_epoch_that_was_pruned_away_is_found(path: str) -> None:
    with pytest.raises(Broken, match=r"epoch \d+ follows"):
        prune_rounds(path, 4, plant=plants.pruned_keys_are_forgotten)
