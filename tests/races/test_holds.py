"""Decisions over several rows: globs, several resources at once, the slots of a pool."""

from __future__ import annotations

from . import checkers
from .crew import race
from .scenarios import gather, globs_against_files, open_board, swimmer, taker

TEN = [f"agent-{i}" for i in range(10)]
SIXTEEN = [f"agent-{i}" for i in range(16)]


def test_ten_agents_for_one_file(address: str) -> None:
    reports = race(taker, [(address, agent, ["file:contested.py"]) for agent in TEN])
    winners = [agent for agent, (won, _) in zip(TEN, reports, strict=True) if won]
    told = [holder for _, lost in reports for _, holder in lost]
    assert len(winners) == 1
    assert told == winners * 9


def test_a_glob_and_a_path_it_matches_are_never_both_held(address: str) -> None:
    globs_against_files(address, SIXTEEN, 40)


def test_resources_taken_together_are_never_half_taken(address: str) -> None:
    resources = ["file:a.py", "lock:b", "seat:c"]
    seen, worked = gather(address, resources, tries=40)
    checkers.all_or_nothing(seen, len(resources))
    with open_board(address) as board:
        events = checkers.read_log(board)
        checkers.one_holder_at_a_time(events)
        epochs = checkers.epochs_on(board, [(resource, 0) for resource in resources])
        assert set(epochs.values()) == {sum(worked)}


def test_a_pool_never_has_more_holders_than_slots(address: str) -> None:
    with open_board(address) as board:
        board.holds.take(resources=["pool:ports"], slots=4, lease=0.001)
        reports = race(swimmer, [(address, agent, "pool:ports", 40) for agent in SIXTEEN])
        events = checkers.read_log(board)
        most = checkers.never_more_than(events, "pool:ports", 4)
        grants = [grant for report in reports for grant in report]
        assert most > 1
        assert len(grants) > 16
        judge = checkers.Grant("pool:ports", 0, 1, "judge")
        checkers.log_agrees(events, [judge, *grants])
        checkers.epochs_count_grants([judge, *grants])
