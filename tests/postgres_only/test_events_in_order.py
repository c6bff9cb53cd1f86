"""Numbers become visible when their transaction commits, in any order; no reader may pass over one that is late."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import psycopg
import pytest

from tests.races import checkers
from tests.races.crew import Crew
from tiebreak import Board, Fenced, Lost, TiebreakError, TimedOut

from ..postgres import WRITES
from .conftest import PATIENCE, Stopped, in_thread, open_board, until, write_event

WRITERS, READERS, TURNS = 8, 4, 40


@pytest.fixture
def late(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection in a transaction that has taken a number and stays open."""
    with psycopg.connect(address, autocommit=True, options=WRITES) as connection:
        connection.execute("BEGIN")
        write_event(connection, "test.late")
        yield connection
        if not connection.closed:
            connection.execute("ROLLBACK")


def names(board: Board, after: int = 0) -> list[str]:
    return [event.event for event in board.events.read(after=after)]


def passes_over_nothing(board: Board, before: int) -> None:
    """Neither kind of reader gets beyond a number."""
    assert board.events.last() == before
    assert board.events.read(after=before) == []
    assert board.events.read(after=before, newest=True) == []
    assert list(board.follow(after=before, timeout=0.1)) == []
    with pytest.raises(TimedOut):
        board.wait(after=before, timeout=0.1)


# ── One that is late ─────────────────────────────────────────────────────────────────────────────────


def test_no_reader_passes_over_a_number_whose_transaction_is_open(board: Board, late: Any) -> None:
    for i in range(3):
        board.tasks.post(name=f"later {i}")
    passes_over_nothing(board, 0)
    late.execute("COMMIT")
    assert names(board) == ["test.late", *["task.posted"] * 3]
    assert board.events.last() == 4


def test_a_follower_gets_a_late_event_first_and_each_event_once(board: Board, late: Any) -> None:
    board.tasks.post(name="later")
    follower = board.follow(after=0, timeout=PATIENCE)
    first = in_thread(lambda: next(follower))
    board.tasks.post(name="later still")
    late.execute("COMMIT")
    got = [first(), next(follower), next(follower)]
    assert [event.event for event in got] == ["test.late", "task.posted", "task.posted"]
    assert [event.number for event in got] == [1, 2, 3]


def test_readers_go_on_after_a_rollback(board: Board, late: Any) -> None:
    board.tasks.post(name="later")
    waiter = in_thread(lambda: board.wait(after=0, timeout=PATIENCE))
    passes_over_nothing(board, 0)
    late.execute("ROLLBACK")
    assert waiter().number == 2
    assert names(board) == ["task.posted"]
    assert board.events.last() == 2


def test_readers_go_on_after_the_writer_died(board: Board, late: Any) -> None:
    board.tasks.post(name="later")
    passes_over_nothing(board, 0)
    late.close()
    until(lambda: board.events.last() == 2, "the dead writer holds nobody up")
    assert names(board) == ["task.posted"]


def test_an_operation_that_is_slow_to_commit_is_waited_for(board: Board, other: Board) -> None:
    board.tasks.post(name="first")
    slow = Stopped(other, lambda: other.tasks.post(name="slow"))
    board.tasks.post(name="quick")
    passes_over_nothing(board, 1)
    assert slow.go().name == "slow"
    assert [event.name for event in board.events.read(after=1)] == ["slow", "quick"]


def test_a_reader_in_a_transaction_of_another_project_is_held_up_too(board: Board, late: Any) -> None:
    board.tasks.post(name="elsewhere", project="elsewhere")
    assert board.events.read(project=None) == []
    late.execute("COMMIT")
    assert [event.number for event in board.events.read(project=None)] == [1, 2]


def test_the_newest_number_of_the_status_passes_over_nothing(board: Board, late: Any) -> None:
    board.tasks.post(name="later")
    assert board.upkeep.status().events == 0


# ── Savepoints and batches ───────────────────────────────────────────────────────────────────────────


def test_a_number_after_a_rollback_to_a_savepoint_is_waited_for(board: Board, raw: Any) -> None:
    raw.execute("BEGIN; SAVEPOINT s")
    write_event(raw, "test.undone")
    raw.execute("ROLLBACK TO s")
    board.tasks.post(name="between")
    write_event(raw, "test.late")
    board.tasks.post(name="later")
    assert names(board) == ["task.posted"]
    raw.execute("COMMIT")
    assert names(board) == ["task.posted", "test.late", "task.posted"]


