"""A judge that never condemns proves nothing: each finds the bug that it is there for, planted on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import checkers, plants, test_churn
from .checkers import Broken, Grant
from .crew import Plant, WorkerFailed, race, race_threads
from .scenarios import (
    churn,
    claimer,
    gather,
    gatherer,
    next_claimer,
    open_board,
    post,
    poster,
    repeater,
    taker,
    wins,
)

pytestmark = pytest.mark.usefixtures("unchecked")
EIGHT = [f"agent-{i}" for i in range(8)]


def test_double_wins_are_found_among_processes(path: str) -> None:
    with open_board(path) as board:
        refs = [task.id for task in post(board, 20)]
        reports = race(claimer, [(path, a, refs) for a in EIGHT], plant=plants.taken_counts_as_free)
        with pytest.raises(Broken, match="was won 3 times"):  # until the attempts are used up
            checkers.one_winner_each(wins(EIGHT, reports), refs)
        with pytest.raises(Broken, match=r"while|is said to have run out"):
            checkers.one_holder_at_a_time(checkers.read_log(board))


def test_double_wins_are_found_among_threads(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plants.taken_counts_as_free(monkeypatch.setattr)
    with open_board(path) as board:
        refs = [task.id for task in post(board, 20)]
        reports = race_threads(claimer, [(board, agent, refs) for agent in EIGHT])
    with pytest.raises(Broken, match="was won 3 times"):
        checkers.one_winner_each(wins(EIGHT, reports), refs)


def test_tasks_handed_out_twice_by_next_are_found(path: str) -> None:
    with open_board(path) as board:
        refs = [task.id for task in post(board, 100)]
    each = [(path, agent, seed) for seed, agent in enumerate(EIGHT)]
    reports = race(next_claimer, each, plant=plants.claims_are_not_noted)
    with pytest.raises(Broken, match="was won"):
        checkers.one_winner_each(wins(EIGHT, reports), refs)


def test_tasks_that_nobody_won_are_found() -> None:
    with pytest.raises(Broken, match="1 were won by nobody"):
        checkers.one_winner_each([("a", "x")], ["a", "b"])


def test_tables_made_twice_are_found(path: str) -> None:
    with pytest.raises(WorkerFailed, match="Unavailable"):
        race(poster, [(path, agent) for agent in EIGHT], plant=plants.schema_made_blindly)


def test_a_repeated_write_that_is_carried_out_again_is_found(path: str) -> None:
    with open_board(path) as board:
        ref = post(board, 1)[0].id
    with pytest.raises(WorkerFailed, match="Lost"):
        race(repeater, [(path, ref, "planted-once", 2)] * 4, plant=plants.once_is_forgotten)


def test_a_glob_held_beside_its_path_is_found(path: str) -> None:
    open_board(path).close()
    dirs = [f"d{i}" for i in range(200)]
    orders = [[f"file:{d}/*.py" for d in dirs], [f"file:{d}/a.py" for d in dirs]]
    each = [(path, agent, orders[i % 2]) for i, agent in enumerate(EIGHT)]
    reports = race(taker, each, plant=plants.no_transaction)
    with pytest.raises(Broken, match="was won 2 times"):
        checkers.one_winner_each(
            [(w.split("/")[0], agent) for agent, (won, _) in zip(EIGHT, reports, strict=True) for w, _ in won],
            [f"file:{d}" for d in dirs],
        )


def test_half_taken_resources_are_found(path: str) -> None:
    seen, _ = gather(path, ["file:a.py", "lock:b", "seat:c"], tries=20, plant=plants.no_transaction)
    with pytest.raises(Broken, match="half-taken"):
        checkers.all_or_nothing(seen, 3)


def test_a_lock_taken_only_when_writing_is_found(path: str) -> None:
    open_board(path).close()
    with pytest.raises(WorkerFailed, match="Unavailable"):  # what was read is old by the time it is written
        race(gatherer, [(path, agent, ["file:a.py"], 100) for agent in EIGHT], plant=plants.lock_taken_late)


def test_a_pool_with_too_many_holders_is_found(path: str) -> None:
    with open_board(path) as board:
        board.holds.take(resources=["pool:ports"], slots=3, lease=0.001)
        race(taker, [(path, agent, ["pool:ports"]) for agent in EIGHT])  # and those who win keep it
        with pytest.raises(Broken, match="3 holders of 2 slots"):
            checkers.never_more_than(checkers.read_log(board), "pool:ports", 2)


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (plants.taken_counts_as_free, "while|is said to have run out"),
        (plants.epoch_stands_still, "issued more than once"),
        (plants.epoch_jumps, "have a gap"),
        (plants.epoch_is_not_asked, "an epoch that was not current"),
        (plants.lapses_are_not_told, "while .* had it"),
        (plants.grants_are_not_told, "not in the log"),
    ],
)
def test_churn_finds(tmp_path: Path, plant: Plant, found: str) -> None:
    def look(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        board = str(folder / "board.db")
        test_churn.judge(board, churn(board, str(folder), turns=120, crew=2, plant=plant))

    checkers.finds(found, look)


def test_an_epoch_on_the_board_that_nobody_was_granted_is_found() -> None:
    grants = [Grant("lock:a", 0, 1, "x"), Grant("lock:a", 0, 2, "y")]
    checkers.epochs_count_grants(grants, {("lock:a", 0): 2})
    with pytest.raises(Broken, match="stands at epoch 3"):
        checkers.epochs_count_grants(grants, {("lock:a", 0): 3})
