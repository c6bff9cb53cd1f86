"""A server that rejects refusals does not stop the write: it is repeated without them, and they are counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import tiebreak
from tiebreak import Board, Lost, Unavailable
from tiebreak.engine import refusals
from tiebreak.engine.postgres.write_attempt import WriteAttempt

WARNING = "dropped: the log does not tell of them"


@pytest.fixture
def alice(address: str) -> Iterator[Board]:
    with tiebreak.open(address, agent="alice~1", project="demo") as board:
        board.tasks.claim(ref="work")
        yield board


@pytest.fixture
def bob(address: str) -> Iterator[Board]:
    with tiebreak.open(address, agent="bob~1", project="demo") as board:
        yield board


@contextmanager
def rejecting(raw: psycopg.Connection[Any], *events: str) -> Iterator[None]:
    """A server that takes no event of these names."""
    names = ", ".join(f"'{event}'" for event in events)
    raw.execute(f"ALTER TABLE events ADD CONSTRAINT no CHECK (event NOT IN ({names})) NOT VALID".encode())
    try:
        yield
    finally:
        raw.execute("ALTER TABLE events DROP CONSTRAINT no")


def lose(board: Board, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(Lost):
            board.tasks.claim(ref="work")


def told(board: Board) -> int:
    return sum(event.times for event in board.events.read(event="task.refused"))


def test_a_write_is_repeated_without_rejected_refusals(alice: Board, bob: Board, raw: psycopg.Connection[Any]) -> None:
    lose(bob, 3)
    with rejecting(raw, "task.refused"):
        assert bob.tasks.post(name="other").state == "pending"
        assert bob.engine.refusals_dropped == 3
        bob.tasks.post(name="another")
        assert bob.engine.refusals_dropped == 3
    assert {task.name for task in alice.tasks.list(states=["pending"])} == {"other", "another"}
    assert ("warn", "refusals", f"3 {WARNING}") in bob.engine.diagnose()
    lose(bob)
    bob.tasks.post(name="carries again")
    assert told(alice) == 1


def test_a_batch_is_repeated_without_rejected_refusals(alice: Board, bob: Board, raw: psycopg.Connection[Any]) -> None:
    lose(bob, 3)
    with rejecting(raw, "task.refused"):
        answers = bob.batch([("tasks.post", {"name": f"task {i}"}) for i in range(5)])
    assert {task.name for task in answers} == {task.name for task in alice.tasks.list(states=["pending"])}
    assert bob.engine.refusals_dropped == 3


def test_threads_with_rejected_refusals_all_get_their_answer(bob: Board, raw: psycopg.Connection[Any]) -> None:
    def work(number: int) -> str:
        bob.engine.refusals.add("task.refused", 1, {"project": "demo", "subject": f"{number}"})  # type: ignore[attr-defined]
        return bob.tasks.post(name=f"task {number}").name

    with rejecting(raw, "task.refused"), ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(40))) == [f"task {number}" for number in range(40)]
        bob.tasks.post(name="the last one")
    assert bob.engine.refusals_dropped == 40


def test_refusals_are_kept_when_the_write_fails_without_them_too(
    alice: Board, bob: Board, raw: psycopg.Connection[Any]
) -> None:
    lose(bob, 3)
    with rejecting(raw, "task.refused", "task.posted"), pytest.raises(Unavailable):
        bob.tasks.post(name="fails")
    assert bob.engine.refusals_dropped == 0
    bob.tasks.post(name="works")
    assert told(alice) == 3


def test_refusals_are_kept_when_the_second_attempt_is_refused(
    alice: Board, bob: Board, raw: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(bob, 3)
    really = WriteAttempt.end

    def taken_meanwhile(self: WriteAttempt, **how: Any) -> None:
        really(self, **how)
        if self.rejected:
            alice.tasks.claim(ref="fresh")

    with rejecting(raw, "task.refused"), monkeypatch.context() as patch:
        patch.setattr(WriteAttempt, "end", taken_meanwhile)
        with pytest.raises(Lost):
            bob.tasks.claim(ref="fresh")
    assert bob.engine.refusals_dropped == 0
    bob.tasks.post(name="works")
    assert told(alice) == 4


def test_closing_with_rejected_refusals_raises_nothing(alice: Board, bob: Board, raw: psycopg.Connection[Any]) -> None:
    lose(bob, 3)
    with rejecting(raw, "task.refused"):
        bob.close()
    assert told(alice) == 0


# ── Planted bugs ─────────────────────────────────────────────────────────────────────────────────────


def survives(board: Board) -> None:
    """What must hold whatever was refused: later writes pass, and the log tells of it."""
    some = random.Random(1)
    text = "".join(chr(some.randrange(0x4E00, 0x9FFF)) for _ in range(3000))
    facts = {"project": "demo", "subject": text, "name": text, "agent": "bob~1", "note": text}
    board.engine.refusals.add("task.refused", 1, facts)  # type: ignore[attr-defined]
    board.tasks.post(name="other")
    assert board.engine.refusals_dropped == 0
    assert told(board) == 1


def no_bound(put: Callable[[object, str, object], None]) -> None:
    """Every text is remembered whole."""
    put(refusals, "cut_to_fit", lambda key: key)


def no_second_try(put: Callable[[object, str, object], None]) -> None:
    """Nor is a write done again without what the server rejected."""
    really = WriteAttempt.end

    def end(self: WriteAttempt, *, committed: bool, problem: object = None) -> None:
        really(self, committed=committed)

    no_bound(put)
    put(WriteAttempt, "end", end)


def test_a_refusal_of_any_length_is_logged_and_stops_no_write(bob: Board) -> None:
    survives(bob)


def test_a_refusal_that_is_not_cut_is_noticed(bob: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    no_bound(monkeypatch.setattr)
    with pytest.raises(AssertionError, match="assert 1 == 0"):
        survives(bob)
    bob.tasks.post(name="and yet everybody can write")


def test_a_write_that_is_not_tried_again_is_noticed(bob: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    no_second_try(monkeypatch.setattr)
    with pytest.raises(Unavailable, match="index row"):
        survives(bob)
