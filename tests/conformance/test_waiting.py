"""Waiting: no change after the cursor is missed, whichever process made it, and no wait lasts longer than asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Event as Signal
from time import monotonic, sleep
from typing import Any

import pytest

from tiebreak import Board, Claim, Holding, Invalid, Lost, Refused, TimedOut

from .engines import Place

SOON = 60.0
"""Long enough for the slowest machine; a test that passes never waits that long."""


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for those who wait."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def until(condition: Callable[[], Any]) -> None:
    end = monotonic() + SOON
    while not condition():
        assert monotonic() < end, "it never happened"
        sleep(0.005)


def asleep(board: Board, monkeypatch: pytest.MonkeyPatch) -> Signal:
    """A signal that is given when this board has found nothing and lies down to wait."""
    signal = Signal()
    really = board.engine.wait

    def wait(*args: Any, **filters: Any) -> bool:
        signal.set()
        return really(*args, **filters)

    monkeypatch.setattr(board.engine, "wait", wait)
    return signal


def refused(board: Board, ref: str) -> bool:
    """Whether this board's agent has tried and lost: it is waiting now."""
    return any("was refused" in sentence.text for sentence in board.events.why(ref=ref))


# ── Events ───────────────────────────────────────────────────────────────────────────────────────────


def test_what_happened_before_the_wait_but_after_the_cursor_is_not_missed(alice: Board, bob: Board) -> None:
    cursor = alice.events.last()
    bob.tasks.post(name="work")
    assert alice.wait(after=cursor, timeout=SOON).name == "work"


