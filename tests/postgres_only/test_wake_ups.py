"""Wake-ups: a notification is a hint. With it a waiter wakes at once, and without it within a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import psycopg
import pytest

from tests.races.crew import Crew
from tiebreak import Board
from tiebreak.engine.postgres import notifications
from tiebreak.engine.postgres.engine import LOOK_EVERY
from tiebreak.engine.postgres.notifications import CHANNEL, Notifications

from .conftest import PATIENCE, engine_of, in_thread, open_board, tap, until

ROUNDS = 20
Run = Generator[None, None, Any]


def answerer(address: str, rounds: int, rings: bool) -> Run:
    """Another process: wait for each word, and answer it."""
    board = open_board(address, "answerer")
    if not rings:
        engine_of(board)._notifications.notify = lambda connection: None  # type: ignore[method-assign]
    yield
    seen = 0
    for i in range(rounds):
        seen = board.wait(after=seen, timeout=PATIENCE, event="message.sent", name_contains=f"ping {i}.").number
        board.messages.send(body=f"pong {i}.")
    board.close()


def exchange(address: str, rounds: int, *, rings: bool = True) -> list[float]:
    """Words sent to and fro; how many seconds each answer took."""
    took = []
    with open_board(address) as board, Crew(answerer, [(address, rounds, rings)]) as crew:
        if not rings:
            engine_of(board)._notifications.notify = lambda connection: None  # type: ignore[method-assign]
        crew.go()
        seen = 0
        for i in range(rounds):
            begun = time.monotonic()
            board.messages.send(body=f"ping {i}.")
            seen = board.wait(after=seen, timeout=PATIENCE, event="message.sent", name_contains=f"pong {i}.").number
            took.append(time.monotonic() - begun)
        crew.reports()
    return took


def listeners(raw: psycopg.Connection[Any]) -> list[int]:
    """The connections that listen."""
    rows = raw.execute("SELECT pid FROM pg_stat_activity WHERE query = %s AND state = 'idle'", (f"LISTEN {CHANNEL}",))
    return [pid for (pid,) in rows.fetchall()]


def waiting(board: Board, after: int = 0) -> Any:
    """Somebody who waits for an event after a number, in a thread."""
    return in_thread(lambda: board.engine.wait(after, PATIENCE))


# ── With the hint, and without ───────────────────────────────────────────────────────────────────────


def test_another_process_wakes_well_before_it_would_look_by_itself(address: str) -> None:
    took = exchange(address, ROUNDS)
    prompt = [seconds for seconds in took if seconds < LOOK_EVERY / 2]
    assert len(prompt) > ROUNDS / 10, took  # those who look once a second are late every time


def test_the_same_exchange_is_slow_but_sure_when_every_hint_is_lost(address: str) -> None:
    took = exchange(address, 3, rings=False)
    assert len(took) == 3
    assert sum(took) > LOOK_EVERY, "something else than the hint woke them: the test above shows nothing"


def test_a_waiter_whose_listening_connection_is_cut_still_wakes(board: Board, other: Board, raw: Any) -> None:
    answer = waiting(board)
    [pid] = until(lambda: listeners(raw), "somebody listens")
    raw.execute("SELECT pg_terminate_backend(%s)", (pid,))
    until(lambda: pid not in listeners(raw), "the connection is cut")
    other.tasks.post(name="something")
    assert answer() is True


def test_a_waiter_whose_listening_connection_is_cut_listens_again(board: Board, other: Board, raw: Any) -> None:
    answer = waiting(board)
    [pid] = until(lambda: listeners(raw), "somebody listens")
    raw.execute("SELECT pg_terminate_backend(%s)", (pid,))
    try:
        until(lambda: [each for each in listeners(raw) if each != pid], "the same waiter listens again")
    finally:
        other.tasks.post(name="something")
        assert answer() is True


def test_waiting_works_where_listening_is_impossible(
    board: Board, other: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deaf() -> Any:
        raise psycopg.OperationalError("one cannot listen here")

    monkeypatch.setattr(engine_of(board)._notifications, "_connect", deaf)
    answers = [waiting(board), waiting(board)]
    other.tasks.post(name="something")
    assert [answer() for answer in answers] == [True, True]


def test_a_server_that_refuses_to_listen_leaves_no_connection_behind(
    board: Board, other: Board, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, made = engine_of(board)._connect, []

    class Deaf:
        """A connection on which everything works but LISTEN."""

        def __init__(self) -> None:
            self.connection = connect()
            made.append(self.connection)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

        def execute(self, statement: str, *rest: Any) -> Any:
            if statement.startswith("LISTEN"):
                raise psycopg.errors.FeatureNotSupported("LISTEN is not supported")
            return self.connection.execute(statement, *rest)

    monkeypatch.setattr(engine_of(board)._notifications, "_connect", Deaf)
    answer = waiting(board)
    other.tasks.post(name="something")
    assert answer() is True
    assert made
    assert all(connection.closed for connection in made)


# ── How much is told ─────────────────────────────────────────────────────────────────────────────────


class Ears:
    """A raw connection that counts notifications."""

    def __init__(self, address: str) -> None:
        self.connection = psycopg.connect(address, autocommit=True)
        self.connection.execute(f"LISTEN {CHANNEL}")

    def count(self, least: int = 0) -> int:
        """How many have come since the last time; waits for the first ones, if there must be some."""
        heard = 0
        while heard < least:
            found = sum(1 for _ in self.connection.notifies(timeout=PATIENCE, stop_after=1))
            assert found, "nothing is told"
            heard += found
        return heard + sum(1 for _ in self.connection.notifies(timeout=0.2))


@pytest.fixture
def ears(address: str) -> Iterator[Ears]:
    made = Ears(address)
    yield made
    made.connection.close()


def test_a_burst_of_commits_tells_of_itself_a_few_times_only(
    board: Board, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "PAUSE", 0.2)
    begun = time.monotonic()
    for i in range(500):
        board.tasks.post(name=f"one of many {i}")
    board.close()
    took = time.monotonic() - begun
    told = ears.count(1)
    # One for each pause; one more where a commit and the clock come to it at the same moment.
    assert 1 <= told <= 2 * (took / 0.2 + 1)
    assert told < 250


def test_a_batch_tells_of_itself_once(board: Board, ears: Ears) -> None:
    board.batch([("tasks.post", {"name": f"one of many {i}"}) for i in range(500)])
    assert ears.count(1) == 1


def test_the_last_commit_of_a_burst_is_notified_too(board: Board, ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "PAUSE", 0.3)
    board.tasks.post(name="first")
    board.tasks.post(name="last")
    assert ears.count(2) == 2


def test_a_call_that_changed_nothing_tells_nothing(board: Board, ears: Ears) -> None:
    assert board.tasks.next() == []
    assert ears.count() == 0


def test_no_notification_is_sent_inside_a_write_transaction(board: Board) -> None:
    """NOTIFY in it would make all commits of the database queue for one lock."""
    heard: list[str] = []
    tap(board, heard.append)
    board.tasks.post(name="alone")
    board.batch([("tasks.post", {"name": "first"}), ("tasks.post", {"name": "second"})])
    board.close()
    inside = False
    told = wrote = 0
    for statement in heard:
        if "NOTIFY" not in statement:
            wrote += inside and "INSERT" in statement
            inside = statement.startswith("BEGIN") or (inside and not statement.endswith(("COMMIT", "END")))
        told += "NOTIFY" in statement
        assert not (inside and "NOTIFY" in statement)
        if "NOTIFY" in statement:
            assert "INSERT" not in statement
    assert told >= 1
    assert wrote >= 2


# ── How many connections it takes ────────────────────────────────────────────────────────────────────


def test_all_waiters_of_a_process_share_one_listening_connection(board: Board, other: Board, raw: Any) -> None:
    answers = [waiting(board) for _ in range(5)]
    until(lambda: listeners(raw), "somebody listens")
    busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tiebreak' AND state = 'active'"
    until(lambda: raw.execute(busy).fetchone() == (0,), "all of them sleep")
    assert len(listeners(raw)) == 1
    other.tasks.post(name="something")
    assert [answer() for answer in answers] == [True] * 5


def test_a_burst_opens_no_connection_for_each_hint(board: Board, ears: Ears, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "PAUSE", 0.02)
    board.tasks.post(name="warm")
    connect, made = psycopg.connect, []

    def counted(*args: Any, **more: Any) -> Any:
        made.append(args)
        return connect(*args, **more)

    monkeypatch.setattr(psycopg, "connect", counted)
    told = 0
    while told < 10:
        for i in range(50):
            board.tasks.post(name=f"one of many {i}")
        told += ears.count()
    assert len(made) <= 2


def test_a_notification_that_one_thread_receives_wakes_all_waiters(
    board: Board, other: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One looks, then the other hears and wakes all that sleep, and only then the first one lies down."""
    sleep, looked, heard = Notifications.sleep, threading.Event(), threading.Event()
    slow: list[threading.Thread] = []

    def lies_down_late(self: Notifications, seconds: float, *rest: Any) -> None:
        if threading.current_thread() in slow and not looked.is_set():
            looked.set()
            assert heard.wait(PATIENCE)
        sleep(self, seconds, *rest)

    monkeypatch.setattr(Notifications, "sleep", lies_down_late)
    monkeypatch.setattr("tiebreak.engine.postgres.engine.LOOK_EVERY", 250.0)
    answer: list[bool] = []
    late = threading.Thread(target=lambda: answer.append(board.engine.wait(0, 250)), daemon=True)
    slow.append(late)
    late.start()
    assert looked.wait(PATIENCE)
    neighbour = waiting(board)
    other.tasks.post(name="something")
    assert neighbour() is True
    heard.set()
    late.join(PATIENCE)
    assert answer == [True]
