"""Many claim the same tasks at the same instant: each task has one winner, and the others learn who won."""

from __future__ import annotations

import random

import pytest

from . import checkers
from .crew import race, race_threads
from .scenarios import claimer, next_claimer, open_board, post, poster, repeater, told_right, wins

TASKS = 200
CLAIMERS = [f"claimer-{i}" for i in range(8)]


@pytest.mark.parametrize("shared", [True, False], ids=["one board", "a board each"])
def test_eight_threads_for_two_hundred_tasks(address: str, shared: bool) -> None:
    with open_board(address) as board:
        refs = [task.id for task in post(board, TASKS)]
        each = [(board if shared else address, agent, refs) for agent in CLAIMERS]
        reports = race_threads(claimer, each)
    won = wins(CLAIMERS, reports)
    assert sum(len(w) + len(lost) for w, lost in reports) == 1600
    assert len(won) == TASKS
    checkers.one_winner_each(won, refs)
    assert told_right(won, reports)


def test_eight_processes_for_two_hundred_tasks(address: str) -> None:
    with open_board(address) as board:
        refs = [task.id for task in post(board, TASKS)]
        reports = race(claimer, [(address, agent, refs) for agent in CLAIMERS])
        won = wins(CLAIMERS, reports)
        checkers.one_winner_each(won, refs)
        assert told_right(won, reports)
        checkers.one_holder_at_a_time(checkers.read_log(board))


def test_next_hands_out_no_task_twice_and_forgets_none(address: str) -> None:
    with open_board(address) as board:
        refs = [task.id for start in range(5) for task in post(board, 100, priority=["low", "high"][start % 2])]
    reports = race(next_claimer, [(address, agent, seed) for seed, agent in enumerate(CLAIMERS)])
    checkers.one_winner_each(wins(CLAIMERS, reports), refs)


def test_thirty_two_make_the_same_new_board(address: str) -> None:
    reports = race(poster, [(address, f"agent-{i}") for i in range(32)])
    assert sorted(reports) == list(range(1, 33))
    with open_board(address) as board:
        checkers.sound(board)
        assert len(board.tasks.list()) == 32


def test_a_claim_repeated_under_one_key_is_one_claim(address: str) -> None:
    with open_board(address) as board:
        ref = post(board, 1)[0].id
        once = f"retry-{random.getrandbits(64):x}"
        answers = [a for report in race(repeater, [(address, ref, once, 5)] * 8) for a in report]
        assert len(answers) == 40
        assert all(answer == answers[0] for answer in answers)
        assert len(checkers.grants_in(checkers.read_log(board))) == 1


def test_a_claim_repeated_under_one_key_gives_back_the_very_same_record(address: str) -> None:
    with open_board(address) as board:
        ref = post(board, 1)[0].id
        first, second = (board.call("tasks.claim", {"ref": ref}, once="the same twice") for _ in range(2))
        assert first == second
