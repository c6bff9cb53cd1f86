"""Long lists of holds."""

from __future__ import annotations

import pytest

from tiebreak import Board, Invalid
from tiebreak.limits import MAX_HOLDS


def test_more_than_a_thousand_holds_are_listed_in_one_answer(alice: Board) -> None:
    for start in range(0, 1100, 100):
        alice.holds.take(resources=[f"file:{number}.py" for number in range(start, start + 100)])
    assert len(alice.holds.list()) == 1000
    assert len(alice.holds.list(limit=MAX_HOLDS)) == 1100


def test_a_list_of_holds_is_bounded(alice: Board) -> None:
    with pytest.raises(Invalid, match="limit"):
        alice.holds.list(limit=MAX_HOLDS + 1)
