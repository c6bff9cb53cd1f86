"""An operation that reads the log without gaps must declare it; one that did not would read past late events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiebreak import Board
from tiebreak.operations import REGISTRY, Operation, operation
from tiebreak.operations.events import append, last

from .conftest import PROJECT

UNDECLARED = "without declaring `reads_log`"


def declared(function: Callable[[Any], int], **how: bool) -> Operation[..., Any]:
    """An operation that no board knows."""
    made: Operation[..., Any] = operation("tests.log", strangers=False, **how)(function)  # type: ignore[arg-type]
    del REGISTRY[made.name]
    return made


def count_and_look(tx: Any) -> int:
    append(tx, "test.written", PROJECT)
    return last(tx)


@pytest.mark.parametrize("writes", [True, False])
def test_an_operation_that_has_not_declared_that_it_reads_the_log_fails(board: Board, writes: bool) -> None:
    with pytest.raises(RuntimeError, match=UNDECLARED):
        board.engine.run(declared(last, writes=writes), {})


def test_a_write_that_has_not_declared_that_it_reads_the_log_changes_nothing(board: Board) -> None:
    with pytest.raises(RuntimeError, match=UNDECLARED):
        board.engine.run(declared(count_and_look, writes=True), {})
    assert board.events.last() == 0


def test_a_declaration_counts_for_its_own_call_of_a_batch_alone(board: Board) -> None:
    board.tasks.post(name="first")
    may, may_not = declared(last, writes=True, reads_log=True), declared(last, writes=True)
    for calls in ([may, may_not], [may_not, may], [declared(count_and_look, writes=True), may_not, may]):
        answers = board.engine.batch([(each, {}, None) for each in calls])
        for call, answer in zip(calls, answers, strict=True):
            assert isinstance(answer, int if call is may else RuntimeError)


def test_a_write_that_has_declared_it_reads_up_to_the_last_settled_event(board: Board) -> None:
    board.tasks.post(name="first")
    assert board.engine.run(declared(last, writes=True, reads_log=True), {}) == 1


def test_a_statement_finds_the_events_that_its_own_transaction_has_collected(board: Board) -> None:
    def write_and_count(tx: Any) -> int:
        append(tx, "test.written", PROJECT)
        [(count,)] = tx.all("SELECT count(*) FROM {log}")
        return int(count)

    assert board.engine.run(declared(write_and_count, writes=True), {}) == 1
