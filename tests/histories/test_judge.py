"""The judge of histories is judged: each rule condemns a small history that breaks it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

import tiebreak
from tests.log.checker import Broken, read
from tests.log.stories import events
from tests.races.crew import PROJECT
from tiebreak import Board, Event
from tiebreak.engine.schema import SQLITE_PASS

from . import judge
from .diary import GRANTED, KEPT, Entry
from .judge import History, Trouble

A, B = "ann~1", "bob~1"
SOUND = """
task.posted T ann 0 name=key/0
task.claimed T ann 1 name=key/0
task.released T ann 1 name=key/0
task.claimed T bob 2 name=key/0
"""
DIARY = [
    Entry(1.0, 2.0, A, "task.posted", "T"),
    Entry(3.0, 4.0, A, GRANTED, "T", 0, 1),
    Entry(5.0, 6.0, A, "task.released", "T", 0, 1),
    Entry(6.5, 8.0, B, GRANTED, "T", 0, 2),
    Entry(8.5, 9.0, B, KEPT, "T", 0, 2),
]


def history(board: Board, told: Sequence[Event] = (), diary: Sequence[Entry] = (), *troubles: Trouble) -> History:
    """A small one."""
    return History(told, sorted(diary, key=lambda entry: entry.end), troubles, 0.0, board)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """A board with nothing on it."""
    return tiebreak.open(tmp_path / "board.db", agent=A, project=PROJECT)


def test_a_sound_history_is_not_condemned(board: Board) -> None:
    rules = [rule for rule in judge.RULES if rule is not judge.the_board_agrees]
    for rule in rules:
        rule(history(board, events(SOUND), DIARY))


ASKED_LATE = [
    Entry(9.5, 9.6, A, KEPT, "T", 0, 1),
    Entry(9.5, 9.6, A, "task.extended", "T", 0, 1),
    Entry(9.5, 9.6, A, GRANTED, "T", 0, 1),
]


@pytest.mark.parametrize("late", ASKED_LATE, ids=lambda entry: entry.what)
def test_an_answer_for_an_old_epoch_is_found(board: Board, late: Entry) -> None:
    with pytest.raises(Broken, match="was acknowledged after"):
        judge.nobody_writes_with_an_old_epoch(history(board, events(SOUND), [*DIARY, late]))


def test_an_answer_that_crossed_the_next_grant_is_not_condemned(board: Board) -> None:
    crossed = Entry(7.0, 9.6, A, KEPT, "T", 0, 1)
    judge.nobody_writes_with_an_old_epoch(history(board, events(SOUND), [*DIARY, crossed]))


def test_an_epoch_that_two_agents_got_is_found(board: Board) -> None:
    with pytest.raises(Broken, match="acknowledged twice"):
        judge.nothing_is_issued_twice(history(board, (), [*DIARY, DIARY[1]._replace(agent=B)]))


@pytest.mark.parametrize("entry", DIARY[:4], ids=lambda entry: entry.what)
def test_an_answer_that_is_not_in_the_log_is_found(board: Board, entry: Entry) -> None:
    with pytest.raises(Broken, match="acknowledged and lost"):
        judge.nothing_acknowledged_is_lost(history(board, events(SOUND), [entry._replace(subject="U")]))


def test_two_holders_are_found(board: Board) -> None:
    with pytest.raises(Broken, match=r"while ann~1 had it .* \(and 1 more"):
        judge.the_log_is_sound(history(board, events("hold.taken lock:x ann 1\n" + "hold.taken lock:x bob 2\n" * 2)))


def test_a_key_that_counts_from_1_again_is_found(board: Board) -> None:
    again = "board.pruned - -\ntask.posted U ann 0 name=key/0\ntask.claimed U ann 1 name=key/0"
    with pytest.raises(Broken, match="key/0: epoch 1 by event 7 follows"):
        judge.keys_go_on_counting(history(board, events(SOUND + again)))


def test_a_third_limited_job_is_found(board: Board) -> None:
    claims = "".join(f"task.claimed T{i} ann 1 name=limited\n" for i in range(3))
    with pytest.raises(Broken, match="3 limited jobs at once"):
        judge.limits_hold(history(board, events(claims)))


def test_a_message_of_a_replaced_coordinator_is_found(board: Board) -> None:
    seats = "hold.taken seat:coordinator ann 1\nmessage.sent - ann\nhold.transferred seat:coordinator bob 2 from=ann\n"
    judge.no_message_of_a_replaced_coordinator(history(board, events(seats + "message.sent - bob")))
    with pytest.raises(Broken, match="event 4 is a message of ann, who was replaced by event 3"):
        judge.no_message_of_a_replaced_coordinator(history(board, events(seats + "message.sent - ann")))


def writing(path: Path) -> sqlite3.Connection:
    """A connection beside the board's own that may write, as one of this version."""
    made = sqlite3.connect(path)
    made.create_function(SQLITE_PASS, 0, lambda: None)
    return made


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("DELETE FROM tasks", "is gone from the board, but by the log it is open: its last event is 2, task.claimed"),
        ("UPDATE tasks SET epoch = 2", "stands at epoch 2, by the log at 1"),
        ("UPDATE tasks SET holder = 'bob~1'", "is claimed by bob~1, by the log ann~1 had it"),
        ("UPDATE holds SET holder = 'bob~1'", "by the log ann~1 had it"),
    ],
)
def test_a_board_that_differs_from_its_log_is_found(board: Board, tmp_path: Path, damage: str, found: str) -> None:
    board.tasks.claim(ref="t")
    board.holds.take(resources=["lock:x"])
    judge.the_board_agrees(history(board, read(board)))
    with writing(tmp_path / "board.db") as database:
        database.execute(damage)
    with pytest.raises(Broken, match=found):
        judge.the_board_agrees(history(board, read(board)))


