"""The wait queue: first come, first served; no waiter is overtaken, starved, or left in a deadlock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any

import pytest

from tiebreak import Board, Deadlock, Holding, Invalid, Lost, Refused
from tiebreak.limits import PLACE_LEASE
from tiebreak.operations import waits as waits_operations
from tiebreak.process_identity import identity, token

from .engines import Place

SOON = 60.0
"""Long enough for the slowest machine; a test that passes never waits that long."""
LATER = 3600.0


@pytest.fixture
def carol(place: Place) -> Board:
    return place.open("carol")


@pytest.fixture
def dave(place: Place) -> Board:
    return place.open("dave")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def until(condition: Callable[[], Any]) -> None:
    end = monotonic() + SOON
    while not condition():
        assert monotonic() < end, "it never happened"
        sleep(0.005)


def take(board: Board, *resources: str, place: int = 0, **more: Any) -> list[Any]:
    return board.holds.take(resources=list(resources), place=place, **more)


def drop(board: Board, *resources: str) -> None:
    board.holds.release(resources=list(resources))


def queue(board: Board, *resources: str) -> int:
    return board.waits.enter(resources=list(resources)).number


def line(board: Board) -> list[str]:
    return [wait.agent for wait in board.waits.list()]


def waiting(threads: ThreadPoolExecutor, board: Board, *resources: str) -> Future[Holding]:
    """Somebody who is in line now."""
    started = threads.submit(lambda: board.hold(*resources, wait=LATER))
    until(lambda: started.done() or board.agent.partition("~")[0] in line(board))
    return started


# ── Turns ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_freed_resource_goes_to_the_first_waiter(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    first, second = queue(bob, "lock:x"), queue(carol, "lock:x")
    drop(alice, "lock:x")
    with pytest.raises(Lost, match="lock:x is free, but 1 is waiting before you, first bob"):
        take(carol, "lock:x", place=second)
    take(bob, "lock:x", place=first)
    assert line(alice) == ["carol"]


def test_a_newcomer_does_not_overtake_the_line(alice: Board, bob: Board, carol: Board, dave: Board) -> None:
    take(alice, "lock:x")
    queue(bob, "lock:x"), queue(carol, "lock:x")
    drop(alice, "lock:x")
    with pytest.raises(Lost, match="2 are waiting before you") as refusal:
        take(dave, "lock:x")
    assert (refusal.value.data["waiting"], refusal.value.data["next"], refusal.value.holder) == (2, "bob", "")


def test_the_last_holder_waits_behind_the_others(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:x", lease=60)
    place_of_bob = queue(bob, "lock:x")
    place.advance(59.9)
    place_of_bob = bob.waits.enter(resources=["lock:x"], place=place_of_bob).number
    place.advance(1)
    with pytest.raises(Lost, match="waiting before you"):
        take(alice, "lock:x", again=True)
    take(bob, "lock:x", place=place_of_bob)


def test_a_holder_can_renew_while_others_wait(alice: Board, bob: Board) -> None:
    take(alice, "lock:x")
    queue(bob, "lock:x")
    assert take(alice, "lock:x", again=True)[0].epoch == 1


def test_an_agent_that_wants_another_resource_is_not_refused(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    queue(bob, "lock:x")
    assert take(carol, "lock:y")


def test_waiters_of_one_project_do_not_block_another(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:x")
    queue(bob, "lock:x")
    elsewhere = place.open("carol", project="other")
    assert take(elsewhere, "lock:x")
    assert elsewhere.waits.list() == []


def test_a_glob_in_line_comes_before_a_later_path_in_it(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "file:src/a.py")
    first = queue(bob, "file:src/**")
    with pytest.raises(Lost, match=r"src/b.py is free, but 1 is waiting before you"):
        take(carol, "file:src/b.py")
    assert take(carol, "file:docs/b.md")
    drop(alice, "file:src/a.py")
    take(bob, "file:src/**", place=first)


def test_a_waiter_for_several_resources_is_not_starved(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    first = queue(bob, "lock:x", "lock:y")
    with pytest.raises(Lost, match="lock:y is free, but 1 is waiting"):
        take(carol, "lock:y")
    drop(alice, "lock:x")
    assert len(take(bob, "lock:x", "lock:y", place=first)) == 2


def test_a_waiter_does_not_block_the_agent_it_waits_for(alice: Board, bob: Board) -> None:
    take(alice, "lock:x")
    queue(bob, "lock:x", "lock:y")
    assert take(alice, "lock:y"), "bob cannot go on before alice does"


def test_a_waiter_does_not_block_an_agent_it_waits_for_through_others(
    alice: Board, bob: Board, carol: Board, dave: Board
) -> None:
    take(alice, "lock:x")
    take(carol, "lock:z")
    queue(alice, "lock:z")
    queue(bob, "lock:x", "lock:y")
    assert take(carol, "lock:y"), "bob waits for alice, and alice for carol"
    drop(carol, "lock:y")
    with pytest.raises(Lost, match="waiting before you"):
        take(dave, "lock:y")


def test_a_later_waiter_still_waits_when_an_earlier_one_does_not_block(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:y")
    queue(bob, "lock:x", "lock:y")
    place_of_carol = queue(carol, "lock:x")
    place_of_alice = queue(alice, "lock:x")
    with pytest.raises(Lost, match="first bob"):
        take(carol, "lock:x", place=place_of_carol)
    take(alice, "lock:x", place=place_of_alice)


def test_free_slots_go_to_as_many_as_are_first(alice: Board, bob: Board, carol: Board, dave: Board) -> None:
    take(alice, "pool:p", slots=2)
    take(alice, "pool:p")
    first, second = queue(bob, "pool:p"), queue(carol, "pool:p")
    alice.holds.release(resources=["pool:p"], slots=[0])
    with pytest.raises(Lost, match="pool:p is free, but 1 is waiting"):
        take(carol, "pool:p", place=second)
    alice.holds.release(resources=["pool:p"], slots=[1])
    take(carol, "pool:p", place=second)
    with pytest.raises(Lost, match="1 is waiting"):
        take(dave, "pool:p")
    take(bob, "pool:p", place=first)


def test_a_pool_with_room_for_all_who_wait_has_room_for_a_newcomer(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    take(alice, "pool:p", slots=3)
    queue(bob, "pool:p", "lock:x")
    assert take(carol, "pool:p")
    with pytest.raises(Lost, match="waiting before you"):
        take(carol, "pool:p")


# ── Places ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_place_that_is_not_renewed_is_lost(place: Place, alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    lapsed = queue(bob, "lock:x")
    drop(alice, "lock:x")
    place.advance(PLACE_LEASE + 1)
    second = queue(carol, "lock:x")
    with pytest.raises(Lost, match="first carol"):
        take(bob, "lock:x", place=lapsed)
    assert line(alice) == ["carol"]
    again = bob.waits.enter(resources=["lock:x"], place=lapsed).number
    assert again > second


def test_a_renewed_place_keeps_its_turn(place: Place, alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    first, second = queue(bob, "lock:x"), queue(carol, "lock:x")
    for _ in range(4):
        place.advance(PLACE_LEASE * 0.6)
        for board, number in ((bob, first), (carol, second)):
            assert board.waits.enter(resources=["lock:x"], place=number).number == number
    assert line(alice) == ["bob", "carol"]


def test_a_waiter_whose_process_died_blocks_nobody(alice: Board, bob: Board, carol: Board) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        take(alice, "lock:x")
        bob.waits.enter(resources=["lock:x"], process=token(identity(child.pid)))
        assert line(alice) == ["bob"]
        child.kill()
    assert line(alice) == []
    drop(alice, "lock:x")
    assert take(carol, "lock:x")


def test_leaving_lets_the_others_move_up(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    first, second = queue(bob, "lock:x"), queue(carol, "lock:x")
    drop(alice, "lock:x")
    assert bob.waits.leave(place=first) is True
    assert bob.waits.leave(place=first) is False
    take(carol, "lock:x", place=second)


def test_nobody_takes_the_place_of_another(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    first = queue(bob, "lock:x")
    queue(carol, "lock:x")
    drop(alice, "lock:x")
    assert carol.waits.leave(place=first) is False
    with pytest.raises(Lost, match="first bob"):
        take(carol, "lock:x", place=first)


def test_a_number_is_not_given_again_when_the_last_in_line_has_left(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:x")
    numbers = []
    for _ in range(3):
        numbers.append(queue(bob, "lock:x"))
        bob.waits.leave(place=numbers[-1])
        place.advance(0.001)
    assert numbers == sorted(set(numbers))


def test_a_lapsed_place_blocks_nobody(place: Place, alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    queue(bob, "lock:x")
    drop(alice, "lock:x")
    place.advance(PLACE_LEASE + 1)
    assert line(alice) == []
    assert take(carol, "lock:x")


def test_a_full_wait_queue_refuses_further_waiters(alice: Board, bob: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits_operations, "MAX_PLACES", 2)
    take(alice, "lock:x")
    queue(bob, "lock:x"), queue(bob, "lock:x")
    with pytest.raises(Refused, match="2 are waiting in this project already"):
        queue(bob, "lock:x")


def test_a_place_for_nothing_is_refused(alice: Board) -> None:
    with pytest.raises(Invalid, match="name at least one"):
        alice.waits.enter(resources=[])


# ── Deadlocks ────────────────────────────────────────────────────────────────────────────────────────


def test_two_waiters_in_a_deadlock_are_told_at_once(alice: Board, bob: Board) -> None:
    take(alice, "lock:a")
    take(bob, "lock:b")
    queue(alice, "lock:b")
    with pytest.raises(Deadlock) as told:
        queue(bob, "lock:a")
    assert "bob waits for lock:a (held by alice), alice waits for lock:b (held by bob)" in told.value.message
    assert told.value.data["cycle"] == [
        {"agent": "bob", "waits_for": "lock:a", "held_by": "alice"},
        {"agent": "alice", "waits_for": "lock:b", "held_by": "bob"},
    ]
    assert line(alice) == ["alice"], "the older one goes on waiting"


def test_three_waiters_in_a_deadlock_are_told_at_once(alice: Board, bob: Board, carol: Board, dave: Board) -> None:
    take(alice, "lock:a")
    take(bob, "file:b/**")
    take(carol, "lock:c")
    queue(dave, "lock:a")
    queue(alice, "file:b/x.py")
    queue(bob, "lock:c", "lock:free")
    with pytest.raises(Deadlock) as told:
        queue(carol, "lock:a")
    assert [step["agent"] for step in told.value.data["cycle"]] == ["carol", "alice", "bob"]


def test_a_chain_of_waiters_is_no_deadlock(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:a")
    take(bob, "lock:b")
    queue(carol, "lock:a", "lock:b")
    queue(bob, "lock:a")
    assert [[each["agent"] for each in wait.waits_for] for wait in alice.waits.list()] == [
        ["alice", "bob"],
        ["alice"],
    ]


def test_a_pool_is_stuck_only_when_all_of_its_holders_are(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "pool:p", slots=2)
    take(bob, "pool:p")
    take(carol, "lock:c")
    queue(alice, "lock:c")
    place_of_carol = queue(carol, "pool:p")  # bob may still let go
    with pytest.raises(Deadlock) as told:
        queue(bob, "lock:c")
    assert "carol waits for pool:p" in told.value.message
    drop(bob, "pool:p")
    assert take(carol, "pool:p", place=place_of_carol)


def test_nobody_waits_for_itself(alice: Board) -> None:
    take(alice, "lock:a")
    queue(alice, "lock:a")
    assert alice.waits.list()[0].waits_for == []


def test_a_handover_that_closes_a_deadlock_tells_the_youngest_waiter(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:a")
    take(carol, "lock:c")
    older = queue(alice, "lock:c")
    youngest = queue(bob, "lock:a")
    carol.holds.transfer(resource="lock:c", to=bob.agent)
    assert alice.waits.enter(resources=["lock:c"], place=older).number == older
    with pytest.raises(Deadlock, match=r"bob waits for lock:a \(held by alice\)"):
        take(bob, "lock:a", place=youngest)
    with pytest.raises(Deadlock):
        bob.waits.enter(resources=["lock:a"], place=youngest)


def test_a_sleeping_waiter_is_woken_to_be_told(
    alice: Board, bob: Board, carol: Board, threads: ThreadPoolExecutor
) -> None:
    take(alice, "lock:a")
    take(carol, "lock:c")
    queue(alice, "lock:c")
    sleeping = waiting(threads, bob, "lock:a")
    carol.holds.transfer(resource="lock:c", to=bob.agent)
    with pytest.raises(Deadlock):
        sleeping.result(SOON)
    until(lambda: line(alice) == ["alice"])


def test_a_deadlock_is_in_the_story(alice: Board, bob: Board) -> None:
    take(alice, "lock:a")
    take(bob, "lock:b")
    queue(alice, "lock:b")
    with pytest.raises(Deadlock):
        queue(bob, "lock:a")
    told = [sentence.text for sentence in bob.events.why(ref="lock:a")]
    assert any("bob was told that its wait for lock:a could never end" in text for text in told)
    assert any("alice waits since" in sentence.text for sentence in alice.events.why(ref="lock:b"))


# ── Waiting, whole ───────────────────────────────────────────────────────────────────────────────────


def test_waiters_are_served_in_the_order_in_which_they_came(
    place: Place, alice: Board, threads: ThreadPoolExecutor
) -> None:
    take(alice, "lock:x")
    names = ["w1", "w2", "w3", "w4"]
    boards = {name: place.open(name) for name in names}
    started = {name: waiting(threads, boards[name], "lock:x") for name in names}
    drop(alice, "lock:x")
    for name in names:
        assert started[name].result(SOON).epoch
        assert [name for name in names if started[name].done()] == names[: names.index(name) + 1]
        drop(boards[name], "lock:x")
    assert line(alice) == []


def test_a_waiter_that_gives_up_leaves_its_place(alice: Board, bob: Board) -> None:
    take(alice, "lock:x")
    with pytest.raises(Lost, match="held by alice"):
        bob.hold("lock:x", wait=0.01)
    assert line(alice) == []


def test_a_waiter_behind_one_that_gives_up_is_woken(
    alice: Board, bob: Board, carol: Board, threads: ThreadPoolExecutor
) -> None:
    take(alice, "lock:x")
    first = queue(bob, "lock:x")
    second = waiting(threads, carol, "lock:x")
    drop(alice, "lock:x")
    until(lambda: any("waiting before" in s.text for s in carol.events.why(ref="lock:x")))
    bob.waits.leave(place=first)
    assert second.result(SOON).epoch == 2


def test_the_board_shows_who_waits_for_whom(alice: Board, bob: Board, carol: Board) -> None:
    take(alice, "lock:x")
    queue(bob, "lock:x")
    queue(carol, "lock:x")
    assert [(wait.agent, wait.resources, wait.waits_for) for wait in alice.waits.list()] == [
        ("bob", ["lock:x"], [{"agent": "alice", "resource": "lock:x", "how": "holds"}]),
        (
            "carol",
            ["lock:x"],
            [
                {"agent": "alice", "resource": "lock:x", "how": "holds"},
                {"agent": "bob", "resource": "lock:x", "how": "ahead"},
            ],
        ),
    ]
    assert alice.waits.list(matching="lock:other") == []
