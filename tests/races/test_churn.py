"""Everything at once, by eight processes: the epochs come out as 1, 2, 3 … n."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import checkers
from .scenarios import POOL, SLOTS, churn, open_board

SECONDS = 6.0
SOAK_SECONDS = 1800.0


def judge(address: str, diary: list[tuple[str, checkers.Grant]]) -> None:
    """Everything that must be so after a churn."""
    grants = [grant for what, grant in diary if what == "granted"]
    writes = [entry for entry in diary if entry[0] != "granted"]
    with open_board(address) as board:
        events = checkers.read_log(board)
        checkers.numbered(events, address)
        own = [grant for grant in checkers.grants_in(events) if grant.agent == "judge"]
        checkers.epochs_count_grants([*own, *grants])
        checkers.log_agrees(events, [*own, *grants])
        checkers.writes_fenced(events, writes)
        checkers.one_holder_at_a_time(events)
        checkers.never_more_than(events, POOL, SLOTS)
        final = checkers.epochs_on(board, {(grant.subject, grant.slot) for grant in grants})
        checkers.epochs_count_grants([*own, *grants], final)
        checkers.sound(board)


def test_epochs_have_no_gap_after_a_churn(address: str, tmp_path: Path) -> None:
    diary = churn(address, str(tmp_path), seconds=SECONDS)
    assert len(diary) > 100
    judge(address, diary)


@pytest.mark.soak
@pytest.mark.timeout(2 * SOAK_SECONDS)
def test_epochs_have_no_gap_after_a_long_churn(address: str, tmp_path: Path) -> None:
    judge(address, churn(address, str(tmp_path), seconds=SOAK_SECONDS))