@pytest.mark.parametrize("look", ["events.read", "events.last"])
def test_what_happens_right_after_a_look_is_not_missed(
    place: Place, alice: Board, bob: Board, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    alice.messages.send(body="something else")
    happened: list[Any] = []
    engine = place.looking(alice)
    really = engine.run

    def and_then_something_happens(operation: Any, params: Any, once: str | None = None) -> Any:
        found = really(operation, params, once)
        if operation.name == look and not happened:
            happened.append(found)
            bob.tasks.post(name="work")
        return found

    monkeypatch.setattr(engine, "run", and_then_something_happens)
    assert alice.wait(after=0, timeout=SOON, event="task.posted").name == "work"
    assert happened, "nobody looked"


def test_a_waiter_wakes_when_another_board_writes(alice: Board, bob: Board, threads: ThreadPoolExecutor) -> None:
    cursor = alice.events.last()
    waiting = threads.submit(alice.wait, after=cursor, timeout=SOON, event="message.sent")
    bob.tasks.post(name="something else")
    bob.messages.send(body="wake up")
    assert waiting.result(SOON).name == "wake up"


def test_a_waiter_wakes_when_its_own_board_writes(alice: Board, threads: ThreadPoolExecutor) -> None:
    cursor = alice.events.last()
    waiting = threads.submit(alice.wait, after=cursor, timeout=SOON)
    alice.messages.send(body="wake up")
    assert waiting.result(SOON).name == "wake up"


@pytest.mark.parametrize("pause", [0, 0.05], ids=["falling asleep", "asleep"])
def test_waking_takes_less_time_than_looking_now_and_then(
    place: Place, bob: Board, threads: ThreadPoolExecutor, pause: float
) -> None:
    """One who looks once a second is late every time, where waking is possible; a machine may be busy now and then."""

    def delay() -> float:
        board = place.open("alice")
        cursor = board.events.last()
        waiting = threads.submit(lambda: (board.wait(after=cursor, timeout=SOON), monotonic())[1])
        sleep(pause)
        bob.messages.send(body="wake up")
        sent = monotonic()
        return waiting.result(SOON) - sent

    prompt = (seconds for seconds in (delay() for _ in range(30)) if seconds < place.wakes_within)
    assert len(list(islice(prompt, 5))) == 5


def test_several_waiters_all_wake(place: Place, alice: Board, threads: ThreadPoolExecutor) -> None:
    boards = [alice, alice, place.open("bob"), place.open("carol")]
    cursor = alice.events.last()
    waiting = [threads.submit(board.wait, after=cursor, timeout=SOON) for board in boards]
    place.open("dave").messages.send(body="wake up")
    assert [wait.result(SOON).number for wait in waiting] == [cursor + 1] * 4


@pytest.mark.parametrize(
    "filters",
    [
        {"event": "task.claimed"},
        {"kind": "bug", "state": "claimed"},
        {"agent": "bob"},
        {"name_contains": "login"},
        {"priority": "high"},
        {"project": "other"},
    ],
    ids=str,
)
def test_a_waiter_is_not_woken_by_what_it_does_not_want(place: Place, alice: Board, filters: dict[str, Any]) -> None:
    cursor = alice.events.last()
    alice.tasks.post(name="something else")
    bob = place.open("bob", project=filters.get("project", "demo"))
    task = bob.tasks.post(name="fix login", kind="bug", priority="high")
    bob.tasks.claim(ref=task.id)
    found = alice.wait(after=cursor, timeout=SOON, **filters)
    assert found.subject == task.id


def test_without_a_cursor_only_what_comes_is_waited_for(alice: Board) -> None:
    alice.tasks.post(name="before")
    with pytest.raises(TimedOut):
        alice.wait(timeout=0.05)


@pytest.mark.parametrize("timeout", [0, 0.05, "50ms"])
def test_a_wait_ends_when_its_time_is_up(alice: Board, timeout: Any) -> None:
    alice.tasks.post(name="something else")
    started = monotonic()
    with pytest.raises(TimedOut):
        alice.wait(after=0, timeout=timeout, event="message")
    assert monotonic() - started < SOON


def test_a_wait_without_time_still_finds_what_is_there(alice: Board) -> None:
    alice.tasks.post(name="work")
    assert alice.wait(after=0, timeout=0).name == "work"


@pytest.mark.parametrize("wrong", [{"colour": "red"}, {"state": "open"}, {"timeout": "soon"}, {"after": -1}], ids=str)
def test_a_senseless_wait_is_refused_at_once(alice: Board, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        alice.wait(**{"timeout": SOON, **wrong})


def test_following_leaves_out_no_event_and_repeats_none(alice: Board, bob: Board, threads: ThreadPoolExecutor) -> None:
    def post() -> None:
        for i in range(200):
            bob.tasks.post(name=f"work {i}")

    cursor = alice.events.last()
    posting = threads.submit(post)
    followed = islice(alice.follow(after=cursor, timeout=SOON, event="task.posted"), 200)
    assert [event.name for event in followed] == [f"work {i}" for i in range(200)]
    posting.result(SOON)


def test_following_several_writers_is_in_order_of_numbers(
    place: Place, alice: Board, threads: ThreadPoolExecutor
) -> None:
    def post(board: Board) -> None:
        for i in range(30):
            board.tasks.post(name=f"work {i}")

    cursor = alice.events.last()
    posting = [threads.submit(post, place.open(name)) for name in ("bob", "carol", "dave")]
    numbers = [event.number for event in islice(alice.follow(after=cursor, timeout=SOON), 90)]
    assert numbers == list(range(cursor + 1, cursor + 91))
    for each in posting:
        each.result(SOON)


def test_following_reads_on_behind_a_long_backlog(alice: Board) -> None:
    calls = [("messages.send", {"body": f"message {i}"}) for i in range(1100)]
    alice.batch(calls)
    assert sum(1 for _ in alice.follow(after=0, timeout=0)) == 1100


def test_following_ends_when_its_time_is_up(alice: Board) -> None:
    assert list(alice.follow(timeout=0.05)) == []


# ── Tasks ────────────────────────────────────────────────────────────────────────────────────────────


def test_next_waits_for_a_task_that_is_posted(alice: Board, bob: Board, threads: ThreadPoolExecutor) -> None:
    waiting = threads.submit(lambda: alice.next(wait=SOON))
    bob.tasks.post(name="work")
    assert [claim.task.name for claim in waiting.result(SOON)] == ["work"]


def test_next_waits_for_a_task_of_its_kind(alice: Board, bob: Board, threads: ThreadPoolExecutor) -> None:
    waiting = threads.submit(lambda: alice.next(wait=SOON, kind="bug", queue="fast", tag="ui"))
    bob.tasks.post(name="not this", kind="bug")
    bob.tasks.post(name="this", kind="bug", queue="fast", tags=["ui"])
    assert [claim.task.name for claim in waiting.result(SOON)] == ["this"]


def test_next_waits_for_a_delay_to_pass(
    place: Place, alice: Board, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.tasks.post(name="later", delay=0.2)
    sleeping = asleep(alice, monkeypatch)
    waiting = threads.submit(lambda: alice.next(wait=SOON))
    assert sleeping.wait(SOON)
    place.advance(1)
    assert [claim.task.name for claim in waiting.result(SOON / 2)] == ["later"]


def test_next_waits_for_a_lease_to_run_out(
    place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.tasks.claim(ref="work", lease=0.2)
    sleeping = asleep(bob, monkeypatch)
    waiting = threads.submit(lambda: bob.next(wait=SOON))
    assert sleeping.wait(SOON)
    place.advance(1)
    assert [claim.epoch for claim in waiting.result(SOON / 2)] == [2]


def test_two_waiters_for_one_task_do_not_both_get_it(
    place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor
) -> None:
    waiting = [threads.submit(Board.next, board, wait=SOON) for board in (alice, bob)]
    carol = place.open("carol")
    carol.tasks.post(name="work")
    assert len(futures.wait(waiting, SOON, futures.FIRST_COMPLETED).done) == 1
    carol.tasks.post(name="more work")
    won = [[claim.task.name for claim in wait.result(SOON)] for wait in waiting]
    assert sorted(won) == [["more work"], ["work"]]


@pytest.mark.parametrize("wait", [0, "50ms"])
def test_next_comes_back_empty_when_its_time_is_up(alice: Board, wait: Any) -> None:
    started = monotonic()
    assert alice.next(wait=wait) == []
    assert monotonic() - started < SOON


def waiting_claim(threads: ThreadPoolExecutor, board: Board, ref: str) -> Future[Claim]:
    waiting = threads.submit(lambda: board.claim(ref, wait=SOON))
    until(lambda: refused(board, ref))
    return waiting


def test_a_waiting_claim_gets_the_task_when_it_is_released(
    alice: Board, bob: Board, threads: ThreadPoolExecutor
) -> None:
    alice.tasks.claim(ref="work")
    waiting = waiting_claim(threads, bob, "work")
    alice.tasks.release(ref="work")
    assert waiting.result(SOON).epoch == 2


def test_a_waiting_claim_gets_the_task_when_its_lease_runs_out(
    place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor
) -> None:
    alice.tasks.claim(ref="work", lease=0.5)
    waiting = waiting_claim(threads, bob, "work")
    place.advance(1)
    assert waiting.result(SOON).epoch == 2


@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_a_waiting_claim_learns_that_the_task_is_over(
    alice: Board, bob: Board, threads: ThreadPoolExecutor, end: str
) -> None:
    alice.tasks.claim(ref="work")
    waiting = waiting_claim(threads, bob, "work")
    alice.call(f"tasks.{end}", {"ref": "work"})
    with pytest.raises(Refused, match=end):
        waiting.result(SOON)


@pytest.mark.parametrize("wait", [0, "50ms"])
def test_a_claim_is_refused_when_its_time_is_up(alice: Board, bob: Board, wait: Any) -> None:
    alice.tasks.claim(ref="work")
    started = monotonic()
    with pytest.raises(Lost) as refusal:
        bob.claim("work", wait=wait)
    assert refusal.value.holder == "alice"
    assert monotonic() - started < SOON


# ── Holds ────────────────────────────────────────────────────────────────────────────────────────────


def waiting_hold(threads: ThreadPoolExecutor, board: Board, resource: str, **more: Any) -> Future[Holding]:
    waiting = threads.submit(lambda: board.hold(resource, wait=SOON, **more))
    until(lambda: refused(board, resource))
    return waiting


def test_a_waiting_hold_gets_what_is_released(alice: Board, bob: Board, threads: ThreadPoolExecutor) -> None:
    alice.holds.take(resources=["lock:deploy"])
    waiting = waiting_hold(threads, bob, "lock:deploy")
    alice.holds.release(resources=["lock:deploy"])
    assert waiting.result(SOON).epoch == 2


def test_a_waiting_hold_gets_what_is_broken(
    place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor
) -> None:
    alice.holds.take(resources=["lock:deploy"])
    waiting = waiting_hold(threads, bob, "lock:deploy")
    place.open("operator").call("holds.break", {"resource": "lock:deploy", "reason": "stuck"})
    assert waiting.result(SOON).epoch == 2


def test_a_waiting_hold_goes_on_waiting_when_it_is_handed_to_a_third(
    place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor
) -> None:
    carol = place.open("carol")
    alice.holds.take(resources=["lock:deploy"])
    waiting = waiting_hold(threads, bob, "lock:deploy")
    alice.holds.transfer(resource="lock:deploy", to=carol.agent)
    carol.holds.release(resources=["lock:deploy"])
    assert waiting.result(SOON).epoch == 3


def test_a_waiting_hold_that_is_handed_over_to_the_waiter_is_its(
    alice: Board, bob: Board, threads: ThreadPoolExecutor
) -> None:
    alice.holds.take(resources=["lock:deploy"])
    waiting = waiting_hold(threads, bob, "lock:deploy", again=True)
    alice.holds.transfer(resource="lock:deploy", to=bob.agent)
    assert waiting.result(SOON).epoch == 2


def test_a_waiting_hold_gets_what_runs_out(place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=0.5)
    waiting = waiting_hold(threads, bob, "lock:deploy")
    place.advance(1)
    assert waiting.result(SOON).epoch == 2


def test_a_waiting_hold_gets_a_path_when_the_glob_is_released(
    alice: Board, bob: Board, threads: ThreadPoolExecutor, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    alice.holds.take(resources=["file:src/**"])
    waiting = waiting_hold(threads, bob, "src/a.py")
    alice.holds.release(resources=["file:src/**"])
    assert waiting.result(SOON).epoch == 1


def test_a_waiting_hold_gets_a_slot_when_one_is_released(alice: Board, bob: Board, threads: ThreadPoolExecutor) -> None:
    alice.holds.take(resources=["pool:ports"], slots=2)
    alice.holds.take(resources=["pool:ports"])
    waiting = waiting_hold(threads, bob, "pool:ports")
    alice.holds.release(resources=["pool:ports"], slots=[0])
    assert (waiting.result(SOON).slot, waiting.result().epoch) == (0, 2)


@pytest.mark.parametrize("what", ["task", "hold"])
def test_a_waiter_does_not_try_again_after_unrelated_changes(
    alice: Board, bob: Board, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    alice.tasks.claim(ref="work")
    alice.holds.take(resources=["lock:deploy"])
    sleeping = asleep(bob, monkeypatch)
    waiting = threads.submit(
        lambda: bob.claim("work", wait=SOON) if what == "task" else bob.hold("lock:deploy", wait=SOON)
    )
    assert sleeping.wait(SOON)
    for i in range(10):
        alice.messages.send(body=f"something else {i}")
    alice.tasks.release(ref="work")
    alice.holds.release(resources=["lock:deploy"])
    waiting.result(SOON)
    assert sum(event.times for event in alice.events.read(event=f"{what}.refused")) <= 2


def test_waiting_for_several_gets_them_all_together(
    place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor
) -> None:
    carol = place.open("carol")
    alice.holds.take(resources=["lock:a"])
    carol.holds.take(resources=["lock:b"])
    waiting = threads.submit(lambda: bob.hold("lock:a", "lock:b", wait=SOON))
    until(lambda: refused(bob, "lock:a"))
    alice.holds.release(resources=["lock:a"])
    until(lambda: refused(bob, "lock:b"))
    assert bob.holds.list(agent="bob") == []
    carol.holds.release(resources=["lock:b"])
    assert [hold.epoch for hold in waiting.result(SOON).holds] == [2, 2]


def test_of_two_waiters_for_a_hold_one_gets_it(
    place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor
) -> None:
    carol = place.open("carol")
    alice.holds.take(resources=["lock:deploy"])
    waiting = [threads.submit(Board.hold, board, "lock:deploy", wait=SOON) for board in (bob, carol)]
    until(lambda: refused(bob, "lock:deploy") and refused(carol, "lock:deploy"))
    alice.holds.release(resources=["lock:deploy"])
    [first] = futures.wait(waiting, SOON, futures.FIRST_COMPLETED).done
    first.result().release()
    assert sorted(wait.result(SOON).epoch for wait in waiting) == [2, 3]


@pytest.mark.parametrize("wait", [0, "50ms"])
def test_a_hold_is_refused_when_its_time_is_up(alice: Board, bob: Board, wait: Any) -> None:
    alice.holds.take(resources=["lock:deploy"])
    started = monotonic()
    with pytest.raises(Lost) as refusal:
        bob.hold("lock:deploy", wait=wait)
    assert refusal.value.holder == "alice"
    assert monotonic() - started < SOON


@pytest.mark.parametrize("wait", [-1, "soon", None])
def test_a_senseless_patience_is_refused_before_anything_is_taken(alice: Board, wait: Any) -> None:
    with pytest.raises(Invalid):
        alice.hold("lock:deploy", wait=wait)
    assert alice.holds.list() == []
