"""The next task is the most urgent, then the oldest, among those that are ready and match the filters."""

from __future__ import annotations

import pytest

from tiebreak import Board

from .engines import Place
from .tasks_support import changes, claimed, happened, unchanged


def names(board: Board, **filters: object) -> list[str]:
    """The names of what is won, in the order it is won."""
    return [task.name for task in board.call("tasks.next", {"count": 100, **filters})]


# ── Order ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_most_urgent_comes_first_whatever_the_order_of_posting(alice: Board) -> None:
    for priority in ("normal", "urgent", "low", "high"):
        alice.tasks.post(name=priority, priority=priority)

    assert names(alice) == ["urgent", "high", "normal", "low"]


def test_one_at_a_time_comes_in_the_same_order(alice: Board) -> None:
    for priority in ("low", "high", "normal", "urgent"):
        alice.tasks.post(name=priority, priority=priority)

    assert [alice.tasks.next()[0].name for _ in range(4)] == ["urgent", "high", "normal", "low"]


def test_among_equals_the_oldest_comes_first(place: Place, alice: Board) -> None:
    for i in range(5):
        alice.tasks.post(name=f"{i}")
        place.advance(1)

    assert names(alice) == ["0", "1", "2", "3", "4"]


def test_one_that_was_given_back_keeps_its_place(alice: Board) -> None:
    for name in ("first", "second"):
        alice.tasks.post(name=name)
    alice.tasks.release(ref=alice.tasks.next()[0].id)

    assert names(alice) == ["first", "second"]


def test_the_most_urgent_are_picked_when_not_all_are_wanted(alice: Board) -> None:
    for priority in ("low", "normal", "high", "urgent"):
        alice.tasks.post(name=priority, priority=priority)

    assert names(alice, count=2) == ["urgent", "high"]


# ── How many ─────────────────────────────────────────────────────────────────────────────────────────


def test_one_is_won_if_no_number_is_given(alice: Board) -> None:
    for name in ("first", "second"):
        alice.tasks.post(name=name)

    assert [task.name for task in alice.tasks.next()] == ["first"]


@pytest.mark.parametrize("count", [1, 2, 100])
def test_never_more_than_asked_for_are_won(alice: Board, count: int) -> None:
    alice.batch([("tasks.post", {"name": f"{i}"}) for i in range(101)])

    assert [task.name for task in alice.tasks.next(count=count)] == [f"{i}" for i in range(count)]


def test_fewer_are_won_when_there_are_fewer(alice: Board) -> None:
    alice.tasks.post(name="only")

    assert names(alice, count=100) == ["only"]


def test_nothing_to_do_is_an_empty_list_and_no_event(alice: Board) -> None:
    with unchanged(alice):
        assert alice.tasks.next() == []


def test_no_task_is_won_twice(alice: Board, bob: Board) -> None:
    for i in range(6):
        alice.tasks.post(name=f"{i}")

    won = [names(board, count=2) for board in (alice, bob, alice, bob)]
    assert won == [["0", "1"], ["2", "3"], ["4", "5"], []]


# ── The grant ────────────────────────────────────────────────────────────────────────────────────────


def test_each_one_won_is_a_grant_of_its_own(alice: Board) -> None:
    for i in range(3):
        alice.tasks.post(name=f"{i}")

    for task in alice.tasks.next(count=3, lease=60):
        assert (task.state, task.holder, task.epoch, task.attempts) == ("claimed", "alice", 1, 1)
        assert (task.until or 0) - (task.claimed_at or 0) == pytest.approx(60, abs=1e-5)


def test_each_one_won_is_in_the_log(alice: Board) -> None:
    tasks = [alice.tasks.post(name=f"{i}") for i in range(3)]
    alice.tasks.next(count=3)

    won = [event for event in changes(alice) if event.event == "task.claimed"]
    assert {(event.subject, event.agent, event.epoch) for event in won} == {(task.id, "alice", 1) for task in tasks}


# ── What is ready ────────────────────────────────────────────────────────────────────────────────────


def test_a_delayed_one_is_not_won_before_its_time(place: Place, alice: Board) -> None:
    alice.tasks.post(name="later", delay=60)
    place.advance(59.999)

    assert names(alice) == []


def test_a_delayed_one_is_won_when_its_time_has_come(place: Place, alice: Board) -> None:
    alice.tasks.post(name="later", delay=60)
    place.advance(60)

    assert names(alice) == ["later"]


def test_a_delay_that_is_over_does_not_cost_the_place_in_the_order(place: Place, alice: Board) -> None:
    alice.tasks.post(name="old", delay=60)
    alice.tasks.post(name="urgent", delay=60, priority="urgent")
    alice.tasks.post(name="new")
    place.advance(60)

    assert names(alice) == ["urgent", "old", "new"]


def test_one_that_waits_after_a_failure_is_not_won_early(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="flaky", backoff=10)
    alice.tasks.claim(ref=task.id)
    alice.tasks.fail(ref=task.id)
    place.advance(4.999)

    assert names(alice) == []


