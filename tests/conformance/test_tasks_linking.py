"""A task that nobody has claimed can be made to wait for others, but never in a cycle."""

from __future__ import annotations

import pytest

from tiebreak import Board
from tiebreak.errors import NotFound, Refused

from .engines import Place
from .tasks_support import changes, claimed, complete, in_state, state, unchanged

# ── Adding a link ────────────────────────────────────────────────────────────────────────────────────


def test_a_ready_task_can_be_made_to_wait(alice: Board) -> None:
    first, second = alice.tasks.post(name="first"), alice.tasks.post(name="second")

    waiting = alice.tasks.depend(ref=second.id, after=[first.id])
    assert (waiting.state, waiting.blockers) == ("blocked", 1)

    complete(alice, first)
    assert state(alice, second) == "pending"


def test_a_waiting_task_can_be_made_to_wait_for_more(alice: Board) -> None:
    first, more = alice.tasks.post(name="first"), alice.tasks.post(name="more")
    last = alice.tasks.post(name="last", after=[first.id])
    alice.tasks.depend(ref=last.id, after=[more.id])
    complete(alice, first)

    assert state(alice, last) == "blocked"


def test_a_dependency_that_is_there_already_is_not_counted_again(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", after=[first.id])

    with unchanged(alice):
        alice.tasks.depend(ref=second.id, after=[first.id, f"#{first.number}"])


def test_depending_on_what_is_completed_does_not_block(alice: Board) -> None:
    first, second = in_state(alice, "completed"), alice.tasks.post(name="second")

    assert alice.tasks.depend(ref=second.id, after=[first.id]).state == "pending"
    assert [task.id for task in alice.tasks.after(ref=second.id)] == [first.id]


def test_depending_on_nothing_changes_nothing(alice: Board) -> None:
    task = alice.tasks.post(name="work")

    with unchanged(alice):
        assert alice.tasks.depend(ref=task.id, after=[]) == task


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_nothing_can_be_made_to_wait_for_what_will_never_complete(alice: Board, end: str) -> None:
    first, second = in_state(alice, end), alice.tasks.post(name="second")

    with unchanged(alice), pytest.raises(Refused, match=end):
        alice.tasks.depend(ref=second.id, after=[first.id])


@pytest.mark.parametrize("started", ["claimed", "completed", "failed", "cancelled"])
def test_what_was_started_cannot_be_made_to_wait(alice: Board, started: str) -> None:
    first, task = alice.tasks.post(name="first"), in_state(alice, started)

    with unchanged(alice), pytest.raises(Refused, match=started):
        alice.tasks.depend(ref=task.id, after=[first.id])


def test_a_lapsed_claim_can_be_made_to_wait(place: Place, alice: Board) -> None:
    first, task = alice.tasks.post(name="first"), claimed(alice, lease=10)
    place.advance(10)

    assert alice.tasks.depend(ref=task.id, after=[first.id]).state == "blocked"


@pytest.mark.parametrize("unknown", ["ref", "after"])
def test_an_unknown_task_cannot_be_linked(alice: Board, unknown: str) -> None:
    task = alice.tasks.post(name="work")
    params = {"ref": task.id, "after": [task.id], unknown: "#999" if unknown == "ref" else ["#999"]}

    with unchanged(alice), pytest.raises(NotFound):
        alice.call("tasks.depend", params)


def test_one_impossible_link_leaves_the_others_unlinked(alice: Board) -> None:
    first, second = alice.tasks.post(name="first"), alice.tasks.post(name="second")

    with unchanged(alice), pytest.raises(Refused):
        alice.tasks.depend(ref=second.id, after=[first.id, second.id])
    assert alice.tasks.after(ref=second.id) == []


def test_the_log_tells_who_linked_what(alice: Board, bob: Board) -> None:
    first, second = alice.tasks.post(name="first"), alice.tasks.post(name="second")
    bob.tasks.depend(ref=second.id, after=[first.id])

    last = changes(alice)[-1]
    assert (last.event, last.subject, last.agent, last.state) == ("task.linked", second.id, "bob", "blocked")
    assert f"#{first.number}" in (last.note or "")


# ── Circles ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_a_circle_is_refused(alice: Board, length: int) -> None:
    chain = [alice.tasks.post(name="0")]
    for i in range(1, length):
        chain.append(alice.tasks.post(name=f"{i}", after=[chain[-1].id]))

    with unchanged(alice), pytest.raises(Refused, match="circle"):
        alice.tasks.depend(ref=chain[0].id, after=[chain[-1].id])


def test_a_circle_of_links_made_later_is_refused(alice: Board) -> None:
    a, b, c = (alice.tasks.post(name=name) for name in "abc")
    alice.tasks.depend(ref=b.id, after=[a.id])
    alice.tasks.depend(ref=c.id, after=[b.id])

    with unchanged(alice), pytest.raises(Refused, match="circle"):
        alice.tasks.depend(ref=a.id, after=[c.id])


def test_two_ways_to_the_same_task_are_no_circle(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    left, right = (alice.tasks.post(name=name, after=[first.id]) for name in ("left", "right"))
    last = alice.tasks.post(name="last", after=[left.id])

    assert alice.tasks.depend(ref=last.id, after=[right.id, first.id]).blockers == 3


# ── Looking back ─────────────────────────────────────────────────────────────────────────────────────


def test_what_a_task_comes_after_is_listed_in_order(alice: Board) -> None:
    first, second = alice.tasks.post(name="first"), alice.tasks.post(name="second")
    last = alice.tasks.post(name="last", after=[second.id, first.id])

    assert alice.tasks.after(ref=last.id) == [first, second]


def test_what_comes_after_nothing_has_no_predecessors(alice: Board) -> None:
    assert alice.tasks.after(ref=alice.tasks.post(name="work").id) == []


def test_predecessors_are_listed_as_they_are_to_be_seen(place: Place, alice: Board) -> None:
    first = claimed(alice, lease=10)
    second = alice.tasks.post(name="second", after=[first.id])
    place.advance(10)

    assert [(task.state, task.holder) for task in alice.tasks.after(ref=second.id)] == [("pending", None)]


def test_predecessors_of_what_waits_are_not_pruned(place: Place, alice: Board) -> None:
    first, slow = in_state(alice, "completed"), alice.tasks.post(name="slow")
    last = alice.tasks.post(name="last", after=[first.id, slow.id])
    place.advance(100)
    alice.upkeep.prune(older_than=50)

    assert [task.id for task in alice.tasks.after(ref=last.id)] == [first.id, slow.id]
