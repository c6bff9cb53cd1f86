"""A reference means one task, the same one to every operation, or none."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from tiebreak import Board
from tiebreak.errors import Invalid, NotFound
from tiebreak.model import Task

from .engines import Place
from .tasks_support import in_state, unchanged


def shared_prefix(one: Task, two: Task) -> str:
    """The beginning that two ids have in common: tasks posted at the same time begin alike."""
    alike = next(i for i, (a, b) in enumerate(zip(one.id, two.id, strict=True)) if a != b)
    assert alike >= 4
    return one.id[:alike]


WAYS = pytest.mark.parametrize(
    "way",
    [
        pytest.param(lambda task: task.id, id="id"),
        pytest.param(lambda task: task.id.upper(), id="id in capitals"),
        pytest.param(lambda task: f"#{task.number}", id="number"),
        pytest.param(lambda task: task.number, id="bare number"),
        pytest.param(lambda task: str(task.number), id="number as text"),
        pytest.param(lambda task: f"#00{task.number}", id="number with zeros"),
        pytest.param(lambda task: task.key, id="key"),
        pytest.param(lambda task: task.id[:8], id="prefix"),
        pytest.param(lambda task: task.id[:8].upper(), id="prefix in capitals"),
        pytest.param(lambda task: task.id[:4], id="shortest prefix"),
        pytest.param(lambda task: task.id[:35], id="longest prefix"),
    ],
)


@WAYS
def test_every_way_to_name_a_task_finds_it(alice: Board, way: Callable[[Task], str]) -> None:
    task = alice.tasks.post(name="work", key="build:x")

    assert alice.tasks.get(ref=way(task)) == task


@WAYS
def test_every_way_to_name_a_task_claims_it(alice: Board, way: Callable[[Task], str]) -> None:
    task = alice.tasks.post(name="work", key="build:x")

    assert alice.tasks.claim(ref=way(task)).id == task.id
    assert len(alice.tasks.list()) == 1


@pytest.mark.parametrize("operation", ["extend", "complete", "fail", "release", "cancel", "retry", "after", "depend"])
@WAYS
def test_every_way_to_name_a_task_works_for_every_operation(
    alice: Board, way: Callable[[Task], str], operation: str
) -> None:
    task = alice.tasks.post(name="work", key="build:x")
    if operation in ("extend", "complete", "fail", "release"):
        alice.tasks.claim(ref=task.id)
    if operation == "retry":
        alice.tasks.cancel(ref=task.id)

    answer = alice.call(f"tasks.{operation}", {"ref": way(task), **({"after": []} if operation == "depend" else {})})

    assert answer == ([] if operation == "after" else alice.tasks.get(ref=task.id))


@WAYS
def test_every_way_to_name_a_task_can_be_waited_for(alice: Board, way: Callable[[Task], str]) -> None:
    task = alice.tasks.post(name="work", key="build:x")

    second = alice.tasks.post(name="second", after=[way(task)])

    assert [before.id for before in alice.tasks.after(ref=second.id)] == [task.id]


def test_an_id_is_a_uuid_that_sorts_by_time(place: Place, alice: Board) -> None:
    first = alice.tasks.post(name="first")
    place.advance(1)
    second = alice.tasks.post(name="second")

    assert (UUID(first.id).version, str(UUID(first.id))) == (7, first.id)
    assert first.id < second.id


# ── Prefixes ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("operation", ["get", "claim", "extend", "complete", "fail", "release", "cancel", "retry"])
def test_a_prefix_of_two_ids_names_neither(alice: Board, operation: str) -> None:
    prefix = shared_prefix(alice.tasks.post(name="one"), alice.tasks.post(name="two"))

    with unchanged(alice), pytest.raises(Invalid, match="more than one"):
        alice.call(f"tasks.{operation}", {"ref": prefix})


def test_one_more_character_makes_a_prefix_unique(alice: Board) -> None:
    one, two = alice.tasks.post(name="one"), alice.tasks.post(name="two")
    length = len(shared_prefix(one, two)) + 1

    assert [alice.tasks.get(ref=task.id[:length]) for task in (one, two)] == [one, two]


def test_three_characters_are_a_key_and_no_prefix(alice: Board) -> None:
    task = alice.tasks.post(name="work")

    with pytest.raises(NotFound):
        alice.tasks.get(ref=task.id[:3])


def test_a_key_comes_before_a_prefix_that_reads_the_same(alice: Board) -> None:
    other = alice.tasks.post(name="other")
    keyed = alice.tasks.post(name="keyed", key=other.id[:8])

    assert alice.tasks.get(ref=other.id[:8]) == keyed
    assert alice.tasks.claim(ref=other.id[:8]).id == keyed.id


def test_a_middle_part_of_an_id_is_no_reference(alice: Board) -> None:
    task = alice.tasks.post(name="work")

    with pytest.raises(NotFound):
        alice.tasks.get(ref=task.id[9:30])


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["k", "k" * 200, "a/b:c@d+e_f-g.h", "ключ", "deadbeef", "100%", "it's", "1"])
def test_an_unusual_key_finds_its_task(alice: Board, key: str) -> None:
    task = alice.tasks.post(name="work", key=key)

    assert alice.tasks.get(ref=key) == task


def test_a_key_is_looked_for_in_the_callers_project_only(place: Place, alice: Board) -> None:
    place.open("bob", "other").tasks.post(name="theirs", key="build")

    with pytest.raises(NotFound):
        alice.tasks.get(ref="build")


def test_a_key_of_a_named_project_is_found(place: Place, alice: Board) -> None:
    task = place.open("bob", "other").tasks.post(name="theirs", key="build")

    assert alice.tasks.get(ref="build", project="other") == task


@pytest.mark.parametrize("way", ["id", "number"])
def test_an_id_or_number_means_the_same_task_in_every_project(place: Place, alice: Board, way: str) -> None:
    task = place.open("bob", "other").tasks.post(name="theirs")

    assert alice.tasks.get(ref=task.id if way == "id" else f"#{task.number}") == task


def test_a_name_is_no_reference(alice: Board) -> None:
    alice.tasks.post(name="work")

    with pytest.raises(NotFound):
        alice.tasks.get(ref="work")


@pytest.mark.parametrize("ref", ["#", "#x", "#1x", "# 1", "#-1", "#1.0", "##1", "#" + "9" * 20])
def test_a_malformed_number_is_not_looked_for(alice: Board, ref: str) -> None:
    alice.tasks.post(name="work")

    with unchanged(alice), pytest.raises(Invalid):
        alice.tasks.get(ref=ref)


def test_number_zero_names_nothing(alice: Board) -> None:
    with pytest.raises(NotFound):
        alice.tasks.get(ref="#0")


def test_a_pruned_task_is_not_found(place: Place, alice: Board) -> None:
    task = in_state(alice, "completed")
    alice.tasks.post(name="newer")
    place.advance(100)
    alice.upkeep.prune(older_than=50)

    with pytest.raises(NotFound):
        alice.tasks.get(ref=task.id)


def test_the_number_of_a_pruned_task_is_not_given_again(place: Place, alice: Board) -> None:
    task = in_state(alice, "completed")
    place.advance(100)
    alice.upkeep.prune(older_than=50)

    assert alice.tasks.post(name="newer").number > task.number
