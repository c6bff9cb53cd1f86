"""`tb break` and `tb adopt`: what a word means, who may confirm, and that nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tiebreak

from .command import TB, Answer, Tb
from .terminals import in_terminal, terminal

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


# ── Adopting ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_terminal_finishes_what_a_closed_one_had_claimed(tb: Tb) -> None:
    """On the old code it was told to stop working."""
    in_terminal(tb, f"{TB} --as ann claim fix; {TB} --as ann hold a.py")

    told = in_terminal(
        tb, f"{TB} --as ann complete fix; {TB} --as ann adopt && {TB} --as ann complete fix && {TB} --as ann drop a.py"
    )

    assert "it is held by another ann" in told[0]
    assert "`tb adopt '#1'` takes it over if that session is over" in told[1]
    for line, (verb, what) in zip(
        told[2:], [("adopted", "fix"), ("adopted", "a.py"), ("completed", "fix"), ("dropped", "")], strict=True
    ):
        assert verb in line
        assert what in line


@pytest.mark.parametrize(("typed", "state"), [("y\n", 2), ("n\n", 1)])
def test_a_person_is_asked_about_a_session_that_may_be_alive(tb: Tb, typed: str, state: int) -> None:
    tb.ok("--as", "me~elsewhere", "claim", "fix")
    with terminal() as screen:
        running = screen.start(tb, TB, "--as", "me", "adopt", "fix", orphan=True)
        assert screen.read(until=b"[y/N] ")
        assert b"#1 'fix' is held by me (session elsewhere) for" in screen.screen
        screen.type(typed)
        running.wait(60)
        assert screen.read()
    assert tb.json("show", "fix")["epoch"] == state


def test_nobody_without_a_terminal_confirms_not_even_with_yes(tb: Tb) -> None:
    tb.ok("--as", "me~elsewhere", "claim", "fix")

    answer = tb("--as", "me", "adopt", "--yes")

    assert (answer.code, tb.json("show", "fix")["epoch"]) == (1, 1)
    assert "is not known to be dead" in answer.err
    assert "a person can confirm that it is over: run `tb adopt` in a terminal" in answer.err


def test_an_agent_with_a_terminal_does_not_confirm_for_its_user(tb: Tb) -> None:
    tb.ok("--as", "me~elsewhere", "claim", "fix")

    told = in_terminal(tb, f"CLAUDE_SESSION_ID=1 {TB} --as me adopt --yes")

    assert tb.json("show", "fix")["epoch"] == 1
    assert "is not known to be dead" in told[0]


def test_adopting_takes_nothing_of_others_and_says_so_if_there_is_nothing(cli: Cli, board: tiebreak.Board) -> None:
    board.tasks.claim(ref="fix")
    board.take("a.py")

    assert cli("--as", "you", "adopt").out == "no other session of yours holds anything here\n"
    assert "not an earlier session of yours" in cli("--as", "you", "adopt", "fix").err
    assert "not an earlier session of yours" in cli("--as", "you", "adopt", "./a.py").err
    assert "b.py is not held by anybody" in cli("--as", "you", "adopt", "./b.py").err
    assert (board.tasks.get(ref="fix").epoch, board.holds.list()[0].epoch) == (1, 1)