def test_a_task_that_is_blocked_for_ever_is_found(board: Board, tmp_path: Path) -> None:
    first = board.tasks.post(name="first")
    board.tasks.post(name="second", after=[first.id])
    judge.nothing_is_blocked_for_ever(history(board))
    with writing(tmp_path / "board.db") as database:
        database.execute("UPDATE tasks SET state = 'completed', finished_at = 1 WHERE name = 'first'")
    with pytest.raises(Broken, match="#2 is blocked, but all 1 that it comes after are completed"):
        judge.nothing_is_blocked_for_ever(history(board))


# ── Waiters ──────────────────────────────────────────────────────────────────────────────────────────

RUNG = Entry(1.0, 2.0, "ringer~1", "task.posted", "T")


def test_a_waiter_that_misses_a_task_is_found(board: Board) -> None:
    woken, slept = Entry(0.5, 6.0, A, GRANTED, "T", 0, 1), Entry(9.0, 12.0, A, GRANTED, "T", 0, 1)
    judge.nobody_sleeps_through_a_task(history(board, events(SOUND), [RUNG, woken]))
    judge.nobody_sleeps_through_a_task(history(board, events(SOUND), [RUNG, slept], Trouble("stop", 3.0, 9.0)))
    with pytest.raises(Broken, match=r"10\.0 s after it was there"):
        judge.nobody_sleeps_through_a_task(history(board, events(SOUND), [RUNG, slept]))
    with pytest.raises(Broken, match="nobody ever won"):
        judge.nobody_sleeps_through_a_task(history(board, (), [RUNG]))


def test_a_waiter_that_misses_a_release_is_found(board: Board) -> None:
    released = Entry(1.0, 2.0, A, "hold.released", "lock:bell", 0, 1)
    came_later, slept = (
        Entry(11.0, 12.0, B, GRANTED, "lock:bell", 0, 2),
        Entry(0.0, 12.0, B, GRANTED, "lock:bell", 0, 2),
    )
    judge.nobody_sleeps_through_a_release(history(board, (), [released, came_later]))
    with pytest.raises(Broken, match=r"10\.0 s after it was there"):
        judge.nobody_sleeps_through_a_release(history(board, (), [released, slept]))


def test_troubles_at_the_same_time_count_once() -> None:
    both = [Trouble("stop", 1.0, 4.0), Trouble("restart", 2.0, 5.0), Trouble("kill", 9.0, 20.0)]
    assert judge.disturbed(both, 0.0, 10.0) == 5.0


def test_all_broken_rules_are_reported_at_once(board: Board) -> None:
    with pytest.raises(Broken, match=r"(?s)nothing_acknowledged_is_lost: .*nobody_writes_with_an_old_epoch: "):
        judge.judge(history(board, (), [*DIARY, ASKED_LATE[1]]))
