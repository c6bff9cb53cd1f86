"""A connection that breaks around a COMMIT: only the server knows whether it happened.

A write that did not happen is run again, one that happened is not, and the answer is right in both cases.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import tiebreak
from tests.cli.command import until
from tests.deeds import DEEDS, Calls
from tests.postgres import Server
from tiebreak import Board, Lost, Unavailable
from tiebreak.engine.postgres.engine import PostgresEngine
from tiebreak.model import encode

from .wire import PASS, Wire, before

PATIENCE = 60.0
COMMITS = {"before": 2, "halved": 2, "after": 1}
"""The faults, and how many COMMITs it takes until it has happened."""


@pytest.fixture
def wire(mortal: Server) -> Iterator[Wire]:
    """A proxy before the server."""
    with before(mortal.folder) as made:
        yield made


@pytest.fixture
def direct(mortal: Server, project: str) -> Iterator[Board]:
    """The same board, not through the proxy."""
    with tiebreak.open(mortal.address(), agent="me~1", project=project) as board:
        yield board


@pytest.fixture
def mine(wire: Wire, project: str, direct: Board) -> Iterator[Board]:
    """The board through the proxy; it has committed often enough for everything to be prepared."""
    with tiebreak.open(wire.address(), agent="me~1", project=project) as board:
        for _ in range(4):
            board.agents.heartbeat()
        yield board


def made(board: Board, calls: Calls, once: str | None = None) -> list[Any]:
    """Make the calls in one transaction; their answers as they travel."""
    if len(calls) == 1:
        return [encode(board.call(*calls[0], once=once))]
    keys: list[tuple[str, ...]] = [(f"{once}-{i}",) if once else () for i in range(len(calls))]
    answers = board.batch([(*call, *key) for call, key in zip(calls, keys, strict=True)])
    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    return [encode(answer) for answer in answers]


def told(board: Board, after: int) -> list[str]:
    """What the log tells of since then."""
    return sorted(event.event for event in board.events.read(after=after, limit=1000))


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Do something in a thread; its answer or its error is in the list when the thread has ended."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as exc:
            outcome.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


# ── Once, and answered rightly ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("once", [None, "a-key-of-mine"], ids=["without a key", "with a key"])
@pytest.mark.parametrize("fault", COMMITS)
@pytest.mark.parametrize("deed", DEEDS)
def test_a_write_whose_commit_breaks_happens_once(
    wire: Wire, mine: Board, direct: Board, deed: str, fault: str, once: str | None, project: str
) -> None:
    earlier, calls, expected = DEEDS[deed]
    for call in earlier:
        direct.call(*call)
    seen = direct.events.last()
    wire.next(fault)
    key = once and f"{once}-{project}"
    answers = made(mine, calls, key)
    assert wire.commits == COMMITS[fault]
    assert told(direct, seen) == expected
    assert made(direct, [("tasks.list", {})]) == made(mine, [("tasks.list", {})])
    if key:
        assert made(direct, calls, key) == answers, "the answer that was kept is another one"
        assert told(direct, seen) == expected


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("deed", ["post", "claim", "complete", "take", "batch"])
def test_a_commit_that_arrives_late_is_waited_for(wire: Wire, mine: Board, direct: Board, deed: str) -> None:
    """The server still has it in progress when it is asked; running it again then would do it twice."""
    earlier, calls, expected = DEEDS[deed]
    for call in earlier:
        direct.call(*call)
    seen = direct.events.last()
    wire.next("late")
    thread, outcome = in_background(lambda: made(mine, calls))
    assert wire.struck.wait(PATIENCE)
    until(lambda: statements_about(direct, "pg_xact_status"), "somebody has asked what became of it")
    assert not outcome
    wire.deliver()
    thread.join(PATIENCE)
    assert [type(answer) for answer in outcome] == [list], outcome
    assert wire.commits == 1
    assert told(direct, seen) == expected


def statements_about(board: Board, words: str) -> bool:
    """Whether another connection's last statement had these words in it."""
    with psycopg.connect(board.engine.address) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND pid <> pg_backend_pid()", (f"%{words}%",)
        ).fetchone()
    return bool(found and found[0])


def test_the_answer_is_what_stands_on_the_board(wire: Wire, mine: Board, direct: Board) -> None:
    for fault in COMMITS:
        wire.next(fault)
        task = mine.tasks.claim(ref=f"t-{fault}", lease=60.0)
        assert (task.holder, task.epoch) == ("me", 1)
        assert direct.tasks.get(ref=task.id) == task
        wire.next(fault)
        assert mine.tasks.complete(ref=task.id, epoch=1, result=fault) == direct.tasks.get(ref=task.id)
        wire.next(fault)
        [held] = mine.holds.take(resources=[f"lock:{fault}"])
        assert direct.holds.list() == [held]
        wire.next(fault)
        mine.holds.release(resources=[held.resource], epochs=[held.epoch])
        assert direct.holds.list() == []


@pytest.mark.parametrize("fault", COMMITS)
def test_a_batch_with_a_refusal_in_it_happens_once(wire: Wire, mine: Board, direct: Board, fault: str) -> None:
    """What the refused one had written by then was undone, so its absence tells nothing about the others."""
    direct.holds.take(resources=["lock:b"], agent="rival~1")
    seen = direct.events.last()
    wire.next(fault)
    posted, refused = mine.batch([("tasks.post", {"name": "t"}), ("holds.take", {"resources": ["lock:a", "lock:b"]})])
    assert isinstance(refused, Lost)
    assert wire.commits == COMMITS[fault]
    assert [task.id for task in direct.tasks.list()] == [posted.id]
    assert [event.event for event in direct.events.read(after=seen) if event.event != "hold.refused"] == ["task.posted"]


