"""Exit codes and refusals: 0 won, 1 lost, 2 wrong or too late, 3 no board; and who has it, until when, what now."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest

import tiebreak

from .command import Answer, Tb, complaint, read_lines, until

DESTRUCTIVE = re.compile(r"\brm\b|\bkill\b|--force|\bdelete\b|unlink|tb (break|cancel|prune|drop|release|fail)\b", re.I)
AS_BOB = ("--as", "bob")


@pytest.fixture
def stage(board: tiebreak.Board) -> tiebreak.Board:
    """Everything is in somebody's hands, or over."""
    board.tasks.claim(ref="theirs")
    board.tasks.claim(ref="done")
    board.tasks.complete(ref="done")
    board.tasks.claim(ref="dropped")
    board.tasks.cancel(ref="dropped")
    board.tasks.post(name="later", key="later", delay=3600)
    board.tasks.post(name="blocked", key="blocked", after=["theirs"])
    board.holds.take(resources=["lock:deploy"], note="shipping 1.2")
    board.holds.take(resources=["file:src/**"])
    board.holds.take(resources=["pool:ports"], slots=1)
    return board


HELD = {
    "claim": ["claim", "theirs"],
    "hold": ["hold", "lock:deploy"],
    "hold a pool": ["hold", "pool:ports"],
    "hold one of two": ["hold", "lock:free", "lock:deploy"],
    "run": ["run", "--hold", "lock:deploy", "--", "false"],
}
FENCED = {
    "extend": ["extend", "theirs"],
    "complete": ["complete", "theirs"],
    "fail": ["fail", "theirs"],
    "release": ["release", "theirs"],
    "drop": ["drop", "lock:deploy"],
    "renew": ["renew", "lock:deploy"],
    "transfer": ["transfer", "lock:deploy", "--to", "bob~2"],
}
OVER = {
    "claim what is done": ["claim", "done"],
    "claim what is cancelled": ["claim", "dropped"],
    "claim what is not ready": ["claim", "later"],
    "claim what is blocked": ["claim", "blocked"],
    "complete what is done": ["complete", "done"],
    "drop what is free": ["drop", "lock:free"],
    "show what is not there": ["show", "nowhere"],
}
PLAIN = {
    "cancel what is done": ["cancel", "done"],
    "retry what is not over": ["retry", "theirs"],
    "break what is free": ["break", "lock:free", "--reason", "x"],
    "ack what is not there": ["ack", "99"],
}
Cases = dict[str, list[str]]


def each(*tables: Cases) -> pytest.MarkDecorator:
    cases = {name: words for table in tables for name, words in table.items()}
    return pytest.mark.parametrize("words", cases.values(), ids=cases)


@each(HELD)
def test_a_loser_learns_who_has_it_until_when_and_what_to_do(
    words: list[str], stage: tiebreak.Board, cli: Callable[..., Answer]
) -> None:
    said = complaint(cli(*AS_BOB, *words), 1)
    assert "held by me " in said
    assert re.search(r"for another \d+m", said)
    assert len(said.splitlines()) == 2


@each(HELD)
def test_a_losing_program_learns_the_same(words: list[str], stage: tiebreak.Board, cli: Callable[..., Answer]) -> None:
    answer = cli(*AS_BOB, "--json", *words)
    told = answer.json
    assert (answer.code, told["error"], told["holder"], told["epoch"]) == (1, "Lost", "me", 1)
    assert told["until"]
    assert told["hint"]


@each(FENCED)
def test_who_comes_too_late_learns_who_has_it_and_that_nothing_was_written(
    words: list[str], stage: tiebreak.Board, cli: Callable[..., Answer]
) -> None:
    said = complaint(cli(*AS_BOB, *words), 1)
    assert "held by me " in said
    assert "nothing was written" in said
    assert len(said.splitlines()) == 2


@each(OVER)
def test_a_refusal_without_a_holder_says_what_to_do_too(
    words: list[str], stage: tiebreak.Board, cli: Callable[..., Answer]
) -> None:
    said = complaint(cli(*AS_BOB, *words), 1)
    assert len(said.splitlines()) == 2, "no hint"


@each(PLAIN)
def test_a_refusal_that_explains_itself_is_one_all_the_same(
    words: list[str], stage: tiebreak.Board, cli: Callable[..., Answer]
) -> None:
    complaint(cli(*AS_BOB, *words), 1)


@each(HELD, FENCED, OVER, PLAIN)
def test_a_refusal_never_offers_to_destroy(words: list[str], stage: tiebreak.Board, cli: Callable[..., Answer]) -> None:
    assert not DESTRUCTIVE.search(cli(*AS_BOB, *words).err)


def test_a_task_that_is_not_ready_says_when(stage: tiebreak.Board, cli: Callable[..., Answer]) -> None:
    assert re.search(r"\d+m", complaint(cli("claim", "later"), 1))


def test_a_note_reaches_those_who_have_to_wait(stage: tiebreak.Board, cli: Callable[..., Answer]) -> None:
    assert "shipping 1.2" in complaint(cli(*AS_BOB, "hold", "lock:deploy"), 1)


def test_all_or_none_leaves_nothing_behind(stage: tiebreak.Board, cli: Callable[..., Answer]) -> None:
    cli(*AS_BOB, "hold", "lock:free", "lock:deploy")
    assert [hold.resource for hold in stage.holds.list(agent="bob")] == []


def test_a_lapsed_lease_tells_its_holder_so(board: tiebreak.Board, cli: Callable[..., Answer]) -> None:
    epoch = board.tasks.claim(ref="mine", lease=0.001).epoch
    while not board.tasks.sweep():
        pass
    said = complaint(cli("--as", "me~1", "complete", "mine", "--epoch", str(epoch)), 1)
    assert "its lease ran out, nothing was written" in said


def test_an_epoch_of_last_time_is_refused(board: tiebreak.Board, cli: Callable[..., Answer]) -> None:
    board.tasks.claim(ref="mine")
    board.tasks.release(ref="mine")
    board.tasks.claim(ref="mine")
    assert "your epoch 1 is not the current one (2)" in complaint(
        cli("--as", "me~1", "complete", "mine", "--epoch", "1"), 1
    )
    assert cli("--as", "me~1", "complete", "mine", "--epoch", "2").code == 0


@pytest.mark.parametrize("wait", ["0", "0s", "0m", "0ms"])
def test_nothing_ready_is_a_loss_and_not_a_time_out_when_nobody_waited(wait: str, cli: Callable[..., Answer]) -> None:
    assert cli("next", "--wait", wait).code == 1


@pytest.mark.parametrize("words", [["next", "--wait", "50ms"], ["wait", "--timeout", "50ms"]])
def test_waiting_in_vain_is_a_time_out(words: list[str], cli: Callable[..., Answer]) -> None:
    assert cli(*words).code == 2


def test_the_real_command_ends_with_each_of_the_codes(stage: tiebreak.Board, tb: Tb) -> None:
    assert tb("claim", "free").code == 0
    complaint(tb("claim", "theirs"), 1)
    complaint(tb("claim", "--lease", "nonsense", "theirs"), 2)
    complaint(tb("wait", "--timeout", "1ms"), 2)
    complaint(tb("--board", "/nowhere/board.db", "status"), 3)


def test_the_keyboard_interrupts_without_a_word(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="x")
    with tb.start("events", "--follow", "--after", "0", "--json") as running:
        lines = read_lines(running)
        until(lambda: lines, "it runs")
        running.send_signal(signal.SIGINT)
        running.wait(60)
        assert running.stderr
        assert (running.returncode, running.stderr.read()) == (130, "")
