"""`tb break`: which of a task and a file a word means, and that nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tiebreak

from .command import Answer

Cli = Callable[..., Answer]


@pytest.mark.parametrize("word", ["#1", "1", "fix", "id", "beginning"])
def test_a_claim_can_be_broken_by_every_name_of_the_task(cli: Cli, board: tiebreak.Board, word: str) -> None:
    task = board.tasks.claim(ref="fix")
    board.take("./1")

    answer = cli("break", {"id": task.id, "beginning": task.id[:20]}.get(word, word), "--reason", "the tab is closed")

    assert (answer.code, answer.out) == (0, "broke the claim on #1 fix\n")
    assert board.tasks.get(ref="fix").state == "pending"
    assert len(board.holds.list()) == 1


@pytest.mark.parametrize("word", ["./1", "file:1", "lock:1", "pool:1"])
def test_a_word_with_a_path_or_a_type_is_never_a_task(cli: Cli, board: tiebreak.Board, word: str) -> None:
    board.tasks.claim(ref="fix")
    board.take("file:1", "lock:1", "pool:1", slots=1)

    answer = cli("break", word, "--reason", "stuck", *(["--slot", "0"] if word.startswith("pool") else []))

    assert (answer.code, answer.out[:17]) == (0, "broke the hold on")
    assert board.tasks.get(ref="fix").state == "claimed"
    assert len(board.holds.list()) == 2


def test_a_word_that_is_a_claimed_task_and_a_held_file_breaks_neither(cli: Cli, board: tiebreak.Board) -> None:
    board.tasks.claim(ref="Makefile")
    board.take("Makefile")

    answer = cli("break", "Makefile", "--reason", "stuck")

    assert answer.code == 2
    assert "'Makefile' is both a task and a file that is held" in answer.err
    assert "say '#1' for the task, file:Makefile for the file" in answer.err
    assert (board.tasks.get(ref="Makefile").state, len(board.holds.list())) == ("claimed", 1)


def test_a_word_means_what_is_held_if_only_one_of_the_two_is(cli: Cli, board: tiebreak.Board) -> None:
    board.tasks.post(name="Makefile", key="Makefile")
    board.take("Makefile")
    assert "broke the hold on" in cli("break", "Makefile", "--reason", "stuck").out
    board.tasks.claim(ref="Makefile")
    assert "broke the claim on #1 Makefile" in cli("break", "Makefile", "--reason", "stuck").out


def test_a_break_of_what_nobody_has_says_how_it_stands(cli: Cli, board: tiebreak.Board) -> None:
    board.tasks.post(name="fix", key="fix")

    answer = cli("break", "#1", "--reason", "stuck")

    assert (answer.code, answer.err) == (1, "tb: #1 'fix' is not claimed by anybody: it is pending\n")


def test_a_claim_is_not_broken_without_a_reason(cli: Cli, board: tiebreak.Board) -> None:
    board.tasks.claim(ref="fix")

    answer = cli("break", "#1")

    assert (answer.code, answer.err) == (2, "tb: --reason is missing\n")
    assert board.tasks.get(ref="fix").state == "claimed"