def test_a_bad_line_is_survived(wire: Wire, mine: Board, direct: Board) -> None:
    wire.next("before", "halved", "before", PASS, "halved", "before", "after")
    task = mine.tasks.claim(ref="t")
    mine.tasks.release(ref="t", epoch=task.epoch)
    assert told(direct, 0).count("task.claimed") == told(direct, 0).count("task.released") == 1
    assert wire.commits == 7


def test_a_refusal_is_still_a_refusal_when_it_is_run_again(wire: Wire, mine: Board, direct: Board) -> None:
    """Between the break and the second try somebody else may win: then the second try has lost."""
    direct.tasks.post(name="t", key="t")
    wire.next("before")
    rival = tiebreak.open(direct.engine.address, agent="rival~1", project=direct.project)
    with rival, rival_first(mine, lambda: rival.tasks.claim(ref="t")), pytest.raises(Lost) as lost:
        mine.tasks.claim(ref="t")
    assert lost.value.holder == "rival"
    assert told(direct, 0).count("task.claimed") == 1


class rival_first:  # noqa: N801  (reads as a phrase)
    """While it lasts, somebody else acts after each broken commit, before it is gone on with."""

    def __init__(self, board: Board, act: Callable[[], Any]) -> None:
        assert isinstance(board.engine, PostgresEngine)
        self._engine, self._act = board.engine, act

    def __enter__(self) -> None:
        asked = self._engine._did_commit

        def did_commit(attempt: Any) -> bool:
            answer = asked(attempt)
            self._act()
            return answer

        self._engine._did_commit = did_commit  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        del self._engine.__dict__["_did_commit"]


# ── What nobody can know by the number alone ─────────────────────────────────────────────────────────


def test_a_number_that_the_server_gave_out_again_is_not_taken_for_ours(wire: Wire, mine: Board, mortal: Server) -> None:
    """A crash forgets transactions that were never written to disk, and their numbers go to others, who commit."""
    wire.next("stalled")
    thread, outcome = in_background(lambda: mine.tasks.post(name="ours"))
    assert wire.struck.wait(PATIENCE)
    mortal.stop(signal.SIGQUIT)
    mortal.start()
    with tiebreak.open(mortal.address(), agent="others~1", project="elsewhere") as others:
        for i in range(20):
            others.tasks.post(name=f"other {i}")
        wire.deliver()
        thread.join(PATIENCE)
        [answer] = outcome
        ours = [task.id for task in others.tasks.list(project=mine.project)]
        assert ours == [answer.id], f"acknowledged, but not there: {answer}"


def test_an_unknown_outcome_is_reported_as_unknown(wire: Wire, mine: Board, mortal: Server) -> None:
    """The server stays away: the caller learns that nobody knows, and how to ask again."""
    wire.next("stalled")
    thread, outcome = in_background(lambda: mine.tasks.post(name="t"))
    assert wire.struck.wait(PATIENCE)
    mortal.stop()
    wire.deliver()
    thread.join(PATIENCE)
    assert isinstance(outcome[0], Unavailable)
    assert "while committing" in outcome[0].message
    assert "once" in outcome[0].hint


# ── A connection that seems well ─────────────────────────────────────────────────────────────────────


def test_a_client_that_vanishes_inside_a_transaction_does_not_stop_the_others(
    wire: Wire, mine: Board, direct: Board
) -> None:
    """A host that loses power says nothing. What its open transaction has locked must be free again soon."""
    direct.tasks.post(name="t", key="t")
    wire.next("stalled")
    vanished, _ = in_background(lambda: mine.holds.take(resources=["lock:a"], lease=1.0))
    assert wire.struck.wait(PATIENCE)
    try:
        rival = tiebreak.open(direct.engine.address, agent="rival~1", project=direct.project)
        thread, outcome = in_background(lambda: rival.holds.take(resources=["lock:a"]))
        thread.join(PATIENCE)
        assert outcome, f"still waits after {PATIENCE:g} s for one who is not there any more"
        assert outcome[0][0].holder == "rival"
        rival.close()
    finally:
        wire.deliver()
        vanished.join(PATIENCE)


# ── Planted: guessing instead of asking ──────────────────────────────────────────────────────────────


def guess(monkeypatch: pytest.MonkeyPatch, outcome: bool) -> None:
    """Plant the bug: nobody asks the server."""
    monkeypatch.setattr(PostgresEngine, "_did_commit", lambda self, attempt: outcome)


def test_running_again_without_asking_would_double_posts_and_lose_claims(
    wire: Wire, mine: Board, direct: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = direct.events.last()
    guess(monkeypatch, False)
    wire.next("after")
    mine.tasks.post(name="t")
    assert told(direct, seen) == ["task.posted", "task.posted"]
    wire.next("after")
    with pytest.raises(Lost):
        mine.tasks.claim(ref="t")


def test_taking_it_for_done_without_asking_would_lose_what_was_acknowledged(
    wire: Wire, mine: Board, direct: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = direct.events.last()
    guess(monkeypatch, True)
    wire.next("before")
    assert mine.tasks.post(name="t").name == "t"
    assert told(direct, seen) == []
