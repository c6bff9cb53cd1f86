"""Many claim a key that no task has yet, at the same instant: one of them posts it, and nobody posts a slip of it."""

from __future__ import annotations

from tiebreak.errors import Lost, Refused
from tiebreak.model import created_by_claim

from .crew import race
from .scenarios import Run, open_board

ROUNDS = 10
SLIPS = ["login-bug", "logn-bug", "login-bugs", "Login-Bug", "login_bug", "lgoin-bug", "loginbug", "login-bgu"]
"""Spellings of which every one is near the first."""


def key_claimer(address: str, agent: str, keys: list[str]) -> Run:
    """Claim each of these keys: whether the claim posted it, else why it was refused."""
    board = open_board(address, agent)
    yield
    told = []
    for key in keys:
        try:
            told.append("posted" if created_by_claim(board.tasks.claim(ref=key)) else "won")
        except Lost:
            told.append("lost")
        except Refused as refusal:
            told.append(refusal.reason)
    return told


def test_eight_processes_post_a_new_key_once(address: str) -> None:
    keys = [f"new-key-{i}" for i in range(ROUNDS)]
    reports = race(key_claimer, [(address, f"agent-{i}", keys) for i in range(8)])
    for told in zip(*reports, strict=True):
        assert sorted(told) == ["lost"] * 7 + ["posted"]
    with open_board(address) as board:
        assert sorted(task.key or "" for task in board.tasks.list()) == sorted(keys)


def test_two_spellings_of_one_key_are_not_posted_at_the_same_instant(address: str) -> None:
    each = [(address, f"agent-{i}", [f"{spelling}-{n}" for n in range(ROUNDS)]) for i, spelling in enumerate(SLIPS)]
    reports = race(key_claimer, each)
    with open_board(address) as board:
        posted = [task.key or "" for task in board.tasks.list()]
    spellings = [{key for key in posted if key.endswith(f"-{n}")} for n in range(ROUNDS)]
    assert all(spellings)
    near = {(a, b) for a in SLIPS for b in SLIPS if _near(a, b)}
    for together in spellings:
        stems = [key.rpartition("-")[0] for key in together]
        assert not [(a, b) for a in stems for b in stems if (a, b) in near], together
    assert sum(told.count("posted") for told in reports) == len(posted)


def _near(one: str, two: str) -> bool:
    from tiebreak.spelling import is_near

    return is_near(one, two)
