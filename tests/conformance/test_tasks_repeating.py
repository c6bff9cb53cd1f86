"""A call can be repeated without a second effect, and the calls of a batch do not affect each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tiebreak import Board
from tiebreak.errors import Fenced, Invalid, Lost, NotFound, Refused, TiebreakError
from tiebreak.model import encode
from tiebreak.operations import REGISTRY, operation

from .engines import Place
from .tasks_support import changes, claimed, happened, in_state, unchanged

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine

ONCE = "retry-1234"

# ── Once ─────────────────────────────────────────────────────────────────────────────────────────────


def test_repeating_a_won_claim_is_won_again_and_not_lost_to_oneself(alice: Board) -> None:
    first = alice.call("tasks.claim", {"ref": "build"}, once=ONCE)

    again = alice.call("tasks.claim", {"ref": "build"}, once=ONCE)

    assert (again.id, again.epoch, again.holder, again.until) == (first.id, 1, "alice", first.until)


WRITES: list[tuple[str, dict[str, Any]]] = [
    ("post", {"name": "work", "payload": {"a": [None, 0]}, "tags": ["x", "y"], "priority": "high"}),
    ("claim", {"ref": "free"}),
    ("claim_many", {"refs": ["free"]}),
    ("next", {}),
    ("extend", {"ref": "mine"}),
    ("complete", {"ref": "mine", "result": False, "ack": True}),
    ("fail", {"ref": "mine", "reason": "broken"}),
    ("release", {"ref": "mine"}),
    ("cancel", {"ref": "mine"}),
    ("retry", {"ref": "off"}),
    ("depend", {"ref": "free", "after": ["mine"]}),
    ("sweep", {}),
]


@pytest.mark.parametrize(("operation", "params"), WRITES, ids=[operation for operation, _ in WRITES])
def test_a_repeated_write_changes_nothing_and_answers_the_same(
    alice: Board, operation: str, params: dict[str, Any]
) -> None:
    alice.tasks.claim(ref="mine")
    alice.tasks.post(name="free", key="free", tags=["a", "b"])
    alice.tasks.post(name="off", key="off")
    alice.tasks.cancel(ref="off")
    first = alice.call(f"tasks.{operation}", params, once=ONCE)

    with unchanged(alice):
        again = alice.call(f"tasks.{operation}", params, once=ONCE)

    assert encode(again) == encode(first)


def test_an_answer_that_is_given_again_equals_the_first(alice: Board) -> None:
    first = alice.call("tasks.post", {"name": "work", "tags": ["a", "b"]}, once=ONCE)

    assert alice.call("tasks.post", {"name": "work", "tags": ["a", "b"]}, once=ONCE) == first


def test_a_repeated_write_answers_as_it_was_and_not_as_it_is_now(alice: Board) -> None:
    alice.call("tasks.claim", {"ref": "build"}, once=ONCE)
    alice.tasks.complete(ref="build")

    assert alice.call("tasks.claim", {"ref": "build"}, once=ONCE).state == "claimed"


def test_a_new_key_means_a_new_call(alice: Board) -> None:
    first = alice.call("tasks.post", {"name": "work"}, once=ONCE)
    second = alice.call("tasks.post", {"name": "work"}, once=ONCE + "x")

    assert first.id != second.id


def test_a_key_cannot_be_used_for_another_operation(alice: Board) -> None:
    alice.call("tasks.post", {"name": "work", "key": "build"}, once=ONCE)

    with unchanged(alice), pytest.raises(Invalid, match=ONCE):
        alice.call("tasks.claim", {"ref": "build"}, once=ONCE)


def test_a_key_cannot_be_used_for_another_task(alice: Board) -> None:
    alice.call("tasks.claim", {"ref": "build"}, once=ONCE)

    with unchanged(alice), pytest.raises(Invalid, match=ONCE):
        alice.call("tasks.claim", {"ref": "deploy"}, once=ONCE)


def test_one_agents_win_is_not_given_to_another(alice: Board, bob: Board) -> None:
    alice.call("tasks.claim", {"ref": "build"}, once=ONCE)

    with unchanged(alice), pytest.raises(TiebreakError):
        bob.call("tasks.claim", {"ref": "build"}, once=ONCE)


def test_a_refused_call_is_not_remembered(alice: Board, bob: Board) -> None:
    alice.tasks.claim(ref="build")
    with pytest.raises(Lost):
        bob.call("tasks.claim", {"ref": "build"}, once=ONCE)
    alice.tasks.release(ref="build")

    assert bob.call("tasks.claim", {"ref": "build"}, once=ONCE).holder == "bob"


def test_a_refused_call_does_not_use_the_key_up(alice: Board) -> None:
    with pytest.raises(NotFound):
        alice.call("tasks.claim", {"ref": "#999"}, once=ONCE)

    assert alice.call("tasks.post", {"name": "work"}, once=ONCE).state == "pending"


def test_an_invalid_call_is_not_remembered(alice: Board) -> None:
    with pytest.raises(Invalid):
        alice.call("tasks.post", {"name": ""}, once=ONCE)

    assert alice.call("tasks.post", {"name": "work"}, once=ONCE).name == "work"


def test_a_read_is_never_answered_from_memory(alice: Board) -> None:
    alice.tasks.claim(ref="build")
    alice.call("tasks.get", {"ref": "build"}, once=ONCE)
    alice.tasks.complete(ref="build")

    assert alice.call("tasks.get", {"ref": "build"}, once=ONCE).state == "completed"


def test_nothing_won_is_remembered_too(alice: Board) -> None:
    assert alice.call("tasks.next", {}, once=ONCE) == []
    alice.tasks.post(name="work")

    with unchanged(alice):
        assert alice.call("tasks.next", {}, once=ONCE) == []


def test_a_key_belongs_to_one_project(place: Place, alice: Board) -> None:
    elsewhere = place.open("alice", project="other")
    first = alice.call("tasks.post", {"name": "work"}, once=ONCE)

    second = elsewhere.call("tasks.post", {"name": "work"}, once=ONCE)

    assert (second.project, second.id != first.id) == ("other", True)
    assert alice.call("tasks.post", {"name": "work"}, once=ONCE) == first
    assert elsewhere.call("tasks.post", {"name": "work"}, once=ONCE) == second


def test_a_key_of_another_project_may_be_for_another_call(place: Place, alice: Board) -> None:
    alice.call("tasks.post", {"name": "work"}, once=ONCE)

    assert place.open("alice", project="other").call("tasks.claim", {"ref": "build"}, once=ONCE).epoch == 1


def test_calls_without_a_project_have_keys_of_their_own(alice: Board) -> None:
    alice.call("tasks.post", {"name": "work"}, once=ONCE)
    first = alice.call("upkeep.probe", {}, once=ONCE)

    assert alice.call("upkeep.probe", {}, once=ONCE) == first
    with pytest.raises(Invalid, match="once"):
        alice.call("tasks.sweep", {"project": None}, once=ONCE)
    assert alice.call("tasks.sweep", {}, once=ONCE + "x") == 0


def test_an_answer_that_was_remembered_before_keys_had_projects_is_still_given(place: Place, alice: Board) -> None:
    """A caller may try again across the upgrade; whose key the older row was, its request tells."""
    first = alice.call("tasks.post", {"name": "work"}, once=ONCE)
    remember_as_before(place.looking(alice))

    assert alice.call("tasks.post", {"name": "work"}, once=ONCE) == first
    assert alice.call("tasks.post", {"name": "other"}, once=ONCE).id != first.id


def remember_as_before(engine: Engine) -> None:
    """Let the board have its answers as older versions left them: under the bare key."""

    @operation("tests.older", writes=True, strangers=False)
    def older(tx: Any) -> None:
        tx.all("UPDATE answers SET once = :once", once=ONCE)

    del REGISTRY[older.name]
    engine.run(older, {})


@pytest.mark.parametrize("once", ["short", "", "x" * 129, "ключ-ключ", "line\nbreak", "nul\0nul\0", 12345678])
def test_a_bad_key_is_refused(alice: Board, once: Any) -> None:
    with unchanged(alice), pytest.raises(Invalid, match="once"):
        alice.call("tasks.post", {"name": "work"}, once=once)


@pytest.mark.parametrize("once", ["x" * 8, "x" * 128, "a b'c\"%_;--"])
def test_a_key_of_any_allowed_form_works(alice: Board, once: str) -> None:
    first = alice.call("tasks.post", {"name": "work"}, once=once)

    assert alice.call("tasks.post", {"name": "work"}, once=once).id == first.id


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────


def test_each_call_of_a_batch_has_its_own_answer(alice: Board) -> None:
    posted, missing, listed = alice.batch(
        [("tasks.post", {"name": "work"}), ("tasks.get", {"ref": "#999"}), ("tasks.list", {})]
    )

    assert isinstance(missing, NotFound)
    assert listed == [posted]


def test_a_failing_call_does_not_spoil_its_neighbours(alice: Board) -> None:
    names = ["a", "", "b"]

    answers = alice.batch([("tasks.post", {"name": name}) for name in names])

    assert [type(answer).__name__ for answer in answers] == ["Task", "Invalid", "Task"]
    assert [task.name for task in alice.tasks.list()] == ["b", "a"]


def test_a_call_refused_half_way_leaves_nothing_behind(alice: Board) -> None:
    first, second = alice.tasks.post(name="first"), alice.tasks.post(name="second")

    with unchanged(alice):
        (refusal,) = alice.batch([("tasks.depend", {"ref": second.id, "after": [first.id, second.id]})])

    assert isinstance(refusal, Refused)
    assert alice.tasks.after(ref=second.id) == []


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (("tasks.explode", {}), Invalid),
        (("tasks.post", {"name": "x", "unheard_of": 1}), Invalid),
        (("tasks.claim", {"ref": "theirs"}), Lost),
        (("tasks.complete", {"ref": "theirs"}), Fenced),
        (("tasks.get", {"ref": "#999"}), NotFound),
        (("tasks.retry", {"ref": "theirs"}), Refused),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value.__name__,
)
def test_every_refusal_in_a_batch_is_the_one_of_a_single_call(
    alice: Board, bob: Board, call: tuple[str, dict[str, Any]], kind: type[TiebreakError]
) -> None:
    bob.tasks.claim(ref="theirs")

    with unchanged(alice):
        (answer,) = alice.batch([call])

    assert type(answer) is kind


def test_a_later_call_of_a_batch_sees_the_earlier_ones(alice: Board) -> None:
    answers = alice.batch(
        [
            ("tasks.post", {"name": "build", "key": "build"}),
            ("tasks.claim", {"ref": "build"}),
            ("tasks.claim", {"ref": "build"}),
            ("tasks.complete", {"ref": "build"}),
        ]
    )

    assert [type(answer).__name__ for answer in answers] == ["Task", "Task", "Lost", "Task"]
    assert happened(alice, answers[0]) == ["posted", "claimed", "completed"]


def test_the_log_has_the_order_of_the_batch(alice: Board) -> None:
    alice.batch([("tasks.post", {"name": f"{i}"}) for i in range(50)])

    posted = changes(alice)
    assert [event.name for event in posted] == [f"{i}" for i in range(50)]
    assert [event.number for event in posted] == list(range(posted[0].number, posted[0].number + 50))


def test_a_batch_is_one_moment(alice: Board) -> None:
    tasks = alice.batch([("tasks.post", {"name": f"{i}"}) for i in range(10)])

    assert len({task.created_at for task in tasks}) == 1


def test_an_empty_batch_is_nothing(alice: Board) -> None:
    with unchanged(alice):
        assert alice.batch([]) == []


def test_a_batch_of_failures_changes_nothing(alice: Board) -> None:
    done = in_state(alice, "completed")

    with unchanged(alice):
        alice.batch([("tasks.cancel", {"ref": done.id}), ("tasks.claim", {"ref": done.id})])


def test_the_fence_holds_inside_a_batch(place: Place, alice: Board, bob: Board) -> None:
    task = claimed(alice, lease=10)
    place.advance(10)

    won, late = bob.batch(
        [("tasks.claim", {"ref": task.id}), ("tasks.complete", {"ref": task.id, "agent": alice.agent, "epoch": 1})]
    )

    assert (won.holder, won.epoch) == ("bob", 2)
    assert isinstance(late, Fenced)