def test_the_first_number_is_waited_for_although_a_later_savepoint_was_undone(board: Board, raw: Any) -> None:
    raw.execute("BEGIN")
    write_event(raw, "test.late")
    raw.execute("SAVEPOINT s")
    write_event(raw, "test.undone")
    raw.execute("ROLLBACK TO s")
    board.tasks.post(name="later")
    passes_over_nothing(board, 0)
    raw.execute("COMMIT")
    assert names(board) == ["test.late", "task.posted"]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_batch_with_one_failure_is_waited_for_as_a_whole(board: Board, other: Board, failing: int) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("tasks.post", {"name": f"of the batch {i}"}) for i in range(3)]
    calls[failing] = ("tasks.extend", {"ref": "#999"})
    slow = Stopped(other, lambda: other.batch(calls))
    board.tasks.post(name="quick")
    passes_over_nothing(board, 0)
    answers = slow.go()
    assert [isinstance(answer, TiebreakError) for answer in answers] == [i == failing for i in range(3)]
    assert [event.name for event in board.events.read()][-1] == "quick"
    assert names(board) == ["task.posted"] * 3


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────────


def refused_times(board: Board) -> int:
    return sum(event.times for event in board.events.read(event="task.refused", limit=1000))


def test_a_refusal_is_carried_by_a_later_write_in_order(board: Board, other: Board) -> None:
    task = board.win(board.tasks.post(name="wanted").id)
    with pytest.raises(Lost):
        other.tasks.claim(ref=task.id)
    slow = Stopped(other, lambda: other.tasks.post(name="carries it"))
    board.tasks.post(name="quick")
    assert refused_times(board) == 0
    slow.go()
    assert names(board) == ["task.posted", "task.claimed", "task.posted", "task.refused", "task.posted"]


def test_a_refusal_under_way_is_not_written_twice_when_another_thread_is_refused(board: Board, other: Board) -> None:
    task = board.win(board.tasks.post(name="wanted").id)
    with pytest.raises(Lost):
        other.tasks.claim(ref=task.id)
    slow = Stopped(other, lambda: other.tasks.post(name="carries it"))
    with pytest.raises(Fenced):
        other.tasks.extend(ref=task.id, epoch=7)
    slow.go()
    other.close()
    assert refused_times(board) == 1


def test_a_refusal_is_not_lost_when_another_thread_commits_in_between(board: Board, other: Board) -> None:
    task = board.win(board.tasks.post(name="wanted").id)
    with pytest.raises(Lost):
        other.tasks.claim(ref=task.id)
    calls = [("tasks.post", {"name": "carries it"})]
    slow = Stopped(other, lambda: other.batch(calls))
    quick = in_thread(lambda: other.tasks.post(name="beside it"))
    slow.go()
    quick()
    other.close()
    assert refused_times(board) == 1


# ── Saying where one begins ──────────────────────────────────────────────────────────────────────────

GATE = 4242


def slow_to_begin(connection: Any) -> None:
    """Let writers stop between looking at the last number and saying that they begin after it."""
    [(shipped,)] = connection.execute("SELECT pg_get_functiondef('events_next'::regproc)").fetchall()
    pause = f"pg_advisory_lock_shared({GATE}), pg_advisory_unlock_shared({GATE})"
    slow = f"FROM (SELECT is_called, last_value, {pause} FROM events_number OFFSET 0) AS looked"
    changed = shipped.replace("FROM events_number", slow)
    assert changed != shipped
    connection.execute(changed)


@pytest.fixture
def slow_writer(database: str) -> Iterator[tuple[Board, Callable[[], None]]]:
    """A board on which one writer has looked but not begun yet, and what lets it begin."""
    with open_board(database) as board, psycopg.connect(database, autocommit=True) as raw:
        shipped = raw.execute("SELECT pg_get_functiondef('events_next'::regproc)").fetchone()
        slow_to_begin(raw)
        raw.execute(f"SELECT pg_advisory_lock({GATE})")
        with psycopg.connect(database, autocommit=True, options=WRITES) as writer:
            writer.execute("BEGIN")
            writing = in_thread(lambda: write_event(writer, "test.slow"))
            until(lambda: raw.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall(), "the writer has looked")
            assert shipped is not None
            raw.execute(shipped[0])  # the others are as quick as ever

            def begin() -> None:
                raw.execute(f"SELECT pg_advisory_unlock({GATE})")
                writing()

            yield board, begin


