"""Exactly one agent wins a task, and every other agent learns who."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tiebreak import Board
from tiebreak.errors import Invalid, Lost, NotFound, Refused
from tiebreak.model import Task

from .engines import Place
from .tasks_support import changes, claimed, happened, in_state, unchanged

# ── Winning ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_winner_is_told_its_grant(alice: Board) -> None:
    task = claimed(alice, lease=60)

    assert (task.state, task.holder, task.epoch, task.attempts) == ("claimed", "alice", 1, 1)
    assert task.until is not None
    assert task.claimed_at is not None
    assert task.until - task.claimed_at == pytest.approx(60, abs=1e-5)


def test_others_see_the_winner(alice: Board, bob: Board) -> None:
    task = claimed(alice)

    assert bob.tasks.get(ref=task.id) == task


def test_a_claim_lasts_five_minutes_if_nothing_is_said(alice: Board) -> None:
    task = alice.tasks.claim(ref="build")

    assert (task.until or 0) - (task.claimed_at or 0) == pytest.approx(300, abs=1e-5)


@pytest.mark.parametrize(("written", "seconds"), [("90s", 90), ("1h", 3600), ("1ms", 0.001), ("7d", 604800)])
def test_a_lease_may_be_written_as_people_write_it(alice: Board, written: str, seconds: float) -> None:
    task = alice.call("tasks.claim", {"ref": "build", "lease": written})

    assert task.until - task.claimed_at == pytest.approx(seconds, abs=1e-5)


def test_the_log_tells_who_won_and_for_how_long(alice: Board) -> None:
    task = claimed(alice)

    event = changes(alice)[-1]
    assert (event.event, event.subject, event.agent) == ("task.claimed", task.id, "alice")
    assert (event.epoch, event.until, event.state) == (1, task.until, "claimed")


def test_of_many_who_reach_at_once_exactly_one_wins_each_task(place: Place) -> None:
    boards = [place.open(f"agent{i}") for i in range(4)]
    together = threading.Barrier(len(boards))
    won: list[str] = []

    def reach(board: Board) -> None:
        together.wait()
        for i in range(10):
            try:
                won.append(board.tasks.claim(ref=f"task-{i}").name)
            except Lost:
                pass

    threads = [threading.Thread(target=reach, args=(board,)) for board in boards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(won) == sorted(f"task-{i}" for i in range(10))


# ── Losing ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_loser_learns_who_has_it_until_when_and_by_which_grant(alice: Board, bob: Board) -> None:
    task = claimed(alice)

    with pytest.raises(Lost) as loss:
        bob.tasks.claim(ref=task.id)

    assert (loss.value.holder, loss.value.epoch) == ("alice", 1)
    assert loss.value.until == pytest.approx(task.until, abs=1e-5)


def test_the_loser_learns_since_which_event(alice: Board, bob: Board) -> None:
    for _ in range(20):  # so that the event's number is no other number by chance
        alice.tasks.post(name="noise")
    task = claimed(alice)
    won = changes(alice)[-1]

    with pytest.raises(Lost) as loss:
        bob.tasks.claim(ref=task.id)

    assert won.number in loss.value.data.values()


def test_the_loser_learns_which_task_it_was(alice: Board, bob: Board) -> None:
    task = alice.tasks.claim(ref="build")

    with pytest.raises(Lost) as loss:
        bob.tasks.claim(ref="build")

    assert loss.value.data["id"] == task.id


def test_the_loser_is_told_in_one_line(alice: Board, bob: Board) -> None:
    task = claimed(alice, name="tidy up")

    with pytest.raises(Lost) as loss:
        bob.tasks.claim(ref=task.id)

    assert f"#{task.number}" in loss.value.message
    assert "alice" in loss.value.message
    assert "\n" not in loss.value.message


def test_a_lost_claim_changes_nothing(alice: Board, bob: Board) -> None:
    task = claimed(alice)

    with unchanged(alice), pytest.raises(Lost):
        bob.tasks.claim(ref=task.id)


def test_a_lost_claim_reaches_the_log_with_a_later_change(alice: Board, bob: Board) -> None:
    task = claimed(alice)
    for _ in range(3):
        with pytest.raises(Lost):
            bob.tasks.claim(ref=task.id)

    bob.tasks.post(name="something else")

    refused = bob.events.read(event="task.refused", subject=task.id)
    assert [(event.agent, event.times) for event in refused] == [("bob", 3)]


def test_claiming_twice_is_refused_to_the_holder_itself(alice: Board) -> None:
    task = claimed(alice)

    with unchanged(alice), pytest.raises(Lost) as loss:
        alice.tasks.claim(ref=task.id)
    assert (loss.value.holder, loss.value.epoch) == ("alice", 1)


def test_another_incarnation_of_the_holder_is_somebody_else(place: Place) -> None:
    one, two = place.open("alice~one"), place.open("alice~two")
    task = claimed(one)

    with unchanged(one), pytest.raises(Lost) as loss:
        two.tasks.claim(ref=task.id)
    assert (loss.value.holder, loss.value.data["session"]) == ("alice", "one")


@pytest.mark.parametrize("state", ["blocked", "completed", "failed", "cancelled"])
def test_what_is_not_ready_cannot_be_claimed(alice: Board, bob: Board, state: str) -> None:
    task = in_state(alice, state)

    with unchanged(alice), pytest.raises(Refused, match=state) as refusal:
        bob.tasks.claim(ref=task.id)
    assert not isinstance(refusal.value, Lost)
    assert refusal.value.data["state"] == state


def test_a_refusal_of_a_blocked_task_names_what_is_in_the_way(alice: Board) -> None:
    first, done, second = (alice.tasks.post(name=name) for name in ("first", "done", "second"))
    task = alice.tasks.post(name="last", after=[first.id, done.id, second.id])
    alice.tasks.claim(ref=done.id)
    alice.tasks.complete(ref=done.id)

    with pytest.raises(Refused, match=f"#{first.number}, #{second.number}"):
        alice.tasks.claim(ref=task.id)


# ── Claiming what nobody posted ──────────────────────────────────────────────────────────────────────


def test_an_unknown_key_is_posted_and_won_in_one_step(alice: Board) -> None:
    task = alice.tasks.claim(ref="build")

    assert (task.key, task.name, task.created_by) == ("build", "build", "alice")
    assert (task.state, task.holder, task.epoch, task.attempts) == ("claimed", "alice", 1, 1)
    assert happened(alice, task) == ["posted", "claimed"]


def test_the_second_to_claim_an_unknown_key_loses(alice: Board, bob: Board) -> None:
    alice.tasks.claim(ref="build")

    with unchanged(alice), pytest.raises(Lost):
        bob.tasks.claim(ref="build")


def test_an_unknown_key_is_not_created_against_the_callers_will(alice: Board) -> None:
    with unchanged(alice), pytest.raises(NotFound):
        alice.tasks.claim(ref="build", create=False)


def test_a_known_key_is_won_without_creating(alice: Board) -> None:
    known = alice.tasks.post(name="build it", key="build")

    assert alice.tasks.claim(ref="build", create=False).id == known.id


def test_a_key_of_another_project_is_not_won_by_mistake(place: Place, alice: Board) -> None:
    there = place.open("bob", "other").tasks.post(name="build", key="build")

    assert alice.tasks.claim(ref="build").id != there.id


@pytest.mark.parametrize("ref", ["#999", "00000000-0000-7000-8000-000000000000"])
def test_an_unknown_number_or_id_is_not_created(alice: Board, ref: str) -> None:
    with unchanged(alice), pytest.raises(NotFound):
        alice.tasks.claim(ref=ref)


@pytest.mark.parametrize("ref", ["fix the build", "#", "#x1", "#-1", "# 1", "#1.5", "#12345678901234567890"])
def test_what_cannot_be_a_key_is_not_created(alice: Board, ref: str) -> None:
    with unchanged(alice), pytest.raises(Invalid):
        alice.tasks.claim(ref=ref)


# ── Claiming several ─────────────────────────────────────────────────────────────────────────────────


def test_several_are_won_in_one_step(alice: Board) -> None:
    tasks = [alice.tasks.post(name=f"work {i}") for i in range(3)]

    won = alice.tasks.claim_many(refs=[task.id for task in reversed(tasks)], lease=60)

    assert [task.number for task in won] == [task.number for task in reversed(tasks)]
    assert {(task.state, task.holder, task.epoch) for task in won} == {("claimed", "alice", 1)}


@pytest.mark.parametrize("state", ["blocked", "claimed", "completed", "failed", "cancelled"])
def test_claim_many_omits_tasks_that_are_not_free(alice: Board, bob: Board, state: str) -> None:
    free, other = bob.tasks.post(name="free"), in_state(bob, state)

    assert [task.id for task in alice.tasks.claim_many(refs=[other.id, free.id])] == [free.id]
    assert alice.tasks.get(ref=other.id) == other


def test_claim_many_omits_a_delayed_task(alice: Board) -> None:
    later = alice.tasks.post(name="later", delay=60)

    assert alice.tasks.claim_many(refs=[later.id]) == []


def test_claim_many_wins_a_lapsed_task(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(bob, lease=10)
    place.advance(10)

    (won,) = alice.tasks.claim_many(refs=[task.id])
    assert (won.holder, won.epoch) == ("alice", 2)


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param(lambda task: task.id, id="id"),
        pytest.param(lambda task: task.id.upper(), id="id in capitals"),
        pytest.param(lambda task: f"#{task.number}", id="number"),
        pytest.param(lambda task: task.key, id="key"),
        pytest.param(lambda task: task.id[:13], id="unique prefix"),
    ],
)
def test_several_may_be_named_like_one(alice: Board, reference: Callable[[Task], str]) -> None:
    task = alice.tasks.post(name="work", key="work")

    assert [won.id for won in alice.tasks.claim_many(refs=[reference(task)])] == [task.id]


def test_a_task_named_twice_is_won_once(alice: Board) -> None:
    task = alice.tasks.post(name="work", key="work")

    won = alice.tasks.claim_many(refs=[task.id, "work", f"#{task.number}"])

    assert [(task.id, task.epoch) for task in won] == [(task.id, 1)]


@pytest.mark.parametrize("ref", ["#999", "00000000-0000-7000-8000-000000000000", "unknown-key"])
def test_unknown_ones_are_neither_created_nor_an_error(alice: Board, ref: str) -> None:
    with unchanged(alice):
        assert alice.tasks.claim_many(refs=[ref]) == []


def test_claiming_no_tasks_wins_none(alice: Board) -> None:
    with unchanged(alice):
        assert alice.tasks.claim_many(refs=[]) == []


def test_one_malformed_reference_refuses_the_whole_call(alice: Board) -> None:
    task = alice.tasks.post(name="work")

    with unchanged(alice), pytest.raises(Invalid):
        alice.tasks.claim_many(refs=[task.id, "#nonsense"])
