"""A fork copies a board that is in use: the child gets connections of its own and the parent keeps its own."""

from __future__ import annotations

from . import checkers, loners
from .scenarios import open_board


def test_a_fork_in_the_middle_of_writes_loses_and_breaks_nothing(address: str) -> None:
    code, out, errors = loners.outcome(loners.start(loners.forks, address, 20))
    assert (code, errors) == (0, "")
    with open_board(address) as board:
        events = checkers.read_log(board)
        checkers.numbered(events, address)
        posted = [event.name for event in events if event.event == "task.posted"]
        assert posted.count("by child") == 100
        assert posted.count("between") == 20
        assert len(posted) == 2 + 100 + 20 + int(out)
        assert board.upkeep.status().pending == len(posted)
        checkers.sound(board)


def test_threads_of_a_child_meet_the_inherited_board_at_once(address: str) -> None:
    for _ in range(5):
        code, _, errors = loners.outcome(loners.start(loners.forks_with_threads, address, 8))
        assert (code, errors) == (0, "")
    with open_board(address) as board:
        assert board.upkeep.status().pending == 5 * (8 * 5 + 3)
        checkers.sound(board)