def test_a_writer_that_is_slow_to_begin_hides_nothing_from_a_follower(
    slow_writer: tuple[Board, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins between the follower's two looks: how far is all settled, and what is there?"""
    board, begin = slow_writer
    board.tasks.post(name="quick")
    run = board.engine.run
    looks: list[str] = []

    def looking(operation: Any, params: Any, once: str | None = None) -> Any:
        answer = run(operation, params, once)
        looks.append(operation.name)
        if looks == ["events.last"]:
            begin()
        return answer

    monkeypatch.setattr(board.engine, "run", looking)
    assert board.wait(after=0, timeout=PATIENCE).name == "quick"


def test_settled_events_stay_settled(slow_writer: tuple[Board, Callable[[], None]]) -> None:
    board, begin = slow_writer
    board.tasks.post(name="quick")
    settled = board.events.last()
    begin()
    assert board.events.last() >= settled
    assert [event.number for event in board.events.read()] == [settled]


# ── Many ─────────────────────────────────────────────────────────────────────────────────────────────

Run = Generator[None, None, Any]


def writer(address: str, i: int, turns: int) -> Run:
    """Take numbers, dawdle, and commit or not; the numbers that were committed, and a last one that says so."""
    chance = random.Random(i)
    connection = psycopg.connect(address, autocommit=True, options=WRITES)
    yield
    committed = []
    for _ in range(turns):
        connection.execute("BEGIN")
        for _ in range(chance.choice([1, 1, 3])):
            write_event(connection)
        time.sleep(chance.random() * 0.01)
        rows = connection.execute("SELECT number FROM events WHERE xmin::text = pg_current_xact_id()::text").fetchall()
        if chance.random() < 0.8:
            connection.execute("COMMIT")
            committed += [number for (number,) in rows]
        else:
            connection.execute("ROLLBACK")
    write_event(connection, "test.done")
    connection.close()
    return committed


def follower(address: str, writers: int, patience: float) -> Run:
    """Follow until every writer has said that it is done; the numbers, in the order in which they came."""
    board = open_board(address, "follower")
    yield
    seen, done = [], 0
    for event in board.follow(after=0, timeout=patience):
        seen.append(event.number)
        done += event.event == "test.done"
        if done == writers:
            break
    return seen


def reader(address: str, writers: int, patience: float) -> Run:
    """The same by a cursor, looking all the time: each look may fall between two commits."""
    board = open_board(address, "reader")
    yield
    seen, done, end = [0], 0, time.monotonic() + patience
    while done < writers and time.monotonic() < end:
        found = board.events.read(after=seen[-1], limit=7)
        seen += [event.number for event in found]
        done += sum(event.event == "test.done" for event in found)
    return seen[1:]


def write_and_read(address: str, patience: float) -> tuple[list[int], list[list[int]]]:
    """The numbers that were committed, and those that each reader got."""
    open_board(address).close()
    half = READERS // 2
    following = Crew(follower, [(address, WRITERS, patience)] * half)
    reading = Crew(reader, [(address, WRITERS, patience)] * half)
    with following, reading, Crew(writer, [(address, i, TURNS) for i in range(WRITERS)]) as writing:
        for crew in (following, reading, writing):
            crew.go()
        committed = [number for report in writing.reports() for number in report]
        return committed, [*following.reports(), *reading.reports()]


def test_every_reader_gets_every_event_once_and_in_order(address: str) -> None:
    committed, seen = write_and_read(address, patience=150)
    with open_board(address) as board:
        everything = [event.number for event in checkers.read_log(board)]
    assert len(everything) == len(committed) + WRITERS
    assert set(committed) < set(everything)
    assert seen == [everything] * READERS


def test_the_same_race_finds_a_cursor_that_goes_by_the_highest_number(database: str) -> None:
    open_board(database).close()
    with psycopg.connect(database, autocommit=True) as raw:
        raw.execute(
            "CREATE OR REPLACE FUNCTION events_settled() RETURNS bigint LANGUAGE sql AS "
            "'SELECT coalesce(max(number), 0) FROM events'"
        )
    assert any(misses_some(database) for _ in range(15))


def misses_some(address: str) -> bool:
    """Whether a reader has passed over a number in one such race; the log is emptied for the next."""
    committed, seen = write_and_read(address, patience=10)  # who missed the last word waits in vain
    with psycopg.connect(address, options=WRITES) as raw:
        raw.execute("DELETE FROM events")
    return any(set(committed) - set(numbers) for numbers in seen)