def test_a_lapsed_one_comes_back(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(alice, lease=10)
    place.advance(10)

    (won,) = bob.tasks.next()
    assert (won.id, won.holder, won.epoch) == (task.id, "bob", 2)


def test_a_live_claim_is_not_won_by_another(place: Place, alice: Board, bob: Board) -> None:
    claimed(alice, lease=10)
    place.advance(9.999)

    assert bob.tasks.next() == []


def test_a_lapsed_one_without_attempts_left_does_not_come_back(place: Place, alice: Board) -> None:
    claimed(alice, max_attempts=1, lease=10)
    place.advance(10)

    assert alice.tasks.next() == []


def test_a_blocked_one_is_not_won(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    alice.tasks.post(name="second", after=[first.id], priority="urgent")

    assert names(alice) == ["first"]


def test_hundreds_that_lapsed_together_all_come_back(place: Place, alice: Board) -> None:
    alice.batch([("tasks.post", {"name": f"{i}"}) for i in range(250)])
    while alice.tasks.next(count=100, lease=10):
        pass
    place.advance(10)

    assert sum(len(alice.tasks.next(count=100)) for _ in range(3)) == 250


# ── Filters ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param({"kind": "job"}, id="kind"),
        pytest.param({"queue": "gpu"}, id="queue"),
        pytest.param({"tag": "big"}, id="tag"),
        pytest.param({"kind": "job", "queue": "gpu", "tag": "big"}, id="all three"),
    ],
)
def test_only_what_was_asked_for_is_won(alice: Board, wanted: dict[str, str]) -> None:
    alice.tasks.post(name="plain", priority="urgent")
    alice.tasks.post(name="wanted", kind="job", queue="gpu", tags=["small", "big"])

    assert names(alice, **wanted) == ["wanted"]


def test_all_filters_must_match(alice: Board) -> None:
    alice.tasks.post(name="only kind", kind="job")
    alice.tasks.post(name="only queue", queue="gpu")

    assert names(alice, kind="job", queue="gpu") == []


@pytest.mark.parametrize("tag", ["bi", "ig", "biga", "b_g", "a", "BIG"])
def test_a_tag_that_only_resembles_the_wanted_one_does_not_match(alice: Board, tag: str) -> None:
    alice.tasks.post(name="other", tags=["big"])

    assert names(alice, tag=tag) == []


@pytest.mark.parametrize("tag", ["a_b", "a.b", "a:b/c", "A"])
def test_a_tag_with_signs_in_it_matches_itself(alice: Board, tag: str) -> None:
    alice.tasks.post(name="tagged", tags=["first", tag, "last"])

    assert names(alice, tag=tag) == ["tagged"]


@pytest.mark.parametrize("filters", [{"kind": "JOB"}, {"queue": "GPU"}], ids=str)
def test_kinds_and_queues_differ_by_case(alice: Board, filters: dict[str, str]) -> None:
    alice.tasks.post(name="work", kind="job", queue="gpu")

    assert names(alice, **filters) == []


def test_the_next_task_of_another_project_is_not_taken(place: Place, alice: Board) -> None:
    place.open("bob", "other").tasks.post(name="theirs")

    assert names(alice) == []


def test_another_project_can_be_asked_for(place: Place, alice: Board) -> None:
    place.open("bob", "other").tasks.post(name="theirs")

    assert names(alice, project="other") == ["theirs"]


def test_a_lapsed_claim_of_another_project_is_left_alone(place: Place, alice: Board) -> None:
    there = place.open("bob", "other")
    task = claimed(there, lease=10)
    place.advance(10)

    alice.tasks.next()

    assert happened(alice, task) == ["posted", "claimed"]


# ── When to look again ───────────────────────────────────────────────────────────────────────────────


def test_without_delays_and_claims_nothing_is_due(alice: Board) -> None:
    alice.tasks.post(name="ready")

    assert alice.tasks.due() is None


def test_the_time_to_look_again_is_when_the_first_delay_ends(alice: Board) -> None:
    for delay in (60, 30, 90):
        alice.tasks.post(name="later", delay=delay)

    assert alice.tasks.due() == pytest.approx(30, abs=1e-3)


def test_the_time_to_look_again_is_when_the_first_lease_ends(alice: Board) -> None:
    claimed(alice, lease=40)
    alice.tasks.post(name="later", delay=60)

    assert alice.tasks.due() == pytest.approx(40, abs=1e-3)


def test_a_lapsed_claim_is_due_in_zero_seconds(place: Place, alice: Board) -> None:
    claimed(alice, lease=40)
    place.advance(100)

    assert alice.tasks.due() == 0


def test_the_times_of_another_project_do_not_matter(place: Place, alice: Board) -> None:
    place.open("bob", "other").tasks.post(name="later", delay=60)

    assert alice.tasks.due() is None
    assert alice.tasks.due(project="other") == pytest.approx(60, abs=1e-3)
